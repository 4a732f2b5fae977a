"""A machine as its own ranks measured it (`parallel/pool/measuring.py`): from seconds to rates.

What ranks tell is plain data, checked here, and kept as JSON: one file for each set of devices, what joins them, driver
and torch; whoever changes one of these measures anew. By the number of ranks that worked at a time it has what PARTS
names, of each the slowest rank's.
"""

import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...parallel.machine.folders import write_object
from ..models.regular_file import read_object
from .chips import OPERATIONS, Chip, Fabric, Kind, Speed
from .machine import MAX_DEVICES, Machine, pinned_rate

Plain = Mapping[str, Any]
FORMAT = 3
MAX_BYTES = 1 << 20
LEAST_RATE, LEAST_S = 1e3, 1e-7
TAX = 0.05  # how much longer attention takes on a GPU while a ring's blocks travel; an assumption, nobody measures it
# What one measurement has beside its seconds. The order is that of the file, and of the key made of it.
PARTS: Mapping[str, tuple[str, ...]] = {
    "single": ("rows", "inner", "columns"),  # a matrix product in fp32: rows x inner by inner x columns
    "half": ("rows", "inner", "columns"),  # in bf16; None where the device has none to speak of
    "attentions": ("tokens", "heads", "head_dim"),  # of one size or two, the smaller first; in bf16 where there is half
    "passes": ("tensor_bytes", "passed_bytes"),  # number by number: read and written in all, over tensors of so many
    "launch_s": (),
    "convolution": ("channels", "side"),  # three by three, over a square of pixels, with norm and activation; or None
    "samples": ("operation", "degree", "stride", "sent_bytes"),  # by each rank, in groups of one kind
}
LISTS = ("attentions", "passes", "samples")


def machine_of(found: Plain) -> Machine:
    """Of what `kept` gave, or `checked`."""
    most = max(found["seen"])
    return Machine(
        name="here",
        title=found["title"],
        num_devices=most,
        memory_bytes=found["memory_bytes"],
        at={count: _chip(found, count, seen) for count, seen in found["seen"].items()},
        kind=found["kind"],
        pinned_bytes_per_s=pinned_rate(found["title"]),  # nobody measures it
        is_measured=True,
        key=hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16],
    )


def _chip(found: Plain, count: int, seen: Plain) -> Chip:
    is_cpu, points = found["kind"] == "cpu", defaultdict[Kind, list[tuple[float, float]]](list)
    for each in seen["samples"]:
        points[each["operation"], each["degree"], each["stride"], count].append((each["sent_bytes"], each["seconds"]))
    measured = {kind: fitted(alike) for kind, alike in points.items()}
    small, large = seen["passes"][0], seen["passes"][-1]
    near = small["passed_bytes"] / small["seconds"] if large["tensor_bytes"] > small["tensor_bytes"] else 0.0
    plain = Chip(
        name=found["title"],
        half_flops=1.0,
        single_flops=1.0,
        bytes_per_s=large["passed_bytes"] / large["seconds"],
        near_bytes_per_s=near,
        near_bytes=small["tensor_bytes"],
        far_bytes=large["tensor_bytes"],
        num_units=found["num_units"],
        wires=Fabric(name="measured", measured=measured, tax=0.0 if is_cpu else TAX) if measured else None,
        launch_s=seen["launch_s"],
        is_async=not is_cpu,
    )
    single = _rate(plain, seen["single"])
    flops = _rate(plain, seen["half"]) if seen["half"] else single
    query_s, attention = _attention(plain, seen["attentions"])
    rates = {"single_flops": single, "half_flops": flops, "attention_share": attention / flops, "query_s": query_s}
    if one := seen["convolution"]:
        asked = 2 * 9 * one["channels"] ** 2 * one["side"] ** 2
        rates["convolution_share"] = asked / one["seconds"] / flops
    return dataclasses.replace(plain, **rates)


def _attention(plain: Chip, calls: Sequence[Plain]) -> tuple[float, float]:
    """(seconds that a head takes for each query, FLOP/s over keys), from calls of one size or two."""
    points = []
    for call in calls:
        tokens, heads = call["tokens"], call["heads"]
        ideal = plain.attention_s(tokens, tokens, heads, call["head_dim"], "bf16")  # at one FLOP/s
        points.append((tokens * heads, ideal, call["seconds"]))
    queries, ideal, seconds = points[-1]
    if len(points) == 1:
        return 0.0, ideal / seconds
    fewer, less, sooner = points[0]
    # Two equations, seconds = queries x query_s + ideal / rate, solved for query_s.
    query_s = (sooner * ideal - seconds * less) / (fewer * ideal - queries * less)
    if not 0 < query_s * queries < seconds:  # noise: all counts as work over keys
        return 0.0, ideal / seconds
    return query_s, ideal / (seconds - queries * query_s)


def _rate(chip: Chip, product: Plain) -> float:
    """FLOP/s of a product whose last wave of tiles would be full."""
    flops = 2 * product["rows"] * product["inner"] * product["columns"]
    return flops / product["seconds"] / chip.tiles_share(product["rows"], product["columns"])


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
        return LEAST_S, max(LEAST_RATE, largest[0] / largest[1])
    return max(LEAST_S, mean_y - slope * mean_x), 1 / slope


# ---- kept


def keep(found: Plain, folder: Path, key: str) -> None:
    write_object(folder / f"{key}.json", {"format": FORMAT, **found}, indent=1)


def kept(folder: Path, key: str) -> Plain | None:
    """None where nothing was measured yet, or what is there cannot be read."""
    try:
        plain = read_object(folder / f"{key}.json", what="measurements", max_bytes=MAX_BYTES)
        found = checked(plain) if plain["format"] == FORMAT else None
        if found is not None:
            machine_of(found)
    except (ValueError, KeyError, TypeError, ArithmeticError):
        return None
    return found


def checked(plain: Plain) -> Plain:
    """What ranks told, or a file says. Raises ValueError, KeyError or TypeError for what is not as PARTS says."""
    seen = {int(count): {part: _checked(each, part) for part in PARTS} for count, each in plain["seen"].items()}
    if not seen or not all(1 <= count <= MAX_DEVICES for count in seen):
        raise ValueError("nothing was measured of so many devices")
    texts = {name: str(plain[name]) for name in ("title", "kind")}
    return {**texts, **{name: int(plain[name]) for name in ("memory_bytes", "num_units")}, "seen": seen}


def _checked(seen: Plain, part: str) -> Any:
    told = seen[part]
    if part == "launch_s":
        return float(_number(told, most=1e6))
    if part in LISTS:
        if not told and part != "samples":
            raise ValueError("nothing was measured of attention, or of memory")
        return [_measurement(each, part) for each in told]
    return _measurement(told, part) if told or part == "single" else None


def _measurement(told: Plain, part: str) -> Plain:
    if told.keys() != {*PARTS[part], "seconds"} or told.get("operation", "hop") not in OPERATIONS:
        raise ValueError("it is no measurement")
    sizes = {name: told[name] if name == "operation" else _number(told[name]) for name in PARTS[part]}
    return {**sizes, "seconds": _number(told["seconds"], most=1e6)}


def _number(value: Any, *, most: float = float("inf")) -> float:
    if type(value) not in (int, float) or not 0 < value < most:
        raise ValueError("it is no number above 0")
    return value
