"""A transformer made ready for a denoise, spread by its plan and compiled, and kept so until one wants it otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...parallel.group import Axis
from ..models.describe import LEAST_STEPS
from ..values import Engine
from . import tensorrt
from .loans import Condition

if TYPE_CHECKING:
    from ...parallel.mesh import Mesh
    from ...parallel.sharding.captured import Captured
    from ..spreading.transformer import Handle


class Prepared:
    """A transformer in a condition, until `end`. Not collective, but all ranks of the mesh do it alike.

    With `share`, the handle by which its weights are shared for good, only what is compiled comes and goes. Its calls
    are replayed as CUDA graphs where the condition says so, and its blocks do not rest on the host; `forget_graphs` may
    come from another thread. Raises ValueError if the plan does not fit; then nothing was changed.
    """

    def __init__(
        self, transformer: Any, condition: Condition, mesh: Mesh | None, *, share: Handle | None, rests: bool = False
    ) -> None:
        from ..denoising.tables import keep_tables
        from ..spreading.transformer import paddings_of, shard

        self.condition, self.mesh = condition, mesh
        self.handle = share
        self._captured: Captured | None = None
        self._is_new = True
        # From the inside out, and taken off in the other order: layers, hooks of sharding around blocks, the blocks'
        # forwards within these hooks, graphs around the whole call. Each finds what is further in as it will be when it
        # runs.
        with contextlib.ExitStack() as stack:
            if share is None:  # weights that are shared out are gathered one by one
                stack.callback(_fuse(transformer, condition.engine, mesh, rests=rests))
            if mesh is not None and share is None:
                self.handle = shard(transformer, mesh.plan, mesh)
                stack.callback(self.handle.remove)
            if condition.engine != "eager":
                stack.callback(_compile(transformer, self.handle, condition.engine))
            if condition.graphs != "off" and not rests:
                from ...parallel.sharding.captured import Captured

                session = self.handle.session if self.handle is not None else None
                paddings = session.split.paddings if session is not None else paddings_of(transformer)
                is_asked = condition.graphs == "on"
                self._captured = Captured(transformer, mesh=mesh, is_asked=is_asked, paddings=paddings)
                stack.callback(self._captured.restore)
            # a graph holds what it reads, and would be replayed for other positions
            stack.callback(keep_tables(transformer, in_forwards=self._captured is None))
            self._undo = stack.pop_all()

    def fits(self, condition: Condition, mesh: Mesh | None) -> bool:
        """Whether it will do for this use; a mesh lives as long as its process group."""
        return self.condition == condition and self.mesh is mesh

    def begin(self, num_steps: int = 0) -> None:
        """Collective under a plan of several ranks, before each use for so many steps: if it is a new one on any rank,
        all compare what they are given. Returns at once; the first forward waits for the answer.

        Each rank drops components by its own memory, and one that compared alone would wait for the others.
        """
        if self.mesh is not None and self.handle is not None:
            is_new = self.handle.begin(is_new=self._is_new)
            if self._captured is not None and is_new():
                self.forget_graphs()
        self._is_new = False
        if self._captured is not None:
            self._captured.begin(is_long=num_steps >= LEAST_STEPS)

    @property
    def num_bytes(self) -> int:
        """What graphs hold of the device."""
        return 0 if self._captured is None else self._captured.num_bytes

    def forget_graphs(self) -> None:
        """They are captured again in the next use, by all ranks."""
        if self._captured is not None:
            self._captured.forget()
            self._is_new = True

    def end(self) -> None:
        """The transformer as it was loaded; a second call does nothing."""
        self._undo.close()


def _fuse(transformer: Any, engine: Engine, mesh: Mesh | None, *, rests: bool) -> Callable[[], None]:
    """What rounds differently comes with an engine that does anyway: by engine and device alone, so that one rank and
    many have the same form. Weights of blocks that rest are neither read ahead nor put side by side."""
    from ..fusing import modulation, products, rotary

    device = next(iter(transformer.parameters())).device.type
    with contextlib.ExitStack() as stack:
        if mesh is not None and mesh[Axis.SEQUENCE].size > 1 and device in modulation.DEVICES and not rests:
            stack.callback(modulation.share_modulation(transformer, mesh[Axis.SEQUENCE]))
        if engine == "eager" and device in rotary.DEVICES:
            stack.callback(rotary.fuse_rotary(transformer))
        if engine != "eager" and device in products.DEVICES and not rests:
            stack.callback(products.fuse_products(transformer))
        return stack.pop_all().close


def _compile(transformer: Any, handle: Handle | None, engine: Engine) -> Callable[[], None]:
    """The first steps with a new picture size take longer. What it gives undoes it."""
    options: dict[str, Any] = {"fullgraph": False}
    if engine == "tensorrt":
        options |= {"backend": tensorrt.backend, "dynamic": False, "sends_in_graphs": False}
    if handle is not None and handle.splits:
        handle.compile(**options)
        return handle.uncompile
    from ...parallel.sharding.compiled import Forwards

    repeated = getattr(transformer, "_repeated_blocks", None) or ()
    blocks = [each for each in transformer.modules() if type(each).__name__ in repeated]
    forwards = Forwards(transformer, blocks or [transformer], type(transformer).__name__)
    forwards.compile(**options)
    return forwards.restore
