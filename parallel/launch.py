"""Run one named function on new ranks of this machine, once: start, wait with a deadline, collect, end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

COLLECTIVE_S = 300.0
"""How long a rank waits for another inside a collective: ranks that load one large model may be minutes apart."""
POLL_S = 0.05


class RankFailed(RuntimeError):
    """A rank raised, died or was silent; the message begins with its number."""


def run_on_ranks(
    function: str,
    request: Mapping[str, Any],
    *,
    num_ranks: int,
    backend: Literal["gloo", "nccl"],
    timeout_s: float,
) -> list[Any]:
    """The answers of `function` ("pipelines.verify:on_rank") called as function(request, rank) on every rank.

    Request and answers are plain JSON data. Raises ValueError if a rank refused the request, RankFailed if one failed
    or did not answer in `timeout_s`; no process is left behind in either case.
    """
    job = {
        "function": function,
        "request": dict(request),
        "num_ranks": num_ranks,
        "backend": backend,
        "collective_s": min(COLLECTIVE_S, timeout_s),
    }
    with tempfile.TemporaryDirectory(prefix="latentloom-") as name:  # 0700
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps(job))
        with _started(folder, num_ranks) as processes:
            return _answers(folder, processes, timeout_s=timeout_s)


@contextlib.contextmanager
def _started(folder: Path, num_ranks: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    package = (__package__ or "").split(".")[0]
    root = str(Path(__file__).resolve().parent.parent)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(num_ranks):
            command = [sys.executable, "-c", START.format(package=package, root=root), str(folder), str(rank)]
            with (folder / f"log{rank}").open("wb") as log:
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


START = """
import importlib.util, sys, types
if importlib.util.find_spec("{package}") is None:
    package = types.ModuleType("{package}")
    package.__path__ = [{root!r}]
    sys.modules["{package}"] = package
from pathlib import Path
from {package}.parallel.rank import main
main(Path(sys.argv[1]), int(sys.argv[2]))
"""
"""Starts a rank also where the package was found by a path that a new process does not have."""


def _answers(folder: Path, processes: list[subprocess.Popen[bytes]], *, timeout_s: float) -> list[Any]:
    end = time.monotonic() + timeout_s
    answers: dict[int, Any] = {}
    while len(answers) < len(processes):
        for rank, process in enumerate(processes):
            if rank in answers:
                continue
            ended = process.poll() is not None  # asked before the file is looked for, which it writes before it ends
            path = folder / f"answer{rank}.json"
            if path.exists():
                found = json.loads(path.read_text())
                if "answer" not in found:
                    raise _first_cause(folder, len(processes))
                answers[rank] = found["answer"]
            elif ended:
                raise RankFailed(f"rank {rank} died with exit code {process.returncode}: {_last_words(folder, rank)}")
        if time.monotonic() > end:
            silent = ", ".join(str(rank) for rank in range(len(processes)) if rank not in answers)
            raise RankFailed(
                f"rank {silent} did not answer in {timeout_s:g} s; give it longer, or make the work smaller"
            )
        time.sleep(POLL_S)
    return [answers[rank] for rank in range(len(processes))]


def _first_cause(folder: Path, num_ranks: int) -> Exception:
    """What went wrong first: others fail after it, because it is no longer there to exchange with them."""
    time.sleep(POLL_S)
    paths = [(rank, folder / f"answer{rank}.json") for rank in range(num_ranks)]
    found = [(path.stat().st_mtime_ns, rank, json.loads(path.read_text())) for rank, path in paths if path.exists()]
    wrong = sorted((each for each in found if "answer" not in each[2]), key=lambda each: each[:2])
    for _, _, told in wrong:
        if "refused" in told:
            return ValueError(told["refused"])
    _, rank, told = wrong[0]
    return RankFailed(f"rank {rank}: {told['failed']}")


def _last_words(folder: Path, rank: int) -> str:
    lines = (folder / f"log{rank}").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
