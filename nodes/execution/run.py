"""The executor: calls the nodes a result needs, in order, each at most once, and tells what happens."""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from typing import Any, Literal

from ...parallel.errors import Cancelled
from ...parallel.machine.logs import about
from ...parallel.progress import peak, reset_peak
from ...pipelines.values import Model
from ..files.workspace import HERE, Workspace
from ..graph.graph import Link
from ..graph.ready import Ready
from ..graph.scalars import PLAIN_TYPES, as_type, fault
from ..graph.spec import Saved, files_of
from ..graph.unfolding.unfolded import parts_of
from ..preview.carried import with_plan, with_plans
from ..preview.meant import tagged
from .cache import Cache, Share
from .events import OfRun, Sink
from .failure import NodeFailed
from .outlook import outlook_of
from .records import Cached, NodeRecord, RunResult, devices_in_use, has_torch
from .schedule import Schedule, schedule
from .watch import NodeProgress, Token, Watch

RUN_ENDS: Mapping[str, OfRun] = {"ok": "run_finished", "failed": "run_failed", "cancelled": "run_cancelled"}
CPU_THREADS = 4
POLL_S = 0.2  # how often a waiting run looks at its cancel token, and at Ctrl-C where waiting blocks signals (Windows)

# What a worker thread hands back: a node, what became of it or None where it was not begun, what it gave, and why it
# failed.
_Ended = tuple[str, NodeRecord | None, Any, BaseException | None]

logger = logging.getLogger("latentloom")


def run(
    ready: Ready,
    *,
    workspace: Workspace = HERE,
    # watching and ending
    sink: Sink = lambda event: None,
    cancel: Token | None = None,
    previews: bool = False,
    run_id: str = "",
    # what to reuse and what to make
    memory_cache: Cache | None = None,
    disk_cache: Cache | None = None,
    targets: Collection[str] | None = None,
) -> RunResult:
    """Run a workflow. Raises `GraphError` when it is wrong; a node's failure is in the result.

    `targets` names outputs or nodes; without it, all declared outputs and all nodes that act are made. A workflow
    that only acts has no outputs; the files are in the records. `run_id` is told in events and logs; without it the run
    gets one of its own.
    """
    keeper = memory_cache.owner if isinstance(memory_cache, Share) else ""
    watch = Watch(sink, cancel or threading.Event(), previews, keeper=keeper, run=run_id)
    with about(run=watch.run):
        try:
            heard = partial(NodeProgress, watch=watch)
            needed = schedule(ready, workspace=workspace, targets=targets, progress_of=heard)
        except NodeFailed as failure:
            return _ended_early(watch, failure)
        except Cancelled:
            return _ended_early(watch, None)
        levels: dict[Cached, Cache | None] = {"memory": memory_cache, "disk": disk_cache}  # the quicker one first
        caches = {level: cache for level, cache in levels.items() if cache is not None}
        return _Session(needed, caches, workspace, watch).run()


def _ended_early(watch: Watch, failure: NodeFailed | None) -> RunResult:
    """A run of which no node was begun: one of them was refused, or the run was cancelled."""
    watch.tell("run_started")
    records: dict[str, NodeRecord] = {}
    if failure is None:
        watch.tell("run_cancelled")
    else:
        told = {"message": failure.sentence, "code": failure.code}
        watch.tell("failed", failure.node, **told)
        watch.tell("run_failed", message=str(failure), code=failure.code)
        records[failure.node] = NodeRecord(key="", state="failed", **told)
    state = "failed" if failure else "cancelled"
    return RunResult(run=watch.run, state=state, outputs={}, nodes=records, seconds=watch.seconds(), failure=failure)


class _Session:
    """One run. Only `_work` and what it calls happen in worker threads: all else is the caller's thread's own, so that
    no lock is needed for what is live, recorded and counted."""

    def __init__(self, needed: Schedule, caches: Mapping[Cached, Cache], workspace: Workspace, watch: Watch) -> None:
        self.schedule = needed
        self.caches = caches
        self.workspace = workspace
        self.watch = watch
        self.live: dict[str, Any] = {}
        self.records: dict[str, NodeRecord] = {}
        self.failure: NodeFailed | None = None
        self.done: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
        self.keeping = ThreadPoolExecutor(1, "keeping")
        self.kept = frozenset(node for node, _ in needed.results.values())
        self.todo = self._take_cached()
        watch.outlook = outlook_of(needed, self.todo)
        self.consumers = Counter(source for name in self.todo for source in needed.sources[name])
        self.num_for_device = sum(needed.nodes[name].spec.uses_device for name in self.todo)

    def run(self) -> RunResult:
        self._execute()
        for name in self.todo:
            if name not in self.records:
                self._skip(name)
        return self._result()

    def _take_cached(self) -> dict[str, None]:
        """What must run, in order. All else is recorded."""
        self.watch.tell("run_started", total=len(self.schedule.order))
        needed, levels = set(self.schedule.targets), dict[str, Cached]()
        for name in reversed(self.schedule.order):  # from the results on: what feeds only cached nodes is not needed
            levels[name] = self._look_up(name) if name in needed else "unneeded"
            if levels[name] == "no":
                needed.update(self.schedule.sources[name])
        for name in self.schedule.order:
            if (level := levels[name]) != "no":
                record = self._record(name, {**self.schedule.brought.get(name, {}), **self.schedule.nodes[name].values})
                self.records[name] = replace(record, cached=level, files=files_of(self.live.get(name)))
                self.watch.tell("cached", name, message=level)
        return {name: None for name in self.schedule.order if levels[name] == "no"}

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

    def _record(self, name: str, values: Mapping[str, Any]) -> NodeRecord:
        """With the values that were given, those that stand for what was written, and the model that the node gives."""
        meant = self.schedule.values.get(name, {})
        key, model = self.schedule.keys[name], self.schedule.models.get(name)
        return NodeRecord(key=key, state="ok", values={**values, **meant}, stand_ins=tuple(meant), model=model)

    def _execute(self) -> None:
        sorter = TopologicalSorter({n: [s for s in self.schedule.sources[n] if s in self.todo] for n in self.todo})
        sorter.prepare()
        with (
            self.keeping,
            ThreadPoolExecutor(1, "device") as device,
            ThreadPoolExecutor(1, "beside") as beside,
            ThreadPoolExecutor(CPU_THREADS, "cpu") as cpu,
        ):
            lanes = {"device": device, "beside": beside, "cpu": cpu}
            num_running = 0
            try:
                while sorter.is_active():
                    for name in () if self._is_ending() else sorter.get_ready():
                        with about(node=name):  # also of what its thread logs
                            lanes[self._lane(name)].submit(copy_context().run, self._work, name)
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
        """Where a node works: one at a time of those that use the device."""
        node = self.schedule.nodes[name]
        if not node.spec.uses_device:
            return "cpu"
        given = (self._linked(link) for link in node.links.values())
        # ranks order their work themselves, and encode and decode beside the steps of another denoise
        has_ranks = any(isinstance(value, Model) and value.place.devices for value in given)
        return "beside" if has_ranks and node.spec.denoises is None else "device"

    def _linked(self, link: Link) -> Any:
        return self.schedule.nodes[link.node].spec.part(self.live[link.node], link.socket)

    def _is_ending(self) -> bool:
        return self.failure is not None or self.watch.is_cancelled()

    def _work(self, name: str) -> None:
        """In a worker thread: puts exactly one end into the queue, or the run would wait for ever."""
        if self._is_ending():
            self.done.put((name, None, None, None))
            return
        self.watch.tell("started", name)
        start = time.perf_counter()
        spec, progress = self.schedule.nodes[name].spec, NodeProgress(name, self.watch)
        record, value, failed = self._record(name, self.schedule.nodes[name].values), None, None
        try:
            if spec.uses_device and not has_torch():
                progress.phase("loading PyTorch", is_loading=True)  # which takes longer than what the node does with it
            # Nodes that use a device come one at a time, but for those whose ranks measure for themselves, so that
            # none disturbs what is measured of another.
            for device in devices_in_use() if spec.uses_device else ():
                reset_peak(device)
            inputs = self._inputs(name)
            plain = {each.name: inputs[each.name] for each in spec.inputs if each.type in PLAIN_TYPES}
            record = self._record(name, plain)
            workspace, depth = self._workspace(name), self.schedule.depths.get(name, "floats")
            value = spec.make(inputs, progress=progress, workspace=workspace, depth=depth)
            most_bytes = max(map(peak, devices_in_use())) if spec.uses_device else 0
            seconds = time.perf_counter() - start  # without what keeping takes
            self._store(name, value)
            most_bytes = max((rank.peak_memory_bytes for rank in progress.ranks), default=0) or most_bytes
            told = {"plan": progress.plan, "ranks": progress.ranks, "files": files_of(value)}
            record = replace(record, peak_memory_bytes=most_bytes, **told)
        except Cancelled:
            seconds, record = time.perf_counter() - start, replace(record, state="cancelled")
        except BaseException as error:
            seconds, record, failed = time.perf_counter() - start, replace(record, state="failed"), error
        told = {"foreseen": progress.pace.foreseen, "recoveries": progress.recoveries}
        self.done.put((name, replace(record, seconds=seconds, **told), value, failed))

    def _workspace(self, name: str) -> Workspace:
        told = tagged(self.workspace, self.schedule.values)
        if self.schedule.nodes[name].spec.is_output:
            told = replace(told, metadata=with_plans(told.metadata, self.schedule.plans))
        return replace(told, on_file=lambda file: self.watch.tell("saved", name, message=str(file)))

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
                self.keeping.submit(copy_context().run, self._put, level, name, value)
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
            name, record, value, error = self.done.get(timeout=POLL_S)
        except queue.Empty:
            return None
        node = self.schedule.nodes[name]
        if record is None:
            self._skip(name)
            return name
        if error is not None:
            failure = NodeFailed(name, node.spec, node.node.title, error, self.workspace.host)
            self.failure = self.failure or failure
            record = replace(record, message=failure.sentence, code=failure.code)
            self.watch.tell("failed", name, message=failure.sentence, code=failure.code)
        elif record.state == "ok":
            self.num_for_device -= node.spec.uses_device
            is_free = node.spec.uses_device and not self.num_for_device
            self.watch.tell("finished", name, seconds=record.seconds, frees_device=is_free)
            self._release(name, value)
        else:
            self.watch.tell("cancelled", name, seconds=record.seconds)
        self.records[name] = record
        return name

    def _release(self, name: str, value: Any) -> None:
        """Keep a value while somebody needs it, and drop those of which this node was the last consumer."""
        if self.consumers[name] or name in self.kept:
            self.live[name] = value
        for source in self.schedule.sources[name]:
            self.consumers[source] -= 1
            if not self.consumers[source] and source not in self.kept:
                del self.live[source]

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

    def _result(self) -> RunResult:
        # once what follows a denoise is over, too, which its prediction tells of
        self.records |= self.watch.tell_took(self.records, is_kept="disk" in self.caches)
        states = {record.state for record in self.records.values()}
        state = "failed" if self.failure else "ok" if states <= {"ok"} else "cancelled"
        told = {"message": str(self.failure), "code": self.failure.code} if self.failure else {}
        self.watch.tell(RUN_ENDS[state], **told)
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
