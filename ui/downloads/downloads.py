"""The downloads of a server: who asked for what, one fetched at a time, each counted against who began it."""

import builtins
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput, LoomError, code_of
from ...parallel.wording import worded
from ...pipelines.hub.child import SILENT_S, HubProcess, fetching
from ...pipelines.hub.fetching import free_bytes, had_bytes, is_whole, name_commit, remove
from ...pipelines.hub.look import HubModel, NotFetched
from ...pipelines.models.source import home_of, hub_cache
from ..contract.kept import Download, HubLook
from ..errors import Conflict, DownloadsOff, NoRoom
from ..live.live import Live
from ..settings import Settings
from ..store.quota import FREE_BYTES, Quota, sized
from ..store.user_files import fresh_id, nothing, write_record
from .records import Looks, Pace, Record, as_left, check_disk, kept_in

logger = logging.getLogger("latentloom")

MOST_UNDER_WAY = 3  # of one user
SLOW_S, SLOW_BYTES = 600.0, 1 << 20  # what comes slower than this keeps all others waiting


class Downloads:
    """Threads share it. `close` it: what is under way then goes on when the server starts again."""

    def __init__(self, settings: Settings, live: Live, *, quota: Quota, silent_s: float = SILENT_S) -> None:
        self._is_allowed = settings.allows_downloads
        self._live = live
        self._quota = quota
        self._silent_s = silent_s
        self._looks = Looks()
        self._folder = settings.data_dir / "downloads"  # a file for each
        self._lock = threading.RLock()
        self._records: dict[str, Record] = {}
        self._tries: Counter[str] = Counter()  # of each download; an older try has nothing to say any more
        self._thread = ThreadPoolExecutor(1, "downloads")
        self._process: HubProcess | None = None
        self._pace = Pace()
        self._is_closed = False
        self._recover()

    def look(self, user: str, model_id: str, revision: str = "") -> HubLook:
        """What the hub tells of it, and whether there is room. Raises `NotFetched`, and `DownloadsOff`."""
        self._check_allowed()
        model = self._looks.look(user, model_id, revision)
        problem, code, cache = model.problem, model.code, hub_cache()
        try:
            with self._lock:
                if not problem:
                    self._check_room(user, model, self._same(model))
        except NoRoom as error:
            problem, code = str(error), error.code
        return HubLook(
            **{name: getattr(model, name) for name in ("id", "revision", "commit", "licence", "licence_url")},
            **{name: getattr(model, name) for name in ("is_gated", "family", "does", "num_bytes")},
            num_files=len(model.files),
            had_bytes=had_bytes(home_of(cache, model_id), model),
            free_bytes=max(0, free_bytes(cache) - FREE_BYTES),
            room_bytes=self._quota.room(user, "models"),
            problem=problem,
            code=code,
        )

    def list(self, user: str) -> builtins.list[Download]:
        self._check_allowed()
        with self._lock:
            return [self._told(record) for record in reversed(self._records.values()) if user in record.users]

    def start(self, user: str, model_id: str, revision: str = "", *, commit: str) -> Download:
        """Fetch what the user has looked at, or join who fetches it. Raises `Conflict`, `NotFetched`, `NoRoom`."""
        self._check_allowed()
        model = self._looks.seen(user, model_id, revision, commit=commit)
        with self._lock:
            same = self._same(model)
            if same is None:
                self._quota.check(user, "models", num_bytes=0, count=1)
                return self._begin(user, Record(id=fresh_id(), model=model, users=(user,), asked=time.time()))
            if revision not in (same.model.revision, *same.also):
                same = same.model_copy(update={"also": (*same.also, revision)})
            if same.is_broken_off:
                if revision == same.model.revision:
                    same = same.model_copy(update={"model": replace(same.model, looked=model.looked)})
                return self._begin(user, same)
            if user not in same.users:
                self._check_room(user, model, same)
                same = same.model_copy(update={"users": (*same.users, user)})
            if same != self._records[same.id]:
                self._put(same)
            if same.state == "done":
                _name(same, revision, looked=model.looked)
            return self._told(same)

    def resume(self, user: str, id: str) -> Download:
        """Raises `NotHere`, `Conflict` for one that is under way or done, `NoRoom`."""
        self._check_allowed()
        with self._lock:
            record = self._find(user, id)
            if not record.is_broken_off:
                raise Conflict("this download is under way or done; reload the page")
            return self._begin(user, record)

    def cancel(self, user: str, id: str) -> None:
        """Others who wait for it get it all the same, where one of them may keep as much. What is over stays so."""
        self._check_allowed()
        with self._lock:
            record = self._find(user, id)
            if not record.is_under_way or self._is_left_to_others(record, user):
                return
            process = self._process if record.state == "fetching" else None
            self._tries[id] += 1
            self._put(record.model_copy(update={"state": "cancelled"}))
        if process is not None:
            process.close()  # not under the lock: it waits for the process, which tells of its bytes under it
        with self._lock:
            if self._records.get(id, record).state == "cancelled":
                self._put(as_left(self._records[id]))

    def delete(self, user: str, id: str) -> None:
        """What was fetched of it goes from the disk, unless others asked for it too and one of them may keep as much.
        Raises `NotHere`, and `Conflict` for one under way or done."""
        self._check_allowed()
        with self._lock:
            record = self._find(user, id)
            if record.is_under_way:
                raise Conflict("this download is under way; cancel it first")
            if record.state == "done":
                raise Conflict("this model is there, for all users; who runs this server can remove it")
            if self._is_left_to_others(record, user):
                return
            self._forget(record)
            others = [each for each in self._records.values() if each.model.id == record.model.id]
            spared = {file.hash for each in others for file in each.model.files}
            remove(home_of(hub_cache(), record.model.id), record.model, spared=spared)
            for other in others:
                if other.is_broken_off:  # what stays for its sake counts as its own now
                    self._put(as_left(other))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            process = self._process
        if process is not None:
            process.close()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _is_left_to_others(self, record: Record, user: str) -> bool:
        """Whether others asked for it, too: it is theirs alone from now on, and counts against one with the room."""
        others = [each for each in record.users if each != user]
        if record.users[0] == user:
            rooms = ((each, self._quota.room(each, "models")) for each in others)
            heir = next((each for each, room in rooms if room is None or record.counted_bytes <= room), None)
            others = [] if heir is None else [heir, *(each for each in others if each != heir)]
        if others:
            self._put(record.model_copy(update={"users": tuple(others)}))
            self._ring(user)
        return bool(others)

    def _check_allowed(self) -> None:
        if not self._is_allowed:
            raise DownloadsOff(
                "this server fetches no models; who runs it can start it with --allow-downloads, or fetch one with "
                "`latentloom models pull`"
            )

    def _recover(self) -> None:
        # as the last server left them; a model that was removed from the disk since is none of ours any more
        for record in kept_in(self._folder):
            if record.state == "done" and not is_whole(home_of(hub_cache(), record.model.id), record.model):
                self._path(record).unlink(missing_ok=True)
                continue
            back = record.model_copy(update={"state": "waiting"}) if record.is_under_way else record
            self._put(back if back.state == "done" else as_left(back))
            if back.state == "waiting" and self._is_allowed:
                self._thread.submit(self._work, back.id, self._tries[back.id])

    def _begin(self, user: str, record: Record) -> Download:
        """Into the queue, counted against this user. Raises `ValueError`, and `NoRoom`."""
        under_way = sum(each.is_under_way and user in each.users for each in self._records.values())
        if under_way >= MOST_UNDER_WAY:
            raise BadInput("{} models are being fetched for you; wait for one, or cancel it", under_way)
        self._check_room(user, record.model, self._records.get(record.id))
        # who cancelled it does not want it back because another asks; where it failed, all still wait for it
        is_given_up = record.state == "cancelled"
        others = () if is_given_up else tuple(each for each in record.users if each != user)
        update = {"state": "waiting", "users": (user, *others), "asked": time.time(), "error": "", "code": ""}
        self._put(as_left(record.model_copy(update=update)))
        self._records[record.id] = self._records.pop(record.id)  # in the order of the queue
        # a try that was cancelled may still be at work, or wait in the thread: it finds that it is not the newest
        self._tries[record.id] += 1
        self._thread.submit(self._work, record.id, self._tries[record.id])
        self._ring(*record.users)
        return self._told(self._records[record.id])

    def _work(self, id: str, number: int) -> None:
        """One try, in the thread that fetches."""
        with self._lock:
            if not self._is_newest(id, number):
                return
            record = self._records[id].model_copy(update={"state": "fetching"})
            self._pace = Pace()
            self._put(record)
        try:
            self._fetch(record, number)
            update: dict[str, Any] = {"state": "done", "done_bytes": record.model.num_bytes}
            update["done_files"] = len(record.model.files)
        except LoomError as error:
            update = {"state": "failed", "error": str(error), "code": code_of(error)}
        except Exception:
            logger.exception("a model could not be fetched")
            update = {"state": "failed", "error": "the server failed; its log says where", "code": LoomError.code}
        with self._lock:
            self._process = None
            if self._is_newest(id, number):
                ended = self._records[id].model_copy(update=update)
                self._put(ended if ended.state == "done" else as_left(ended))
                if ended.state == "done":
                    for revision in ended.also:
                        _name(ended, revision, looked=ended.model.looked)

    def _fetch(self, record: Record, number: int) -> None:
        cache = hub_cache()
        had = had_bytes(home_of(cache, record.model.id), record.model)
        check_disk(record.model, record.model.num_bytes - had)
        with closing(fetching(record.model, cache)) as process:
            with self._lock:
                if not self._is_newest(record.id, number):
                    return
                self._process = process
            mark_time, mark_bytes = time.monotonic(), had
            for told in process.events(silent_s=self._silent_s):
                if "bytes" not in told:
                    return
                if (now := time.monotonic()) - mark_time > SLOW_S:
                    if 0 < told["bytes"] - mark_bytes < SLOW_BYTES:  # none at all: what came is being checked
                        raise NotFetched("{} came too slowly to wait for it; try again, which goes on", record.model.id)
                    mark_time, mark_bytes = now, told["bytes"]
                with self._lock:
                    if not self._is_newest(record.id, number):
                        return
                    update = {"done_bytes": told["bytes"], "done_files": told["files"]}
                    self._records[record.id] = self._records[record.id].model_copy(update=update)
                    self._pace.add(told["bytes"])
                    self._ring(*self._records[record.id].users)
                check_disk(record.model, record.model.num_bytes - told["bytes"])

    def _is_newest(self, id: str, number: int) -> bool:
        return id in self._records and self._tries[id] == number and not self._is_closed

    def _check_room(self, user: str, model: HubModel, same: Record | None) -> None:
        """Raises `NoRoom`; nothing is in the way of one that is there, or counted already."""
        if same is not None and (same.state == "done" or (same.is_under_way and user in same.users)):
            return
        counted_bytes = same.counted_bytes if same is not None and same.users[0] == user else 0
        room = self._quota.room(user, "models")
        if room is not None and model.num_bytes - counted_bytes > room:
            raise NoRoom(
                worded(
                    "{} takes {}, and you may keep {} more; delete what you no longer need, "
                    "or ask who runs this server",
                    model.id,
                    sized(model.num_bytes),
                    sized(room),
                )
            )
        if left := model.num_bytes - had_bytes(home_of(hub_cache(), model.id), model):
            check_disk(model, left)

    def _same(self, model: HubModel) -> Record | None:
        """The download of the same; one whose model was removed from the disk is forgotten."""
        kept, wanted = self._records.values(), (model.id, model.commit)
        found = next((each for each in kept if (each.model.id, each.model.commit) == wanted), None)
        if found is not None and found.state == "done" and not is_whole(home_of(hub_cache(), model.id), found.model):
            self._forget(found)
            return None
        return found

    def _find(self, user: str, id: str) -> Record:
        record = self._records.get(id)
        if record is None or user not in record.users:
            raise nothing(id, "download")
        return record

    def _put(self, record: Record) -> None:
        """The download is so now: counted, kept, told."""
        self._count(self._records.get(record.id), -1)
        self._records[record.id] = record
        self._count(record, 1)
        try:
            write_record(self._path(record), record)
        except ValueError as error:
            logger.warning("the list of downloads was not kept: %s", error)
        under_way = [each for each in self._records.values() if each.is_under_way]
        self._ring(*{user for each in under_way for user in each.users}, *record.users)

    def _forget(self, record: Record) -> None:
        self._count(self._records.pop(record.id), -1)
        self._path(record).unlink(missing_ok=True)
        self._ring(*record.users)

    def _path(self, record: Record) -> Path:
        return self._folder / f"{record.id}.json"

    def _count(self, record: Record | None, sign: int) -> None:
        if record is not None:
            self._quota.add(record.users[0], "models", num_bytes=sign * record.counted_bytes, count=sign)

    def _ring(self, *users: str) -> None:
        for user in dict.fromkeys(users):
            self._live.count(user, "downloads")

    def _told(self, record: Record) -> Download:
        model, bytes_per_s = record.model, self._pace.bytes_per_s if record.state == "fetching" else None
        others = [*self._records.values()]
        ahead = others[: others.index(record)] if record.state == "waiting" else []
        return Download(
            **record.model_dump(include={"id", "state", "done_bytes", "done_files", "error", "code"}),
            **{name: getattr(model, name) for name in ("revision", "commit", "licence")},
            model=model.id,
            total_bytes=model.num_bytes,
            total_files=len(model.files),
            bytes_per_s=bytes_per_s,
            left_s=(model.num_bytes - record.done_bytes) / bytes_per_s if bytes_per_s else None,
            num_before=sum(each.is_under_way for each in ahead),
        )


def _name(record: Record, revision: str, *, looked: float) -> None:
    # the model that is there is had by this revision, too, by which somebody asked for it
    try:
        name_commit(home_of(hub_cache(), record.model.id), revision, record.model.commit, looked=looked)
    except OSError as error:
        logger.warning("revision %s of %s was not kept: %s", revision, record.model.id, error)
