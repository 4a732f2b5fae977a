"""A hub of our own for the real hub client: one folder as the repository org/name, over HTTP on the loopback."""

import hashlib
import json
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from latentloom.pipelines.hub.look import HubModel, look

COMMIT = "c0ffee" * 6 + "c0ff"
LARGE = 50_000  # bytes from which a file is kept by its sha256
PIECE = 1 << 14
WAIT_S = 60.0


class FakeHub:
    """What it tells may be changed at any time; it counts what it sends, and can stop in the middle of a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gated: Any = False
        self.has_access = True
        self.licence = "apache-2.0"
        self.listed: dict[str, int] = {}  # files that it tells of, and has not
        self.is_damaged = False
        self.sent: Counter[str] = Counter()  # bytes of each file
        self.asked: list[str] = []
        self.tokens: set[str] = set()  # what clients logged in with
        # A file of which the first half is sent, and no more on that connection; after `go_on` others have it all.
        self.stop_at = ""
        self.is_stopped = threading.Event()
        self.go_on = threading.Event()
        self.is_silent = False
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self, has_body=True)

            def do_HEAD(self) -> None:
                hub.answer(self, has_body=False)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())

    def answer(self, request: BaseHTTPRequestHandler, *, has_body: bool) -> None:
        path = unquote(request.path.partition("?")[0])
        self.asked.append(f"{request.command} {path}")
        self.tokens.add(request.headers.get("authorization", ""))
        if self.is_silent:
            self.go_on.wait(WAIT_S)
            return
        if re.fullmatch(r"/api/models/org/name(/revision/.+)?", path):
            _send(request, 200, json.dumps(self._info()).encode(), {"Content-Type": "application/json"})
        elif re.fullmatch(r"/api/models/org/name/tree/.+", path):
            files = [
                {"type": "file", "path": each["rfilename"], "oid": each["blobId"]} | each for each in self._siblings()
            ]
            _send(request, 200, json.dumps(files).encode(), {"Content-Type": "application/json"})
        elif (found := re.fullmatch(r"/org/name/resolve/[^/]+/(.+)", path)) is None:
            _send(request, 404, b"", {"X-Error-Code": "RepoNotFound"})
        elif not self.has_access:
            _send(request, 403, b"", {"X-Error-Code": "GatedRepo"})
        else:
            self._send_file(request, found[1], has_body=has_body)

    def _siblings(self) -> list[dict[str, Any]]:
        here = [_sibling(name, (self.folder / name).read_bytes()) for name in self.names()]
        return here + [_sibling(name, b"", size=size) for name, size in self.listed.items()]

    def _info(self) -> dict[str, Any]:
        card = {"license": self.licence} if self.licence else {}
        return {"id": "org/name", "sha": COMMIT, "gated": self.gated, "siblings": self._siblings(), "cardData": card}

    def _send_file(self, request: BaseHTTPRequestHandler, name: str, *, has_body: bool) -> None:
        if not (self.folder / name).is_file():
            _send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        data = (self.folder / name).read_bytes()
        size, content = len(data), hash_of(data)
        given = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        start = int(given[1]) if given else 0
        if given and given[2]:
            data = data[: int(given[2]) + 1]
        request.send_response(206 if given else 200)
        headers = {"ETag": f'"{content}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if given:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{size}"
        for key, value in {**headers, "Content-Length": str(len(data) - start)}.items():
            request.send_header(key, value)
        request.end_headers()
        if has_body:
            self._send_body(request, name, bytes(len(data)) if self.is_damaged else data, start)

    def _send_body(self, request: BaseHTTPRequestHandler, name: str, data: bytes, start: int) -> None:
        for at in range(start, len(data), PIECE):
            if name == self.stop_at and at >= len(data) // 2 and not self.go_on.is_set():
                self.is_stopped.set()
                self.go_on.wait(WAIT_S)
                request.close_connection = True
                return
            try:
                request.wfile.write(data[at : at + PIECE])
            except OSError:  # the client is gone
                return
            self.sent[name] += len(data[at : at + PIECE])


def hash_of(data: bytes) -> str:
    if len(data) >= LARGE:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _sibling(name: str, data: bytes, *, size: int | None = None) -> dict[str, Any]:
    size = len(data) if size is None else size
    git = hashlib.sha1(b"blob %d\0" % size + data, usedforsecurity=False).hexdigest()
    lfs = (
        {
            "size": size,
            "sha256": hashlib.sha256(data).hexdigest(),
            "oid": hashlib.sha256(data).hexdigest(),
            "pointerSize": 134,
        }
        if size >= LARGE
        else None
    )
    return {"rfilename": name, "size": size, "blobId": git, "lfs": lfs}


def _send(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    request.send_response(status)
    for key, value in {**headers, "Content-Length": str(len(body))}.items():
        request.send_header(key, value)
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)


def look_here(model_id: str, revision: str = "") -> HubModel:
    """In this process."""
    with tempfile.TemporaryDirectory() as folder:
        return look(model_id, revision, Path(folder))


@contextmanager
def hub_in(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """For the hub client of this process, and of those that it starts."""
    from huggingface_hub import constants

    hub = FakeHub(folder)
    for name, value in {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HF_TOKEN": "hf_secret"}.items():
        monkeypatch.setenv(name, value)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    changed = {"ENDPOINT": hub.url, "HUGGINGFACE_CO_URL_TEMPLATE": template, "HF_HUB_CACHE": str(cache)}
    for name, value in {**changed, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
        monkeypatch.setattr(constants, name, value)
    try:
        yield hub
    finally:
        hub.close()
