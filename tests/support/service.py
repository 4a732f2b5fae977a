"""`latentloom serve` in a process of its own, and a workflow for it that only makes text."""

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.ports import free_port

TEXT: dict[str, Any] = {
    "format": 1,
    "name": "says",
    "params": {"word": {"type": "string", "default": "red"}},
    "nodes": {
        "join": {"type": "LoomJoinText", "version": 1, "inputs": {"first": {"param": "word"}, "second": "star"}},
    },
    "outputs": {"text": {"from": "join.text"}},
}
START_S = 120.0


@dataclass
class Serving:
    """A service that listens; `client` sends its token."""

    process: subprocess.Popen[str]
    client: httpx.Client
    folder: Path
    log: Path

    def code(self, path: str) -> int:
        """The status of a GET without a token; 0 where nothing listens."""
        try:
            return httpx.get(str(self.client.base_url) + path, timeout=10, trust_env=False).status_code
        except httpx.TransportError:
            return 0


def serve(folder: Path, *arguments: str, token: str = "a-token-of-this-test", port: int = 0) -> Serving:
    """Started, and ready; its folder may have been served before."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = port or free_port(), folder / "log.txt"
    command = [sys.executable, "-m", "latentloom", "serve", "--port", str(port), *arguments]
    command += ["--data-dir", str(folder / "data"), "--output-dir", str(folder / "output")]
    env = os.environ | {"LATENTLOOM_TOKEN": token, "XDG_CACHE_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    with log.open("a") as errors:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)
    atexit.register(process.kill)  # whatever becomes of who started it
    headers = {"Authorization": f"Bearer {token}"}
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False)
    made = Serving(process, client, folder, log)
    try:
        wait(lambda: process.poll() is not None or made.code("/readyz") == 200)
        assert process.poll() is None, log.read_text()[-3000:]
    except AssertionError:
        process.kill()
        raise
    return made


def wait(is_so: Callable[[], bool], limit_s: float = START_S) -> None:
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end, "it did not become so"
        time.sleep(0.05)
