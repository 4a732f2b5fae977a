"""The agent: what works for us on one machine of a cluster, as an actor of Ray; it owns that machine's pool.

What goes between machines is bytes: JSON, and plain data packed as one safetensors file, as between host and ranks.
Ray's own envelope is a pickle; ours never is.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ... import __version__
from ...parallel.errors import Cancelled, code_of
from ...parallel.pool.pool import Pool
from ...parallel.progress import Preview, Progress, RankWork
from ...parallel.ranks.channel import read_body, write_body
from ...parallel.ranks.seat import World
from ..components.memory import wanted_spares

SAME_EVERYWHERE = ("torch", "diffusers", "transformers")  # packages of which other versions may draw another picture
HOST_SILENCE_S = 60.0  # a job whose host has not listened for so long ends: the host is gone, or cannot reach us
UNKNOWN_S = 0.01
RANKS_S = 90.0  # for ranks to start before they are counted as there
MEETING_PORTS = range(20000, 32768)  # below those that Linux gives to connections by default (`ip_local_port_range`)
TRIES = 64


class Agent:
    """One machine's part of a cluster, as a Ray actor. Its methods take and give str and bytes; Ray calls each in a
    thread of its own.
    """

    def __init__(self, devices: Sequence[str], replicas: int, preload: Sequence[str], address: str) -> None:
        self._address = address
        self._start_time = time.monotonic()
        interface = "lo"
        with contextlib.suppress(ValueError):  # `_work` tells of it, where a job needs other machines
            interface = interface_of(address)
        self._pool = Pool(devices, replicas=replicas, preload=preload, interface=interface, spare_ranks=wanted_spares())
        unpack(pack(None))  # imports what else would keep the first job's host waiting
        self._progress_of: dict[str, AgentProgress] = {}
        self._lock = threading.Lock()

    def hello(self) -> str:
        """Who this is, and whether its ranks are there: a job over several machines waits for the slowest."""
        late = time.monotonic() - self._start_time > RANKS_S  # the first job will say why
        is_ready = late or all(state.is_ready for state in self._pool.states())
        return json.dumps({"versions": versions(), "pid": os.getpid(), "is_ready": is_ready})

    def run(self, job: str, order: str, request: bytes) -> bytes:
        """Do a job to its end, however it ends. `order` is JSON: what `Pool.call` takes, and what the progress says."""
        read = json.loads(order)
        progress = AgentProgress(owner=read["owner"], node=read["node"], wants_previews=read["previews"])
        with self._lock:
            self._progress_of[job] = progress
        try:
            end = self._end(read, request, progress)
        finally:
            with self._lock:
                del self._progress_of[job]
            progress.close()
        return pack({**end, "told": progress.take()})

    def listen(self, job: str, wait_s: float) -> bytes:
        """What the job has told since the last time; waits for it a little."""
        progress = self._progress_of.get(job)
        if progress is None:  # it has not begun, or has ended
            time.sleep(UNKNOWN_S)
        return pack([] if progress is None else progress.take(wait_s))

    def cancel(self, job: str) -> bool:
        """Whether the job was here to hear it."""
        progress = self._progress_of.get(job)
        if progress is not None:
            progress.is_cancelled = True
        return progress is not None

    def meeting(self) -> bytes:
        """HOST:PORT at which ranks of several machines can meet for one job.

        Its first rank listens there: torch's TCPStore does so on all interfaces of its machine, and asks nobody for a
        password, so the machine's network must be trusted. Until it listens nobody holds the port: it is one that
        no system gives away of itself.
        """
        for port in random.SystemRandom().sample(MEETING_PORTS, TRIES):
            with contextlib.suppress(OSError):  # a process listens there on one of its interfaces
                socket.create_server(("", port)).close()
                return pack(f"{self._address}:{port}")
        raise RuntimeError(f"none of {TRIES} ports from {MEETING_PORTS[0]} to {MEETING_PORTS[-1]} is free")

    def _end(self, order: Mapping[str, Any], request: bytes, progress: AgentProgress) -> dict[str, Any]:
        try:
            answer = self._work(order, unpack(request), progress)
        except Cancelled:
            return {"state": "cancelled"}
        except ValueError as error:
            return {"state": "refused", "code": code_of(error), "reason": str(error)}
        except Exception as error:
            told = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
            return {"state": "failed", "code": code_of(error), "reason": told}
        from ...parallel.ranks.rank_job import mark

        return {"state": "done", "mark": mark(answer), "answer": answer if order["answers"] else None}

    def _work(self, order: Mapping[str, Any], request: Mapping[str, Any], progress: Progress) -> Any:
        world = order["world"]
        if world is not None:
            interface_of(self._address)
            world = World(**world)
        asked = {name: order[name] for name in ("num_ranks", "lane", "rank")}
        return self._pool.call(order["function"], request, progress, world=world, **asked)


class AgentProgress(Progress):
    """Keeps what a job tells until the host asks for it."""

    def __init__(self, *, owner: str, wants_previews: bool, node: str = "") -> None:
        self.owner = owner
        self.node = node
        self.wants_previews = wants_previews
        self.is_cancelled = False
        self._is_closed = False
        self._told: deque[list[Any]] = deque()
        self._news = threading.Condition()
        self._heard_time = time.monotonic()

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self._tell("phase", text, is_loading)

    def again(self, text: str) -> None:
        self._tell("again", text)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        self._tell("step", done, total, None if preview is None else preview())

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self._tell("spread", plan, [asdict(each) for each in ranks])

    def check(self) -> None:
        if self.is_cancelled or time.monotonic() - self._heard_time > HOST_SILENCE_S:
            raise Cancelled

    def take(self, wait_s: float = 0.0) -> list[list[Any]]:
        """What was told, in order; waits for something."""
        with self._news:
            self._news.wait_for(lambda: self._told or self._is_closed, wait_s)
            self._heard_time = time.monotonic()
            told = list(self._told)
            self._told.clear()
            return told

    def close(self) -> None:
        """Nothing more will be told: who waits for it need not."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()

    def _tell(self, *told: Any) -> None:
        self.check()
        with self._news:
            self._told.append(list(told))
            self._news.notify_all()


def versions() -> dict[str, str]:
    """The versions of what must be the same on all machines; builds of one version for other hardware are."""
    found = {"latentloom": __version__}
    for name in SAME_EVERYWHERE:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def interface_of(address: str) -> str:
    """The network interface that has this address, by which other machines reach this one."""
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == address for each in addresses):
            return name
    raise ValueError(
        f"no network interface has the address {address} by which Ray knows this machine; "
        "start its Ray with --node-ip-address set to an address of its own"
    )


def pack(plain: Any) -> bytes:
    """Plain data with tensors as bytes; `unpack` reads them."""
    with open(write_body(plain), "rb") as body:  # noqa: PTH123 (a descriptor)
        body.seek(0)
        return body.read()


def unpack(data: bytes) -> Any:
    fd = os.memfd_create("latentloom", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as body:
        body.write(data)
    return read_body(fd)
