"""How a run is made, what it tells meanwhile, how it ends; and this done in the process that asks."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...nodes.execution.attempt import Attempt, attempt, open_caches, workspace_of
from ...nodes.execution.events import Event
from ...nodes.execution.records import NodeFailed, sentence
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
from ..contract.shown import PlanMachine
from ..live.state import MadeFile, Outcome
from .made import made_by, made_of
from .wire import Line, Order, Picture

logger = logging.getLogger("latentloom")


Tell = Callable[[Line], None]


class WorkerLost(LoomError):
    """What made a run is gone, and the run is not over. `is_blamed`: it may be what ended it."""

    code = "worker-lost"

    def __init__(self, *, is_blamed: bool) -> None:
        super().__init__("the process that makes runs ended")
        self.is_blamed = is_blamed


class Here:
    """Makes runs in this process, several at a time, each in a thread of the caller's: the worker's, and tests'."""

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
                spec = self._specs.get(nodes[event.node].type) if event.node in nodes else None
                tell(_told(order.run, event, is_small=spec is not None and not spec.uses_device))
            elif (found := made_of(Path(event.message), event.node, prepared, **where)) is not None:
                known.append(found)
                tell(Line(run=order.run, made=found))

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


def stopped(run: str, error: BaseException) -> Outcome:
    """Of a run that was never begun, or that raised what no node did."""
    if not isinstance(error, ValueError):
        logger.error("run %s stopped", run, exc_info=error)
    return Outcome(state="failed", error=sentence(error, "page"), code=code_of(error))


def _told(run: str, event: Event, *, is_small: bool) -> Line:
    # in the thread of the node, which the server's watch on those that hold the interpreter needs to know
    thread = threading.get_native_id() if is_small and event.kind == "started" else 0
    if (seen := event.preview) is None:
        return Line(run=run, event=event, thread=thread)
    picture = Picture(width=seen.shape[1], height=seen.shape[0], pixels=seen.cpu().contiguous().numpy().tobytes())
    return Line(run=run, event=replace(event, preview=None), picture=picture)


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
