"""What users were shown of models on the hub, and the downloads of these as the server keeps them on disk.

A user can ask for what he was shown alone, at that commit, and where there is room.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ...parallel.wording import worded
from ...pipelines.hub.child import LOOK_S, looked_at
from ...pipelines.hub.fetching import free_bytes, had_bytes
from ...pipelines.hub.look import HubModel, NotFetched
from ...pipelines.models.source import home_of, hub_cache
from ..contract.kept import DownloadState
from ..errors import Conflict, NoRoom
from ..store.quota import FREE_BYTES, sized
from ..store.user_files import ID, put_aside, read_record

MOST_AT_ONCE = 4  # looks of all users; each has one
MOST_KEPT = 32  # of each user
PACE_S = 8.0  # how much of the past tells how fast it goes


class Looks:
    """What users were shown. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._seen: OrderedDict[tuple[str, str, str], HubModel] = OrderedDict()  # by user, id and revision

    def look(self, user: str, model_id: str, revision: str) -> HubModel:
        """Asks the hub. Raises `NotFetched` where it tells nothing, and `Conflict` where it is being asked already."""
        with self._lock:
            if user in self._under_way or len(self._under_way) >= MOST_AT_ONCE:
                raise Conflict("the hub is being asked already; wait for its answer, then look again")
            self._under_way.add(user)
        try:
            model = looked_at(model_id, revision, timeout_s=LOOK_S)
        finally:
            with self._lock:
                self._under_way.discard(user)
        with self._lock:
            self._seen[user, model_id, revision] = model
            self._seen.move_to_end((user, model_id, revision))
            own = [each for each in self._seen if each[0] == user]
            for oldest in own[:-MOST_KEPT]:
                del self._seen[oldest]
        return model

    def seen(self, user: str, model_id: str, revision: str, *, commit: str) -> HubModel:
        """What this user was shown. Raises `Conflict` where it is not of this commit, `NotFetched` with its problem."""
        with self._lock:
            model = self._seen.get((user, model_id, revision))
        if model is None or model.commit != commit:
            raise Conflict(worded("look at {} first: its licence and its size as they are now", model_id[:200]))
        if model.problem:
            raise NotFetched(model.problem, code=model.code)
        return model


class Record(BaseModel):
    """One download: what was asked for, by whom, and what became of it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    model: HubModel  # as its first user saw it: that commit is fetched, and these files
    users: tuple[str, ...]  # who asked for it; it counts against the first
    also: tuple[str, ...] = ()  # revisions other than the model's by which it was asked for, too: the same commit
    asked: float  # seconds since the epoch
    state: DownloadState = "waiting"
    done_bytes: int = 0
    done_files: int = 0
    error: str = ""
    code: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.state in ("waiting", "fetching")

    @property
    def is_broken_off(self) -> bool:
        """Neither under way nor there: it failed, or was cancelled."""
        return not self.is_under_way and self.state != "done"

    @property
    def counted_bytes(self) -> int:
        """All of one that is there or will be, and of another what is left on the disk."""
        return self.done_bytes if self.is_broken_off else self.model.num_bytes


def as_left(record: Record) -> Record:
    """With the bytes that are on the disk."""
    return record.model_copy(update={"done_bytes": had_bytes(home_of(hub_cache(), record.model.id), record.model)})


def kept_in(folder: Path) -> list[Record]:
    """Every sound one, in the order in which they were asked for."""
    found: list[Record] = []
    for path in folder.glob("[!.]*.json"):
        record = read_record(path, Record)
        if record is not None and ID.fullmatch(record.id) and record.id == path.stem and record.users:
            found.append(record)
        elif record is not None:
            put_aside(path, ValueError("it belongs elsewhere"))
    return sorted(found, key=lambda record: record.asked)


class Pace:
    """How fast bytes come, of late."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def add(self, num_bytes: int) -> None:
        now = self._clock()
        self._marks.append((now, num_bytes))
        while len(self._marks) > 2 and self._marks[0][0] < now - PACE_S:
            self._marks.popleft()

    @property
    def bytes_per_s(self) -> float | None:
        if len(self._marks) < 2:
            return None
        (begin, before), (_, after) = self._marks[0], self._marks[-1]
        seconds = self._clock() - begin
        return (after - before) / seconds if seconds > 0 and after > before else None


def check_disk(model: HubModel, left: int) -> None:
    """Raises `NoRoom` where the disk does not take so many bytes more."""
    free = free_bytes(hub_cache())
    if free - left < FREE_BYTES:
        raise NoRoom(
            worded(
                "{} of {} are to be fetched, and the server's disk has {} left, of which {} stay free; "
                "tell who runs this server",
                sized(left),
                model.id,
                sized(free),
                sized(FREE_BYTES),
            )
        )
