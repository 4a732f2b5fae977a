"""Sharding a transformer from outside, and taking it back: the module itself is not changed."""

from __future__ import annotations

import weakref

from torch import nn

from .hooks import Remove, install
from .mesh import Axis, Mesh
from .plan import ParallelPlan
from .session import Session
from .split_plan import SplitPlan

_sharded: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class Handle:
    """A sharded transformer's way back: `remove()` leaves the module as it was."""

    def __init__(self, module: nn.Module, mesh: Mesh, session: Session | None, undo: list[Remove]) -> None:
        self.module, self.mesh, self.session = module, mesh, session
        self._undo = undo

    @property
    def plan(self) -> ParallelPlan:
        return self.mesh.plan

    def remove(self) -> None:
        """Take every hook off again; a second call does nothing."""
        while self._undo:
            self._undo.pop()()
        _sharded.discard(self.module)


def shard(module: nn.Module, split: SplitPlan, mesh: Mesh, *, kernel: str = "auto") -> Handle:
    """Make `module` run sharded over the mesh by a split plan, called with whole inputs on every rank as before.

    Raises ValueError if it is sharded already, or does not look as the split plan says.
    """
    title = type(module).__name__
    if module in _sharded:
        raise ValueError(f"this {title} is sharded already; call remove() on the handle of the first time")
    text = mesh.plan.text
    if text != "auto" and not split.either:
        raise ValueError(
            f"plan {mesh.plan}: {title} has no text stream that could be sharded or replicated; leave text out"
        )
    if mesh[Axis.SEQUENCE].size == 1:
        return Handle(module, mesh, None, [])
    session = Session(split, mesh, title=title, shards_text=text != "replicated", kernel=kernel)
    handle = Handle(module, mesh, session, install(module, session))
    _sharded.add(module)
    return handle
