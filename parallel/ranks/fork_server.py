"""The fork server: a small process that has imported what ranks need, and forks one when it is asked to.

Started with `subprocess` by `server_process.py`, never by multiprocessing, which would run a host's main module again.
It computes nothing and touches no accelerator, so that its children may. A lost rank is back without an import.

So is a lost server: before any rank it forks a spare, which shares its pages and serves a connection of its own, on
which nothing is asked while the server lives. Ranks die with the server that forked them, its spare does not:

    host -+- server -+- rank, rank, ...     killed: its ranks die with it, by the kernel
          |          +- spare               asked for a spare of its own, then for ranks; neither imports anything
          +- (watched by all, so that nobody outlives it)

A module that starts CUDA as it is imported spoils what is forked from here; most only ask, and are answered
(`unasked.py`). Where one does start it, a rank is forked all the same, and begins at once as a fresh interpreter
(`ForkServer.culprit`): the same process, connections and death with the server, and some seconds of imports.
"""

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from ..errors import Closed
from ..machine.waiting import asleep
from . import guard
from .channel import Channel
from .heap import HUGE_PAGES
from .messages import TO_RANK, TO_SERVER, Exited, Fork, Forked, NoSpare, NotForked, ServerReady, ToServer, read
from .unasked import driver_unasked, has_started

ENVIRONMENT = {
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # a look for devices does not start CUDA, which would not survive a fork
    "TOKENIZERS_PARALLELISM": "false",  # its threads do not survive a fork
    **HUGE_PAGES,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",  # we abort groups, and torch asks for it then
    "TORCH_NCCL_BLOCKING_WAIT": "0",  # a shell may ask for it, and each wait would hold up the host
}
# Where no rank has one: what asks for GPUs finds none, now and in the ranks.
WITHOUT_GPUS = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
NEEDED = ("torch", "torch.distributed", "safetensors.torch", ".parallel.ranks.rank")
# What the host's own launcher may have set, and ranks must not take for theirs.
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def main(fd: int, host: int, preload: Sequence[str], num_gpus: int) -> None:
    """Serve the connection `fd` until its other side closes it or the process `host` dies.

    `num_gpus` of the ranks have a GPU.
    """
    channel = Channel(socket.socket(fileno=fd), TO_SERVER)
    # In this order: a pid is somebody's only while its process lives. If the host died before the first line, the pidfd
    # may be of a stranger with its number, but then it is not our parent any more.
    host_pidfd = os.pidfd_open(host)
    if os.getppid() != host:
        os._exit(1)
    guard.wake_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's
    os.environ.update(environment(num_gpus) | asleep(os.environ))
    for name in TORCHRUN:
        os.environ.pop(name, None)
    # Imports take many seconds in which nobody polls: a thread watches the host meanwhile. It has to be gone before the
    # first fork, since a child has only the thread that forked.
    watcher = guard.DeathWatch(host_pidfd)
    culprit = import_all(preload, num_gpus=num_gpus)
    watcher.stop()
    gc.freeze()  # a collection in a child would copy every page it looks at
    ForkServer(channel, host_pidfd, preload=preload, culprit=culprit).serve()


def rank_main(fd: int, host_pidfd: int, server_pidfd: int, preload: Sequence[str], order: dict[str, Any]) -> None:
    """Be the rank of `order` in a process that `ForkServer.fork` has prepared, and that began anew. Does not return."""
    for each in (fd, host_pidfd, server_pidfd):
        os.set_inheritable(each, False)  # no program that a library starts is to keep them open
    fork = read(Fork, order, what="fork")
    if fork.device.startswith("cuda"):
        import torch

        torch.cuda.set_device(fork.device)  # where modules start CUDA that start it as they are imported
    for _ in _imported(preload):
        pass  # whoever starts CUDA may, here
    from .rank import main

    main(Channel(socket.socket(fileno=fd), TO_RANK), host_pidfd, fork, server_pidfd=server_pidfd)


def environment(num_gpus: int) -> dict[str, str]:
    return ENVIRONMENT if num_gpus else {**ENVIRONMENT, **WITHOUT_GPUS}


def import_all(preload: Sequence[str], *, num_gpus: int) -> str:
    """What ranks need, and what their jobs will. Gives the module for which they cannot be forked, "" if they can."""
    with driver_unasked(num_gpus) as culprits:
        for name in _imported(preload):
            if not culprits and has_started():
                culprits.append(name)
    return culprits[0] if culprits else ""


def _imported(preload: Sequence[str]) -> Iterator[str]:
    """Each module once it was imported."""
    for name in NEEDED:
        _import(name)
        yield name
    for name in preload:
        with contextlib.suppress(Exception):  # the job that needs it will say what is wrong
            _import(name)
        yield name


def _import(name: str) -> None:
    """A module, `.of.ours` from our package, or `module:name` for what a lazy module imports when it is asked for."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module, (__package__ or "").partition(".")[0])
    if attribute:
        getattr(found, attribute)


class ForkServer:
    """Serves one host. It has one thread, also as a spare: a fork takes no other along, nor a lock that one holds."""

    def __init__(
        self, channel: Channel[ToServer], host_pidfd: int, *, preload: Sequence[str] = (), culprit: str = ""
    ) -> None:
        self.channel = channel
        self.host_pidfd = host_pidfd
        self.preload = preload
        self.culprit = culprit  # the module for which ranks begin anew, or ""
        self.own_pidfd = os.pidfd_open(os.getpid())
        # The server that this process is, or was, the spare of; -1 in one that never was a spare.
        self.server_pidfd = -1
        self.poll = select.poll()
        self.children: dict[int, int] = {}  # the pids of the children, by pidfd

    def serve(self) -> NoReturn:
        while True:
            self.poll.register(self.channel.fileno(), select.POLLIN)
            self.poll.register(self.host_pidfd, select.POLLIN)
            try:
                # From here on a spare outlives its server (before: `_become_spare`), and takes office by being asked.
                self.channel.send(ServerReady(os.getpid(), self.culprit), [self.own_pidfd])
                guard.wake_with_parent()
                while not any(self._turn(fd) for fd, _ in self.poll.poll()):
                    pass  # until this process is the spare, with a connection of its own
            except Closed:
                self._end_server()
                self._end()

    def _turn(self, fd: int) -> bool:
        """Do what a descriptor asks for. True in a new spare, for which none of the other descriptors are."""
        if fd == self.host_pidfd:
            self._end_server()
            self._end()
        elif fd == self.channel.fileno():
            return self._answer()
        elif fd in self.children:
            pid, status = self._reap(fd)
            self.channel.send(Exited(pid=pid, code=os.waitstatus_to_exitcode(status)))
        return False

    def _answer(self) -> bool:
        received = self.channel.receive()
        assert received is not None, "this end waits"
        order, fds = received.message, received.fds
        try:
            if isinstance(order, Fork):
                self.fork(order, fds)
            elif self.fork_spare(fds):
                return True
        except OSError as error:
            problem = error.strerror or str(error)
            self.channel.send(
                NotForked(rank=order.rank, birth=order.birth, problem=problem)
                if isinstance(order, Fork)
                else NoSpare(problem)
            )
        for fd in fds:
            os.close(fd)
        return False

    def fork_spare(self, fds: Sequence[int]) -> bool:
        """True in the spare, whose connection to the host is in `fds`."""
        _prepare(fds)
        server = os.getpid()
        pid = os.fork()
        if pid:
            self._adopt(pid)
            return False
        try:
            self._become_spare(server, fds[0])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        return True

    def fork(self, order: Fork, fds: Sequence[int]) -> None:
        """`fds`: the rank's connection to the host, and its log. No child is left where it fails."""
        _prepare(fds)
        server = os.getpid()
        pid = os.fork()
        if not pid:
            self._become_rank(server, order, fds)
        pidfd = self._adopt(pid)
        try:
            self.channel.send(Forked(rank=order.rank, birth=order.birth, pid=pid), [pidfd])
        except BaseException:  # nobody knows of it, so nobody would end it
            os.kill(pid, signal.SIGKILL)
            self._reap(pidfd)
            raise

    def _become_rank(self, server: int, order: Fork, fds: Sequence[int]) -> None:
        """Does not return."""
        try:
            guard.die_with_parent(server)  # first: until then nobody would end a rank whose server is killed now
            connection, log = fds
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            # The server's pidfd is kept, for the rank watches by it. All else is closed: were its connection open in
            # each rank, the host would see a server's end once the last of its ranks is gone.
            own, self.own_pidfd = self.own_pidfd, -1
            self._close_all()
            if self.culprit:
                _begin_anew([connection, self.host_pidfd, own], self.preload, asdict(order))
            from .rank import main

            channel = Channel(socket.socket(fileno=connection), TO_RANK)
            main(channel, self.host_pidfd, order, server_pidfd=own)
        except BaseException:
            traceback.print_exc()  # into its log
        finally:
            os._exit(1)  # whatever came: a child never goes back up into the server's loop

    def _become_spare(self, server: int, connection: int) -> None:
        guard.die_with_parent(server)  # until it is ready: before, nobody could end it, should it be stopped
        own, self.own_pidfd = self.own_pidfd, -1
        self._close_all()
        self.server_pidfd, self.own_pidfd = own, os.pidfd_open(os.getpid())
        self.channel = Channel(socket.socket(fileno=connection), TO_SERVER)
        self.poll, self.children = select.poll(), {}

    def _close_all(self) -> None:
        """What is the server's own, in a child of it."""
        self.channel.close()
        for fd in (self.own_pidfd, self.server_pidfd, *self.children):
            if fd >= 0:
                os.close(fd)

    def _adopt(self, pid: int) -> int:
        """The pidfd of our own child, which is not reaped before, so that it cannot be another's."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.children[pidfd] = pid
        self.poll.register(pidfd, select.POLLIN)
        return pidfd

    def _reap(self, pidfd: int) -> tuple[int, int]:
        """Collect a child that has ended: its pid and its status, as `os.waitpid` tells it."""
        self.poll.unregister(pidfd)
        pid = self.children.pop(pidfd)
        os.close(pidfd)
        return os.waitpid(pid, 0)

    def _end_server(self) -> None:
        """In a spare whose host is dead: end the server, which may be stopped and so not see that."""
        if self.server_pidfd >= 0 and not guard.has_ended(self.server_pidfd, wait_s=0):
            guard.tell_after(self.host_pidfd, self.server_pidfd, signal.SIGKILL)

    def _end(self) -> NoReturn:
        """No child is left, not even a zombie."""
        # All are killed before one is waited for: the kernel may take seconds to give back what a rank holds of a GPU.
        for pid in self.children.values():
            os.kill(pid, signal.SIGKILL)
        for pid in self.children.values():
            os.waitpid(pid, 0)
        os._exit(0)


def _prepare(fds: Sequence[int]) -> None:
    """Before a fork: the child writes nothing that is ours, and has what it needs."""
    if not fds:  # the kernel dropped them: this process may open no more
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    sys.stdout.flush()  # what is buffered here would be written by the child, too
    sys.stderr.flush()


def _begin_anew(fds: Sequence[int], *given: Any) -> NoReturn:
    """Be a fresh interpreter that calls `rank_main` with these descriptors and plain data."""
    for each in fds:
        os.set_inheritable(each, True)
    # Started as the host has started this one (`START` in pool/server_process.py). It is the same process all the
    # while: its pid is known, its log is open, and what the kernel is to do at its parent's end stays.
    package, root, *_ = json.loads(sys.orig_argv[-1])
    order = json.dumps([package, root, ".parallel.ranks.fork_server:rank_main", *fds, *given])
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], order])
