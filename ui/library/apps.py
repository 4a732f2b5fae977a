"""Links to saved workflows, and apps: what others run under such a link by a form of its settings.

A *share* lets others read a workflow as it is by now. An *app* lets them run it as it was published, and set nothing
but its parameters: it has a copy of its own, so that neither an edit nor the end of an old version changes it. What it
runs is theirs in every way, so it may name no file that only the owner can read.
"""

import json
import re
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ...nodes.graph.graph import Graph, graph_from_plain, graph_to_plain
from ...parallel.errors import BadInput
from ..contract.app import App
from ..errors import NotHere
from ..store.quota import Quota, size_of
from ..store.uploads import NAME
from ..store.user_files import ID, graph_bytes, read_record, user_folder, write_record

TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")


class Share(BaseModel):
    """Whose workflow a token means."""

    user: str
    workflow: str


class Shares:
    """One kind of links, in a folder of its own: a token is all that one needs to know, and nobody can guess it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, user: str, workflow: str) -> str:
        token = secrets.token_urlsafe(16)
        write_record(self._folder / f"{token}.json", Share(user=user, workflow=workflow))
        return token

    def find(self, token: str) -> Share | None:
        """None for one that was taken back, or never given."""
        return read_record(self._folder / f"{token}.json", Share) if TOKEN.fullmatch(token) else None

    def drop(self, token: str) -> None:
        if TOKEN.fullmatch(token):
            (self._folder / f"{token}.json").unlink(missing_ok=True)


class Published(BaseModel):
    """An app as it is kept."""

    model_config = ConfigDict(frozen=True)

    token: str
    workflow: str  # its id
    version: int
    time: float
    graph: dict[str, Any]

    def told(self, *, newest: int) -> App:
        return App(
            token=self.token,
            workflow_id=self.workflow,
            name=self.graph["name"],
            version=self.version,
            published=self.time,
            newest=newest,
        )

    def read(self) -> Graph:
        return graph_from_plain(self.graph)


class Apps:
    """Threads share it. A workflow has one app at most, whose link stays the same until it is taken back."""

    def __init__(self, data_dir: Path, *, quota: Quota) -> None:
        self._data_dir = data_dir
        self._quota = quota
        self._links = Shares(data_dir / "apps")
        self._lock = threading.Lock()

    def publish(self, user: str, workflow: str, version: int, graph: Graph) -> None:
        """From now on its app runs this version. Raises `ValueError`."""
        path = self._path(user, workflow)
        self._quota.check(user, "workflows", num_bytes=len(graph_bytes(graph)) - size_of(path))
        with self._lock, self._quota.changing(user, "workflows", path):
            known = read_record(path, Published)
            token = known.token if known else self._links.make(user, workflow)
            now, plain = time.time(), graph_to_plain(graph)
            write_record(path, Published(token=token, workflow=workflow, version=version, time=now, graph=plain))

    def of(self, user: str) -> list[Published]:
        """The user's, newest first."""
        paths = [path for path in self._path(user, "").parent.glob("*.json") if ID.fullmatch(path.stem)]
        found = [app for path in paths if (app := read_record(path, Published)) is not None]
        return sorted(found, key=lambda app: app.time, reverse=True)

    def find(self, token: str) -> Published:
        """What anybody who has the link may run. Raises `NotHere`."""
        link = self._links.find(token)
        app = read_record(self._path(link.user, link.workflow), Published) if link else None
        if app is None or app.token != token:
            raise NotHere("there is no app under this link any more; ask whoever gave it to you for a new one")
        return app

    def revoke(self, user: str, workflow: str) -> None:
        """Nobody can open the workflow's app any more, if it has one; runs that it began go on."""
        path = self._path(user, workflow)
        with self._lock, self._quota.changing(user, "workflows", path):
            if (known := read_record(path, Published)) is not None:
                self._links.drop(known.token)
            path.unlink(missing_ok=True)

    def _path(self, user: str, workflow: str) -> Path:
        """Of a workflow's id that was found in the library."""
        return user_folder(self._data_dir, user) / "apps" / f"{workflow}.json"


def check_publishable(graph: Graph, inputs: Path) -> None:
    """Raises `ValueError` where the workflow names a file among its owner's `inputs`."""
    for place, value in _values_of(graph):
        for name in NAME.findall(json.dumps(value)):
            if (inputs / name).is_file():
                raise BadInput(
                    "{} names {}, which you uploaded and nobody else can read; make it a parameter without a "
                    "value, so that everybody brings a file of their own, save that, and publish it",
                    place,
                    name,
                )


def _values_of(graph: Graph) -> Iterator[tuple[str, Any]]:
    plain = graph_to_plain(graph)
    for before, part in (("", plain), *((f"{name}: ", sub) for name, sub in plain.get("subs", {}).items())):
        yield from ((before + name, param.get("default")) for name, param in part.get("params", {}).items())
        for node, said in part["nodes"].items():
            for socket, value in (*said.get("inputs", {}).items(), *said.get("each", {}).items()):
                yield f"{before}{node}.{socket}", value
