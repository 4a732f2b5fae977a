"""The server's end of the worker: started, heard, ended where a node holds it up, and begun anew when it died.

It dies with the server by the kernel, which kills it when the thread that started it ends; that thread hears it, and so
lives as long. A node that uses no device may take its time, but not the interpreter: one that lets nobody else work for
`LIMIT_S` of its thread's processor time costs the worker. What is stopped or starved uses none, and is waited for.
"""

import contextlib
import itertools
import logging
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, Literal

from ...nodes.execution.events import Event
from ...nodes.execution.failure import NodeFailed
from ...nodes.execution.watch import ENDS, Token
from ...parallel.errors import BadInput, LoomError, RankFailed
from ...parallel.pool.server_process import calling
from ...parallel.wording import worded
from ...pipelines import doors
from ...pipelines.components.memory import Held
from ..contract.shown import PlanMachine
from ..errors import Conflict
from ..live.state import Outcome
from .wire import Ask, Cancel, Counts, Line, Message, Order, Start, read_line, written
from .work import Tell, WorkerLost

LOOK_S = 0.1  # how often whoever waits for the worker looks whether its run is cancelled, or held up
SILENT_S = 3.0  # a worker says something three times as often
LOST_S = 60.0  # a worker that is silent for so long is not counted on; loading may keep it silent for less
LIMIT_S = 10.0
LOADED_S = 5.0
MEASURED_S = 300.0
END_S = 5.0  # for the worker to end its ranks

logger = logging.getLogger("latentloom")


NUMBERS = itertools.count(1)
# What one run, or one question, is told; None at the end of the worker. Where it is full, the worker has to wait, or a
# cancel would come behind all that was told before it.
Said = queue.Queue[Line | None]
MOST_SAID = 8


WorkState = Literal["ok", "starting", "worker", "ranks"]  # see ui/service/health.py


class _Process:
    """One worker, from its start to its end."""

    def __init__(self, start: Start) -> None:
        self.held: tuple[str, str] | None = None  # the run, and the node of it, for which it was ended
        self.refusal: Line | None = None  # why it could not begin
        self.is_alive = True
        self.counts: Counts | None = None  # the newest; None before it has begun
        self._listening: dict[str | int, Said] = {}
        self._small: dict[int, tuple[str, str]] = {}  # the nodes that use no device and work now, by their threads
        self._noted: dict[int, float] = {}  # of these threads the processor time, since the worker is silent
        self._heard = time.monotonic()
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._orders.put(written(start))
        begun: Future[subprocess.Popen[bytes]] = Future()
        threading.Thread(target=self._own, args=(begun,), name="worker", daemon=True).start()
        try:
            self._process = begun.result()
        except OSError as error:
            raise BadInput(
                "the process in which runs are made cannot be started ({}); end other programs, or look "
                "at this system's limits",
                error.strerror or error,
            ) from None

    @property
    def pid(self) -> int:
        return self._process.pid

    @contextlib.contextmanager
    def listening(self, to: str | int) -> Iterator[Said]:
        """What a run, or a question, is told while this is entered."""
        said: Said = queue.Queue(MOST_SAID)
        with self._lock:
            if self.is_alive:
                self._listening[to] = said
            else:
                said.put(None)
        try:
            yield said
        finally:
            with self._lock:
                self._listening.pop(to, None)

    @property
    def silence_s(self) -> float:
        """For how long nothing was heard of it."""
        return time.monotonic() - self._heard

    def send(self, order: Message) -> None:
        # never waits: a worker that is held up reads nothing
        self._orders.put(written(order))

    def end_if_held(self) -> None:
        """Kill the worker where a small node has kept it from saying and doing anything else for too long."""
        with self._lock:
            if self.silence_s < SILENT_S:
                self._noted.clear()
                return
            used = processor_s(self.pid) if self._small else {}
            for thread, whose in self._small.items():
                since = self._noted.setdefault(thread, used.get(thread, 0.0))
                if used.get(thread, 0.0) - since >= LIMIT_S and self.held is None:
                    self.held = whose
                    logger.error("node %r of run %s holds up all other work, so the worker is ended", *reversed(whose))
                    self._process.kill()

    def close(self) -> None:
        """End it in order, or else at once; returns when it is gone."""
        self._orders.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._process.kill()
        self._process.wait()

    def _own(self, begun: Future[subprocess.Popen[bytes]]) -> None:
        # the kernel kills the worker when the thread that started it ends, so this one lives as long as it does
        try:
            process = subprocess.Popen(
                calling(".ui.worker.program:main", os.getpid()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C in the terminal reaches the server, which decides
            )
        except OSError as error:
            begun.set_exception(error)
            return
        begun.set_result(process)
        orders, lines = process.stdin, process.stdout
        assert orders is not None and lines is not None, "they were asked for"
        # in a thread of its own: a worker that is held up does not read, and its pipe would fill, and hold this one up
        threading.Thread(target=self._write, args=(orders,), name="orders", daemon=True).start()
        try:
            with lines:
                for line in lines:
                    self._hear(read_line(line))
        except (OSError, ValueError):
            logger.error("the worker said what is not understood, and is ended", exc_info=True)
        finally:
            process.kill()
            process.wait()
            self._end()

    def _write(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), pipe:  # it is gone, as its thread sees
            while (order := self._orders.get()) is not None:
                pipe.write(order)
                pipe.flush()

    def _hear(self, line: Line) -> None:
        with self._lock:
            self._heard = time.monotonic()
            if line.counts is not None:
                self.counts = line.counts
            if line.event is not None:
                whose = (line.run, line.event.node)
                if line.event.kind in ENDS:
                    self._small = {thread: each for thread, each in self._small.items() if each != whose}
                if line.thread:
                    self._small[line.thread] = whose
            if line.error and not line.answer:  # of no question: of the start itself
                self.refusal = line
            to = line.run or line.answer
            said = self._listening.get(to)
        if said is not None:
            self._put(said, to, line)

    def _put(self, said: Said, to: str | int, line: Line | None) -> None:
        # Once there is room, or nobody listens any more: that it waits for room is what keeps a worker from telling
        # more than the server takes.
        while True:
            try:
                said.put(line, timeout=LOOK_S)
            except queue.Full:
                if self._listening.get(to) is said:
                    continue
            return

    def _end(self) -> None:
        with self._lock:
            self.is_alive = False
            waiting = dict(self._listening)
        self._orders.put(None)
        for to, said in waiting.items():
            self._put(said, to, None)


class WorkerProcess:
    """Makes runs, as `Here` does, in a process of its own, which starts with the first run, or `start`."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._was_refused = False
        self.starts = 0  # how many workers there were
        self._ended_restarts = 0  # of ranks of workers that have ended

    @property
    def restarts(self) -> int:
        """How many ranks were replaced by others."""
        counts = self._process.counts if self._process is not None else None
        return self._ended_restarts + (counts.restarts if counts is not None else 0)

    def state(self) -> WorkState:
        """Whether runs are made. A worker that has died is begun anew: `ok` comes with what that says first."""
        if (process := self._process) is None or not process.is_alive:
            self._was_refused = process is not None and process.refusal is not None
            try:
                process = self.start()
            except ValueError:
                return "worker"
        if (counts := process.counts) is None:
            return "worker" if self._was_refused else "starting"
        if process.silence_s > LOST_S:
            return "worker"
        return "ranks" if counts.are_failing else "ok"

    @property
    def pid(self) -> int:
        """0 where none is running."""
        return self._process.pid if self._process is not None and self._process.is_alive else 0

    def start(self) -> _Process:
        """The worker, begun anew where it has ended. Raises `ValueError` where the system has no room for it."""
        with self._lock:
            if self._process is None or not self._process.is_alive:
                self._ended_restarts = self.restarts
                self.starts += 1
                self._process = _Process(Start(cache_dir=self._cache_dir, doors=doors.order()))
            return self._process

    def make(self, order: Order, tell: Tell, cancel: Token) -> Outcome:
        """Raises `WorkerLost`, or what keeps the run from beginning."""
        process = self.start()
        is_cancel_sent = False
        with process.listening(order.run) as said:
            process.send(order)
            while True:
                if cancel.is_set() and not is_cancel_sent:
                    process.send(Cancel(cancel=order.run))
                    is_cancel_sent = True
                try:
                    line = said.get(timeout=LOOK_S)
                except queue.Empty:
                    process.end_if_held()
                    continue
                if line is None:
                    return _without(process, order.run, tell)
                if line.outcome is not None:
                    return line.outcome
                try:
                    tell(line)
                except Exception:
                    logger.warning("what run %s told was lost; the run goes on", order.run, exc_info=True)

    def loaded(self) -> Sequence[Held]:
        """Nothing where there is no worker, or it is too busy to tell."""
        if not self.pid:
            return []
        try:
            return [Held(**each) for each in self._ask("loaded", LOADED_S)]
        except (LoomError, ValueError):
            return []

    def measured(self) -> PlanMachine:
        return PlanMachine.model_validate(self._ask("measured", MEASURED_S))

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.close()

    def _ask(self, what: Literal["loaded", "measured"], timeout_s: float) -> Any:
        # raises what the worker raised, by its code: classes do not go along
        process, number = self.start(), next(NUMBERS)
        with process.listening(number) as said:
            process.send(Ask(ask=number, what=what))
            try:
                line = said.get(timeout=timeout_s)
            except queue.Empty:
                raise RankFailed(worded("the worker did not answer in {:g} s; try again", timeout_s)) from None
        if line is None:
            raise RankFailed("the worker ended meanwhile; try again")
        if line.code:
            raise next((kind for kind in (Conflict, RankFailed) if kind.code == line.code), LoomError)(line.error)
        return line.value


def _without(process: _Process, run: str, tell: Tell) -> Outcome:
    """How a run ends whose worker is gone: in a sentence. Raises `WorkerLost` where that is not the run's fault."""
    if process.refusal is not None:
        return Outcome(state="failed", error=process.refusal.error, code=process.refusal.code)
    if process.held is None or process.held[0] != run:
        raise WorkerLost(is_blamed=process.held is None)
    _, node = process.held
    why = worded("it let nothing else work for {:g} s of processor time, so it was ended; give it less to do", LIMIT_S)
    tell(Line(run=run, event=Event(kind="failed", run=run, node=node, message=why, code=NodeFailed.code)))
    return Outcome(state="failed", error=f"node {node!r}: {why}", code=NodeFailed.code)


def processor_s(pid: int) -> dict[int, float]:
    """Seconds of the processor that each thread of a process has had; none of one that is gone."""
    import psutil

    try:
        return {each.id: each.user_time + each.system_time for each in psutil.Process(pid).threads()}
    except psutil.Error:
        return {}
