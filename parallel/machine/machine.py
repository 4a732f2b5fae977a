"""The machine: its accelerators, how they are wired, and how a user names devices."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .deadline import output_of
from .folders import text_of

MAX_DEVICES = 64
PART = re.compile(r"(cpu|cuda|mps)(?::([0-9]{1,3}))?(?:\*([0-9]{1,3}))?")
PROBE = Path(__file__).with_name("probe.py")
KERNEL_PACKAGES = ("flash_attn", "flash_attn_interface", "sageattention")
TOOL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU. `problem` says why a small sum on it failed, and is "" if it did not."""

    name: str
    title: str
    total_bytes: int
    free_bytes: int
    capability: str  # compute capability, such as 9.0
    uuid: str
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class DeviceLink:
    """Between two GPUs, by their names."""

    first: str
    second: str
    # What joins the two devices, such as `NVLink, 18 lanes` or `PCIe across CPU sockets`; `unknown` without NVIDIA's
    # tool.
    wire: str
    is_direct: bool  # whether each can read the other's memory (peer access)


@dataclass(frozen=True, kw_only=True)
class Torch:
    """What the installed torch was built with, and what of it runs here."""

    version: str
    # The CUDA version that torch was built with; "" in a build without. `hip` is that of ROCm, `nccl` that of NCCL.
    cuda: str
    hip: str
    nccl: str
    backends: tuple[str, ...]
    # {attention kernel: why it does not run here, or ""}, of those that are installed.
    kernels: Mapping[str, str] = field(default_factory=dict)
    start_problem: str = ""
    has_mps: bool = False


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`torch` is None where it cannot be imported or does not answer; `problem` then says why."""

    torch: Torch | None
    problem: str = ""
    devices: tuple[Device, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    driver: str = ""
    num_listed_gpus: int = 0  # the NVIDIA GPUs that the driver knows, whether torch may use them or not


def read_machine(*, timeout_s: float, root: Path = Path("/")) -> Machine:
    """Try every accelerator in a process of its own, which may take seconds and never longer than `timeout_s`."""
    driver, num_listed = driver_version(root), _num_listed(root)
    try:
        output = output_of([sys.executable, "-P", str(PROBE), *KERNEL_PACKAGES], timeout_s=timeout_s)
        found = json.loads(output.strip().splitlines()[-1])  # libraries may greet before it
    except (OSError, ValueError, IndexError) as error:
        return Machine(torch=None, problem=str(error), driver=driver, num_listed_gpus=num_listed)
    devices = tuple(Device(**device) for device in found.pop("devices"))
    peers, backends = found.pop("peers"), tuple(found.pop("backends"))
    wiring = read_wiring(timeout_s=TOOL_S) if len(devices) > 1 else {}
    return Machine(
        torch=Torch(**found, backends=backends),
        devices=devices,
        links=links_of(devices, peers, wiring),
        driver=driver,
        num_listed_gpus=num_listed,
    )


def links_of(devices: tuple[Device, ...], peers: Any, wiring: Mapping[frozenset[str], str]) -> tuple[DeviceLink, ...]:
    """A link for each pair; `peers[i][j]` says whether i reads j's memory."""
    return tuple(
        DeviceLink(
            first=one.name,
            second=other.name,
            wire=wiring.get(frozenset((one.uuid, other.uuid)), "unknown"),
            is_direct=peers[i][j] and peers[j][i],
        )
        for i, one in enumerate(devices)
        for j, other in enumerate(devices)
        if i < j
    )


def driver_version(root: Path = Path("/")) -> str:
    """The GPU driver's version, of NVIDIA's or AMD's kernel module; "" without one."""
    found = re.search(r"\d+\.\d+(\.\d+)?", text_of(root / "proc/driver/nvidia/version"))
    return found[0] if found else text_of(root / "sys/module/amdgpu/version").strip()


def _num_listed(root: Path) -> int:
    try:
        return len(list((root / "proc/driver/nvidia/gpus").iterdir()))
    except OSError:
        return 0


def parse_devices(text: str, *, is_here: bool = True, here: Sequence[str] | None = None) -> tuple[str, ...]:
    """Read `cpu,cpu`, `cpu*4`, `cuda:0,cuda:1`, `cuda*4` (the first four GPUs) or `all`: one device for each rank.

    `all` is every GPU, and the CPU where there is none. Raises ValueError for what is not on this machine, unless the
    devices are another's (`is_here` False). `here` names this machine's accelerators; without it torch is asked.
    """
    if text.strip() == "all":
        return tuple(accelerators() if here is None else here) or ("cpu",)
    devices = [device for part in text.split(",") for device in _devices_of(text, part.strip())]
    kinds = sorted({device.partition(":")[0] for device in devices})
    if len(kinds) > 1:
        raise ValueError(f"devices {text!r} mix {' and '.join(kinds)}; give devices of one kind, such as cuda*2")
    if len(devices) > MAX_DEVICES:
        raise ValueError(f"devices {text!r} are {len(devices)} devices; give at most {MAX_DEVICES}")
    if kinds != ["cpu"]:
        _check_once(text, devices)
        there = accelerators() if is_here and here is None else here or ()
        absent = [device for device in devices if is_here and device not in there]
        if absent:
            raise ValueError(
                f"devices {text!r}: {', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not on this machine; "
                f"it has {', '.join(['cpu', *there])}"
            )
    return tuple(devices)


def _check_once(text: str, devices: list[str]) -> None:
    # Two ranks on one GPU would wait for each other.
    twice = sorted({device for device in devices if devices.count(device) > 1})
    if twice:
        raise ValueError(f"devices {text!r} name {', '.join(twice)} twice; give each rank a device of its own")


def accelerators() -> tuple[str, ...]:
    """Every GPU that torch sees here, NVIDIA's or AMD's, or Apple's; opens no context on them."""
    import torch

    gpus = tuple(f"cuda:{index}" for index in range(torch.cuda.device_count()))
    return gpus or (("mps",) if torch.backends.mps.is_available() else ())


def _devices_of(text: str, part: str) -> list[str]:
    found = PART.fullmatch(part)
    if found is None:
        raise ValueError(
            f"devices {text[:100]!r}: {part[:50]!r} is no device; write cpu, cuda:1 or mps with commas between, "
            "cpu*4 or cuda*4 for several, or all"
        )
    kind, index, times = found.groups()
    if times is not None and int(times) == 0:
        raise ValueError(f"devices {text[:100]!r}: {part} is no device at all; give at least one, such as {kind}*2")
    if index is not None and (kind != "cuda" or times is not None):
        right = "cuda*2 for the first two GPUs" if kind == "cuda" else f"{kind} without a number"
        raise ValueError(f"devices {text[:100]!r}: {part} is no device; write {right}")
    if kind == "cuda":
        first, count = int(index or 0), int(times or 1)
        return [f"cuda:{number}" for number in range(first, first + count)]
    return [kind] * int(times or 1)


# ---- How NVIDIA's GPUs are wired, as `nvidia-smi topo -m` tells it, and on how many sockets the processor sits

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
GPU = re.compile(r"GPU(\d+)")
WIRES = {
    "PIX": "PCIe, one switch",
    "PXB": "PCIe, several switches",
    "PHB": "PCIe by way of the CPU",
    "NODE": "PCIe by way of the CPU",
    "SYS": "PCIe across CPU sockets",
}


def read_wiring(*, timeout_s: float) -> dict[frozenset[str], str]:
    """{two GPUs by uuid: what lies between them}; empty where NVIDIA's tool is absent or does not answer."""
    try:
        listed = output_of(["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"], timeout_s=timeout_s)
        matrix = output_of(["nvidia-smi", "topo", "-m"], timeout_s=timeout_s)
    except OSError:
        return {}
    uuids = parse_uuids(listed)
    pairs = parse_matrix(matrix).items()
    return {
        frozenset((uuids[one], uuids[other])): wire for (one, other), wire in pairs if one in uuids and other in uuids
    }


def num_sockets(root: Path = Path("/")) -> int:
    """Parts of the memory that some cores reach faster than others do (NUMA nodes); 1 where nobody tells."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text_of(root / "sys/devices/system/node/online"))
    return max(1, sum(int(last or first) - int(first) + 1 for first, last in ranges))


def parse_uuids(listed: str) -> Mapping[int, str]:
    """{number: uuid without `GPU-`, as torch writes it} from lines of `0, GPU-...`."""
    rows = [line.split(",") for line in listed.splitlines()]
    return {int(row[0]): row[1].strip().removeprefix("GPU-") for row in rows if len(row) == 2 and row[0].isdecimal()}


def parse_matrix(matrix: str) -> dict[tuple[int, int], str]:
    """{(a GPU, a later one): what lies between them} from the matrix, whose columns are GPUs first, then NICs."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in ESCAPES.sub("", matrix).splitlines()]
    header = next((row for row in rows if "GPU0" in row[1:]), [])
    columns = {index: int(found[1]) for index, cell in enumerate(header) if (found := GPU.fullmatch(cell))}
    wires = {}
    for row in rows:
        if (first := GPU.fullmatch(row[0])) is None:
            continue
        for index, other in columns.items():
            if int(first[1]) < other and index < len(row):
                is_nvlink = (code := row[index]).startswith("NV") and code[2:].isdecimal()
                wires[int(first[1]), other] = f"NVLink, {code[2:]} lanes" if is_nvlink else WIRES.get(code, "unknown")
    return wires
