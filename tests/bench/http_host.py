"""The page as a process of its own, with two users, and what a drill asks of it after each attack."""

import asyncio
import contextlib
import hashlib
import http.client
import io
import json
import os
import random
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.ports import free_port

USERS = ("ann", "bob")
START_S, SETTLE_S = 180.0, 40.0
SPARE_FILES, SPARE_BYTES = 12, 256 << 20  # more than at first, that may still be open or in use after an attack


@dataclass
class Tally:
    """What became of one attack."""

    attempts: int = 0
    held: int = 0
    lost: list[str] = field(default_factory=list)
    note: str = ""

    def count(self, is_held: bool, why: str) -> None:
        self.attempts += 1
        self.held += is_held
        if not is_held:
            self.lost.append(why)


@dataclass
class Answer:
    status: int
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data)


@dataclass
class Host:
    """`latentloom ui` with a login."""

    port: int
    process: psutil.Process
    log: Path
    cookies: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    first_files: int = 0
    first_bytes: int = 0
    read: int = 0  # characters of the log that were looked at

    def ask(
        self, user: str, method: str, path: str, body: bytes = b"", timeout: float = 60.0, **headers: str
    ) -> Answer:
        """On a connection of its own, as somebody who just comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            given = {"Cookie": self.cookies.get(user, "")} | {key.replace("_", "-"): v for key, v in headers.items()}
            connection.request(method, path, body or None, given)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read())
        finally:
            connection.close()

    def send_json(self, user: str, method: str, path: str, data: object) -> Answer:
        return self.ask(user, method, path, json.dumps(data).encode(), Content_Type="application/json")

    def log_in(self, user: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = urlencode({"username": user, "password": f"{user}-secret"})
        connection.request("POST", "/login", body, {"Content-Type": "application/x-www-form-urlencoded"})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        self.cookies[user] = "; ".join(cookies)
        connection.close()

    def settle(self) -> None:
        """Ann's things, and what the server needs when nobody attacks it."""
        for user in USERS:
            self.log_in(user)
        path = self.ask("ann", "POST", "/loom/uploads", picture(0), X_Name="mine.png").json()["path"]
        copying = copy_of(path)
        self.send_json("ann", "POST", "/loom/workflows", {"graph": copying, "name": "mine"})
        self.send_json("ann", "PUT", "/loom/drafts/mine", {"graph": copying})
        [run] = self.send_json("ann", "POST", "/loom/runs", {"graph": copying}).json()["runs"]
        self.wait_for("ann", run)
        for user in USERS:
            for _ in range(20):
                for path in ("/", "/loom/me", "/loom/workflows", "/loom/runs", "/loom/models", "/loom/openapi.json"):
                    self.ask(user, "GET", path)
        self.kept = self.things()
        self.first_files, self.first_bytes = self.process.num_fds(), self.process.memory_info().rss

    def wait_for(self, user: str, run: str) -> None:
        """Until a run is over; one that never is ends the drill."""
        end = time.monotonic() + START_S
        while (state := self.ask(user, "GET", f"/loom/runs/{run}").json()["state"]) in ("waiting", "running"):
            assert time.monotonic() < end, f"the run {run} is {state} after {START_S:.0f} s"
            time.sleep(0.1)

    def things(self) -> dict[str, str]:
        """What Ann has, each with what it holds."""
        paths = ["/loom/drafts/mine"]
        paths += [f"/loom/workflows/{row['id']}" for row in self.ask("ann", "GET", "/loom/workflows").json()]
        paths += [f"/loom/files/{row['id']}" for row in self.ask("ann", "GET", "/loom/results").json()]
        paths += [f"/loom/runs/{row['id']}" for row in self.ask("ann", "GET", "/loom/runs").json()]
        paths += [f"/loom/uploads/{row['path']}/thumb" for row in self.ask("ann", "GET", "/loom/uploads").json()]
        answers = {path: self.ask("ann", "GET", path) for path in paths}
        return {path: f"{a.status} {hashlib.sha256(a.data).hexdigest()}" for path, a in answers.items()}

    def losses(self) -> list[str]:
        """What is not as it was before, once connections had time to end."""
        if not self.process.is_running() or self.process.status() == psutil.STATUS_ZOMBIE:
            return ["the server died"]
        found, end = self._found(), time.monotonic() + SETTLE_S
        while found and time.monotonic() < end:
            time.sleep(1)
            found = self._found()
        self.read = len(self.log.read_text(errors="replace"))
        return found

    def _found(self) -> list[str]:
        try:
            now = self.things()
        except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            return [f"Ann is not answered: {error!r}"]
        found = [f"Ann's {path} is {now.get(path, 'gone')}" for path, was in self.kept.items() if now.get(path) != was]
        if (files := self.process.num_fds()) > self.first_files + SPARE_FILES:
            found.append(f"{files} descriptors, {self.first_files} at first")
        if (used := self.process.memory_info().rss) > self.first_bytes + SPARE_BYTES:
            found.append(f"{used >> 20} MiB, {self.first_bytes >> 20} at first")
        log = self.log.read_text(errors="replace")[self.read :]
        for word in ("Traceback", "Too many open files"):
            if word in log:
                found.append(f"the log says {word!r}, and ends with {log[-300:]!r}")
        if (lines := log.count("\n")) > 2000:
            found.append(f"the log has {lines} lines")
        return found


@contextlib.contextmanager
def hosting(folder: Path, *options: str, descriptors: int = 0) -> Iterator[Host]:
    """The server, listening and settled; `descriptors` is what the system allows it, 0: as many as here."""
    users = folder / "users.txt"
    users.write_text("".join(f"{user}:{user}-secret\n" for user in USERS))
    users.chmod(0o600)
    port = free_port()
    command = [sys.executable, "-m", "latentloom", "ui", "--port", str(port), "--auth", str(users), *options]
    command += ["--data-dir", str(folder / "data"), "--output-dir", str(folder / "output")]

    def limited() -> None:
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=limited, env=dict(os.environ)
        )
    assert process.stdout is not None
    try:
        is_told, _, _ = select.select([process.stdout], [], [], START_S)
        line = process.stdout.readline() if is_told else f"nothing for {START_S:.0f} s"
        assert " is at http" in line, (line, (folder / "log.txt").read_text())
        host = Host(port, psutil.Process(process.pid), folder / "log.txt")
        host.settle()
        yield host
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def opened(port: int, source: str, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)), 20)
    writer.write(data)
    return reader, writer


def picture(seed: int, side: int = 96) -> bytes:
    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(seed).randbytes(side * side * 3)).save(file, "PNG")
    return file.getvalue()


def copy_of(upload: str) -> dict[str, object]:
    load = {"type": "LoomLoadImage", "inputs": {"path": upload}}
    save = {"type": "LoomSaveImage", "inputs": {"image": {"from": "load.image"}}}
    return {"format": 1, "name": "copy", "nodes": {"load": load, "save": save}}
