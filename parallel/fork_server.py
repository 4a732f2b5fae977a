"""The fork server: a small process that has imported what ranks need, and forks one when it is asked to.

Started with `subprocess` by `server_process.py`, never by multiprocessing, which would run a host's main module again.
It computes nothing and touches no accelerator, so that its children may. A lost rank is back without an import.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from . import guard
from .message import Channel, Closed

ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",  # nothing listens on the network
    "NCCL_SOCKET_IFNAME": "lo",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # a look for devices does not start CUDA, which would not survive a fork
    "TOKENIZERS_PARALLELISM": "false",  # its threads do not survive a fork
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",  # we abort groups, and torch asks for it then
}
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
"""What the host's own launcher may have set, and ranks must not take for theirs."""


def main(fd: int, host: int, preload: Sequence[str]) -> None:
    """Serve the connection `fd` until its other side closes it or the process `host` dies."""
    channel = Channel(socket.socket(fileno=fd))
    host_pidfd = os.pidfd_open(host)
    if os.getppid() != host:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's
    os.environ.update(ENVIRONMENT)
    for name in TORCHRUN:
        os.environ.pop(name, None)
    watcher = guard.Watcher(host_pidfd)
    for name in ("torch", "torch.distributed", "safetensors.torch", ".parallel.rank"):
        _import(name)
    for name in preload:
        with contextlib.suppress(Exception):  # the job that needs it will say what is wrong
            _import(name)
    watcher.stop()
    check_untouched()
    gc.freeze()  # a collection in a child would copy every page it looks at
    Server(channel, host_pidfd).serve()


def _import(name: str) -> None:
    """A module, `.of.ours` from our package, or `module:name` for what a lazy module imports when it is asked for."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module, (__package__ or "").rpartition(".")[0])
    if attribute:
        getattr(found, attribute)


def check_untouched() -> None:
    """Ends this process, with the reason in its log, where a forked rank could not use CUDA."""
    import torch

    if torch.cuda.is_initialized():
        raise SystemExit("a module that ranks need has started CUDA when it was imported, so none can be forked")


class Server:
    """Serves one host."""

    def __init__(self, channel: Channel, host_pidfd: int) -> None:
        self.channel = channel
        self.host_pidfd = host_pidfd
        self.poll = select.poll()
        self.children: dict[int, int] = {}
        """Their pids, by pidfd."""

    def serve(self) -> None:
        self.channel.send({"kind": "ready"})
        self.poll.register(self.channel.fileno(), select.POLLIN)
        self.poll.register(self.host_pidfd, select.POLLIN)
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.host_pidfd:
                    self._end()
                elif fd == self.channel.fileno():
                    self._answer()
                elif fd in self.children:
                    pid, status = self._reap(fd)
                    self.channel.send({"kind": "ended", "pid": pid, "code": os.waitstatus_to_exitcode(status)})

    def _answer(self) -> None:
        try:
            message = self.channel.receive()
        except Closed:
            self._end()
        assert message is not None, "this end waits"
        try:
            self.fork(message.header, message.fds)
        except OSError as error:
            told = {name: message.header[name] for name in ("rank", "birth")}
            self.channel.send({"kind": "not_forked", **told, "message": error.strerror or str(error)})
        for fd in message.fds:
            os.close(fd)

    def fork(self, config: dict[str, Any], fds: Sequence[int]) -> None:
        """`fds`: the rank's connection to the host, and its log. No child is left where it fails."""
        if not fds:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        pid = os.fork()
        if not pid:
            self._become_rank(server, config, fds)
        try:
            pidfd = os.pidfd_open(pid)  # of our own child, which is not reaped before, so that it cannot be another's
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.children[pidfd] = pid
        self.poll.register(pidfd, select.POLLIN)
        told = {"kind": "forked", "rank": config["rank"], "birth": config["birth"], "pid": pid}
        try:
            self.channel.send(told, [pidfd])
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            self._reap(pidfd)
            raise

    def _become_rank(self, server: int, config: dict[str, Any], fds: Sequence[int]) -> None:
        """Does not return."""
        try:
            guard.die_with_parent(server)
            connection, log = fds
            os.dup2(log, 1)
            os.dup2(log, 2)
            for fd in (log, self.channel.fileno(), *self.children):
                os.close(fd)
            from .rank import main

            main(Channel(socket.socket(fileno=connection)), self.host_pidfd, config)
        except BaseException:
            traceback.print_exc()  # into its log
        finally:
            os._exit(1)

    def _reap(self, pidfd: int) -> tuple[int, int]:
        """Its pid and status."""
        self.poll.unregister(pidfd)
        pid = self.children.pop(pidfd)
        os.close(pidfd)
        return os.waitpid(pid, 0)

    def _end(self) -> NoReturn:
        """No child is left, not even a zombie."""
        for pid in self.children.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.children.values():
            os.waitpid(pid, 0)
        os._exit(0)
