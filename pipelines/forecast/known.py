"""This machine to plan for, known at once: what its ranks measured of it before, else data sheets, else assumptions.

No rank is started and torch is not imported. What is measured lies in the folder of `latentloom plan`.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from ...parallel.machine.folders import user_cache
from ...parallel.machine.machine import driver_version, num_sockets
from ...parallel.machine.now import DeviceNow, devices_now, host_bytes, links_now, num_cores
from ...parallel.wording import worded
from ..components.memory import memory_limit
from ..costs.chips import CHIPS, FABRICS, Chip, Fabric
from ..costs.machine import NO_PEERS, NVLINK, PCIE5, Machine, limited, pinned_rate
from ..costs.measured import FORMAT, kept, machine_of

MOST_RANKS = 8  # on a CPU, whose cores more ranks would only share out
# Of a processor's core that nobody measured: half the peak of 8 lanes with two sums each at 2.6 GHz, and a share of
# two channels of memory. An assumption, as all numbers here.
CORE = Chip(
    name="core", half_flops=40e9, single_flops=40e9, bytes_per_s=8e9, attention_share=0.5, launch_s=4e-6, is_async=False
)
# What gloo makes of one machine's memory; an assumption.
LOOPBACK = Fabric(name="loopback", bytes_per_s=1.5e9, start_s=150e-6, hop_s=120e-6, exchange_shares={2: 1.0}, tax=0.0)
# One that no table names: about the middle of those that do; an assumption.
UNKNOWN_GPU = Chip(
    name="GPU", half_flops=100e12, single_flops=20e12, bytes_per_s=0.8e12, gemm_share=0.7, attention_share=0.6
)


@dataclass(frozen=True, kw_only=True)
class Spot:
    """Some devices of this machine, and what tells how fast they are."""

    devices: tuple[str, ...]
    all: tuple[str, ...]  # all of their kind that there are; ranks on the CPU where none is
    shown: tuple[DeviceNow, ...]  # these accelerators, or the CPU alone, whatever they do now
    key: str  # of the file that holds what was measured of all
    file: Path | None  # that file; None where nothing is kept, or the devices are of another machine
    stamp: int  # when that was written; 0 for never
    limit: int = 0  # bytes of each device that this process may take, by LATENTLOOM_MEMORY; 0 has no limit

    @property
    def kind(self) -> str:
        return self.all[0].partition(":")[0]


def machines_folder() -> Path | None:
    """Where measurements are kept; None for a user without a home."""
    folder = user_cache()
    return folder and folder / "machines"


def spot_of(devices: Sequence[str] = (), now: Sequence[DeviceNow] | None = None) -> Spot:
    """Devices of one kind; without any, all GPUs that there are, else the CPU. `now` is what this machine has, as
    `devices_now` told; without it that is asked, once in a process. Raises `ValueError` for a limit that is none.
    """
    # Without what is in use just now, or each look would be at another machine, and nothing would be kept of it.
    here = [replace(each, used_bytes=0, load=None) for each in now] if now else seen()
    wanted, folder = devices[0].partition(":")[0] if devices else "", machines_folder()
    gpus = tuple(device for device in here if device.name.startswith("cuda"))
    if gpus and wanted != "cpu":
        kind, every, shown = "cuda", tuple(gpu.name for gpu in gpus), gpus
    else:
        kind, every = "cpu", ("cpu",) * min(MOST_RANKS, max(2, num_cores()))
        shown = tuple(device for device in here if device.name == "cpu")
    key = _key(every, tuple(each.title for each in shown))
    file = folder / f"{key}.json" if folder is not None and wanted in ("", kind) else None
    try:
        stamp = file.stat().st_mtime_ns if file else 0
    except OSError:
        stamp = 0
    known = {"all": every, "shown": shown, "key": key, "file": file, "stamp": stamp}
    return Spot(devices=tuple(devices) or every, **known, limit=memory_limit())


@lru_cache(maxsize=64)
def machine_at(spot: Spot) -> Machine:
    """As it was measured; else by data sheets, or by what is assumed of any; of its memory what may be taken."""
    kind, count, found = spot.devices[0].partition(":")[0], len(spot.devices), None
    if spot.file is not None and spot.stamp:
        found = kept(spot.file.parent, spot.key)
    if found is not None:
        machine = with_devices(machine_of(found), count)
    elif kind == "cpu":
        machine = _processor(spot.shown[0], count)
    else:
        gpus = [each for each in spot.shown if each.name in spot.devices] or list(spot.shown)
        machine = _gpus(gpus if spot.kind == kind else [], count, kind, spot.shown[0].total_bytes)
    return limited(machine, spot.limit, host_bytes())


@cache
def seen() -> tuple[DeviceNow, ...]:
    """This machine's devices as they were when somebody asked first; their titles and sizes stay."""
    return tuple(replace(each, used_bytes=0, load=None) for each in devices_now())


def with_devices(machine: Machine, count: int) -> Machine:
    """The machine with so many of its devices. Ranks on a CPU share its cores: fewer have more of them each."""
    most = machine.num_devices
    if count == most:
        return machine
    at = {each: chip for each, chip in machine.at.items() if each <= count}
    if count > most:
        at |= dict.fromkeys(range(most + 1, count + 1), machine.chip(most))
    if machine.kind == "cpu":
        at = {each: _shared(chip, most / max(each, count)) for each, chip in at.items()}
    of = f"{count} of {machine.title}" if count < most else f"{machine.title}, shared by {count}"
    return replace(machine, num_devices=count, at=at, title=of)


def _shared(chip: Chip, part: float) -> Chip:
    """Each rank has so much of the cores that it had; more of them ask for no more work at a time."""
    less = min(1.0, part)
    return replace(
        chip,
        half_flops=chip.half_flops * part,
        single_flops=chip.single_flops * part,
        bytes_per_s=chip.bytes_per_s * less,
        near_bytes_per_s=chip.near_bytes_per_s * less,
        query_s=chip.query_s / part,
        launch_s=chip.launch_s / less,
    )


def core_chip(num_ranks: int) -> Chip:
    """What of this machine's cores each of so many ranks has."""
    return _shared(CORE, num_cores() / num_ranks)


def _processor(host: DeviceNow, count: int) -> Machine:
    cores = num_cores()
    alone = replace(CORE, name=host.title)
    many = replace(alone, wires=LOOPBACK)
    return Machine(
        name="here",
        title=worded("{} rank{} on {}, whose speed is assumed", count, "s" if count > 1 else "", host.title),
        num_devices=count,
        memory_bytes=host.total_bytes,
        at={each: _shared(alone if each == 1 else many, cores / max(count, each)) for each in range(1, count + 1)},
        kind="cpu",
        key=f"{cores} cores of {host.title}",
        is_assumed=True,
    )


def _gpus(gpus: Sequence[DeviceNow], count: int, kind: str, memory_bytes: int) -> Machine:
    """From data sheets, where one knows them; of several the slowest counts."""
    chips = [chip_of(gpu.title) or UNKNOWN_GPU for gpu in gpus] or [UNKNOWN_GPU]
    memory = min((gpu.total_bytes for gpu in gpus), default=memory_bytes)
    chip = min(chips, key=lambda each: each.half_flops)
    # As NVIDIA's tool tells of the slowest pair; where it tells nothing, PCIe.
    wires, title = links_now(), gpus[0].title if gpus else chip.name
    if wires and all(link.wire.startswith("NVLink") for link in wires):
        fabric = FABRICS[NVLINK.get(chip.name, "nvlink4")]
    else:
        has_peers = chip.name not in NO_PEERS and all(link.is_direct for link in wires)
        fabric = FABRICS[f"{'pcie5' if chip.name in PCIE5 else 'pcie4'}-{'p2p' if has_peers else 'host'}"]
    joined = f", {fabric.name}" if count > 1 else ""
    is_assumed = any(each is UNKNOWN_GPU for each in chips)
    return Machine(
        name="here",
        title=f"{count} x {title}{joined}, {'whose speed is assumed' if is_assumed else 'by data sheets'}",
        num_devices=count,
        memory_bytes=memory,
        at={each: replace(chip, wires=fabric if each > 1 else None) for each in range(1, count + 1)},
        kind=kind,
        pinned_bytes_per_s=pinned_rate(title),
        is_assumed=is_assumed,
    )


def chip_of(title: str) -> Chip | None:
    """By a word of a GPU's name as its driver tells it: a GH200 is no H200, an L40S no L40, a laptop's 4090 no 4090."""
    words = title.upper().replace("-", " ").replace(" LAPTOP", "LAPTOP").split()
    found = [chip for name, chip in CHIPS.items() if name.upper() in words]
    return found[0] if found else None


@lru_cache(maxsize=8)  # the driver stays while a process uses it
def _key(devices: tuple[str, ...], titles: tuple[str, ...]) -> str:
    """Of the file that holds what was measured with these, as they are joined now."""
    wiring = [(link.first, link.second, link.wire, link.is_direct) for link in links_now() if link.first in devices]
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = ""
    told = [FORMAT, devices, titles, driver_version(), torch, sorted(wiring), num_sockets()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
