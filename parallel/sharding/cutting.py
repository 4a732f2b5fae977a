"""Following a split plan's specs: what they say of an argument or output is cut to this rank's part, or gathered.

Tensors along a stream become this rank's tokens of it, counts of units or tokens become this rank's counts, and tuples
and dicts are followed item by item.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from .fingerprint import tensors_in
from .session import Session
from .split_plan import Along, Leading, Spans, Spec, Tail, Trailing, Units


def meet(given: Mapping[str, Any], specs: Mapping[str, Spec], session: Session, *, path: str) -> None:
    """Learn the lengths of streams from the arguments, of the modules at `path`, that run along one alone."""
    for name, spec in specs.items():
        for x, each in _pairs(given.get(name), spec):
            if isinstance(each, Along) and _is_alone(each) and _fits(x, each):
                stream = each.streams[0]
                unit = session.split.units.get(stream)
                length = math.prod(x.shape[each.dim : each.dim + each.grid]) if each.grid > 1 else x.shape[each.dim]
                session.define(stream, length, unit(given) if unit else 1, what=_argument_title(path, name))


def shows(spec: Spec) -> bool:
    """Whether `meet` learns anything from such an argument."""
    return any(isinstance(each, Along) and _is_alone(each) for each in (spec if isinstance(spec, tuple) else (spec,)))


def _is_alone(spec: Along) -> bool:
    return len(spec.streams) == 1 and not spec.optional and not spec.batched


def cut(name: str, value: Any, spec: Spec, session: Session, *, path: str) -> Any:
    """This rank's part of the argument of that name of the modules at `path`."""
    # Blocks of a list are given the same tables, which are cut once a forward, and anew if one was written into.
    known = session.parts.get(name)
    if known is not None and known[0] is value and known[1] == spec and known[2] == _times_written(value):
        return known[3]
    part = part_of(value, spec, session, _argument_title(path, name))
    if session.compiled:  # a graph is made for what it met: a part that is a view would have one of its own
        part = tree_map_only(Tensor, plain, part)
    if path.endswith("*"):  # of a single module nobody asks again, and its tensor would be held for nothing
        session.parts[name] = value, spec, _times_written(value), part
    return part


def _argument_title(path: str, name: str) -> str:
    return f"{path or 'the transformer'}'s {name}"


def _times_written(value: Any) -> list[int]:
    # How often each tensor was written into; inference tensors do not count it, and raise where they are asked.
    return [x._version for x in tensors_in(value) if not x.is_inference()]


def part_of(value: Any, spec: Spec, session: Session, what: str) -> Any:
    """This rank's part of an argument; `what` names it if it does not fit."""
    if isinstance(spec, Spans):
        return _spans_of(value, spec, session, what)
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


def _spans_of(value: Any, spec: Spans, session: Session, what: str) -> list[tuple[Any, ...]]:
    """Rows by their numbers in the whole streams, by those of this rank; fewer or none where it holds fewer or none."""
    layout, missing = session.layout(spec.streams), 0
    if spec.behind:
        start, end = session.streams[spec.behind].held(session.rank)
        missing = session.streams[spec.behind].length - (end - start)
    places = list(zip(layout.positions(session.rank), layout.local_ranges(session.rank), strict=True))
    found = []
    for first, last, *others in value:
        first = first and first + missing
        last = layout.length if last is None else last + missing
        if any(isinstance(x, Tensor) and x.ndim and len(x) != last - first for x in others):
            raise ValueError(
                f"{session.title}: {what} has a tensor beside rows {first} to {last} that has not one for each; "
                "run it on one device"
            )
        for (begin, end), (here, _) in places:
            a, b = max(first, begin), min(last, end)
            rows = [x[a - first : b - first] if isinstance(x, Tensor) and x.ndim else x for x in others]
            found += [(a - begin + here, b - begin + here, *rows)] if a < b else []
    return found


def _pairs(value: Any, spec: Spec) -> list[tuple[Any, Spec]]:
    if isinstance(value, dict):
        return [(x, spec) for x in value.values()]
    if not isinstance(value, (tuple, list)):
        return [(value, spec)]
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
        if spec.grid > 1:
            flat = value.flatten(spec.dim, spec.dim + spec.grid - 1)
            return session.gather(flat, spec.dim, *spec.streams).unflatten(spec.dim, session.grids[spec.streams])
        if spec.batched:
            dim = spec.dim % value.ndim
            each = value.unflatten(dim, (-1, session.layout(spec.streams).num_held(session.rank)))
            return session.gather(each, dim + 1, *spec.streams).flatten(dim, dim + 1)
        return session.gather(value, spec.dim, *spec.streams)
    return value


def plain(x: Tensor) -> Tensor:
    """A tensor's numbers as no view, at the start of their memory, with the usual strides even in dims of size 1."""
    # A part cut off a longer sequence is none of that. Nothing depends on it in a batch of one, but a graph is made for
    # what it met, and one more for the next block, which meets tensors of their own.
    if type(x) is not Tensor or x.requires_grad or not x.numel() or not x.is_contiguous():
        return x
    if x.is_conj() or x.is_neg():  # its memory holds other numbers
        return x.resolve_conj().resolve_neg()
    if x.storage_offset():
        return x.clone(memory_format=torch.contiguous_format)
    usual = tuple(math.prod(x.shape[dim + 1 :]) for dim in range(x.ndim))
    if x.stride() == usual and x._base is None:
        return x
    return x.new_empty(0).set_(x.untyped_storage(), 0, x.shape, usual)
