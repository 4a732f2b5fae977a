"""Are all ranks given the same inputs? Asked on the first call, and of each job: other noise on one rank is silent
wrong output.

One number for each argument is compared, not the tensors.
"""

import dataclasses
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..collectives import add, gather, start_highest
from ..group import Group
from ..mesh import Mesh
from ..staging import bytes_of

PLACES = 64  # more arguments than any transformer takes


def check_same(given: Mapping[str, Any], group: Group, *, title: str, around: Group) -> None:
    """Collective: raise ValueError on every rank of the group, and of the group `around` it, if an argument differs."""
    if group.size == 1:
        return
    names = sorted(given)[: PLACES - 1]
    # As many numbers from each, whatever it was given: what differs in the names must not be a collective of its own.
    marks = [_mark(names), *(_mark(given[name]) for name in names)]
    own = torch.tensor(marks + [0] * (PLACES - len(marks)), dtype=torch.int64)
    own = own.to(next((x.device for x in tensors_in(given) if x.device.type != "cpu"), own.device))  # where NCCL can
    everyone = gather(own, sizes=[PLACES] * group.size, group=group).view(group.size, PLACES)
    differs = (everyone != everyone[0]).any(0).tolist()
    wrong = [name for name, is_different in zip(names, differs[1:], strict=False) if is_different]
    is_wrong = any(differs)
    if set(around.ranks) - set(group.ranks):  # who shares weights or tokens with one that raises would wait for it
        is_wrong = bool(add(own.new_tensor([any(differs)]), group=around))
    if differs[0]:
        raise ValueError(f"{title}: the ranks call it with different arguments; call it in the same way on every rank")
    if wrong:
        raise ValueError(
            f"{title}: {', '.join(wrong)} differ{'s' * (len(wrong) == 1)} between the ranks; "
            "give every rank the same tensors: the same seed on a CPU generator, the same prompt"
        )
    if is_wrong:
        raise ValueError(f"{title}: ranks that work with this one were given different inputs; see their errors")


class Due:
    """Whether ranks compare what they are given in the coming forward: in the first, and in the first after one of them
    began anew."""

    def __init__(self) -> None:
        self._is_due = True
        self._answer: Callable[[], bool] | None = None

    def ask(self, answer: Callable[[], bool]) -> None:
        """It is if it was, or if this says so on all ranks alike, which the coming forward waits for."""
        self.is_now()  # what was asked before, and no forward has waited for
        self._answer = answer

    def is_now(self) -> bool:
        if self._answer is not None:
            self._is_due |= self._answer()
            self._answer = None
        return self._is_due

    def is_done(self) -> None:
        self._is_due = False


class Comparison:
    """Whether all ranks of a mesh are asked for the same: begun beside their work, and ended before any result of it
    leaves. All of them call both alike."""

    def __init__(self, asked: Callable[[], Mapping[str, Any]], mesh: Mesh) -> None:
        assert mesh.voters is not None, f"the mesh of plan {mesh.plan} is of `mesh_for`"
        self._asked, self._voters = asked, mesh.voters
        self._names: list[str] = []
        self._wait: Callable[[], Tensor] | None = None

    def begin(self) -> None:
        """Collective, on the CPU; returns at once. A second call does nothing."""
        if self._wait is None:
            asked = self._asked()
            self._names = sorted(asked)
            # Beside the highest of all marks the lowest, by the same collective: equal, if all are.
            marks = torch.tensor([_mark(asked[name]) for name in self._names], dtype=torch.int64)
            self._wait = start_highest(torch.stack([marks, -marks]), self._voters)

    def end(self) -> None:
        """Collective: raise ValueError on every rank, naming what differs."""
        self.begin()
        assert self._wait is not None, "it has begun"
        highest, lowest = self._wait()
        wrong = [name for name, is_same in zip(self._names, (highest == -lowest).tolist(), strict=True) if not is_same]
        if wrong:
            raise ValueError(f"the ranks were asked for different {', '.join(wrong)}; give every rank the same request")


def _mark(value: Any) -> int:
    """A number for a value: its bytes, shapes and dtypes, or how it prints."""
    if isinstance(value, Tensor):
        described = zlib.crc32(f"{tuple(value.shape)}{value.dtype}".encode())
        return zlib.crc32(bytes_of(value.cpu()).numpy().data, described)
    if dataclasses.is_dataclass(value):
        value = fields_of(value)
    if isinstance(value, Mapping):
        return _mark([item for key in sorted(value) for item in (key, value[key])])
    if isinstance(value, (tuple, list)):
        mark = len(value)
        for item in value:
            mark = zlib.crc32(_mark(item).to_bytes(8, "little"), mark)
        return mark
    return zlib.crc32(repr(value).encode()) if isinstance(value, (str, int, float, type(None))) else 0


def fields_of(value: Any) -> dict[str, Any]:
    """Of a dataclass, as they are."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Those of nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Mapping, tuple, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors_in(item)
