"""The host's side of the fork server: starting it, asking it for ranks, ending it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .message import Channel, Closed

START = """
import importlib.util, json, os, sys
package, root, fd, host, preload = json.loads(sys.argv[1])
found = importlib.util.find_spec(package)
folders = [os.path.realpath(each) for each in (found and found.submodule_search_locations) or ()]
if root not in folders:  # the host found it by a path that a new process does not have, or has another copy on
    file = os.path.join(root, "__init__.py")
    found = importlib.util.spec_from_file_location(package, file, submodule_search_locations=[root])
    sys.modules[package] = importlib.util.module_from_spec(found)
    found.loader.exec_module(sys.modules[package])
importlib.import_module(package + ".parallel.fork_server").main(fd, host, preload)
"""
TAIL_BYTES = 4096
LOG_BYTES = 4 << 20
"""Kept of a rank's log when another process goes on with it."""
END_S = 5.0
"""For the server to end its ranks: an accelerator takes a moment to let go of one."""


class ServerProcess:
    """A running fork server. Its death is the death of its ranks, by the kernel."""

    def __init__(self, folder: Path, preload: Sequence[str]) -> None:
        self.log = folder / "server.log"
        self.channel, theirs = Channel.pair()
        package = (__package__ or "").split(".")[0]
        root = str(Path(__file__).resolve().parent.parent)
        order = json.dumps([package, root, theirs.fileno(), os.getpid(), list(preload)])
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-c", START, order],  # no module is taken from the current folder
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C in the terminal reaches the host, which decides
                )
        except BaseException:
            self.channel.close()
            raise
        finally:
            theirs.close()
        self.channel.socket.setblocking(False)

    def fork(self, config: Mapping[str, Any], *, log: Path) -> Channel:
        """Ask for a rank; it says hello on the channel given back. Raises `OSError` or `Closed`."""
        mine, theirs = Channel.pair()
        try:
            shorten(log)
            with log.open("ab") as file:
                self.channel.send({"kind": "fork", **config}, [theirs.fileno(), file.fileno()])
        except (OSError, Closed):
            mine.close()
            raise
        finally:
            theirs.close()
        mine.socket.setblocking(False)
        return mine

    def close(self) -> None:
        """End it and its ranks; returns when it is gone."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.process.kill()
        self.process.wait()


def last_line(log: Path) -> str:
    """What a process said last, for an error message."""
    try:
        lines = _tail(log, TAIL_BYTES).decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else "it said nothing"


def shorten(log: Path) -> None:
    """To what was said last, where it has grown too long."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.write_bytes(_tail(log, LOG_BYTES))


def _tail(log: Path, num_bytes: int) -> bytes:
    with log.open("rb") as file:
        file.seek(-min(num_bytes, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read()
