"""The head of a Ray cluster: joined, watched, because nothing runs without it, and left when the work is done.

Ray itself waits a minute for a head that is gone, then ends the process without a word.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from ...parallel.errors import RankFailed, one_line
from ...parallel.machine.deadline import within

logger = logging.getLogger("latentloom")

MISSING = "--cluster needs Ray, which is not installed; run: pip install 'latentloom[ray]'"
PROBE_S = 5.0  # for a cluster's address to take a connection
CONNECT_S = 60.0
LOOK_S = 1.0  # between looks at the head
KNOCK_S = 2.0  # for the head's machine to take a connection, or to refuse it
MAX_REFUSALS = 3  # in a row, before it is gone
ANSWER_S = 10.0  # for a head that takes connections to answer; one that is busy may miss it, but not often
MAX_SILENCES = 2
LEAVE_S = 5.0  # for Ray to let go of a cluster
_connecting = threading.Lock()
# The address by which this process has joined its cluster: Ray tells another one, where it was localhost.
_joined: set[str] = set()
_heads: list[RayHead] = []  # the head of the cluster that this process has joined last, if any


class RayHead:
    """A head, and the thread that looks at it for as long as this process is in its cluster."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.problem = ""  # what it does instead of answering
        # Whether this process talks to it itself; a proxy of Ray's does for `ray://`.
        self._is_near = "://" not in address
        self.thread = threading.Thread(target=self._watch, name="latentloom head", daemon=True)

    def _watch(self) -> None:
        import ray

        refusals = silences = 0
        while ray.is_initialized() and self in _heads:
            refusal = self._knock() if self._is_near else ""
            silence = "" if refusal else _no_answer()
            refusals = refusals + 1 if refusal else 0
            silences = silences + 1 if silence else 0
            if refusals == silences == 0:
                self.problem = ""
            elif refusals >= MAX_REFUSALS or silences >= MAX_SILENCES:
                self.problem = refusal or silence
            time.sleep(LOOK_S)

    def _knock(self) -> str:
        """Why it takes no connection, which a killed one does at once; empty where it does."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_S).close()
        except OSError as error:
            return error.strerror or str(error)
        return ""


def check_head() -> None:
    """Raises `RankFailed` where the head of the cluster that this process is in is lost."""
    for head in _heads:
        if head.problem:
            raise RankFailed(lost(head.address, head.problem))


def has_head() -> bool:
    return not any(head.problem for head in _heads)


def leave(code: int) -> None:
    """Let go of the cluster, if this process has joined one. Where Ray cannot, it ends this process with this code."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return
    try:
        if has_head():
            within(ray.shutdown, timeout_s=LEAVE_S)
            return
    except Exception as error:  # Ray raises what its parts raise
        logger.warning("the cluster could not be left (%s)", one_line(error))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody reads any more
            stream.flush()
    os._exit(code)  # at Python's own end Ray would wait for the head once more


def lost(address: str, problem: str) -> str:
    return (
        f"the cluster's head at {address} is lost ({problem}), and nothing runs without it; "
        "start it again with `ray start --head`, then run this again"
    )


def connect(address: str) -> None:
    """Join the cluster, once in a process. Raises ValueError where that cannot be, in a minute at the latest."""
    try:
        import ray
    except ImportError:
        raise ValueError(MISSING) from None
    with _connecting:
        if ray.is_initialized():
            present = ray.get_runtime_context().gcs_address
            if address not in _joined and "://" not in address and address not in ("auto", present):
                raise ValueError(f"this process works with the cluster at {present} already; give --cluster {present}")
            _watch(address)
            return
        _probe(address)
        import ray._private.worker as worker

        # Ray speaks of lost workers on stdout, which may carry our JSON; we tell of them ourselves.
        worker._worker_logs_enabled = False  # no public switch covers what a driver hears of raylets (2.60)
        logging.getLogger("ray").setLevel(logging.CRITICAL)
        try:
            within(
                lambda: ray.init(address=address, namespace="latentloom", log_to_driver=False, configure_logging=False),
                timeout_s=CONNECT_S,
            )
        except Exception as error:  # Ray raises what its parts raise
            if found := _token_fault(address, error):
                raise ValueError(
                    f"cluster {address} asks for a token that this process has not ({found}); "
                    "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to what `ray get-auth-token` prints beside the head"
                ) from None
            reason = one_line(error)
            raise ValueError(
                f"cluster {address} cannot be joined ({reason}); this machine must be one of it: "
                "run `ray start --address=HOST:PORT` here, or give --cluster ray://HOST:10001"
            ) from None
        _joined.clear()
        _joined.add(address)
        _watch(address)


def machines_alive(devices: Sequence[str]) -> list[dict[str, Any]]:
    """What Ray says of each machine that may work for us: it is there, and has CPUs and as many GPUs as are named."""
    import ray

    check_head()
    try:
        nodes = within(ray.nodes, timeout_s=MAX_SILENCES * ANSWER_S, check=check_head)
    except RankFailed:
        raise
    except Exception as error:  # Ray raises what its parts raise
        raise RankFailed(lost(_heads[0].address, one_line(error))) from None
    needs = {"CPU": 1.0, "GPU": float(count_gpus(devices))}
    return [
        node
        for node in nodes
        if node["Alive"] and all(node["Resources"].get(name, 0.0) >= least for name, least in needs.items())
    ]


def count_gpus(devices: Sequence[str]) -> int:
    return sum(device.startswith("cuda") for device in devices)


def _watch(address: str) -> None:
    import ray

    where = address if "://" in address else ray.get_runtime_context().gcs_address
    if not any(head.address == where and head.thread.is_alive() for head in _heads):
        _heads[:] = [RayHead(where)]  # the thread of another ends by itself: it is not among them any more
        _heads[0].thread.start()


def _probe(address: str) -> None:
    """Find out soon whether somebody listens there: Ray itself tries for long."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdigit():
        raise ValueError(f"--cluster is {address!r}; give auto, HOST:PORT such as 10.0.0.1:6379, or ray://HOST:10001")
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_S).close()
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"no Ray cluster answers at {address} ({error}); start one with `ray start --head`, "
            "or give the address that it printed"
        ) from None


def _token_fault(address: str, error: Exception) -> str:
    """What Ray has against the token; empty where that is not why it did not join.

    `ray.init` says of a refused token that it could not connect, and no more (2.60); its client of the head says why.
    """
    import ray.exceptions
    from ray._private.services import canonicalize_bootstrap_address
    from ray._raylet import GcsClient  # pyrefly: ignore[missing-module-attribute]

    refusal = getattr(ray.exceptions, "AuthenticationError", ())  # older Ray knows no tokens
    with contextlib.suppress(Exception):  # Ray raises what its parts raise
        try:
            if isinstance(error, refusal):
                raise error
            within(lambda: GcsClient(address=canonicalize_bootstrap_address(address)), timeout_s=PROBE_S)
        except refusal as found:
            return one_line(found).partition(" Ensure that")[0].rstrip(".")  # before Ray's own advice
    return ""


def _no_answer() -> str:
    """Empty where there is one."""
    import ray

    try:
        within(ray.nodes, timeout_s=ANSWER_S)
    except Exception as error:  # Ray raises what its parts raise
        return one_line(error)
    return ""
