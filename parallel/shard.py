"""Sharding a transformer from outside, and taking it back: the module itself is not changed."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from . import operator
from .compiled import check_uncompiled, compile_blocks
from .hooks import Remove, install, modules_at
from .mesh import Axis, Mesh
from .plan import ParallelPlan
from .session import Session
from .split_plan import SplitPlan

if TYPE_CHECKING:
    import torch

_sharded: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class Handle:
    """A sharded transformer's way back: `remove()` leaves the module as it was."""

    def __init__(
        self,
        module: nn.Module,
        mesh: Mesh,
        session: Session | None,
        undo: list[Remove],
        blocks: Sequence[nn.Module] = (),
    ) -> None:
        self.module, self.mesh, self.session = module, mesh, session
        self.title = type(module).__name__.removeprefix("FSDP")  # how FSDP names the class when it has the weights
        self._undo, self._blocks, self._is_compiled = undo, blocks, False

    @property
    def plan(self) -> ParallelPlan:
        return self.mesh.plan

    def compile(self, **options: Any) -> None:
        """Compile the forward of every block by `torch.compile`, in one graph each unless told `fullgraph=False`.

        `remove()` undoes it. The first two picture sizes take longer; lengths are dynamic from the second on.
        """
        if not self._blocks:
            raise ValueError(f"plan {self.plan} splits nothing of {self.title}; call its own compile_repeated_blocks()")
        if self._is_compiled or any("_compiled_call_impl" in vars(block) for block in self._blocks):
            raise ValueError(f"blocks of this {self.title} are compiled already; compile them once")
        self._undo += compile_blocks(self._blocks, {"fullgraph": True, **options})
        self._is_compiled = True

    def remove(self) -> None:
        """Take every hook off again; a second call does nothing.

        Raises ValueError if the ranks share the weights: then no rank can make the transformer whole again.
        """
        if self.plan.weights > 1:
            raise ValueError(
                f"plan {self.plan}: the weights of this {self.title} are shared out over {self.plan.weights} ranks for "
                "good; load it anew instead of calling remove()"
            )
        while self._undo:
            self._undo.pop()()
        self._is_compiled = False
        _sharded.discard(self.module)


H = TypeVar("H", bound=Handle)


def shard(
    module: nn.Module,
    split: SplitPlan | None,
    mesh: Mesh,
    *,
    kernel: str = "auto",
    handle: type[H] = Handle,
    device: torch.device | None = None,
) -> H:
    """Make `module` run sharded over the mesh by a split plan, called with whole inputs on every rank as before.

    No split plan is needed where tokens and weights stay together. A module on the meta device takes the `device` it
    is for, and gets its values from `weights.fill` afterwards. Raises ValueError if it is sharded already, or does not
    look as the split plan says.
    """
    title = type(module).__name__
    if module in _sharded:
        raise ValueError(f"this {title} is sharded already; call remove() on the handle of the first time")
    if split is not None and mesh.plan.text != "auto" and not split.either:
        raise ValueError(
            f"plan {mesh.plan}: {title} has no text stream that could be sharded or replicated; leave text out"
        )
    check_uncompiled(module, title)
    if mesh[Axis.SEQUENCE].size == mesh[Axis.WEIGHTS].size == 1:
        return handle(module, mesh, None, [])
    assert split is not None, f"plan {mesh.plan} splits {title}"
    blocks = [block for path in split.blocks for block in modules_at(module, path, title)]
    session = None
    if mesh[Axis.SEQUENCE].size > 1:
        session = Session(split, mesh, title=title, shards_text=mesh.plan.text != "replicated", kernel=kernel)
    if mesh[Axis.WEIGHTS].size > 1:
        from .weights import shard_weights

        undo = install(module, session) if session else []  # a plan that does not fit is refused while nothing is lost
        while undo:
            undo.pop()()
        shard_weights(module, blocks, group=mesh[Axis.WEIGHTS], device=device)
    undo = [partial(operator.release, session), *install(module, session)] if session else []
    _sharded.add(module)
    return handle(module, mesh, session, undo, blocks)
