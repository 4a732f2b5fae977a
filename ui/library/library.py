"""The library: every user's saved workflows, with all their versions, folders and thumbnails."""

import builtins
import threading
import time
from pathlib import Path

from ...nodes.files.atomic import write_atomic
from ...nodes.files.thumbnails import picture_facts, picture_thumbnail
from ...nodes.graph.graph import Graph, graph_to_plain
from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ..contract.app import App
from ..contract.kept import NamedGraph, Workflow, WorkflowVersion, WorkflowWithGraph
from ..errors import Conflict, NotHere
from ..live.live import Live
from ..settings import Settings
from ..store import user_files
from ..store.paging import FIRST_ROWS, page_of, shortened
from ..store.quota import Quota, size_of
from ..store.uploads import inputs_folder
from .apps import Apps, Shares, check_publishable
from .drafts import Drafts
from .workflow_files import HEAD, THUMB, Head, heads_in, remove_workflow

MAX_VERSIONS = 100
THUMB_SIDE = 512
MAX_THUMB_PIXELS = 4096 * 4096
PICTURE = "the workflow's picture"


class Library:
    """Threads share it. Everything is on the disk before a method returns.

    What is asked of a workflow that this user has not raises `NotHere`; what cannot be kept, `ValueError`.
    """

    def __init__(self, settings: Settings, live: Live, *, quota: Quota | None = None) -> None:
        self._quota = quota or Quota(settings.data_dir)
        self.drafts = Drafts(settings.data_dir, quota=self._quota)
        self.apps = Apps(settings.data_dir, quota=self._quota)
        self._data_dir = settings.data_dir
        self._live = live
        self._shares = Shares(settings.data_dir / "shares")
        self._lock = threading.RLock()
        self._heads: dict[str, dict[str, Head]] = {}  # by user, read when the user first asks

    def list(
        self, user: str, *, search: str = "", limit: int = FIRST_ROWS, before: str = ""
    ) -> builtins.list[Workflow]:
        """Newest first, behind the id `before`; with `search` those whose name and description have all its words."""
        words = search.lower().split()
        with self._lock:
            texts = ((head, f"{head.name} {head.description}".lower()) for head in self.heads(user))
            found = [head for head, text in texts if all(word in text for word in words)]
            heads = page_of(found, lambda head: head.id, limit=limit, before=before)
            return [self._shown(user, head) for head in heads]

    def heads(self, user: str) -> builtins.list[Head]:
        """The heads (name, folder, last version) of all workflows, newest first, without opening any."""
        with self._lock:
            return sorted(self._heads_of(user).values(), key=lambda head: head.updated, reverse=True)

    def get(self, user: str, id: str, version: int | None = None) -> WorkflowWithGraph:
        with self._lock:
            head = self._head(user, id)
            graph = self._graph(user, head, version)
            return WorkflowWithGraph(**dict(self._shown(user, head)), graph=graph_to_plain(graph))

    def graph(self, user: str, id: str, version: int | None = None) -> Graph:
        with self._lock:
            return self._graph(user, self._head(user, id), version)

    def create(self, user: str, graph: Graph, *, name: str | None = None, folder: str = "") -> Workflow:
        graph = graph.model_copy(update={"name": user_files.checked_name(graph.name if name is None else name)})
        folder = user_files.checked_folder(folder)
        with self._lock:
            head = Head(id=user_files.fresh_id(), name=graph.name, folder=folder, updated=time.time(), versions=())
            return self._add_version(user, head, graph)

    def save(self, user: str, id: str, graph: Graph, *, base_version: int) -> Workflow:
        """A new version, unless nothing changed. Raises `Conflict` when it is not based on the current one."""
        graph = graph.model_copy(update={"name": user_files.checked_name(graph.name)})
        with self._lock:
            head = self._head(user, id)
            if base_version != head.version:
                raise Conflict(
                    worded(
                        "{} was saved elsewhere meanwhile: you changed version {}, and it is at version {}; save "
                        "yours as a copy, or open the newer one",
                        head.name,
                        base_version,
                        head.version,
                    )
                )
            if user_files.read_graph_file(self._version(user, id, head.version)) == graph and graph.name == head.name:
                return self._shown(user, head)
            return self._add_version(user, head, graph)

    def change(self, user: str, id: str, *, name: str | None = None, folder: str | None = None) -> Workflow:
        with self._lock:
            head = self._head(user, id)
            named = head.name if name is None else user_files.checked_name(name)
            moved = head.folder if folder is None else user_files.checked_folder(folder)
            return self._put(user, head.model_copy(update={"name": named, "folder": moved, "updated": time.time()}))

    def delete(self, user: str, id: str) -> None:
        with self._lock:
            head = self._head(user, id)
            folder = self._folder(user, id)
            with self._quota.changing(user, "workflows", folder, count=-1):
                remove_workflow(folder)
            self._shares.drop(head.token)
            self.apps.revoke(user, id)
            del self._heads_of(user)[id]
            self._live.count(user, "library")

    def duplicate(self, user: str, id: str) -> Workflow:
        """The current version and the thumbnail, under a new name."""
        with self._lock:
            head = self._head(user, id)
            ending = " (copy)"
            name = head.name[: user_files.MAX_NAME - len(ending)] + ending
            graph, path = self._graph(user, head, None), self._folder(user, id) / THUMB
            thumb = path.read_bytes() if path.is_file() else b""
            num_bytes = len(user_files.graph_bytes(graph)) + len(thumb)
            self._quota.check(user, "workflows", num_bytes=num_bytes, count=1)  # of all, before any of it is there
            copy = self.create(user, graph, name=name, folder=head.folder)
            if thumb:
                self._write_thumbnail(user, copy.id, thumb)
            return self._shown(user, self._head(user, copy.id))

    def versions(self, user: str, id: str) -> builtins.list[WorkflowVersion]:
        with self._lock:
            return [*reversed(self._head(user, id).versions)]

    def thumbnail(self, user: str, id: str) -> bytes:
        with self._lock:
            path = self._folder(user, self._head(user, id).id) / THUMB
            if not path.is_file():
                raise NotHere("this workflow has no picture yet; run it, or save it again")
            return path.read_bytes()

    def put_thumbnail(self, user: str, id: str, file: Path) -> None:
        """Any picture; it is made small and written anew."""
        with self._lock:
            self._head(user, id)
        facts = picture_facts(file, name=PICTURE)
        if facts.width * facts.height > MAX_THUMB_PIXELS:
            raise BadInput("{} is {} x {}; send a smaller one", PICTURE, facts.width, facts.height)
        small = picture_thumbnail(file, side=THUMB_SIDE, name=PICTURE, format="PNG")
        with self._lock:
            path = self._folder(user, self._head(user, id).id) / THUMB
            self._quota.check(user, "workflows", num_bytes=len(small) - size_of(path))
            self._write_thumbnail(user, id, small)
            self._live.count(user, "library")

    def share(self, user: str, id: str) -> str:
        """The token under which every user of this server may read the workflow; the same one each time."""
        with self._lock:
            head = self._head(user, id)
            if not head.token:
                head = head.model_copy(update={"token": self._shares.make(user, id)})
                self._put(user, head)
            return head.token

    def shared(self, token: str) -> NamedGraph:
        if (share := self._shares.find(token)) is None:
            raise NotHere("nothing is shared under this link any more; ask for a new one")
        with self._lock:
            head = self._head(share.user, share.workflow)
            return NamedGraph(name=head.name, graph=graph_to_plain(self._graph(share.user, head, None)))

    def publish(self, user: str, id: str, version: int) -> App:
        """Make an app of a version, or bring its app to it. Raises `ValueError` where others cannot run it."""
        with self._lock:
            graph = self._graph(user, self._head(user, id), version)
            check_publishable(graph, inputs_folder(self._data_dir, user))
            self.apps.publish(user, id, version, graph)
            return next(app for app in self.published(user) if app.workflow_id == id)

    def revoke(self, user: str, id: str) -> None:
        """Take back the link to the workflow's app, if it has one."""
        with self._lock:
            self.apps.revoke(user, self._head(user, id).id)

    def published(self, user: str) -> builtins.list[App]:
        """The links to apps that the user has given, newest first."""
        with self._lock:
            heads = self._heads_of(user)
            return [app.told(newest=heads[app.workflow].version) for app in self.apps.of(user) if app.workflow in heads]

    def _write_thumbnail(self, user: str, id: str, data: bytes) -> None:
        path = self._folder(user, id) / THUMB
        with self._quota.changing(user, "workflows", path):
            write_atomic(path, data, is_private=True)

    def _add_version(self, user: str, head: Head, graph: Graph) -> Workflow:
        number = head.version + 1 if head.versions else 1
        version = WorkflowVersion(version=number, time=time.time(), num_nodes=len(graph.nodes))
        kept = (*head.versions, version)
        count = 0 if head.versions else 1
        self._quota.check(user, "workflows", num_bytes=len(user_files.graph_bytes(graph)), count=count)
        changed = [self._version(user, head.id, each.version) for each in (version, *kept[:-MAX_VERSIONS])]
        with self._quota.changing(user, "workflows", *changed, count=count):
            user_files.write_graph_file(changed[0], graph)
            saved = self._put(user, head.showing(graph, kept[-MAX_VERSIONS:]))
            for old in changed[1:]:
                old.unlink(missing_ok=True)
        return saved

    def _put(self, user: str, head: Head) -> Workflow:
        path = self._folder(user, head.id) / HEAD
        with self._quota.changing(user, "workflows", path):
            user_files.write_record(path, head)
        self._heads_of(user)[head.id] = head
        self._live.count(user, "library")
        return self._shown(user, head)

    def _head(self, user: str, id: str) -> Head:
        if (head := self._heads_of(user).get(id)) is None:
            raise user_files.nothing(id, "workflow")
        return head

    def _graph(self, user: str, head: Head, version: int | None) -> Graph:
        number = head.version if version is None else version
        graph = user_files.read_graph_file(self._version(user, head.id, number))
        if graph is None:
            raise NotHere(
                worded("version {} of {} is not kept, or was damaged; open another version", number, head.name)
            )
        return graph.model_copy(update={"name": head.name})

    def _heads_of(self, user: str) -> dict[str, Head]:
        if user not in self._heads:
            self._heads[user] = heads_in(self._folder(user))
        return self._heads[user]

    def _folder(self, user: str, id: str = "") -> Path:
        return user_files.user_folder(self._data_dir, user) / "workflows" / id

    def _version(self, user: str, id: str, version: int) -> Path:
        return self._folder(user, id) / f"{version}.json"

    def _shown(self, user: str, head: Head) -> Workflow:
        return Workflow(
            **head.model_dump(include={"id", "name", "folder", "updated"}),
            summary=shortened(head.description),
            version=head.version,
            num_nodes=head.versions[-1].num_nodes,
            has_thumb=(self._folder(user, head.id) / THUMB).is_file(),
        )
