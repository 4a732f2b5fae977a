"""What a rank does to test that ranks share the pages of weights: it loads a component and looks at its own memory."""

import re
from pathlib import Path
from typing import Any

import torch.distributed as dist

from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import describe_model

KIB = 1024
HEADER = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ \S+ \S+ \d+ *(?P<path>.*)")


def load(rank: int, folder: str, name: str) -> dict[str, Any]:
    """Bytes of its weights, how they lie in mapped files, and what reading them all has cost, while all ranks hold
    them. A tiny part of each library's is loaded before, so that first uses are not counted."""
    model = describe_model(folder, device="cpu")
    components = ComponentStore()
    components.load(model, ("vae", "text_encoder"))
    before = _anonymous_bytes()
    component = components.load(model, (name,))[name]
    weights = list(component.parameters())
    for weight in weights:
        float(weight.sum())  # reads its pages
    dist.barrier()
    after, mappings = _anonymous_bytes(), _mappings(Path(folder) / name)
    dist.barrier()
    inside = [any(start <= weight.data_ptr() < end for start, end, _ in mappings) for weight in weights]
    return {
        "weights": sum(weight.nbytes for weight in weights),
        "all_inside": all(inside),
        "anonymous": after - before,
        **{key: sum(sizes[key] for *_, sizes in mappings) for key in ("Rss", "Pss", "Private_Dirty")},
    }


def _mappings(folder: Path) -> list[tuple[int, int, dict[str, int]]]:
    """Where files of this folder are mapped, and what their pages cost this process in bytes."""
    found: list[tuple[int, int, dict[str, int]]] = []
    sizes: dict[str, int] = {}
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if match := HEADER.fullmatch(line):
            sizes = {}
            if Path(match["path"]).parent == folder:
                found.append((int(match["start"], 16), int(match["end"], 16), sizes))
        elif line.endswith(" kB"):
            key, number, _ = line.split()
            sizes[key[:-1]] = int(number) * KIB
    return found


def _anonymous_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("Anonymous:"))
