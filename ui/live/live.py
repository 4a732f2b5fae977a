"""What pages watch: the newest state of all runs, and what of it changed since a page last looked.

Every change gets the next number of one counter, and a page is told all that has a higher number than what it saw, so
a slow page gets the newest state and never a backlog.
"""

import asyncio
import contextlib
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...parallel.machine.now import DeviceNow
from ..contract.run import LiveMessage, NodeState, QueuePlace
from .state import RunRecord

KEPT_RUNS = 200  # runs that are over and still told to a page that connects; older ones are asked for over HTTP
# Of the runs that are told of, so many with their nodes; and so many of those that wait, the others once they
# begin.
KEPT_NODES = 20
KEPT_REMOVALS = 1000


@dataclass
class PageSeen:
    """What one page has been told; `Live.changes` moves it on."""

    number: int = -1


@dataclass
class _WatchedRun:
    """A run with the number of the last change of its head and of each node."""

    run: RunRecord
    number: int
    time_ms: int
    nodes: dict[str, NodeState] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


class RunWatcher:
    """One page's bell: set from any thread, awaited in the event loop that made it."""

    def __init__(self, user: str) -> None:
        self.user = user
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._is_rung = False

    def ring(self) -> None:
        # From any thread, once until somebody has waited: a batch of runs changes hundreds of nodes at once.
        if not self._is_rung:
            self._is_rung = True
            with contextlib.suppress(RuntimeError):  # the loop ended with the server
                self._loop.call_soon_threadsafe(self._rung.set)

    async def changed(self, timeout_s: float) -> bool:
        """Wait until something may have changed since the last call; False when the time ran out."""
        try:
            await asyncio.wait_for(self._rung.wait(), timeout_s)
        except TimeoutError:
            return False
        # Cleared before the page looks: what changes while it does rings again, and is told in the next turn.
        self._rung.clear()
        self._is_rung = False
        return True


class Live:
    """Threads of runs put changes in, tasks of pages take them out."""

    def __init__(self) -> None:
        self.server = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._number = 0
        self._runs: dict[str, _WatchedRun] = {}
        self._removed: deque[tuple[int, str, str]] = deque(maxlen=KEPT_REMOVALS)
        self._forgotten = -1  # the newest number among removals that are no longer remembered
        self._queue: tuple[tuple[str, QueuePlace], ...] = ()
        self._queue_number = 0
        self._devices: list[DeviceNow] = []
        self._devices_number = 0
        self._counters: dict[str, Counter[str]] = {}
        self._counter_numbers: Counter[str] = Counter()
        self._watchers: set[RunWatcher] = set()

    def put_run(self, run: RunRecord) -> None:
        """A run is new, or its state changed; its nodes replace those known."""
        with self._lock:
            known = self._runs.get(run.id)
            others = (w.run for w in self._runs.values() if w.run.user == run.user and w.run.state == "waiting")
            is_far_behind = run.state == "waiting" and sum(1 for _ in others) >= KEPT_NODES
            nodes = {} if is_far_behind else dict(run.nodes)
            head = run.model_copy(update={"nodes": {}})
            # numbers of nodes that stayed as they were are kept: else each change of a run would tell all of them again
            watched = _WatchedRun(head, self._next(), int(time.time() * 1000), nodes, known.numbers if known else {})
            changed = [name for name, node in nodes.items() if known is None or known.nodes.get(name) != node]
            watched.numbers |= dict.fromkeys(changed, self._number)
            self._runs[run.id] = watched
            if run.is_over:
                self._forget_old(run.user)
            self._ring(run.user)

    def put_node(self, run_id: str, name: str, node: NodeState) -> None:
        with self._lock:
            if (watched := self._runs.get(run_id)) is None:
                return
            watched.nodes[name] = node
            watched.numbers[name] = watched.number = self._next()
            watched.time_ms = int(time.time() * 1000)
            self._ring(watched.run.user)

    def remove_run(self, user: str, run_id: str) -> None:
        with self._lock:
            self._runs.pop(run_id, None)
            # What falls out of the list is unknown to a page that saw less than its number: that page is told all anew.
            if len(self._removed) == KEPT_REMOVALS:
                self._forgotten = self._removed[0][0]
            self._removed.append((self._next(), user, run_id))
            self._ring(user)

    def put_queue(self, places: Sequence[tuple[str, QueuePlace]]) -> None:
        """Whose each is, and the place as its user sees it."""
        with self._lock:
            if tuple(places) != self._queue:
                self._queue = tuple(places)
                self._queue_number = self._next()
                self._ring()

    def put_devices(self, devices: list[DeviceNow]) -> None:
        with self._lock:
            if devices != self._devices:
                self._devices = devices
                self._devices_number = self._next()
                self._ring()

    def count(self, user: str, what: str) -> None:
        """The user's `library`, `results` or `downloads` changed."""
        with self._lock:
            self._counters.setdefault(user, Counter())[what] += 1
            self._counter_numbers[user] = self._next()
            self._ring(user)

    def changes(self, user: str, seen: PageSeen) -> LiveMessage | None:
        """What a page of this user has not been told yet; None when that is nothing. Everything at first."""
        with self._lock:
            is_full = seen.number < self._forgotten or seen.number < 0
            since = -1 if is_full else seen.number
            watched = {id: w for id, w in self._runs.items() if w.run.user == user and w.number > since}
            removed = [] if is_full else [id for number, owner, id in self._removed if owner == user and number > since]
            is_told = max(self._queue_number, self._devices_number, self._counter_numbers[user]) <= since
            seen.number = self._number  # of other users' changes, too, or the next look would go through them again
            if is_told and not watched and not removed:
                return None
            times = [w.time_ms for w in watched.values()]
            counters = self._counters.get(user, Counter())
            return LiveMessage(
                seq=self._number,
                full=is_full,
                t=max(times, default=int(time.time() * 1000)),
                server=self.server,
                runs={
                    id: w.run.told(w.nodes, changed=[name for name in w.nodes if w.numbers[name] > since])
                    for id, w in watched.items()
                },
                removed=removed,
                library=counters["library"],
                results=counters["results"],
                downloads=counters["downloads"],
                queue=[_seen_by(user, *each) for each in self._queue] if self._queue_number > since else None,
                devices=self._devices if self._devices_number > since else None,
            )

    @contextlib.contextmanager
    def watching(self, user: str) -> Iterator[RunWatcher]:
        """A bell for a page of this user; open it inside the page's event loop."""
        watcher = RunWatcher(user)
        with self._lock:
            self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            with self._lock:
                self._watchers.discard(watcher)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ring(self, user: str | None = None) -> None:
        for watcher in self._watchers:
            if user is None or watcher.user == user:
                watcher.ring()

    def _forget_old(self, user: str) -> None:
        over = [w for w in self._runs.values() if w.run.user == user and w.run.is_over]
        over.sort(key=lambda w: w.number, reverse=True)  # not by time: a clock may be set back
        for watched in over[KEPT_NODES:]:
            watched.nodes, watched.numbers = {}, {}
        for watched in over[KEPT_RUNS:]:
            del self._runs[watched.run.id]


def _seen_by(user: str, owner: str, place: QueuePlace) -> QueuePlace:
    if user == owner:
        return place
    return QueuePlace(id=None, is_mine=False, state=place.state, name="", left_s=place.left_s, left_at=place.left_at)
