"""Runs of workflows from Python, with events, progress and cancel; and what several of them share.

Whatever is wrong is raised: `ValueError` before anything runs, `NodeFailed` for a node (both in the tree of
`parallel/errors.py`, with a `code`), and `Cancelled`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, cast

from ...parallel.errors import Cancelled
from ...parallel.machine.folders import user_cache
from ...parallel.machine.now import devices_now
from ...pipelines.place import read_place
from ...pipelines.values import Image, Place
from ..execution.attempt import attempt, open_caches, workspace_of
from ..execution.events import Event, Sink
from ..execution.preflight import blocking, foretell
from ..execution.watch import EitherToken, Token
from ..files.picture_files import write_picture
from ..files.workspace import Workspace
from ..graph.check import ensure
from ..graph.problems import GraphError
from ..graph.ready import ready
from ..graph.resolve import baked
from ..headless.lifetime import claimed
from ..headless.terminal import ProgressBars
from ..headless.workflow_files import roots_of
from ..registry import SPECS
from ..steps.arguments import as_image
from .result import Result
from .workflow import Workflow, outside

# A workflow, the path of its file or of what carries it, the name of a template, or what JSON holds.
Source = Workflow | Path | str | Mapping[str, object]
P = ParamSpec("P")


def _awaited(call: Callable[P, Result]) -> Callable[P, Coroutine[Any, Any, Result]]:
    """The same beside what else the event loop does; `on_event` is called in the loop. Cancelling the task ends the run
    at its next step, on all ranks, and then the task."""

    @functools.wraps(call)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Result:
        loop, ended = asyncio.get_running_loop(), threading.Event()
        given: dict[str, Any] = {**kwargs, "cancel": EitherToken(kwargs.get("cancel"), ended)}  # pyrefly: ignore
        if (on_event := given.get("on_event")) is not None:
            given["on_event"] = functools.partial(loop.call_soon_threadsafe, on_event)
        running = loop.run_in_executor(None, functools.partial(call, *args, **given))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            ended.set()
            with contextlib.suppress(Exception, Cancelled):
                await running
            raise

    return awaited


class Session:
    """Runs that share ranks, models and what was made before. Use it as a context, or close it: what is loaded, and
    ranks, end with the last such block of the process.

    `devices` and `plan` come before what workflows say. Results are kept between sessions in the user's cache, or in a
    folder `cache`; with False only while the session lives. Workflows read below the present folder, their own, and
    those of `allow`. With `force`, what is only reckoned (memory, disk) keeps nothing from running.
    """

    _open: ClassVar[set[Session]] = set()

    def __init__(
        self,
        *,
        devices: str = "",
        plan: str = "",
        cache: Path | str | bool = True,
        allow: Sequence[Path | str] = (),
        force: bool = False,
    ) -> None:
        self._place = read_place(devices, plan) if devices or plan else Place()
        self._caches = open_caches(user_cache() if cache is True else Path(cache) if cache else None)
        self._allowed = tuple(map(Path, allow))
        self._is_forced = force

    def run(
        self,
        workflow: Source,
        params: Mapping[str, object] | None = None,
        *,
        out: Path | str = "output",
        on_event: Sink | None = None,
        cancel: Token | None = None,
        progress: bool | None = None,
    ) -> Result:
        """Run a workflow with these values of its params, or of inputs as node.socket; pictures among them are
        written into the folder `out`, where its files go.

        `on_event` is called from threads of the run, and must return at once. `progress` None shows bars in a notebook
        and in a terminal. Raises as said above, `InUse` where another run writes there, and `NotWritten`.
        """
        given, folder = _workflow(workflow), Path(out)
        values = {name: _written(name, value, folder) for name, value in (params or {}).items()}
        roots = None if given.file is None else roots_of(given.file, values.values(), self._allowed)
        workspace = Workspace(output_dir=folder.resolve(), roots=roots, place=self._place)
        if values:  # whether there are such, and take them
            ensure(ready(given.graph, SPECS, values, workspace=workspace))
        prepared = ready(baked(given.graph, values), SPECS, workspace=workspace)
        told = foretell(prepared, workspace=workspace, machine=devices_now())
        if problems := [*blocking(told.problems, is_forced=self._is_forced)]:
            more = " (this is an estimate; a Session with force=True runs it all the same)"
            raise GraphError(replace(p, message=p.message + more * (p.kind == "estimate")) for p in problems)
        sinks = [on_event] if on_event else []
        if progress or (progress is None and ("ipykernel" in sys.modules or sys.stderr.isatty())):
            sinks.append(ProgressBars({0: given.graph}))

        def sink(event: Event) -> None:
            for each in sinks:
                each(event)

        with outside(), claimed(folder):
            workspace = workspace_of(prepared, folder, roots=roots, place=self._place)
            cancel = cancel or threading.Event()
            made, problem = attempt(prepared, workspace=workspace, caches=self._caches, sink=sink, cancel=cancel)
        if made.state == "cancelled":
            raise Cancelled
        if failure := made.failure or problem:
            raise failure
        return Result(made, folder, given.name)

    async def arun(
        self,
        workflow: Source,
        params: Mapping[str, object] | None = None,
        *,
        out: Path | str = "output",
        on_event: Sink | None = None,
        cancel: Token | None = None,
        progress: bool | None = None,
    ) -> Result:
        """`run` beside what else the event loop does; `on_event` is called in the loop. Cancelling the task ends the
        run at its next step, on all ranks, and then the task."""
        run = _awaited(self.run)
        return await run(workflow, params, out=out, on_event=on_event, cancel=cancel, progress=progress)

    def close(self) -> None:
        """End what was kept warm, unless the process is in the block of another session."""
        self._open.discard(self)
        if self._open:
            return
        from ...pipelines.pools import POOLS

        POOLS.close_idle()
        if "torch" in sys.modules:
            from ...pipelines.components.store import store

            store().clear()

    def __enter__(self) -> Session:
        self._open.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(
    workflow: Source,
    params: Mapping[str, object] | None = None,
    *,
    out: Path | str = "output",
    devices: str = "",
    plan: str = "",
    on_event: Sink | None = None,
    cancel: Token | None = None,
    progress: bool | None = None,
) -> Result:
    """Run a workflow, as `Session.run` does. What is loaded, and ranks, stay warm until the process ends."""
    session = Session(devices=devices, plan=plan)
    return session.run(workflow, params, out=out, on_event=on_event, cancel=cancel, progress=progress)


arun = _awaited(run)


def _workflow(source: Source) -> Workflow:
    if isinstance(source, Mapping):
        return Workflow.from_plain(source)
    return source if isinstance(source, Workflow) else Workflow.read(source)


def _written(name: str, value: object, folder: Path) -> Any:
    """A param as a file holds it: pictures by their paths, in a folder by their content."""
    if getattr(value, "ndim", None) == 0:  # a number of numpy's
        return cast(Any, value).item()
    made = as_image(name, value)
    if not isinstance(made, Image):
        return str(value) if isinstance(value, Path) else value
    if len(made.pixels) != 1:
        raise ValueError(f"{name} is {len(made.pixels)} pictures; a param takes one")
    digest = hashlib.sha256(made.to_numpy().tobytes()).hexdigest()[:16]
    target = folder.resolve() / "inputs" / f"{digest}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    return str(write_picture(made.pixels[0], target, {}))
