"""How a run is made: its order, what it tells meanwhile, how it ends; and this done in the process that asks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from ...nodes.execution.attempt import Attempt, attempt, open_caches, workspace_of
from ...nodes.execution.events import Event
from ...nodes.execution.failure import NodeFailed, sentence
from ...nodes.execution.watch import Token
from ...nodes.files.workspace import Workspace
from ...nodes.graph.graph import graph_from_plain
from ...nodes.graph.ready import ready
from ...nodes.graph.spec import NodeSpec
from ...nodes.registry import SPECS
from ...parallel.errors import LoomError, code_of
from ...pipelines.components.memory import Held
from ...pipelines.pools import loaded
from ...pipelines.values import Place, from_plain
from ..live.state import MadeFile, Outcome
from .made import made_by, made_of

if TYPE_CHECKING:
    from torch import Tensor

    from ..contract.shown import PlanMachine

logger = logging.getLogger("latentloom")


class Order(BaseModel):
    """A run that is to be made: all that whoever makes it needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    keeper: str = ""
    """For whom caches keep what it makes; "" is everybody."""
    graph: dict[str, Any]
    """The workflow, with the run's values in it."""
    folder: Path
    output_dir: Path
    roots: tuple[Path, ...]
    place: dict[str, Any]
    max_pixels: int
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A small picture of what is on its way: uint8 H W 3, row by row."""

    width: int
    height: int
    pixels: bytes

    @classmethod
    def of(cls, tensor: Tensor) -> Picture:
        height, width, _ = tensor.shape
        return cls(width=width, height=height, pixels=tensor.cpu().contiguous().numpy().tobytes())


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a run under way tells: what happened, or a file that it has made."""

    event: Event | None = None
    """Without its preview."""
    picture: Picture | None = None
    """The preview."""
    made: MadeFile | None = None
    thread: int = 0
    """With the start of a node that uses no device: the system's number of the thread in which it works."""


Tell = Callable[[Told], None]


class WorkerLost(LoomError):
    """What made a run is gone, and the run is not over. `is_blamed`: it may be what ended it."""

    code = "worker-lost"

    def __init__(self, *, is_blamed: bool) -> None:
        super().__init__("the process that makes runs ended")
        self.is_blamed = is_blamed


class Work(Protocol):
    """Makes runs, several at a time, each in a thread of the caller's. `close` it once they are over."""

    def make(self, order: Order, tell: Tell, cancel: Token) -> Outcome:
        """Raises `WorkerLost`, or what keeps a run from beginning."""
        ...

    def loaded(self) -> Sequence[Held]:
        """What is loaded for runs, one entry for each rank that holds a component."""
        ...

    def measured(self) -> PlanMachine:
        """Measure the machine, see `plan_view.measured`."""
        ...

    def close(self) -> None: ...


class Here:
    """Work in this process: that of the worker, and of tests."""

    def __init__(self, cache_dir: Path, *, specs: Mapping[str, NodeSpec] = SPECS) -> None:
        self._specs = specs
        self._caches = open_caches(cache_dir)

    def make(self, order: Order, tell: Tell, cancel: Token) -> Outcome:
        """Raises what keeps the run from beginning."""
        reading = Workspace(roots=order.roots, host="page")
        prepared = ready(graph_from_plain(order.graph), self._specs, workspace=reading)
        workspace = workspace_of(
            prepared,
            order.folder,
            roots=order.roots,
            place=from_plain(Place, order.place),
            max_pixels=order.max_pixels,
        )
        nodes = prepared.graph.nodes
        where = {"folder": order.folder, "output_dir": order.output_dir}
        known: list[MadeFile] = []

        def sink(event: Event) -> None:
            if event.kind != "saved":
                tell(_told(event, small=event.node in nodes and self._is_small(nodes[event.node].type)))
            elif (found := made_of(Path(event.message), event.node, prepared, **where)) is not None:
                known.append(found)
                tell(Told(made=found))

        made = attempt(
            prepared,
            workspace=workspace,
            caches=self._caches.of(order.keeper) if order.keeper else self._caches,
            sink=sink,
            cancel=cancel,
            previews=True,
            targets=order.targets,
            shows=True,
        )
        return _outcome(order.run, made, made_by(made.result, prepared, **where, known=known))

    def loaded(self) -> Sequence[Held]:
        return loaded()

    def measured(self) -> PlanMachine:
        from ..views.plan_view import measured

        return measured()

    def close(self) -> None:
        """What is loaded stays: others in this process may use it."""

    def _is_small(self, type: str) -> bool:
        spec = self._specs.get(type)
        return spec is not None and not spec.uses_device


def stopped(run: str, error: BaseException) -> Outcome:
    """Of a run that was never begun, or that raised what no node did."""
    if not isinstance(error, ValueError):
        logger.error("run %s stopped", run, exc_info=error)
    return Outcome(state="failed", error=sentence(error, "page"), code=code_of(error))


def _told(event: Event, *, small: bool) -> Told:
    thread = threading.get_native_id() if small and event.kind == "started" else 0
    if event.preview is None:
        return Told(event=event, thread=thread)
    return Told(event=replace(event, preview=None), picture=Picture.of(event.preview))


def _outcome(run: str, attempt: Attempt, files: tuple[MadeFile, ...]) -> Outcome:
    result = attempt.result
    failed, code = attempt.problem, attempt.problem_code
    if result.failure:
        failed, code = str(result.failure), result.failure.code
        level = logging.ERROR if code == NodeFailed.code else logging.INFO  # the sentence names the log
        logger.log(level, "run %s: %s", run, failed, exc_info=result.failure.__cause__)
    return Outcome(
        state="failed" if failed else "done" if result.state == "ok" else "cancelled",
        seconds=round(result.seconds, 3),
        error=failed,
        code=code,
        plan="; ".join(dict.fromkeys(record.plan for record in result.nodes.values() if record.plan)),
        made=files,
    )
