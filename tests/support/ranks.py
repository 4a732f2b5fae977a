"""Warm ranks for tests: processes that joined a gloo group once and run functions by name, again and again."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
DEADLINE_S = 120.0
COLLECTIVE_S = 20.0
VISIBLE = "CUDA_VISIBLE_DEVICES"
GRACE_S = 5.0  # for the other ranks to raise too, once one has


class RankError(Exception):
    """What a rank raised, or that it did not answer."""


class Ranks:
    """`num_ranks` processes; `run` calls one function on all of them and gives back one result for each.

    They end with `close`, with the `with` block, and when this process does.
    """

    def __init__(self, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._start()

    def _start(self) -> None:
        self._store = tempfile.mkdtemp(prefix="ranks")
        for rank in range(self.num_ranks):
            mine, theirs = multiprocessing.Pipe()
            store, path = f"{self._store}/store", [str(TESTS), *sys.path]
            process = started(_serve, theirs, rank, self.num_ranks, store, path, daemon=True)
            theirs.close()
            self._processes.append(process)
            self._pipes.append(mine)

    def run(self, function: str, *args: Any, deadline_s: float = DEADLINE_S) -> list[Any]:
        """Call `module:function(rank, *args)` on every rank.

        If one raises or is silent, all are replaced, because the others may wait for it, and RankError tells.
        """
        for pipe in self._pipes:
            with contextlib.suppress(OSError):  # a rank that died says so below
                pipe.send((function, args))
        started, end, answers = time.monotonic(), time.monotonic() + deadline_s, {}
        while len(answers) < self.num_ranks and time.monotonic() < end:
            silent = [pipe for rank, pipe in enumerate(self._pipes) if rank not in answers]
            for pipe in wait(silent, timeout=end - time.monotonic()):
                rank = self._pipes.index(pipe)
                answers[rank] = _received(self._pipes[rank])
                if not answers[rank][0]:  # the others may wait for it
                    end = min(end, time.monotonic() + GRACE_S)
        nothing = False, f"no answer in {time.monotonic() - started:.0f} s"
        found = [answers.get(rank, nothing) for rank in range(self.num_ranks)]
        if not all(is_good for is_good, _ in found):
            self.close()
            self._start()
            raise RankError(
                "\n".join(f"rank {rank}: {value}" for rank, (is_good, value) in enumerate(found) if not is_good)
            )
        return [value for _, value in found]

    def close(self) -> None:
        """End the ranks; a second call does nothing."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(10)
            process.close()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []
        shutil.rmtree(self._store, ignore_errors=True)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def started(function: Callable[..., None], *args: Any, daemon: bool = False) -> Any:
    """A process that has imported `support.preloaded`, forked from the one that has.

    That one sees no GPU: to ask for one, as some libraries do when they are imported, would bar it to what is forked.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.preloaded"])
    visible, before = os.environ.get(VISIBLE), os.environ.get("PYTHONPATH", "")
    process = context.Process(target=_seeing, args=(visible, function, *args), daemon=daemon)
    with pytest.MonkeyPatch.context() as patch:  # of the server, if it starts
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(TESTS), before])))
        patch.setenv(VISIBLE, "")
        patch.setenv(
            "PYTORCH_NVML_BASED_CUDA_CHECK", "1"
        )  # else torch counts GPUs by the driver, also where it has none
        process.start()
    return process


def _seeing(visible: str | None, function: Callable[..., None], *args: Any) -> None:
    """Run it as a process that sees these GPUs; all of them for None."""
    os.environ.pop(VISIBLE, None)
    if visible is not None:
        os.environ[VISIBLE] = visible
    function(*args)


def _received(pipe: Connection) -> tuple[bool, Any]:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return False, "died"


def _serve(pipe: Connection, rank: int, num_ranks: int, store: str, path: Sequence[str]) -> None:
    sys.path[:] = list(dict.fromkeys(path))
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    importlib.import_module("support.checkout")  # makes the checkout importable
    torch.set_num_threads(1)
    # An always-called hook that fails is reported as a warning only.
    warnings.filterwarnings("error", message="module forward hook")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=num_ranks, timeout=timedelta(seconds=COLLECTIVE_S)
    )
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            os._exit(0)
        module, _, name = function.partition(":")
        try:
            answer = True, getattr(importlib.import_module(module), name)(rank, *args)
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        try:
            pipe.send(answer)
        except OSError:  # the test process is gone
            os._exit(0)
