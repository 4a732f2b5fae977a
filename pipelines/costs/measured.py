"""A machine as its own ranks measured it (`parallel/pool/measuring.py`): from seconds to rates.

Kept as JSON, one file for each set of devices, what joins them, driver and torch; whoever changes one of these measures
anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..models.json_file import read_object, write_object
from .chips import Chip
from .machine import MAX_DEVICES, Machine
from .step import Speeds
from .wires import OPERATIONS, Group, Measured, Operation, Speed

FORMAT = 3
MAX_BYTES = 1 << 20
LEAST_RATE, LEAST_S = 1e3, 1e-7
UNSIZED = ("seconds", "operation")
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
class Pass:
    """What is done number by number: bytes read and written in all, over tensors of so many."""

    tensor_bytes: int
    passed_bytes: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """Three by three, of as many channels as it gives, over a square of pixels, with norm and activation."""

    channels: int
    side: int
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
    attentions: tuple[Call, ...]
    """Of one size or two, the smaller first; in bf16 where there is `half`, else in fp32."""
    passes: tuple[Pass, ...]
    """Likewise."""
    launch_s: float
    convolution: Convolution | None = None
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
    small, large = seen.passes[0], seen.passes[-1]
    plain = Chip(
        name=found.title,
        half_flops=1.0,
        single_flops=1.0,
        bytes_per_s=large.passed_bytes / large.seconds,
        near_bytes_per_s=small.passed_bytes / small.seconds if large.tensor_bytes > small.tensor_bytes else 0.0,
        near_bytes=small.tensor_bytes,
        far_bytes=large.tensor_bytes,
        memory_bytes=found.memory_bytes,
        num_units=found.num_units,
    )
    single = _rate(plain, seen.single)
    half = _rate(plain, seen.half) if seen.half else single
    flops = half if seen.half else single
    query_s, attention = _attention(plain, seen.attentions)
    chip = dataclasses.replace(
        plain, single_flops=single, half_flops=half, attention_share=attention / flops, query_s=query_s
    )
    if (found_one := seen.convolution) is None:
        return chip
    asked = 2 * 9 * found_one.channels**2 * found_one.side**2
    return dataclasses.replace(chip, convolution_share=asked / found_one.seconds / flops)


def _attention(plain: Chip, calls: Sequence[Call]) -> tuple[float, float]:
    """(seconds that a head takes for each query, FLOP/s over keys), from calls of one size or two."""
    points = []
    for call in calls:
        ideal = plain.attention_s(call.tokens, call.tokens, call.heads, call.head_dim, "bf16")  # at one FLOP/s
        points.append((call.tokens * call.heads, ideal, call.seconds))
    queries, ideal, seconds = points[-1]
    if len(points) == 1:
        return 0.0, ideal / seconds
    fewer, less, sooner = points[0]
    query_s = (sooner * ideal - seconds * less) / (fewer * ideal - queries * less)
    if not 0 < query_s * queries < seconds:  # noise: all counts as work over keys
        return 0.0, ideal / seconds
    return query_s, ideal / (seconds - queries * query_s)


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


def key_of(
    devices: Sequence[str],
    titles: Sequence[str],
    driver: str,
    torch: str,
    *,
    wiring: Sequence[tuple[str, str, str, bool]] = (),
    num_sockets: int = 1,
) -> str:
    """Of the file that holds what was measured with these; `wiring` are pairs of devices, what joins them, and whether
    each reads the other's memory.
    """
    told = [FORMAT, [*devices], [*titles], driver, torch, sorted(wiring), num_sockets]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def keep(found: Found, folder: Path, key: str) -> None:
    write_object(folder / f"{key}.json", {"format": FORMAT, **dataclasses.asdict(found)}, indent=1)


def kept(folder: Path, key: str) -> Found | None:
    """None where nothing was measured yet, or what is there cannot be read."""
    try:
        found = found_from(read_object(folder / f"{key}.json", what="measurements", max_bytes=MAX_BYTES))
        machine_of(found)
    except (ValueError, KeyError, TypeError, ArithmeticError):
        return None
    return found


def found_from(plain: Mapping[str, Any]) -> Found:
    """Raises ValueError, KeyError or TypeError for what is not as `keep` wrote it."""
    if plain["format"] != FORMAT:
        raise ValueError("another format")
    seen = {int(count): _seen_from(each) for count, each in plain["seen"].items()}
    if not seen or not all(1 <= count <= MAX_DEVICES for count in seen):
        raise ValueError("nothing was measured of so many devices")
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
        attentions=tuple(Call(**each) for each in plain["attentions"]),
        passes=tuple(Pass(**each) for each in plain["passes"]),
        launch_s=float(plain["launch_s"]),
        convolution=Convolution(**plain["convolution"]) if plain["convolution"] else None,
        samples=samples,
    )
    timed = [seen.single, seen.half, *seen.attentions, *seen.passes, *samples, seen.convolution]
    times = [seen.launch_s, *(each.seconds for each in timed if each)]
    sizes = [value for each in timed if each for name, value in vars(each).items() if name not in UNSIZED]
    if not seen.attentions or not seen.passes:
        raise ValueError("nothing was measured of attention, or of memory")
    if not all(type(each) in (int, float) and 0 < each < 1e6 for each in times):
        raise ValueError("times that are none")
    if not all(type(each) in (int, float) and each > 0 for each in sizes):
        raise ValueError("sizes that are none")
    if any(each.operation not in OPERATIONS for each in samples):
        raise ValueError("operations that are none")
    return seen
