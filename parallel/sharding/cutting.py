"""Following a split plan's specs: what they say of an argument or output is cut to this rank's part, or gathered.

Tensors along a stream become this rank's tokens of it, counts of units or tokens become this rank's counts, and tuples
and dicts are followed item by item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .session import Session
from .split_plan import Along, Leading, Spec, Tail, Trailing, Units


def meet(given: Mapping[str, Any], specs: Mapping[str, Spec], session: Session) -> None:
    """Learn the lengths of streams from the arguments that run along one alone."""
    for name, spec in specs.items():
        for x, each in _pairs(given.get(name), spec):
            if not isinstance(each, Along) or each.optional or each.batched:
                continue
            if len(each.streams) == 1 and _fits(x, each):
                stream = each.streams[0]
                unit = session.split.units.get(stream)
                session.define(stream, x.shape[each.dim], unit(given) if unit else 1)


def part_of(value: Any, spec: Spec, session: Session, what: str) -> Any:
    """This rank's part of an argument; `what` names it if it does not fit."""
    if isinstance(value, dict):
        return {name: part_of(x, spec, session, what) for name, x in value.items()}
    if isinstance(value, (tuple, list)):
        items = [part_of(x, each, session, what) for x, each in _pairs(value, spec)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(spec, Units):
        stream = session.streams[spec.stream]
        assert stream.shares is not None, f"{spec.stream} counts units and so is always sharded"
        return value * stream.shares[session.rank] // stream.length
    if isinstance(spec, Leading):
        start, end = session.streams[spec.stream].held(session.rank)
        return min(max(value, start), end) - start
    if isinstance(spec, Trailing):
        stream = session.streams[spec.stream]
        start, end = stream.held(session.rank)
        return end - min(max(stream.length - value, start), end)
    if isinstance(spec, Tail):
        stream = session.streams[spec.stream]
        skipped = stream.length - value.shape[spec.dim]
        start, end = (max(token - skipped, 0) for token in stream.held(session.rank))
        return value.narrow(spec.dim, start, end - start)
    if isinstance(spec, Along) and _fits(value, spec):
        return session.cut(value, spec, what=what)
    return value


def _pairs(value: Any, spec: Spec) -> list[tuple[Any, Spec]]:
    if isinstance(value, dict):
        return [(x, spec) for x in value.values()]
    if not isinstance(value, (tuple, list)):
        return [(value, spec)]  # pyright: ignore[reportReturnType]
    specs = spec if isinstance(spec, tuple) else (spec,) * len(value)
    return list(zip(value, specs, strict=True))


def _fits(x: Any, spec: Along) -> bool:
    if not isinstance(x, Tensor) or (spec.optional and x.ndim <= spec.dim):
        return False
    return spec.ndim is None or x.ndim == spec.ndim


def whole_of(value: Any, spec: Spec, session: Session) -> Any:
    """Collective: an output with every tensor that runs along streams whole again."""
    if isinstance(value, (tuple, list)):
        items = [whole_of(x, each, session) for x, each in _pairs(value, spec)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(spec, Along) and isinstance(value, Tensor):
        return session.gather(value, spec.dim, *spec.streams)
    return value
