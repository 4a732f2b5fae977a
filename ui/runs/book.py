"""All runs that the server knows, and every change of their state: kept on the disk first, then told to the pages.

The one place that changes a run: whoever reads gets frozen copies, and what a page was told is on the disk already.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...nodes.execution.events import Event
from ...nodes.graph.graph import Graph
from ..contract.run import Priority, QueuePlace
from ..errors import Conflict
from ..live import state
from ..live.lines import RunLines
from ..live.live import Live
from ..live.state import MadeFile, Outcome, RunRecord
from ..store.user_files import nothing
from .once import Answered, Answers
from .queue import RunQueue
from .records import RunRecords
from .tally import Tally

logger = logging.getLogger("latentloom")


class RunBook:
    """Threads share it. A run that is over is held without its nodes; they are read again when asked for.

    What is asked of a run or result that is not there, or another user's, raises `NotHere`.
    """

    def __init__(self, records: RunRecords, live: Live) -> None:
        self.records = records
        self._live = live
        self._lock = threading.RLock()
        self._runs: dict[str, RunRecord] = {}
        self._queue = RunQueue(records.write_order)
        self.tally = Tally()
        self._makers: dict[str, str] = {}  # the run of each result
        self.answers = Answers()
        self.lines = RunLines()
        self._took: dict[str, float] = {}  # seconds of the newest run of each batch that was made
        # The cancel tokens of the runs under way, in the order in which they began.
        self._cancels: dict[str, threading.Event] = {}
        self._recover()

    def of(self, user: str) -> list[RunRecord]:
        """The user's runs, newest first."""
        with self._lock:
            return [run for run in reversed(self._runs.values()) if run.user == user]

    def get(self, user: str, id: str) -> RunRecord:
        with self._lock:
            run = self._runs.get(id)
        if run is None or run.user != user:
            raise nothing(id, "run")
        return run

    def with_nodes(self, run: RunRecord) -> RunRecord:
        """The run with what became of its nodes."""
        if run.nodes or not run.is_over or (kept := self.records.read(run.user, run.id)) is None:
            return run
        return run.model_copy(update={"nodes": kept.nodes})

    def maker(self, user: str, made_id: str) -> RunRecord:
        """The run that made a result. Raises `NotHere`."""
        with self._lock:
            run = self._runs.get(self._makers.get(made_id, ""))
        if run is None or run.user != user:
            raise nothing(made_id, "result")
        return run

    @property
    def is_idle(self) -> bool:
        """Whether a new run would begin at once."""
        with self._lock:
            return not self._cancels and not self._queue.waiting

    def queue(self) -> tuple[list[RunRecord], list[RunRecord], float]:
        """The runs that wait, those under way, and the seconds that all of them take yet, where these are known."""
        with self._lock:
            waiting, running = ([self._runs[id] for id in ids] for ids in (self._queue.ids, self._cancels))
            now = time.time()
            left = [(place.left_s or 0.0, place.left_at or now) for place in map(self._place, (*waiting, *running))]
            return waiting, running, sum(max(0.0, seconds - (now - at)) for seconds, at in left)

    def num_waiting(self, user: str) -> int:
        with self._lock:
            return sum(run.user == user for run in self._queue.waiting)

    def add(self, runs: Sequence[RunRecord], graph: Graph, answered: Answered | None = None) -> None:
        """New runs of one batch at the end of the queue; all of them or none. Raises `ValueError`."""
        user, batch = runs[0].user, runs[0].batch
        try:
            self.records.write_graph(user, batch, graph)
            for run in runs:
                self.records.write(run)
            if answered is not None:  # last: without it a server was killed that had told nobody of the runs
                self.records.write_answer(answered)
                self.answers.hold(answered)
            with self._lock:
                self._queue.add(runs)
                for run in runs:
                    self._hold(run)
                self._show_queue()
        except ValueError:
            # half a batch would run after the next start, though its user was told that none does
            for run in runs:
                self.records.remove(user, run.id)
            self._forget_batch(user, batch)
            raise

    def begin_next(self, fits: Callable[[RunRecord], bool]) -> tuple[RunRecord, threading.Event] | None:
        """The first of the queue is running from now on; None when nobody waits, or it does not fit."""
        with self._lock:
            if not self._queue.waiting or not fits(self._runs[id := self._queue.waiting[0].id]):
                return None
            self._queue.take()
            run = self._runs[id].model_copy(update={"state": "running", "started": time.time(), "is_back": False})
            self._cancels[id] = threading.Event()
            self._put(run)
            self._show_queue()
            self.tally.begin(run)
            return run, self._cancels[id]

    def tell(self, id: str, event: Event) -> None:
        """An event of a node of a run that is running."""
        with self._lock:
            run = self._runs.get(id)
            if run is None or run.is_over:
                return
            self.lines.add(run, event)
            if event.node not in run.nodes:
                return
            node = state.after(run.nodes[event.node], event, now=time.time())
            self._runs[id] = run.model_copy(update={"nodes": {**run.nodes, event.node: node}})
            self._live.put_node(id, event.node, node)
            if event.kind == "foreseen":
                self._show_queue()

    def add_made(self, id: str, made: MadeFile) -> None:
        """A run under way has made a file; its record says so when the run is over."""
        with self._lock:
            run = self._runs.get(id)
            if run is None or run.is_over or made.node not in run.nodes:
                return
            self.lines.add_made(run, made)
            self._hold(state.with_results(run, (*run.made, made)), is_kept=False)

    def end(self, id: str, outcome: Outcome) -> None:
        with self._lock:
            run = state.ended(self._runs[id], state.with_marks(outcome, self._runs[id].made), now=time.time())
            self._cancels.pop(id, None)
            if run.state == "done":
                self._took[run.batch] = run.seconds
            self._put(run)
            self._show_queue()

    def begin_again(self, id: str, *, is_blamed: bool) -> None:
        """What made a run is gone: it waits again, before all others, and is given up when `is_blamed` too often."""
        with self._lock:
            before = self._runs[id]
            self._cancels.pop(id, None)
            is_counted = is_blamed or before.is_ending
            again = state.recovered(before, now=time.time()) if is_counted else state.set_back(before)
            self._put(again)
            if again.state == "waiting":
                self._queue.add([again])
                self.tally.begin_again()
            self._show_queue()

    def cancel(self, user: str, ids: Sequence[str] | None = None) -> list[str]:
        """These runs of the user's, or all of his; those that are cancelled now. A waiting run is over; a running one
        ends at its next step. Raises `NotHere` before any is."""
        with self._lock:  # of all of them at once, or one would begin while another is taken out
            asked = self.of(user) if ids is None else [self.get(user, id) for id in dict.fromkeys(ids)]
            runs = [run for run in asked if not run.is_over]
            waiting = [run for run in runs if run.state == "waiting"]
            self._queue.remove({run.id for run in waiting})
            for run in waiting:
                self._put(state.ended(run, Outcome(state="cancelled"), now=time.time()))
            for run in runs:
                if run.state == "running":
                    self._put(run.model_copy(update={"is_ending": True}))
                    self._cancels[run.id].set()
            if waiting:
                self._show_queue()
            return [run.id for run in runs]

    def move(self, user: str, id: str, before: str | None) -> None:
        """Put a waiting run before another of the same user, or behind all of them, with the priority of that one."""
        with self._lock:
            self._check_waiting(user, [id, *filter(None, [before])])
            self._queue.move(id, before, user)
            self._keep_priorities()

    def set_priority(self, user: str, ids: Sequence[str], priority: Priority) -> None:
        """Of runs that wait: all of them or none. Raises `NotHere` and `Conflict`."""
        with self._lock:
            self._check_waiting(user, ids)
            self._queue.set_priority(set(ids), priority)
            self._keep_priorities()

    def _check_waiting(self, user: str, ids: Sequence[str]) -> None:
        if any(self.get(user, id).state != "waiting" for id in ids):
            raise Conflict("one of these runs does not wait any more; look at the queue again")

    def _keep_priorities(self) -> None:
        for each in self._queue.waiting:
            if (run := self._runs[each.id]).priority != each.priority:
                self._put(run.model_copy(update={"priority": each.priority}))
        self._show_queue()

    def remove(self, user: str, id: str) -> RunRecord:
        """Forget a run that does not run; its record, with its nodes' states. Its files are the caller's matter."""
        with self._lock:
            run = self.get(user, id)
            if run.state == "running":
                raise Conflict("the run is running; cancel it first, then delete it")
            self._queue.remove({id})
            self.records.remove(user, id)
            del self._runs[id]
            for made in run.made:
                self._makers.pop(made.id, None)
            self._count_made(run, run.model_copy(update={"made": ()}))
            if not any(each.batch == run.batch for each in self._runs.values()):
                self._forget_batch(user, run.batch)
            self._live.remove_run(user, id)
            self._show_queue()
        return run

    def _forget_batch(self, user: str, batch: str) -> None:
        self.records.remove_graph(user, batch)
        self.answers.forget(user, batch)
        self._took.pop(batch, None)

    def forget_made(self, user: str, id: str, made_id: str) -> None:
        with self._lock:
            run = self.with_nodes(self.get(user, id))
            self._put(state.with_results(run, (each for each in run.made if each.id != made_id)))

    def mark(self, user: str, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Change what a user says of results, by id. Raises `NotHere` before any is, `ValueError` of a full disk."""
        with self._lock:
            runs = {run.id: run for run in (self.maker(user, id) for id in changes)}
            for run in runs.values():
                made = tuple(each.model_copy(update=changes.get(each.id, {})) for each in run.made)
                marked = self.with_nodes(run).model_copy(update={"made": made})
                if marked.is_over:
                    self.records.write(marked)
                self._runs[run.id] = marked.model_copy(update={"nodes": run.nodes})
        self._live.count(user, "results")

    def stop_all(self) -> None:
        """Runs under way end at their next step, for a server that was asked to end."""
        with self._lock:
            # The disk knows them as waiting, before all others: it is not their fault, however long their step takes.
            try:
                self.records.write_order([*self._cancels, *self._queue.ids])
                for run in [self._runs[id] for id in self._cancels]:
                    if not run.is_ending:
                        self.records.write(state.set_back(run))
            except ValueError as error:  # then they count as runs of a server that was killed
                logger.warning("the runs under way were not put back into the queue: %s", error)
            for cancel in self._cancels.values():
                cancel.set()

    def _put(self, run: RunRecord) -> None:
        try:
            self.records.write(run)
        except ValueError as error:  # the run itself goes on; only a restart would not know
            logger.warning("the state of run %s was not kept: %s", run.id, error)
            run = run.model_copy(update={"note": f"its state was not kept: {error}"})
            self._hold(run, is_kept=False)
        else:
            self._hold(run)

    def _hold(self, run: RunRecord, *, is_kept: bool = True) -> None:
        # nodes of runs that are over stay on the disk alone, if they are there
        before = self._runs.get(run.id)
        self._count_made(before, run)
        if before and run.is_over and not before.is_over:
            self.tally.end(run)
        for made in before.made if before else ():
            self._makers.pop(made.id, None)
        self._runs[run.id] = run.model_copy(update={"nodes": {}}) if run.is_over and is_kept else run
        self._makers |= {made.id: run.id for made in run.made}
        self._live.put_run(run)

    def _count_made(self, before: RunRecord | None, run: RunRecord) -> None:
        old = before.made if before else ()
        num_bytes = sum(made.bytes for made in run.made) - sum(made.bytes for made in old)
        self.records.quota.add(run.user, "results", num_bytes=num_bytes, count=len(run.made) - len(old))
        if before and (old or run.made):  # also of what stays: the run's seconds and plan are told with it
            self._live.count(run.user, "results")

    def _show_queue(self) -> None:
        runs = [self._runs[id] for id in (*self._cancels, *self._queue.ids)]
        self._live.put_queue([(run.user, self._place(run)) for run in runs])

    def _place(self, run: RunRecord) -> QueuePlace:
        # of a run that waits its seconds are those that the others of its batch took, else as predicted
        left_s, left_at = self._took.get(run.batch, run.predicted_s), 0.0
        if run.state == "running":
            known = state.progress(run.nodes.values())
            began = run.started or time.time()
            left_s, left_at = (known["left_s"], known["left_at"]) if known["left_s"] is not None else (left_s, began)
        told = run.model_dump(include={"id", "state", "name", "priority"})
        return QueuePlace(**told, is_mine=True, left_s=left_s, left_at=left_at)

    def _recover(self) -> None:
        for known in self.records.answers():
            self.answers.hold(known)
        found = sorted(self.records.all(), key=lambda run: run.created)
        untold = {run.id: run for run in found if run.state == "waiting" and not self.records.is_answered(run)}
        for run in untold.values():  # whoever asked for it asks again
            self.records.remove(run.user, run.id)
            self.records.remove_graph(run.user, run.batch)
        found = [run for run in found if run.id not in untold]
        for run in found:
            if run.state == "running":
                self._put(state.recovered(run, now=time.time()))
            else:
                self._hold(run)
        order = state.order_of(found, self.records.read_order())
        if waiting := [self._runs[id] for id in order if self._runs[id].state == "waiting"]:
            self._queue.add(waiting)
        self._show_queue()
