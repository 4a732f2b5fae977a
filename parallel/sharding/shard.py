"""Sharding a transformer from outside, and taking it back: the module itself is not changed.

Everything is done by hooks and by processors that are set while the handle lives: no class is derived and no source is
changed. The *handle* that `shard` gives is the way back.
"""

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import nn

from ..attention import packed
from ..attention.kernels import Function, of_function
from ..group import Axis
from ..mesh import Mesh
from ..plan import ParallelPlan
from ..together import start_highest_of
from ..wording import worded
from .compiled import Forwards, check_options, check_uncompiled, divert
from .hooks import Remove, install, modules_at, modules_ending
from .sections.dealing import BY_SIZE, Dealing
from .sections.sections import Sections
from .session import Session
from .split_plan import SplitPlan

_sharded: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class ShardedModule:
    """A sharded transformer's way back: `remove()` leaves the module as it was."""

    def __init__(
        self,
        module: nn.Module,
        mesh: Mesh,
        session: Session | None,
        undo: contextlib.ExitStack,
        forwards: Forwards | None = None,
        sections: Sections | None = None,
    ) -> None:
        self.module, self.mesh, self.session, self.sections = module, mesh, session, sections
        self._undo, self._forwards = undo, forwards

    @property
    def plan(self) -> ParallelPlan:
        return self.mesh.plan

    def compile(self, **options: Any) -> None:
        """Compile the forward of every block by `torch.compile`, each in one graph unless told `fullgraph=False`.

        The first two picture sizes take longer; from the second on lengths are dynamic. `remove()` undoes it. Raises
        ValueError for modes that capture CUDA graphs.
        """
        if self._forwards is None:
            raise ValueError(
                f"plan {self.plan} splits nothing here; call the transformer's own compile_repeated_blocks()"
            )
        check_options(options, self._forwards.title)
        self._forwards.compile(**options)

    def uncompile(self) -> None:
        """Blocks run as they did before `compile`; graphs that were made are found again by the next."""
        if self._forwards is not None:
            self._forwards.restore()

    @property
    def is_compiled(self) -> bool:
        return self._forwards is not None and bool(self._forwards.compiled)

    @property
    def splits(self) -> bool:
        """Whether tokens, weights or blocks are spread; else guidance alone may be."""
        return self._forwards is not None

    def begin(self, *, is_new: bool) -> Callable[[], bool]:
        """Collective, before a series of forwards: if the transformer is new to any rank, all compare what they are
        given in the first of them. Returns at once; that forward waits for the answer, as does what this gives."""
        wait = start_highest_of(self.mesh, int(is_new))
        self.compare_if(answer := lambda: any(wait()))
        return answer

    def compare_if(self, answer: Callable[[], bool]) -> None:
        """All ranks alike: if this says so, they compare what they are given in the next forward, as in the first.

        It is asked then, perhaps twice.
        """
        for each in (self.session, self.sections):
            if each is not None:
                each.comparing.ask(answer)

    def on_remove(self, undo: Remove) -> None:
        """Do this too when the handle is removed."""
        self._undo.callback(undo)

    def remove(self) -> None:
        """Take every hook off again; a second call does nothing.

        Raises ValueError if this rank does not hold all weights: then it cannot make the transformer whole again.
        """
        if self.plan.weights > 1:
            raise ValueError(
                f"plan {self.plan}: the weights are shared out over {self.plan.weights} ranks for good, so the "
                "transformer cannot be made whole again; load it anew, or use weights=1"
            )
        if self.sections is not None and any(each.is_meta for each in self.module.parameters()):
            raise ValueError(
                f"plan {self.plan}: this rank holds the weights of its section alone, so the transformer cannot be "
                "made whole again; load it anew"
            )
        self._undo.close()
        self.sections = None  # a second call asks for no weights: by now another handle may have sharded it


H = TypeVar("H", bound=ShardedModule)


def shard(
    module: nn.Module,
    split: SplitPlan | None,
    mesh: Mesh,
    *,
    kernel: str | Function = "auto",
    handle: type[H] = ShardedModule,
    device: torch.device | None = None,
    how: Dealing = BY_SIZE,
) -> H:
    """Make `module` run sharded over the mesh by a split plan, called with whole inputs on every rank as before.

    No split plan is needed where tokens and weights stay together. A module on the meta device takes its `device`, and
    its values from `weights.fill` afterwards. `how` says how blocks are dealt out, of a plan with layers. Raises
    ValueError if it is sharded already, or not as the plan says.
    """
    title = type(module).__name__.removeprefix("FSDP")
    if module in _sharded:
        raise ValueError(f"this {title} is sharded already; call remove() on the handle of the first time")
    if split is not None and mesh.plan.text != "auto" and not split.either:
        told = "plan {}: {} has no text stream that could be sharded or replicated; leave text out"
        raise ValueError(worded(told, mesh.plan, title))
    if not mesh.plan.splits_forward:
        return handle(module, mesh, None, contextlib.ExitStack())
    assert split is not None, f"plan {mesh.plan} splits {title}"
    blocks = [block for path in split.blocks for block in modules_at(module, path, title)]
    check_uncompiled(module, blocks, title)
    session, attends = None, kernel if isinstance(kernel, str) else of_function(kernel, mesh.plan)
    if mesh[Axis.SEQUENCE].size > 1:
        session = Session(split, mesh, title=title, shards_text=mesh.plan.text != "replicated", kernel=attends)
    if mesh[Axis.WEIGHTS].size > 1:
        from .weights import shard_weights

        if session is not None:  # a plan that does not fit is refused while nothing is lost
            install(module, session).close()
        units = [*blocks, *modules_ending(module, blocks, split.lent)]
        shard_weights(module, units, group=mesh[Axis.WEIGHTS], device=device)
    with contextlib.ExitStack() as undo:
        undo.callback(_sharded.discard, module)
        if session is not None:
            undo.callback(packed.forget)
            undo.enter_context(install(module, session))
        sections = None
        if mesh[Axis.LAYERS].size > 1:
            sections = Sections(
                module,
                blocks,
                mesh,
                title=title,
                session=session,
                device=device or next(module.parameters()).device,
                how=replace(how, lent=modules_ending(module, blocks, split.lent)),
            )
            blocks = list(sections.dealt.own)
            undo.callback(sections.remove)
        forwards = Forwards(module, blocks, title, session=session)
        undo.callback(divert(module, forwards))
        undo.callback(forwards.restore)
        _sharded.add(module)
        return handle(module, mesh, session, undo.pop_all(), forwards, sections)
