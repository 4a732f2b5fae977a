"""Processes of the command line that are forked from one that has imported what they need: that alone takes 8 seconds.

As a script it is the process that they are forked from: it reads a JSON object a line, and answers each with a number.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

# What a page and a run of the built-in model import.
PRELOADED = (
    "latentloom.ui.app",
    "latentloom.ui.command",
    "latentloom.pipelines.stages",
    "latentloom.pipelines.families.flux",
    "latentloom.parallel.pool.pool",
    "diffusers.models.autoencoders",
    "diffusers.models.transformers",
    "diffusers.pipelines.flux.pipeline_flux",
)
LEFT_OUT = "peft"  # diffusers imports it where it is installed, which takes seconds: nothing of ours uses it
POLL_S = 0.02
SOME_STEPS, LONG_STEPS = 11, 200
# Between the steps of a run of so many, which is seen at work, or goes on for longer than a test: without it, it would
# take the processor from the page that the test is about.
PAUSES_S = {SOME_STEPS: 0.2, LONG_STEPS: 0.3}


class Nursery:
    """Forks commands; begins with the first one, and may be closed once all have ended."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def start(self, *arguments: str, cwd: Path, env: Mapping[str, str], log: Path, before: str = "") -> Forked:
        """`latentloom ARGUMENTS`, after other code; what it writes on stderr goes to the end of `log`."""
        said = cwd / f"said-{time.monotonic_ns()}"
        os.mkfifo(said)
        asked = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "said": str(said), "log": str(log)}
        asked["before"] = before
        forked = Forked(self, self.ask(**asked), said.open(encoding="utf-8"))
        said.unlink()
        return forked

    def ask(self, **asked: Any) -> Any:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps(asked), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    def close(self) -> None:
        if "_process" in vars(self):
            with self._process as process:
                process.kill()  # it has nothing to put in order, which would take a second

    @cached_property
    def _process(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(Path(__file__))]
        return subprocess.Popen(command, env=self._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Forked:
    """As much of `subprocess.Popen` as the tests use."""

    def __init__(self, nursery: Nursery, pid: int, stdout: IO[str]) -> None:
        self._nursery = nursery
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("latentloom", timeout or 0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.wait()


def _fork(arguments: Sequence[str], cwd: str, env: Mapping[str, str], said: str, log: str, before: str) -> int:
    """The child's id, in the parent; the child is the command."""
    assert threading.active_count() == 1, f"a fork would lose {threading.enumerate()}"
    if pid := os.fork():
        return pid
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:] = dict.fromkeys([*filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *sys.path])
    for fd, path, flags in ((0, os.devnull, 0), (1, said, os.O_WRONLY), (2, log, os.O_WRONLY | os.O_APPEND)):
        os.dup2(opened := os.open(path, flags | os.O_CREAT, 0o600), fd)
        os.close(opened)
    sys.argv = ["latentloom", *arguments]
    exec(before, {})  # noqa: S102 (the test's own text)
    from latentloom.__main__ import main

    sys.exit(main())


def _ended(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _slow_down() -> None:
    from latentloom.nodes.execution.watch import NodeProgress

    step = NodeProgress.step

    def slow(self: NodeProgress, done: int, total: int, preview: Any = None) -> None:
        time.sleep(PAUSES_S.get(total, 0))
        step(self, done, total, preview)

    NodeProgress.step = slow


def _work_here() -> None:
    """A page makes its runs in its own process, as in the libraries that it was forked with; what the worker's own
    process does is told by tests/ui/test_worker.py and by pages that are not forked.
    """
    from latentloom.ui import command
    from latentloom.ui.worker.work import Here

    class Work(Here):
        def start(self) -> None:
            pass

    command.WorkerProcess = Work


def _serve() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    sys.modules.update({LEFT_OUT: None})  # as if it were not installed
    for name in ("support.checkout", *PRELOADED):
        importlib.import_module(name)
    _slow_down()
    _work_here()
    gc.freeze()  # or each child would go through all of it when it ends
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_ended(asked["ended"]) if "ended" in asked else _fork(**asked)), flush=True)


if __name__ == "__main__":
    _serve()
