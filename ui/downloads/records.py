"""One download, as the server keeps it on disk and as its users are told of it."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ...pipelines.hub.fetching import had_bytes
from ...pipelines.hub.look import HubModel
from ...pipelines.models.source import home_of, hub_cache
from ..contract.kept import Download, DownloadState
from ..store.user_files import ID, put_aside, read_record

PACE_S = 8.0  # how much of the past tells how fast it goes


class Record(BaseModel):
    """What was asked for, by whom, and what became of it."""

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

    def told(self, *, num_before: int, bytes_per_s: float | None) -> Download:
        left = self.model.num_bytes - self.done_bytes
        return Download(
            id=self.id,
            model=self.model.id,
            revision=self.model.revision,
            commit=self.model.commit,
            licence=self.model.licence,
            state=self.state,
            done_bytes=self.done_bytes,
            total_bytes=self.model.num_bytes,
            done_files=self.done_files,
            total_files=len(self.model.files),
            bytes_per_s=bytes_per_s,
            left_s=left / bytes_per_s if bytes_per_s else None,
            num_before=num_before,
            error=self.error,
            code=self.code,
        )


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
