"""The executor: calls the nodes a result needs, in order, each at most once, and tells what happens."""

from __future__ import annotations

import dataclasses
import logging
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, Literal

from ...parallel.errors import Cancelled
from ...parallel.machine.now import is_busy
from ...parallel.progress import RankWork
from ...pipelines.costs.outcome import Took, after
from ...pipelines.values import Model
from ..files.workspace import HERE, Workspace
from ..graph.graph import Link
from ..graph.ready import Ready
from ..graph.scalars import PLAIN_TYPES, as_type, fault
from ..graph.spec import Saved, files_of
from ..graph.unfolding.gathering import parts_of
from ..preview.carried import with_plan, with_plans
from ..preview.meant import tagged
from .cache import Cache, Share
from .events import Sink
from .failure import NodeFailed
from .outlook import outlook_of
from .peak_memory import PeakMemory
from .records import Cached, NodeRecord, RunResult, State
from .schedule import Schedule, schedule
from .watch import NodeProgress, Token, Watch

CPU_THREADS = 4
POLL_S = 0.2
"""How often a waiting run looks at its cancel token, and at Ctrl-C where waiting blocks signals (Windows)."""

logger = logging.getLogger("latentloom")


def run(
    ready: Ready,
    *,
    workspace: Workspace = HERE,
    # watching and ending
    sink: Sink = lambda event: None,
    cancel: Token | None = None,
    previews: bool = False,
    # what to reuse and what to make
    memory_cache: Cache | None = None,
    disk_cache: Cache | None = None,
    targets: Collection[str] | None = None,
) -> RunResult:
    """Run a workflow. Raises `GraphError` when it is wrong; a node's failure is in the result.

    `targets` names outputs or nodes; without it, all declared outputs and all nodes that act are made. A workflow
    that only acts has no outputs; the files are in the records.
    """
    keeper = memory_cache.owner if isinstance(memory_cache, Share) else ""
    watch = Watch(sink, cancel or threading.Event(), previews, keeper=keeper)
    try:
        needed = schedule(
            ready,
            workspace=workspace,
            targets=targets,
            progress_of=lambda name: NodeProgress(name, watch),
        )
    except NodeFailed as failure:
        return _failed_early(failure, watch)
    except Cancelled:
        return _cancelled_early(watch)
    caches: dict[Cached, Cache] = {}
    if memory_cache is not None:
        caches["memory"] = memory_cache
    if disk_cache is not None:
        caches["disk"] = disk_cache
    return _Session(needed, caches, workspace, watch).run()


def _failed_early(failure: NodeFailed, watch: Watch) -> RunResult:
    watch.tell("run_started")
    watch.tell("failed", failure.node, message=failure.sentence, code=failure.code)
    watch.tell("run_failed", message=str(failure), code=failure.code)
    records = {failure.node: NodeRecord(key="", state="failed", message=failure.sentence, code=failure.code)}
    return RunResult(run=watch.run, state="failed", outputs={}, nodes=records, seconds=watch.seconds(), failure=failure)


def _cancelled_early(watch: Watch) -> RunResult:
    watch.tell("run_started")
    watch.tell("run_cancelled")
    return RunResult(run=watch.run, state="cancelled", outputs={}, nodes={}, seconds=watch.seconds())


@dataclass
class _Outcome:
    """What a worker thread hands back."""

    state: State
    value: Any = None
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    plan: str = ""
    ranks: tuple[RankWork, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of plain inputs."""
    error: BaseException | None = field(default=None, repr=False)


class _Session:
    """One run. Only `_work` and what it calls happen in worker threads."""

    def __init__(self, needed: Schedule, caches: Mapping[Cached, Cache], workspace: Workspace, watch: Watch) -> None:
        self.schedule = needed
        self.caches = caches
        self.workspace = workspace
        self.watch = watch
        self.live: dict[str, Any] = {}
        self.records: dict[str, NodeRecord] = {}
        self.failure: NodeFailed | None = None
        self.done: queue.SimpleQueue[tuple[str, _Outcome]] = queue.SimpleQueue()

    def run(self) -> RunResult:
        self.watch.tell("run_started", total=len(self.schedule.order))
        todo = self._take_cached()
        self.watch.outlook = outlook_of(self.schedule, todo)
        self.consumers = Counter(source for name in todo for source in self.schedule.sources[name])
        self.num_for_device = sum(self.schedule.nodes[name].spec.uses_device for name in todo)
        self.kept = frozenset(node for node, _ in self.schedule.results.values())
        self._execute({name: [s for s in self.schedule.sources[name] if s in todo] for name in todo})
        self._skip_rest(todo)
        return self._result()

    def _take_cached(self) -> dict[str, None]:
        """Look from the results backwards; what feeds only cached nodes is not needed. Returns what must run."""
        needed = set(self.schedule.targets)
        todo: list[str] = []
        cached: list[tuple[str, Cached]] = []
        for name in reversed(self.schedule.order):
            if name not in needed:
                cached.append((name, "unneeded"))
            elif (level := self._look_up(name)) != "no":
                cached.append((name, level))
            else:
                todo.append(name)
                needed.update(self.schedule.sources[name])
        for name, level in reversed(cached):
            files = files_of(self.live.get(name))
            self.records[name] = NodeRecord(
                key=self.schedule.keys[name],
                state="ok",
                cached=level,
                **self._values(name, {**self.schedule.brought.get(name, {}), **self.schedule.nodes[name].values}),
                files=files,
            )
            self.watch.tell("cached", name, message=level)
        return dict.fromkeys(reversed(todo))

    def _look_up(self, name: str) -> Cached:
        if name in self.schedule.uncached or not self.schedule.nodes[name].spec.is_kept:
            return "no"
        for level, cache in self.caches.items():
            if (value := cache.get(self.schedule.keys[name])) is not None:
                self.live[name] = value
                if level == "disk" and "memory" in self.caches:
                    self.caches["memory"].put(self.schedule.keys[name], value)
                return level
        return "no"

    def _execute(self, sources: Mapping[str, Collection[str]]) -> None:
        sorter = TopologicalSorter(sources)
        sorter.prepare()
        with (
            ThreadPoolExecutor(1, "keeping") as self.keeping,
            ThreadPoolExecutor(1, "device") as device,
            ThreadPoolExecutor(1, "beside") as beside,
            ThreadPoolExecutor(CPU_THREADS, "cpu") as cpu,
        ):
            lanes = {"device": device, "beside": beside, "cpu": cpu}
            num_running = 0
            try:
                while sorter.is_active():
                    for name in () if self._is_ending() else sorter.get_ready():
                        lanes[self._lane(name)].submit(self._work, name)
                        num_running += 1
                    if not num_running:
                        break
                    if (name := self._collect()) is not None:
                        num_running -= 1
                        if self.records[name].state == "ok":
                            sorter.done(name)
            except BaseException:
                self.watch.interrupted = True  # Ctrl-C: running nodes stop at their next border
                raise

    def _lane(self, name: str) -> Literal["device", "beside", "cpu"]:
        """Where a node works: one at a time of those that use the device. Ranks order their work themselves, and encode
        and decode beside the steps of another denoise.
        """
        node = self.schedule.nodes[name]
        if not node.spec.uses_device:
            return "cpu"
        given = (self._linked(link) for link in node.links.values())
        has_ranks = any(isinstance(value, Model) and value.place.devices for value in given)
        return "beside" if has_ranks and node.spec.denoises is None else "device"

    def _linked(self, link: Link) -> Any:
        return self.schedule.nodes[link.node].spec.part(self.live[link.node], link.socket)

    def _is_ending(self) -> bool:
        return self.failure is not None or self.watch.is_cancelled()

    def _work(self, name: str) -> None:
        """In a worker thread: puts exactly one outcome into the queue."""
        self.done.put((name, self._attempt(name)))

    def _attempt(self, name: str) -> _Outcome:
        if self._is_ending():
            return _Outcome("skipped")
        self.watch.tell("started", name)
        start = time.perf_counter()
        node = self.schedule.nodes[name]
        spec, values = node.spec, node.values
        try:
            progress = NodeProgress(name, self.watch)
            if spec.uses_device and not has_torch():
                progress.phase("loading PyTorch", is_loading=True)  # which takes longer than what the node does with it
            with PeakMemory(measure=spec.uses_device) as memory:
                inputs = self._inputs(name)
                values = {each.name: inputs[each.name] for each in spec.inputs if each.type in PLAIN_TYPES}
                value = spec.make(
                    inputs,
                    progress=progress,
                    workspace=self._workspace(name),
                    depth=self.schedule.depths.get(name, "floats"),
                )
            seconds = time.perf_counter() - start
            self._store(name, value)
            peak_bytes = max((rank.peak_memory_bytes for rank in progress.ranks), default=0) or memory.peak_bytes
            return _Outcome("ok", value, seconds, peak_bytes, progress.plan, progress.ranks, values)
        except Cancelled:
            return _Outcome("cancelled", seconds=time.perf_counter() - start, values=values)
        except BaseException as error:
            return _Outcome("failed", seconds=time.perf_counter() - start, values=values, error=error)

    def _workspace(self, name: str) -> Workspace:
        writes = self.schedule.nodes[name].spec.is_output
        told = dataclasses.replace(
            tagged(self.workspace, self.schedule.values),
            on_file=lambda file: self.watch.tell("saved", name, message=str(file)),
        )
        return dataclasses.replace(told, metadata=with_plans(told.metadata, self.schedule.plans)) if writes else told

    def _values(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """A record's values, which of them stand for what was written, and its model."""
        meant = self.schedule.values.get(name, {})
        return {
            "values": {**given, **meant},
            "stand_ins": tuple(meant),
            "model": self.schedule.models.get(name),
        }

    def _inputs(self, name: str) -> dict[str, Any]:
        node = self.schedule.nodes[name]
        arguments = dict(node.values)
        for socket_name, link in node.links.items():
            value = self._linked(link)
            socket = node.spec.input(socket_name)
            assert socket is not None, f"{name} is resolved, so {socket_name} exists"
            if socket.type in PLAIN_TYPES:
                if found := fault(socket, value):
                    raise ValueError(found[1])
                value = as_type(socket.type, value)
            if isinstance(value, Model) and name in self.schedule.plans:
                value = with_plan(value, self.schedule.plans[name])
            arguments[socket_name] = value
        return arguments

    def _store(self, name: str, value: Any) -> None:
        # a node that acts without saying which files it made must act again next time
        spec = self.schedule.nodes[name].spec
        parts = value if isinstance(value, tuple) else (value,)
        acts = spec.is_output and not any(isinstance(part, Saved) for part in parts)
        if value is None or acts or name in self.schedule.uncached or not spec.is_kept:
            return
        for level in self.caches:
            if level == "disk":  # beside the nodes that follow; the run waits for it at its end
                self.keeping.submit(self._put, level, name, value)
            else:
                self._put(level, name, value)

    def _put(self, level: Cached, name: str, value: Any) -> None:
        try:
            self.caches[level].put(self.schedule.keys[name], value)
        except Exception as error:  # a cache never costs the run
            logger.warning("the result of %s was not kept in the %s cache: %s", name, level, error)

    def _collect(self) -> str | None:
        """Wait a little for one node to end and record it; its name, or None."""
        try:
            name, outcome = self.done.get(timeout=POLL_S)
        except queue.Empty:
            return None
        message = code = ""
        if outcome.error is not None:
            failure = self._fail(name, outcome.error)
            message, code = failure.sentence, failure.code
        elif outcome.state == "ok":
            uses_device = self.schedule.nodes[name].spec.uses_device
            self.num_for_device -= uses_device
            is_free = uses_device and not self.num_for_device
            self.watch.tell("finished", name, seconds=outcome.seconds, frees_device=is_free)
            self._release(name, outcome.value)
        elif outcome.state == "cancelled":
            self.watch.tell("cancelled", name, seconds=outcome.seconds)
        if outcome.state != "skipped":
            self.records[name] = NodeRecord(
                key=self.schedule.keys[name],
                state=outcome.state,
                seconds=outcome.seconds,
                peak_memory_bytes=outcome.peak_memory_bytes,
                plan=outcome.plan,
                ranks=outcome.ranks,
                **self._values(name, outcome.values),
                foreseen=self.watch.outlook.pace(name).foreseen,
                files=files_of(outcome.value),
                message=message,
                code=code,
            )
        else:
            self._skip(name)
        return name

    def _fail(self, name: str, error: BaseException) -> NodeFailed:
        node = self.schedule.nodes[name]
        failure = NodeFailed(name, node.spec, node.node.title, error, self.workspace.host)
        self.watch.tell("failed", name, message=failure.sentence, code=failure.code)
        self.failure = self.failure or failure
        return failure

    def _release(self, name: str, value: Any) -> None:
        """Keep a value while somebody needs it, and drop those of which this node was the last consumer."""
        if self.consumers[name] or name in self.kept:
            self.live[name] = value
        for source in self.schedule.sources[name]:
            self.consumers[source] -= 1
            if not self.consumers[source] and source not in self.kept:
                del self.live[source]

    def _skip_rest(self, todo: Collection[str]) -> None:
        for name in todo:
            if name not in self.records:
                self._skip(name)

    def _skip(self, name: str) -> None:
        lost = [s for s in self.schedule.sources[name] if s in self.records and self.records[s].state != "ok"]
        if self.failure is None:
            message = "the run was cancelled"
        elif lost:
            message = f"it needs {lost[0]}, which {self.records[lost[0]].state.replace('skipped', 'was skipped')}"
        else:
            message = f"the run stopped because {self.failure.node} failed"
        self.records[name] = NodeRecord(key=self.schedule.keys[name], state="skipped", message=message)
        self.watch.tell("skipped", name, message=message)

    def _tell_took(self) -> None:
        """What became of each prediction, once what follows the denoise is over, too."""
        for name, record in self.records.items():
            if record.foreseen is None or record.state != "ok":
                continue
            took = self._took(name, record)
            self.records[name] = dataclasses.replace(record, took=took)
            words = after(record.foreseen, took, is_kept="disk" in self.caches)
            logger.info("%s: %s", name, words)
            self.watch.tell("took", name, message=words, foreseen=record.foreseen, took=took)

    def _took(self, name: str, record: NodeRecord) -> Took:
        outlook = self.watch.outlook
        pace, encoders = outlook.pace(name), outlook.beside(name, "text")
        is_warm = not any(outlook.pace(other).has_loaded for other in encoders)
        texts = [self.records[other] for other in encoders]
        decoded = [self.records[other] for other in outlook.beside(name, "decoding")]
        return Took(
            steps=pace.done,
            step_s=pace.measured_s,
            steps_s=_warm_s(record) or 0.0,
            text_s=_sum_of(map(_warm_s, texts)) if is_warm else None,  # what follows loading takes many times as long
            decode_s=_sum_of(map(_warm_s, decoded)),
            num_bytes=max(map(_held_bytes, (record, *texts, *decoded))),
            is_busy=is_busy(len(record.ranks)),
        )

    def _result(self) -> RunResult:
        self._tell_took()
        states = {record.state for record in self.records.values()}
        if self.failure is not None:
            state: Literal["ok", "failed", "cancelled"] = "failed"
            self.watch.tell("run_failed", message=str(self.failure), code=self.failure.code)
        elif states <= {"ok"}:
            state = "ok"
            self.watch.tell("run_finished")
        else:
            state = "cancelled"
            self.watch.tell("run_cancelled")
        nodes = self.schedule.nodes
        found = {
            name: nodes[node].spec.part(self.live[node], output) if output else self.live[node]
            for name, (node, output) in self.schedule.results.items()
            if node in self.live
        }
        return RunResult(
            run=self.watch.run,
            state=state,
            outputs={name: value for name, value in found.items() if value is not None},
            nodes={name: self.records[name] for name in self.schedule.order},
            seconds=self.watch.seconds(),
            failure=self.failure,
            replicas=self.workspace.place.replicas,
            plans=self.schedule.plans,
            titles={name: nodes[name].node.title for name in self.schedule.order if "/" in name},
            parts={name: parts for name in self.schedule.order if (parts := parts_of(name, nodes))},
        )


def has_torch() -> bool:
    """Whether this process has loaded it: what needs it first waits for that."""
    return "torch" in sys.modules


def _warm_s(record: NodeRecord) -> float | None:
    """Of the stage that ranks, or this process, ran; loading is before it. None where none was run to its end."""
    return max((rank.seconds for rank in record.ranks), default=None) if record.state == "ok" else None


def _held_bytes(record: NodeRecord) -> int:
    """Of the rank that held most beyond what an idle one has; 0 where it was not measured."""
    return max((max(0, rank.peak_memory_bytes - rank.idle_bytes) for rank in record.ranks), default=0)


def _sum_of(seconds: Iterable[float | None]) -> float | None:
    """None where there is none, or one is not known."""
    found = list(seconds)
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None
