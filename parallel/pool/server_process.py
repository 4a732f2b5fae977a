"""The host's side of a fork server: starting it, asking it for a spare and for ranks, ending it.

The fork server is a small process that has imported what ranks need; the host starts it as a program, and asks it over
a socket for the rest.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ..errors import Closed
from ..machine.folders import private, text_of
from ..ranks.channel import Channel
from ..ranks.guard import has_ended
from ..ranks.messages import (
    FROM_RANK,
    FROM_SERVER,
    Fork,
    ForkSpare,
    FromRank,
    FromServer,
    M,
    ServerReady,
    ToServer,
)

logger = logging.getLogger("latentloom")
START = """
import importlib.util, json, os, sys
package, root, function, *given = json.loads(sys.argv[1])
found = importlib.util.find_spec(package)
folders = [os.path.realpath(each) for each in (found and found.submodule_search_locations) or ()]
if root not in folders:  # the host found it by a path that a new process does not have, or has another copy on
    file = os.path.join(root, "__init__.py")
    found = importlib.util.spec_from_file_location(package, file, submodule_search_locations=[root])
    sys.modules[package] = importlib.util.module_from_spec(found)
    found.loader.exec_module(sys.modules[package])
module, _, name = function.partition(":")
getattr(importlib.import_module(package + module), name)(*given)
"""
SERVER = ".parallel.ranks.fork_server:main"
TAIL_BYTES = 4096
LOG_BYTES = 4 << 20  # kept of a rank's log when another process goes on with it
END_S = 5.0  # for the server to end its ranks: an accelerator takes a moment to let go of one


def calling(function: str, *given: Any) -> list[str]:
    """The command of a fresh interpreter that has the package as this process has it, and calls a function of ours,
    `.of.a.module:name`, with what JSON can say."""
    package, root = (__package__ or "").split(".")[0], str(Path(__file__).resolve().parents[2])
    # no module is taken from the current folder
    return [sys.executable, "-P", "-c", START, json.dumps([package, root, function, *given])]


class ServerProcess:
    """A running fork server: one that was started, or the spare that another has forked.

    Its death is the death of its ranks, by the kernel.
    """

    def __init__(self, channel: Channel[FromServer], process: subprocess.Popen[bytes] | None = None) -> None:
        self.channel = channel
        self.channel.socket.setblocking(False)
        self.pid = 0 if process is None else process.pid  # 0 for a spare until it has said that it is ready
        self._pidfd = -1
        self._process = process  # None where it is no child of ours

    @classmethod
    def start(cls, log: Path, preload: Sequence[str], *, num_gpus: int) -> ServerProcess:
        """A new one for ranks of which `num_gpus` have a GPU; it imports first. Raises `OSError`."""
        channel, theirs = Channel.pair(FROM_SERVER)
        try:
            with open(log, "ab", opener=private) as file:
                process = subprocess.Popen(
                    calling(SERVER, theirs.fileno(), os.getpid(), list(preload), num_gpus),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,  # a Ctrl-C in the terminal reaches the host, which decides
                )
        except BaseException:
            channel.close()
            raise
        finally:
            theirs.close()
        return cls(channel, process)

    def spare(self) -> ServerProcess:
        """Ask for a spare. Raises `OSError` or `Closed`."""
        return ServerProcess(self._ask(ForkSpare(), FROM_SERVER))

    def fork(self, order: Fork, *, log: Path) -> Channel[FromRank]:
        """Ask for a rank; it says hello on the channel given back. Raises `OSError` or `Closed`."""
        shorten(log)
        with open(log, "ab", opener=private) as file:
            channel = self._ask(order, FROM_RANK, file.fileno())
        channel.socket.setblocking(False)
        return channel

    def _ask(self, order: ToServer, hears: Collection[type[M]], *fds: int) -> Channel[M]:
        """The host's end of a connection to the process that is asked for."""
        mine, theirs = Channel.pair(hears)
        try:
            self.channel.send(order, [theirs.fileno(), *fds])
        except (OSError, Closed):
            mine.close()
            raise
        finally:
            theirs.close()  # else its end would not be seen: the connection would be open here, too
        return mine

    def hear_ready(self, told: ServerReady, fds: Sequence[int]) -> bool:
        """Whether it can be ended from now on, whatever it does."""
        if told.culprit and self._process is not None:  # its spares say the same
            logger.warning(
                "importing %s starts CUDA, which forked ranks would not survive; so each rank imports for itself when "
                "it starts, some seconds each time; update that package, or remove it where nothing needs it",
                told.culprit,
            )
        self.pid = told.pid
        self._pidfd = fds[0] if fds else -1
        return self._process is not None or self._pidfd >= 0  # by a number alone another process might be meant

    def kill(self) -> None:
        """Whatever it does."""
        if self._process is not None:
            self._process.kill()
        elif self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> int | None:
        """End it and its ranks; returns when it is gone, with its exit code where that can be known."""
        self.channel.close()  # by which it is asked to end: it kills its ranks, and collects them
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            self._process.kill()  # of no effect on one that is gone
            self._process.wait()
        elif self._pidfd >= 0 and not has_ended(self._pidfd, wait_s=END_S):
            self.kill()
            has_ended(self._pidfd, wait_s=END_S)
        code = self._process.returncode if self._process is not None else reap(self._pidfd)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        return code


def reap(pidfd: int) -> int | None:
    """The exit code of a dead process that was no child of ours, but is now; None where it is not."""
    # We are the one to whom orphans go where we are the first process of a container, or its reaper: nobody else would
    # collect the ranks of a server that died.
    try:
        found = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except OSError:
        return None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, as SIGSTOP or a debugger stops one."""
    return text_of(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[:1] in (["T"], ["t"])


def last_line(log: Path) -> str:
    """What a process said last, for an error message."""
    try:
        lines = _tail(log, TAIL_BYTES).decode(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    if not lines:
        return "it said nothing"
    with contextlib.suppress(ValueError, AttributeError):  # it is no line of JSON, as `machine/logs.py` writes them
        plain = json.loads(lines[-1])
        lines = str(plain.get("exception") or plain.get("message")).splitlines() or lines
    return lines[-1][:300]


def how_it_ended(code: int | None, *, log: Path, starved: str | None) -> str:
    """For the user: a verb and what follows. `starved` is what `MemoryKills` says of the moment; no code is unknown."""
    if code in (None, -signal.SIGKILL) and starved:
        return f"was ended by the system for want of memory ({starved})"
    if code is None:
        return f"was killed, or ended: {last_line(log)}"
    if code == -signal.SIGKILL:
        why = "as the system does when memory runs out" if starved is None else "not by the kernel for want of memory"
        return f"was killed (SIGKILL), {why}"
    if code < 0:
        return f"was ended by signal {-code} ({signal.strsignal(-code)}): {last_line(log)}"
    return f"ended with exit code {code}: {last_line(log)}"


def shorten(log: Path) -> None:
    """To what was said last, where it has grown too long."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.write_bytes(_tail(log, LOG_BYTES))


def _tail(log: Path, num_bytes: int) -> bytes:
    with log.open("rb") as file:
        file.seek(-min(num_bytes, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read()
