"""A machine to plan for: by name, from a file, or as its own ranks measured it.

A name says how many of which device, and what joins them: `8xH100-nvlink`, `4x4090-pcie4`. A file is JSON: a name to
begin with, and what is known better, with rates in the units that data sheets use.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...parallel.errors import did_you_mean
from ...parallel.progress import Factors
from ..components.memory import HOST_SHARE
from ..models.regular_file import read_object
from .chips import CHIPS, FABRICS, GIB, Chip

NAME = re.compile(r"([0-9]{1,2})x([A-Za-z0-9]+)(?:-([a-z0-9-]+))?")
NVLINK = {"A100": "nvlink3", "H800": "nvlink-h800", "B200": "nvlink5"}
NO_PEERS = ("4090", "5090")  # GPUs whose driver lets none read another's memory, so that all goes through the host
PCIE5 = ("B200", "H200", "H100", "H800", "H20", "5090")
# From the host's pinned memory to a device. Seen: 54.6 GB/s on one H200 by PCIe 5 x16 (15 to 18 from memory that is not
# pinned); half of it by PCIe 4, as the standard has it, and a quarter where a data sheet has eight lanes of that.
PCIE5_BYTES_PER_S, PINNED_BYTES_PER_S = 54e9, 27e9
NARROW = ("4060", "4060LAPTOP")
DISK_BYTES_PER_S = 2.5e9
UPLOAD_BYTES_PER_S = 6e9  # from memory to a device, out of a mapped file
MAX_DEVICES = 64
# By which earlier runs may correct a prediction: what is further off is wrong in kind, which no factor mends.
LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0
EXAMPLES = "8xH100-nvlink, 4x4090-pcie4, 2xL40S-pcie4"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`at[n]` are its rates while n of its devices work together; the nearest count stands for one that is absent."""

    name: str
    title: str
    num_devices: int
    memory_bytes: int  # of each device; on a CPU, of all ranks together
    at: Mapping[int, Chip]
    kind: str = "cuda"
    disk_bytes_per_s: float = DISK_BYTES_PER_S
    upload_bytes_per_s: float = UPLOAD_BYTES_PER_S
    pinned_bytes_per_s: float = PINNED_BYTES_PER_S  # from the host's pinned memory to a device, while no other asks
    host_bytes: int = 0  # the host's memory, where somebody has said how much that is
    limit_bytes: int = 0  # on a CPU, what a rank may take beside what all map, where somebody limits that
    is_measured: bool = False
    # The same for some of its devices as for all, and another one once they were measured anew; "" where the rates of
    # one device tell it.
    key: str = ""
    factors: Factors = field(default_factory=Factors)  # what earlier runs here teach of the model that is planned
    is_assumed: bool = False  # whether nothing tells its rates, no data sheet either

    @property
    def is_timed(self) -> bool:
        """Whether its seconds are told: not while they follow from assumed rates that no earlier run has corrected."""
        return not self.is_assumed or corrects(self.factors)

    def has_host_room(self, num_bytes: float) -> bool:
        """Whether so much of a model can rest in the host's memory; else it is read from the disk in each forward."""
        return not self.host_bytes or num_bytes <= HOST_SHARE * self.host_bytes

    def streaming(self, num_devices: int, *, num_bytes: float = 0, sharing: int = 1) -> float:
        """Bytes a second at which weights come to each of so many devices at a time from the host's memory, or from the
        disk where that has no room for `num_bytes`. On a CPU they are copied there, read and written. Where all that
        travels passes the host, its rate is shared; of other machines nobody knows a common limit: each device has a
        link of its own, to memory that is faster than several.

        Of groups of `sharing` ranks that share tokens each brings a part, and they gather it, where that is faster.
        """
        chip = self.chip(num_devices)
        if not self.has_host_room(num_bytes):  # of several that want the same block one reads it
            return self.disk_bytes_per_s
        if self.kind == "cpu":
            return chip.bytes_per_s / 2
        total = chip.wires.total_bytes_per_s if chip.wires else 0.0
        rate = min(self.pinned_bytes_per_s, total / num_devices) if total else self.pinned_bytes_per_s
        if sharing == 1 or chip.wires is None:
            return rate
        return max(rate, 1 / (1 / (sharing * rate) + 1 / self.gathering(num_devices, sharing=sharing)))

    def gathering(self, num_devices: int, *, sharing: int) -> float:
        """Bytes a second at which weights come that groups of `sharing` ranks hold between them on their devices."""
        wires = self.chip(num_devices).wires
        assert wires is not None, "several devices are joined"
        sent = wires.speed("gather", sharing, 1, num_devices)[1]  # at which each sends its share to the others
        return sharing / (sharing - 1) * sent

    def chip(self, num_devices: int) -> Chip:
        found = self.at.get(num_devices)
        return found or self.at[min(self.at, key=lambda count: (abs(count - num_devices), count))]

    @property
    def devices(self) -> tuple[str, ...]:
        if self.kind == "cpu":
            return ("cpu",) * self.num_devices
        return tuple(f"{self.kind}:{index}" for index in range(self.num_devices))


def pinned_rate(title: str) -> float:
    """Of GPUs by their name, as a table or their driver has it: by data sheets on PCIe 5, else taken to be on 4."""
    words = {*re.split(r"[^A-Z0-9]+", title.upper())}
    if words.intersection(PCIE5):
        return PCIE5_BYTES_PER_S
    return PINNED_BYTES_PER_S / 2 if words.intersection(NARROW) else PINNED_BYTES_PER_S


def limited(machine: Machine, limit: int, host_bytes: int = 0) -> Machine:
    """The machine where so many bytes of each device may be taken, on a CPU by each rank; 0 has no limit."""
    machine = dataclasses.replace(machine, host_bytes=host_bytes or machine.host_bytes)
    if machine.kind == "cpu":
        return dataclasses.replace(machine, limit_bytes=limit)
    return dataclasses.replace(machine, memory_bytes=min(machine.memory_bytes, limit or machine.memory_bytes))


def corrects(factors: Factors) -> bool:
    """Whether earlier runs tell how fast the machine is."""
    return factors.num_runs > 0 and LEAST_FACTOR < factors.step < MOST_FACTOR


def read_machine(text: str) -> Machine:
    """A machine by its name, or from a JSON file. Raises `ValueError`."""
    if NAME.fullmatch(text):
        return named_machine(text)
    path = Path(text)
    if path.suffix != ".json" and not path.is_file():
        raise ValueError(f"{text[:100]!r} is no machine; write it like {EXAMPLES}, or give a JSON file")
    return _from_file(path)


def named_machine(name: str) -> Machine:
    """Raises `ValueError` for a device or a fabric that is not in the tables."""
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name[:100]!r} is no machine; write it like {EXAMPLES}")
    known = {each.lower(): chip for each, chip in CHIPS.items()}
    chip = known.get(found[2].lower().removeprefix("rtx"))
    if chip is None:
        hint = did_you_mean(found[2], CHIPS)
        raise ValueError(f"machine {name}: {found[2]!r} is no device known here; {hint}give one of {', '.join(CHIPS)}")
    count, wire = int(found[1]), found[3] or ""
    if not 1 <= count <= MAX_DEVICES:
        raise ValueError(f"machine {name}: it has {count} devices; give 1 to {MAX_DEVICES}")
    if count > 1 and not wire:
        raise ValueError(f"machine {name}: what joins its {count} devices? write {name}-nvlink or {name}-pcie4")
    wanted = wire
    if wire == "nvlink":
        wanted = NVLINK.get(chip.name, "nvlink4")
    elif wire in ("pcie4", "pcie5"):
        wanted = f"{wire}-{'host' if chip.name in NO_PEERS else 'p2p'}"
    if wire and wanted not in FABRICS:
        names = ("nvlink", "pcie4", "pcie5", *FABRICS)
        raise ValueError(
            f"machine {name}: {wire!r} is no fabric known here; {did_you_mean(wire, names)}give one of "
            f"{', '.join(dict.fromkeys(names))}"
        )
    fabric = FABRICS.get(wanted)
    joining = dataclasses.replace(chip, wires=fabric)
    joined = f", {fabric.name}" if fabric and count > 1 else ""
    return Machine(
        name=name,
        title=f"{count} x {chip.name}{joined}",
        num_devices=count,
        memory_bytes=chip.memory_bytes,
        at={each: chip if each == 1 else joining for each in range(1, count + 1)},
        pinned_bytes_per_s=pinned_rate(chip.name),
    )


# Keys of a machine's file, each a number above 0, and what it sets.
FIELDS: Mapping[str, tuple[str, float]] = {
    "half_tflops": ("chip.half_flops", 1e12),
    "single_tflops": ("chip.single_flops", 1e12),
    "gemm_share": ("chip.gemm_share", 1.0),
    "attention_share": ("chip.attention_share", 1.0),
    "memory_gb_per_s": ("chip.bytes_per_s", 1e9),
    "memory_gib": ("chip.memory_bytes", GIB),
    "link_gb_per_s": ("fabric.bytes_per_s", 1e9),
    "links_total_gb_per_s": ("fabric.total_bytes_per_s", 1e9),
    "start_us": ("fabric.start_s", 1e-6),
    "hop_us": ("fabric.hop_s", 1e-6),
    "launch_us": ("chip.launch_s", 1e-6),
    "host_gib": ("machine.host_bytes", GIB),
    "disk_gb_per_s": ("machine.disk_bytes_per_s", 1e9),
    "upload_gb_per_s": ("machine.upload_bytes_per_s", 1e9),
    "pinned_gb_per_s": ("machine.pinned_bytes_per_s", 1e9),
}


def _from_file(path: Path) -> Machine:
    plain = read_object(path, what="machine", max_bytes=1 << 16)
    like = plain.pop("like", None)
    if not isinstance(like, str):
        raise ValueError(f'{path}: "like" is missing; name a machine to begin with, such as "like": "8xH100-nvlink"')
    title = plain.pop("name", path.stem)
    known: dict[str, dict[str, Any]] = {kind: {} for kind in ("chip", "fabric", "machine")}
    for key, value in plain.items():
        if key not in FIELDS:
            hint = did_you_mean(key, FIELDS)
            raise ValueError(f"{path} sets {key[:64]!r}, which no machine has; {hint}it may hold {', '.join(FIELDS)}")
        if type(value) not in (int, float) or not 0 < value < 1e9:
            raise ValueError(f"{path} sets {key} to {str(value)[:50]!r}; give a number above 0")
        whole, unit = FIELDS[key]
        kind, _, field = whole.partition(".")
        known[kind][field] = int(value * unit) if field in ("memory_bytes", "host_bytes") else value * unit
    machine = named_machine(like)

    def better(old: Chip) -> Chip:
        wires = old.wires and dataclasses.replace(old.wires, **known["fabric"])
        return dataclasses.replace(old, wires=wires, **known["chip"])

    at = {count: better(old) for count, old in machine.at.items()}
    memory = at[1].memory_bytes
    return dataclasses.replace(machine, title=str(title)[:100], memory_bytes=memory, at=at, **known["machine"])
