"""The rows next to this rank's: what a convolution sees beyond them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..collectives import start_exchange
from ..mesh import Group

Edges = tuple[Tensor | None, Tensor | None]
"""Rows above and below; None at the edge of the picture."""


def start_edges(x: Tensor, dim: int, *, before: int, after: int, group: Group) -> Callable[[], Edges]:
    """Collective: ask the neighbours for `before` rows above this rank's along `dim` and `after` below.

    Every rank asks for as many, and has as many. Returns at once; the function it gives back waits.
    """
    sends: list[list[Tensor]] = [[] for _ in group.ranks]
    receives: list[list[Tensor]] = [[] for _ in group.ranks]
    above, below, rows = group.index - 1, group.index + 1, x.shape[dim]
    assert max(before, after) <= rows, f"{rows} rows cannot lend {before} and {after}"
    if above >= 0:
        sends[above].append(x.narrow(dim, 0, after).contiguous())
        receives[above].append(_rows(x, dim, before))
    if below < group.size:
        sends[below].append(x.narrow(dim, rows - before, before).contiguous())
        receives[below].append(_rows(x, dim, after))
    wait = start_exchange(sends, receives, group=group)

    def arrived() -> Edges:
        wait()
        return receives[above][0] if above >= 0 else None, receives[below][0] if below < group.size else None

    return arrived


def _rows(x: Tensor, dim: int, count: int) -> Tensor:
    return x.new_empty([count if each == dim else size for each, size in enumerate(x.shape)])
