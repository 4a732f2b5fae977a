"""How a run is made, what it tells meanwhile, how it ends, what it made; and this done in the process that asks.

A result is one file; its id, not its path, is what pages and programs see.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ...nodes.execution.attempt import attempt, open_caches, workspace_of
from ...nodes.execution.events import Event
from ...nodes.execution.failure import NodeFailed, sentence
from ...nodes.execution.records import RunResult
from ...nodes.execution.watch import Token
from ...nodes.files.thumbnails import picture_facts, sound_facts, video_facts
from ...nodes.files.workspace import Workspace
from ...nodes.graph.graph import Link, graph_from_plain
from ...nodes.graph.ready import Ready, ready
from ...nodes.graph.resolve import plain_value
from ...nodes.graph.spec import NodeSpec
from ...nodes.registry import SPECS
from ...parallel.errors import LoomError, code_of
from ...pipelines.components.memory import Held
from ...pipelines.pools import loaded
from ...pipelines.values import Place, from_plain
from ..contract.shown import PlanMachine
from ..live.state import MadeFile, Outcome
from ..store.paging import MAX_PROMPT
from ..store.user_files import KINDS, fresh_id, is_own_file
from .wire import Line, Order, Picture

logger = logging.getLogger("latentloom")

MAX_WORD = 120  # characters of one value among the words; prompts are searched whole
MAX_WORDS = 4000
FACTS = {"image": picture_facts, "video": video_facts, "audio": sound_facts}

Tell = Callable[[Line], None]
Given = tuple[str, str, str, Any]  # a plain value that a node was given: (node, socket, its widget, value)


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
        self.pid, self.starts, self.restarts = 0, 1, 0  # as `WorkerProcess` has them

    def make(self, order: Order, tell: Tell, cancel: Token) -> Outcome:
        """Raises what keeps the run from beginning."""
        reading = Workspace(roots=order.roots, host="page")
        prepared = ready(graph_from_plain(order.graph), self._specs, workspace=reading)
        workspace = workspace_of(
            prepared, order.folder, roots=order.roots, place=from_plain(Place, order.place), max_pixels=order.max_pixels
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

        result, problem = attempt(
            prepared,
            workspace=workspace,
            caches=self._caches.of(order.keeper) if order.keeper else self._caches,
            sink=sink,
            cancel=cancel,
            previews=True,
            run_id=order.run,
            targets=order.targets,
            shows=True,
        )
        return _outcome(order.run, result, problem, made_by(result, prepared, **where, known=known))

    def loaded(self) -> Sequence[Held]:
        return loaded()

    def state(self) -> Literal["ok"]:
        """Whether runs are made, as `WorkerProcess` says it."""
        return "ok"

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


def _outcome(run: str, result: RunResult, problem: ValueError | None, files: tuple[MadeFile, ...]) -> Outcome:
    failed = result.failure or problem
    if failure := result.failure:
        level = logging.ERROR if failure.code == NodeFailed.code else logging.INFO  # the sentence names the log
        logger.log(level, "run %s: %s", run, failure, exc_info=failure.__cause__)
    return Outcome(
        state="failed" if failed else "done" if result.state == "ok" else "cancelled",
        seconds=round(result.seconds, 3),
        error=str(failed or ""),
        code=code_of(failed) if failed else "",
        plan="; ".join(dict.fromkeys(record.plan for record in result.nodes.values() if record.plan)),
        made=files,
    )


def made_by(
    result: RunResult, ready: Ready, *, folder: Path, output_dir: Path, known: Sequence[MadeFile] = ()
) -> tuple[MadeFile, ...]:
    """The files below the run's folder, in the order in which the nodes ran; what is a link or gone is left out.

    What is `known` already, since the run told of it, stays, also of a node that failed afterwards.
    """
    made: list[MadeFile] = []
    meant = {name: record.values for name, record in result.nodes.items()}
    for node, record in result.nodes.items():
        own = {each.name: each for each in known if each.node == node}
        for file in map(Path, record.files):
            found = own.pop(file.name, None) or made_of(file, node, ready, folder=folder, output_dir=output_dir)
            made += [found] if found is not None else []
        made += own.values()
    parts = {
        (node, Path(file).name): result.part_of(node, index)
        for node in result.parts
        for index, file in enumerate(result.nodes[node].files)
    }

    @functools.cache
    def told(node: str, part: str) -> dict[str, Any]:
        beside = {*result.parts[node]} - {part} if part else ()
        return told_of(behind(ready, node, meant, beside=beside))

    # what they were made with is told anew: the run knows by now what 0, "" and "auto" were
    found = ((each, parts.get((each.node, each.name), "")) for each in made)
    return tuple(each.model_copy(update={**told(each.node, part), "part": part}) for each, part in found)


def made_of(file: Path, node: str, ready: Ready, *, folder: Path, output_dir: Path) -> MadeFile | None:
    """One file that a node wrote; None for a link, and for what is gone, elsewhere, or neither seen nor heard."""
    if not is_own_file(file, folder) or (kind := KINDS.get(file.suffix.lower())) is None:
        return None
    try:
        facts = FACTS[kind](file)
        num_bytes = file.stat().st_size
    except (ValueError, OSError):
        return None
    return MadeFile(
        id=fresh_id(),
        node=node,
        kind=kind,
        name=file.name,
        path=file.resolve().relative_to(output_dir.resolve()).as_posix(),
        **dict[str, Any](vars(facts), fps=round(facts.fps, 4), length_s=round(facts.length_s, 3)),
        bytes=num_bytes,
        time=time.time(),
        **told_of(behind(ready, node)),
    )


def behind(
    ready: Ready, node: str, meant: Mapping[str, Mapping[str, Any]] | None = None, *, beside: Collection[str] = ()
) -> list[Given]:
    """All values behind a node, the nearest first; what is not set has its default, or what was `meant` by it. Of the
    nodes `beside` its own nothing is told: other parts of the batch that it is of."""
    nodes, found = ready.graph.nodes, list[Given]()
    seen, waiting = {node, *beside}, [node]
    for name in waiting:  # grows meanwhile
        spec, own, values = ready.specs.get(name), (meant or {}).get(name, {}), dict[str, Any]()
        for socket, entry in nodes[name].inputs.items():
            if not isinstance(entry, Link):
                values[socket] = own.get(socket, plain_value(entry, ready.params))
                continue
            if isinstance(own.get(socket), int | float | str):  # a text or number that another node made
                values[socket] = own[socket]
            if entry.node not in seen and entry.node in nodes:
                seen.add(entry.node)
                waiting.append(entry.node)
        known = spec.inputs if spec else ()
        values |= {each.name: own.get(each.name, each.default) for each in known if each.name not in nodes[name].inputs}
        widgets = {each.name: each.widget for each in known}
        found += [(name, socket, widgets.get(socket, ""), value) for socket, value in values.items()]
    return found


def told_of(values: Sequence[Given]) -> dict[str, Any]:
    """What is kept of these: the nearest prompt or else long text, the nearest seed, the models, and all in words."""
    texts = [(socket, str(value)) for _, socket, widget, value in values if widget == "multiline" and value]
    prompts = [text for socket, text in texts if socket == "prompt"]
    others = [text for socket, text in texts if "negative" not in socket]
    seeds = [value for _, _, widget, value in values if widget == "seed" and isinstance(value, int)]
    models = dict.fromkeys(str(value)[:MAX_WORD] for _, _, widget, value in values if widget == "model" and value)
    lines = (f"{node}.{socket}={str(value)[:MAX_WORD]}" for node, socket, _, value in values if value not in ("", None))
    return {
        "prompt": next(iter(prompts or others), "")[:MAX_PROMPT],
        "seed": next(iter(seeds), None),
        "models": tuple(models),
        "words": "\n".join(line.replace("\n", " ") for line in lines)[:MAX_WORDS].casefold(),
    }
