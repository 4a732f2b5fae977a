"""Drafts: what a page had on its canvas last, saved or not, valid or not.

A page saves its canvas here as it is edited, so that closing a tab loses nothing; a draft may be no valid workflow.
"""

import builtins
import json
import re
import threading
import time
from pathlib import Path

from ...nodes.files.atomic import write_atomic
from ...parallel.errors import BadInput
from ..contract.bodies import DraftBody
from ..contract.kept import Draft, DraftWithGraph
from ..errors import NotHere
from ..store.paging import FIRST_ROWS, page_of
from ..store.quota import KEPT, Quota, size_of
from ..store.user_files import read_record, user_folder

KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_DRAFTS = KEPT["drafts"].count  # how many drafts a user may keep; the oldest goes when one more comes
MAX_BYTES = 8 << 20


class Drafts:
    """Threads may share it."""

    def __init__(self, data_dir: Path, *, quota: Quota | None = None) -> None:
        self._data_dir = data_dir
        self._quota = quota or Quota(data_dir)
        self._lock = threading.Lock()
        # All but their graphs, by user and key; read when the user first asks.
        self._heads: dict[str, dict[str, Draft]] = {}

    def list(self, user: str, *, limit: int = FIRST_ROWS, before: str = "") -> builtins.list[Draft]:
        """Newest first, without their graphs, behind the one whose key is `before`. Raises `NotHere`."""
        with self._lock:
            heads = sorted(self._heads_of(user).values(), key=lambda head: head.updated, reverse=True)
        return page_of(heads, lambda head: head.key, limit=limit, before=before)

    def get(self, user: str, key: str) -> DraftWithGraph:
        """With its graph as it was put. Raises `NotHere`."""
        if (draft := read_record(self._path(user, key), DraftWithGraph)) is None:
            raise NotHere("there is no such draft any more; open the workflow from the library")
        return draft

    def put(self, user: str, key: str, body: DraftBody) -> Draft:
        """Replace a draft. The graph is plain data of any kind. Raises `ValueError`."""
        name = body.graph.get("name")
        head = Draft(
            key=key,
            name=name[:200] if isinstance(name, str) else "",
            workflow_id=body.workflow_id,
            base_version=body.base_version,
            updated=time.time(),
        )
        text = json.dumps({**head.model_dump(), "graph": body.graph}, ensure_ascii=False)
        data = text.encode(errors="replace")  # half a character
        if len(data) > MAX_BYTES:
            raise BadInput("the draft has {} bytes; at most {} are kept; make it smaller", len(data), MAX_BYTES)
        # One at a time, so that two tabs that save at once are both counted. The new draft is on the disk before the
        # oldest goes, so that a full disk costs none.
        with self._lock:
            heads, path = self._heads_of(user), self._path(user, key)
            self._quota.check(user, "drafts", num_bytes=len(data) - size_of(path))
            with self._quota.changing(user, "drafts", path, count=key not in heads):
                write_atomic(path, data, is_private=True)
            heads[key] = head
            others = [each for each in heads.values() if each is not head]
            if len(heads) > MAX_DRAFTS:
                self._drop(user, min(others, key=lambda each: each.updated).key)
        return head

    def delete(self, user: str, key: str) -> None:
        with self._lock:
            self._drop(user, key)

    def _drop(self, user: str, key: str) -> None:
        path = self._path(user, key)
        is_known = self._heads_of(user).pop(key, None) is not None
        with self._quota.changing(user, "drafts", path, count=-is_known):
            path.unlink(missing_ok=True)

    def _heads_of(self, user: str) -> dict[str, Draft]:
        if user not in self._heads:
            paths = [path for path in self._folder(user).glob("*.json") if KEY.fullmatch(path.stem)]
            drafts = {path.stem: read_record(path, DraftWithGraph) for path in paths}
            self._heads[user] = {key: Draft(**{**dict(draft), "key": key}) for key, draft in drafts.items() if draft}
        return self._heads[user]

    def _folder(self, user: str) -> Path:
        return user_folder(self._data_dir, user) / "drafts"

    def _path(self, user: str, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise NotHere("that is no key of a draft; give letters, digits, - and _, at most 64")
        return self._folder(user) / f"{key}.json"
