"""A machine as its own ranks measured it (`parallel/pool/measuring.py`): from seconds to rates.

Kept as JSON, one file for each set of devices, driver and torch; whoever changes one of them measures anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models.json_file import read_object
from .chips import Chip
from .machine import Machine
from .step import Speeds
from .wires import OPERATIONS, Group, Measured, Operation, Speed

FORMAT = 1
MAX_BYTES = 1 << 20
LEAST_RATE, LEAST_S = 1e3, 1e-7
TAX = 0.05
"""How much longer attention takes on a GPU while a ring's blocks travel; an assumption, nobody measures it."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A matrix product of rows x inner by inner x columns."""

    rows: int
    inner: int
    columns: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Call:
    """An attention call of as many queries as keys."""

    tokens: int
    heads: int
    head_dim: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """So many bytes sent by each rank, in so many seconds, in groups of one kind."""

    operation: Operation
    degree: int
    stride: int
    sent_bytes: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What ranks measured while so many of them worked at a time; of each the slowest rank's."""

    single: Product
    """In fp32. The next one in bf16, None where the device has none to speak of."""
    half: Product | None
    attention: Call
    """In bf16 where there is `half`, else in fp32."""
    passed_bytes: float
    """Read and written by what is done number by number."""
    pass_s: float
    launch_s: float
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that was measured of a machine, by the number of ranks."""

    title: str
    kind: str
    """cpu or cuda."""
    memory_bytes: int
    num_units: int
    seen: Mapping[int, Seen]


def machine_of(found: Found) -> Machine:
    most = max(found.seen)
    return Machine(
        name="here",
        title=found.title,
        num_devices=most,
        memory_bytes=found.memory_bytes,
        at={count: _speeds(found, count, seen) for count, seen in found.seen.items()},
        kind=found.kind,
        is_measured=True,
        key=hashlib.sha256(json.dumps(dataclasses.asdict(found)).encode()).hexdigest()[:16],
    )


def _speeds(found: Found, count: int, seen: Seen) -> Speeds:
    chip = _chip(found, seen)
    wires = (
        Measured(speeds=_fits(seen.samples, count), tax=0.0 if found.kind == "cpu" else TAX) if seen.samples else None
    )
    return Speeds(chip=chip, wires=wires, launch_s=seen.launch_s, is_async=found.kind != "cpu")


def _chip(found: Found, seen: Seen) -> Chip:
    plain = Chip(
        name=found.title,
        half_flops=1.0,
        single_flops=1.0,
        bytes_per_s=seen.passed_bytes / seen.pass_s,
        memory_bytes=found.memory_bytes,
        num_units=found.num_units,
    )
    single = _rate(plain, seen.single)
    half = _rate(plain, seen.half) if seen.half else single
    call = seen.attention
    ideal = plain.attention_s(call.tokens, call.tokens, call.heads, call.head_dim, "bf16")  # at one FLOP/s
    attention = ideal / call.seconds
    return dataclasses.replace(
        plain,
        single_flops=single,
        half_flops=half,
        attention_share=attention / (half if seen.half else single),
    )


def _rate(chip: Chip, product: Product) -> float:
    """FLOP/s of a product whose last wave of tiles would be full."""
    flops = 2 * product.rows * product.inner * product.columns
    return flops / product.seconds / chip.tiles_share(product.rows, product.columns)


def _fits(samples: Sequence[Sample], talking: int) -> dict[tuple[Operation, Group], Speed]:
    points: dict[tuple[Operation, Group], list[tuple[float, float]]] = {}
    for each in samples:
        kind = each.operation, Group(each.degree, each.stride, talking)
        points.setdefault(kind, []).append((each.sent_bytes, each.seconds))
    return {kind: fitted(found) for kind, found in points.items()}


def fitted(points: Sequence[tuple[float, float]]) -> Speed:
    """The start and the rate whose relative errors are least, by least squares over (bytes, seconds)."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    across = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)) / (across or 1.0)
    largest = max(points)
    if slope <= 0:  # noise: all of the largest counts as transfer
        return Speed(LEAST_S, max(LEAST_RATE, largest[0] / largest[1]))
    return Speed(max(LEAST_S, mean_y - slope * mean_x), 1 / slope)


# ---- kept


def key_of(devices: Sequence[str], titles: Sequence[str], driver: str, torch: str) -> str:
    """Of the file that holds what was measured with these."""
    return hashlib.sha256(json.dumps([FORMAT, *devices, *titles, driver, torch]).encode()).hexdigest()[:16]


def keep(found: Found, folder: Path, key: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{key}.part"
    part.write_text(json.dumps({"format": FORMAT, **dataclasses.asdict(found)}, indent=1))
    part.replace(folder / f"{key}.json")


def kept(folder: Path, key: str) -> Found | None:
    """None where nothing was measured yet, or what is there cannot be read."""
    path = folder / f"{key}.json"
    if not path.is_file():
        return None
    try:
        return found_from(read_object(path, what="measurements", max_bytes=MAX_BYTES))
    except (ValueError, KeyError, TypeError):
        return None


def found_from(plain: Mapping[str, Any]) -> Found:
    """Raises ValueError, KeyError or TypeError for what is not as `keep` wrote it."""
    if plain["format"] != FORMAT:
        raise ValueError("another format")
    seen = {int(count): _seen_from(each) for count, each in plain["seen"].items()}
    if not seen:
        raise ValueError("nothing was measured")
    return Found(
        title=str(plain["title"]),
        kind=str(plain["kind"]),
        memory_bytes=int(plain["memory_bytes"]),
        num_units=int(plain["num_units"]),
        seen=seen,
    )


def _seen_from(plain: Mapping[str, Any]) -> Seen:
    samples = tuple(Sample(**each) for each in plain["samples"])
    seen = Seen(
        single=Product(**plain["single"]),
        half=Product(**plain["half"]) if plain["half"] else None,
        attention=Call(**plain["attention"]),
        passed_bytes=float(plain["passed_bytes"]),
        pass_s=float(plain["pass_s"]),
        launch_s=float(plain["launch_s"]),
        samples=samples,
    )
    times = [seen.single.seconds, seen.attention.seconds, seen.pass_s, seen.launch_s, *(s.seconds for s in samples)]
    if not all(type(each) in (int, float) and 0 < each < 1e6 for each in times):
        raise ValueError("times that are none")
    if any(each.operation not in OPERATIONS for each in samples):
        raise ValueError("operations that are none")
    return seen
