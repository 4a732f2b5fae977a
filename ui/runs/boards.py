"""The boards of a user: named sets of results. Which results are on one is kept beside each result."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ..contract.run import Board
from ..store.quota import Quota
from ..store.user_files import checked_id, checked_name, fresh_id, nothing, read_record, user_folder, write_record


class Boards:
    """Threads share it."""

    def __init__(self, data_dir: Path, *, quota: Quota) -> None:
        self._data_dir = data_dir
        self._quota = quota
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Board]] = {}  # by user and id, once somebody asked

    def of(self, user: str) -> dict[str, Board]:
        """By id, in the order of their names."""
        with self._lock:
            return dict(sorted(self._read(user).items(), key=lambda each: each[1].name.casefold()))

    def add(self, user: str, name: str) -> Board:
        """Raises `ValueError`, also for a name that is taken."""
        return self._write(user, Board(id=fresh_id(), name=checked_name(name), created=time.time()))

    def rename(self, user: str, id: str, name: str) -> Board:
        """Raises `NotHere`, and `ValueError` for a name that is none or is taken."""
        return self._write(user, self.get(user, id).model_copy(update={"name": checked_name(name)}))

    def delete(self, user: str, id: str) -> None:
        """The results stay. Raises `NotHere`."""
        self.get(user, id)
        with self._lock:
            path = self._path(user, id)
            with self._quota.changing(user, "boards", path, count=-path.exists()):
                path.unlink(missing_ok=True)
            self._read(user).pop(id, None)

    def get(self, user: str, id: str) -> Board:
        with self._lock:
            found = self._read(user).get(checked_id(id, "board"))
        if found is None:
            raise nothing(id, "board")
        return found

    def _write(self, user: str, board: Board) -> Board:
        with self._lock:
            known = self._read(user)
            if any(other.name.casefold() == board.name.casefold() and other.id != board.id for other in known.values()):
                raise ValueError(f"there is a board {board.name[:50]!r} already; use it, or choose another name")
            is_new = board.id not in known
            self._quota.check(user, "boards", num_bytes=len(board.model_dump_json()), count=int(is_new))
            path = self._path(user, board.id)
            with self._quota.changing(user, "boards", path, count=int(is_new)):
                write_record(path, board)
            known[board.id] = board
            return board

    def _read(self, user: str) -> dict[str, Board]:
        if user not in self._known:
            paths = sorted(self._path(user, "").parent.glob("[!.]*.json"))
            boards = (read_record(path, Board) for path in paths)
            self._known[user] = {board.id: board for board in boards if board is not None}
        return self._known[user]

    def _path(self, user: str, id: str) -> Path:
        return user_folder(self._data_dir, user) / "boards" / f"{id}.json"
