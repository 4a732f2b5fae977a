"""What every user keeps on the server's disk, counted as it changes, and how much that may be: for one, and for all."""

import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...parallel.wording import worded
from ..contract.kept import Kept, KeptKind
from ..contract.kept import KeptName as Kind
from ..errors import NoRoom
from .user_files import DAMAGED, user_folder

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Most:
    """How many things of one kind a user may keep, and how large they may be together."""

    words: str
    count: int
    num_bytes: int
    # Below the user's folder, the first with an entry for each thing. Results and models are elsewhere, and known by
    # their runs and downloads.
    folders: tuple[str, ...] = ()


KEPT: dict[Kind, Most] = {
    "workflows": Most(words="saved workflows", count=10_000, num_bytes=2048 * MIB, folders=("workflows", "apps")),
    "drafts": Most(words="drafts", count=200, num_bytes=512 * MIB, folders=("drafts",)),
    "uploads": Most(words="uploaded pictures and sounds", count=20_000, num_bytes=8192 * MIB, folders=("inputs",)),
    "runs": Most(words="runs", count=50_000, num_bytes=4096 * MIB, folders=("runs", "batches")),
    "results": Most(words="pictures, videos and sounds", count=200_000, num_bytes=1 << 60),
    "boards": Most(words="boards", count=500, num_bytes=MIB, folders=("boards",)),
    "models": Most(words="models that were fetched", count=200, num_bytes=1 << 60),
}
OWN: tuple[Kind, ...] = ("results", "models")  # where there is no login these do not count: the disk is the user's own
ALL_TIMES = 20  # all users together keep so many times as many things as one may
USER_BYTES = 20 * 1024 * MIB  # bytes that one user may keep, all kinds together
FREE_BYTES = 256 * MIB  # bytes that stay free on the disk, whoever asks


@dataclass(kw_only=True)
class _Sum:
    count: int = 0
    num_bytes: int = 0


class Quota:
    """Threads share it. The disk is looked through once, when a server starts."""

    def __init__(self, data_dir: Path, *, user_bytes: int = USER_BYTES, counts_results: bool = True) -> None:
        self._data_dir = data_dir
        self._user_bytes = user_bytes
        self._counts_results = counts_results
        self._lock = threading.Lock()
        # By the name of the user's folder, so that those who were taken out of the file of users count, too.
        self._kept: defaultdict[str, defaultdict[Kind, _Sum]] = defaultdict(lambda: defaultdict(_Sum))
        for folder in data_dir.glob("users/*"):
            for kind, most in KEPT.items():
                found = self._kept[folder.name][kind]
                for number, name in enumerate(most.folders):
                    for path in (folder / name).glob("[!.]*"):
                        found.num_bytes += size_of(path)
                        found.count += not number and path.suffix != DAMAGED

    def check(self, user: str, kind: Kind, *, num_bytes: int, count: int = 0) -> None:
        """Raises `NoRoom` where so much more would be too much."""
        with self._lock:
            reason = self._reason(self._kept[self._name(user)], kind, num_bytes, count)
        if reason:
            raise NoRoom(reason)

    def add(self, user: str, kind: Kind, *, num_bytes: int, count: int = 0) -> None:
        """So much more is kept, or less."""
        with self._lock:
            kept = self._kept[self._name(user)][kind]
            kept.num_bytes += num_bytes
            kept.count += count

    @contextmanager
    def changing(self, user: str, kind: Kind, *paths: Path, count: int = 0) -> Iterator[None]:
        """Counts what becomes of these files and folders inside, also where it fails."""
        before = sum(map(size_of, paths))
        done = 0  # of what fails half way bytes are left on the disk, and no thing
        try:
            yield
            done = count
        finally:
            self.add(user, kind, num_bytes=sum(map(size_of, paths)) - before, count=done)

    def shown(self, user: str) -> Kept:
        """What the user keeps, and how much that may be."""
        with self._lock:
            sums = self._kept[self._name(user)]
            rows = tuple(
                KeptKind(kind=kind, **vars(sums[kind]), most_count=most.count, is_counted=kind in self._kinds())
                for kind, most in KEPT.items()
            )
        free = shutil.disk_usage(self._data_dir).free if self._data_dir.is_dir() else 0
        return Kept(
            num_bytes=sum(row.num_bytes for row in rows if row.is_counted),
            most_bytes=self._user_bytes,
            free_bytes=max(0, free - FREE_BYTES),
            kinds=rows,
        )

    def used(self, user: str) -> dict[str, int]:
        with self._lock:
            kept = self._kept[self._name(user)]
            return {kind: kept[kind].num_bytes for kind in self._kinds()}

    def room(self, user: str, kind: Kind) -> int | None:
        """How many bytes more the user may keep; None where this kind does not count."""
        if kind not in self._kinds():
            return None
        return max(0, self._user_bytes - sum(self.used(user).values()))

    def _name(self, user: str) -> str:
        return user_folder(self._data_dir, user).name

    def _kinds(self) -> list[Kind]:
        return [kind for kind in KEPT if kind not in OWN or self._counts_results]

    def _reason(self, kept: dict[Kind, _Sum], kind: Kind, num_bytes: int, count: int) -> str:
        """Why there is no room; empty where there is."""
        most, own = KEPT[kind], kept[kind]
        in_all = [each[kind].count for each in self._kept.values()]
        if count and own.count + count > most.count:
            return worded(
                "you have {} {}, and {} are kept; delete some, then try again", own.count, most.words, most.count
            )
        if count and sum(in_all) + count > ALL_TIMES * most.count:
            return worded(
                "all users together have {} {}, and {} are kept; delete some of yours, or tell who runs this server",
                sum(in_all),
                most.words,
                ALL_TIMES * most.count,
            )
        if kind not in OWN and own.num_bytes + num_bytes > most.num_bytes:
            return worded(
                "your {} take {}; delete some, then try again", most.words, _of(own.num_bytes, most.num_bytes)
            )
        parts: dict[Kind, int] = {each: kept[each].num_bytes for each in self._kinds()}
        if sum(parts.values()) + num_bytes > self._user_bytes:
            largest: Kind = max(self._kinds(), key=lambda each: parts[each])
            used, most_of_it = _of(sum(parts.values()), self._user_bytes), sized(parts[largest])
            if largest == "models":  # which no page deletes: they are there for all users
                return worded(
                    "all that you keep takes {}, {} of it are models that were fetched for you; ask who runs "
                    "this server to remove some",
                    used,
                    most_of_it,
                )
            return worded(
                "all that you keep takes {}, {} of it are {}; delete some of these, then try again",
                used,
                most_of_it,
                KEPT[largest].words,
            )
        free = shutil.disk_usage(self._data_dir).free if self._data_dir.is_dir() else FREE_BYTES + num_bytes
        if free - num_bytes < FREE_BYTES:
            return worded(
                "the server's disk has {} left, and {} stay free; delete some {}, or tell who runs this server",
                sized(free),
                sized(FREE_BYTES),
                most.words,
            )
        return ""


def size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a folder; 0 of what is not there."""
    try:
        return sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
    except OSError:
        return 0


def _of(used: int, allowed: int) -> str:
    return f"{sized(used)} of {sized(allowed)}"


def sized(num_bytes: int) -> str:
    return f"{num_bytes / 1024**3:.1f} GiB" if num_bytes >= 1024**3 else f"{num_bytes / MIB:.1f} MiB"
