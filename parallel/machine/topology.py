"""How NVIDIA's GPUs are wired, as `nvidia-smi topo -m` tells it, and on how many sockets the processor sits."""

import re
from collections.abc import Mapping
from pathlib import Path

from .deadline import output_of

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
    try:
        listed = (root / "sys/devices/system/node/online").read_text().strip()
    except OSError:
        return 1
    ranges = re.findall(r"(\d+)(?:-(\d+))?", listed)
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
                wires[int(first[1]), other] = _wire(row[index])
    return wires


def _wire(code: str) -> str:
    if code.startswith("NV") and code[2:].isdecimal():
        return f"NVLink, {code[2:]} lanes"
    return WIRES.get(code, "unknown")
