"""Are all ranks given the same inputs? Asked on the first call: other noise on one rank is silent wrong output."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .collectives import gather
from .mesh import Group

PLACES = 64  # more arguments than any transformer takes


def check_same(given: Mapping[str, Any], group: Group, *, title: str) -> None:
    """Collective: raise the same ValueError on every rank if an argument differs between ranks of the group."""
    if group.size == 1:
        return
    names = sorted(given)[: PLACES - 1]
    marks = [_mark(names), *(_mark(given[name]) for name in names)]
    own = torch.tensor(marks + [0] * (PLACES - len(marks)), dtype=torch.int64)
    own = own.to(next((x.device for x in _tensors(given.values())), own.device))
    everyone = gather(own, sizes=[PLACES] * group.size, group=group).view(group.size, PLACES)
    differs = (everyone != everyone[0]).any(0).tolist()
    if differs[0]:
        raise ValueError(f"{title}: the ranks call it with different arguments; call it in the same way on every rank")
    wrong = [name for name, is_different in zip(names, differs[1:], strict=False) if is_different]
    if wrong:
        raise ValueError(
            f"{title}: {', '.join(wrong)} differ{'s' * (len(wrong) == 1)} between the ranks; "
            "give every rank the same tensors: the same seed on a CPU generator, the same prompt"
        )


def _mark(value: Any) -> int:
    """A number for a value: its bytes, shapes and dtypes, or how it prints."""
    if isinstance(value, Tensor):
        described = zlib.crc32(f"{tuple(value.shape)}{value.dtype}".encode())
        flat = value.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
        raw = flat.view(torch.uint8).numpy()
        return zlib.crc32(raw.data, described)
    if isinstance(value, Mapping):
        return _mark([item for key in sorted(value) for item in (key, value[key])])
    if isinstance(value, (tuple, list)):
        mark = len(value)
        for item in value:
            mark = zlib.crc32(_mark(item).to_bytes(8, "little"), mark)
        return mark
    return zlib.crc32(repr(value).encode()) if isinstance(value, (str, int, float, type(None))) else 0


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in values if isinstance(value, Tensor)]
