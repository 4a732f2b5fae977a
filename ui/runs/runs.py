"""The runs of all users: asked for by a page, made by the server's own threads, there whether a page looks or not."""

import builtins
import contextlib
import dataclasses
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ...nodes.execution.events import Event
from ...nodes.execution.manifest import MANIFEST_FILE, told_by
from ...nodes.execution.preflight import blocking
from ...nodes.execution.schedule import needs_of
from ...nodes.execution.watch import BESIDE, Token, next_on, width_of
from ...nodes.files.thumbnails import preview_webp
from ...nodes.files.workspace import Workspace, folder_name
from ...nodes.graph.graph import Graph, graph_to_plain
from ...nodes.graph.problems import GraphError
from ...nodes.graph.ready import ready
from ...nodes.graph.resolve import baked
from ...nodes.graph.spec import NodeSpec
from ...nodes.headless.foretold import Point, foretold
from ...nodes.headless.job import parse_sweep
from ...nodes.headless.workflow_files import drawn_by_diffusers
from ...nodes.preview.choices import sharing_of
from ...nodes.registry import SPECS
from ...parallel.recent import Recent
from ...parallel.wording import worded
from ...pipelines.values import Place, from_plain, to_plain
from ..contract.run import LeftOut, NodeState, Priority, RunWithGraph, State, Submitted
from ..errors import Draining, NoRoom, NotHere, TooMany
from ..live.live import Live
from ..live.state import AGAIN, Outcome, RunRecord
from ..settings import Settings
from ..store.paging import FIRST_ROWS, MAX_PROMPT, page_of, short_values
from ..store.quota import Quota
from ..store.user_files import fresh_id, graph_bytes, is_own_file, thumbnail_path
from ..views.plan_view import predicted_seconds
from ..worker.process import WorkerProcess
from ..worker.wire import Line, Order, Picture
from ..worker.work import Here, WorkerLost
from .book import RunBook
from .once import NO_KEY, Asked
from .records import RunRecords
from .workers import RunWorkers

logger = logging.getLogger("latentloom")

MOST_TOLD = 10  # points of a sweep that are left out; of the rest only how many there are
CLOSE_S = 10.0
PREVIEW_SIDE = 512
PREVIEW_BYTES = 64 << 20  # how many of all previews are kept: those that came last

LOST = "the workflow of this run could not be read again; it was put aside in the data folder; run it anew"


class Runs:
    """Threads may share it. `close` it, so that what is running is begun again by the next server."""

    def __init__(
        self,
        settings: Settings,
        live: Live,
        *,
        specs: Mapping[str, NodeSpec] = SPECS,
        quota: Quota | None = None,
        work: Here | WorkerProcess | None = None,
    ) -> None:
        self._settings = settings
        self._specs = specs
        self._previews: Recent[Picture] = Recent(PREVIEW_BYTES)  # the newest of each node, by run and node
        self.work = work or Here(settings.cache_dir, specs=specs)
        self.is_draining = False
        self._quota = quota or Quota(settings.data_dir)
        self.book = RunBook(RunRecords(settings.data_dir, quota=self._quota), live)
        self._submitting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by user
        most = len(settings.place.devices) if settings.shares_out else settings.place.replicas
        width = max(width_of(settings.place), most + BESIDE)
        self._workers = RunWorkers(width, self.book, self._execute, starts=next_on(settings.place), groups=self._groups)

    def submit(
        self,
        user: str,
        graph: Graph,
        *,
        overrides: Mapping[str, Any] | None = None,
        sweep: Sequence[str] = (),
        targets: Collection[str] | None = None,
        workflow_id: str | None = None,
        place: Place | None = None,
        is_forced: bool = False,
        priority: Priority = "normal",
        asked_by: Asked = NO_KEY,
        asked_as: Mapping[str, str] | None = None,
    ) -> Submitted:
        """Put a run, or one for each point of a sweep that can be made, into the queue. What is only reckoned keeps
        none from it that `is_forced`; `asked_by` is for `Answers.once`. Raises `GraphError` where
        nothing can be made, `Draining`, or `ValueError`."""
        settings, asked = self._settings, dict(overrides or {})
        workspace = settings.reading(place or settings.place, user=user)
        swept = parse_sweep(graph, self._specs, sweep, given=asked, workspace=workspace)
        if len(swept) > settings.most_points:
            told = worded(
                "--sweep asks for {} runs; at most {} are made; sweep fewer values", len(swept), settings.most_points
            )
            raise ValueError(told)
        batch, now, name = fresh_id(), time.time(), folder_name(graph.name, most=50) or "run"
        day, ids = time.strftime("%Y-%m-%d", time.localtime(now)), [fresh_id() for _ in swept]
        folders = [f"{day}/{name}-{id[:8]}" for id in ids]

        def point(number: int) -> Point:
            own = {**asked, **swept[number]}
            whole = baked(graph, own)
            prepared = partial(ready, whole, self._specs, own, workspace=workspace)
            return Point(
                overrides=own,
                graph=whole,
                folder=settings.output_dir / folders[number],
                ready=cache(prepared) if len(swept) == 1 else prepared,
                number=number + 1,
            )

        first = point(0)
        needs = needs_of(first.ready(), targets)
        if not needs.order:
            raise ValueError("the workflow makes nothing: it has no output; add a Save Image node, or run to a node")
        self._check_waiting(user, len(swept))  # before each is looked at, which takes its time
        points = {ids[0]: first} | {ids[number]: point(number) for number in range(1, len(ids))}
        runs = [
            RunRecord(
                id=id,
                batch=batch,
                user=user,
                name=graph.name,
                workflow_id=workflow_id,
                priority=priority,
                created=now + number * 1e-6,  # a batch keeps its order
                overrides=dict(points[id].overrides),
                varied=varied,
                targets=None if targets is None else tuple(targets),
                params={n: param.default for n, param in points[id].graph.params.items() if param.default is not None},
                plan="" if place is None else place.plan,
                place={} if place is None else to_plain(place),
                folder=folders[number],
                point=number + 1,
                is_keyed=bool(asked_by.key),
                asked_as=dict(asked_as or {}),
                nodes=dict.fromkeys(needs.order, NodeState()),
            )
            for number, (id, varied) in enumerate(zip(ids, swept, strict=True))
        ]
        runs, left_out = self._sound(runs, points, workspace, targets, is_forced=is_forced)
        runs, shared = self._shared_out(runs, points, workspace)
        if not self.book.is_idle:  # a run that begins at once tells it by itself
            seconds = predicted_seconds(points[runs[0].id].ready(), runs[0].nodes, workspace=workspace)
            runs = [run.model_copy(update={"predicted_s": seconds}) for run in runs]  # how long others wait
        num_bytes = len(graph_bytes(graph)) + len(runs) * len(runs[0].model_dump_json())
        ids, first_out = tuple(run.id for run in runs), left_out[:MOST_TOLD]
        made = Submitted(batch=batch, runs=ids, left_out=first_out, num_left_out=len(left_out), shared_out=shared)
        with self._submitting[user]:  # or two at once would both find room for one
            self._check_waiting(user, len(runs))
            self._quota.check(user, "runs", num_bytes=num_bytes, count=len(runs))
            self._quota.check(user, "results", num_bytes=0, count=1)
            self.book.add(runs, graph, asked_by.answered(user, made))
        self._workers.wake()
        return made

    def _sound(
        self,
        runs: Sequence[RunRecord],
        points: Mapping[str, Point],
        workspace: Workspace,
        targets: Collection[str] | None,
        *,
        is_forced: bool,
    ) -> tuple[builtins.list[RunRecord], tuple[LeftOut, ...]]:
        """Those that can be made, and what is wrong with the others. Raises `GraphError` where all are wrong."""
        found = foretold([points[run.id] for run in runs], self._specs, workspace=workspace, targets=targets)
        told = [tuple(blocking(known.problems, is_forced=is_forced)) for known in found]
        if all(told):  # one that can be forced is told first: there is something to decide
            raise GraphError(min(told, key=lambda problems: any(each.kind == "error" for each in problems)))
        pairs = list(zip(runs, told, strict=True))
        left_out = tuple(LeftOut(varied=run.varied, problems=problems) for run, problems in pairs if problems)
        return [run for run, problems in pairs if not problems], left_out

    def _shared_out(
        self, runs: Sequence[RunRecord], points: Mapping[str, Point], workspace: Workspace
    ) -> tuple[Sequence[RunRecord], str]:
        """The runs of a sweep in as many groups of devices as let it end soonest, and why."""
        asked = [points[run.id].ready for run in runs]
        found = sharing_of(asked, workspace=workspace, is_warm=True) if self._settings.shares_out else None
        if found is None:
            return runs, ""
        place, why = found
        logger.info("%s", why)
        if place.replicas == workspace.place.replicas:
            return runs, why
        return [run.model_copy(update={"place": to_plain(place)}) for run in runs], why

    def list(
        self, user: str, *, states: Sequence[State] = (), batch: str = "", limit: int = FIRST_ROWS, before: str = ""
    ) -> builtins.list[RunRecord]:
        """Newest first, behind the one whose id is `before`; those that are over without nodes. Raises `NotHere`."""
        found = [
            run
            for run in self.book.of(user)
            # the last row that was seen is a place in the list, whatever its state is by now
            if run.id == before or ((not states or run.state in states) and (not batch or run.batch == batch))
        ]
        return page_of(found, lambda run: run.id, limit=limit, before=before)

    def get(self, user: str, id: str) -> RunWithGraph:
        """With its nodes, its workflow as it was run, and the versions that made it. Raises `NotHere`."""
        run = self.book.with_nodes(self.book.get(user, id))
        graph = self.book.records.read_graph(user, run.batch)
        told = told_by(self._settings.output_dir / run.folder)
        if graph and told.is_drawn_by_diffusers:
            graph = drawn_by_diffusers(graph)
        return RunWithGraph(
            **dict(run.told(run.nodes)),
            graph=graph_to_plain(baked(graph, run.overrides)) if graph else None,
            versions=told.versions,
            values={name: node.meant for name, node in told.nodes.items() if node.stand_ins},
            inputs={name: short_values(node.values, MAX_PROMPT) for name, node in told.nodes.items() if node.values},
            models={name: node.model for name, node in told.nodes.items() if node.model},
        )

    def delete(self, user: str, id: str) -> None:
        """Forget a run that does not run, and remove the files that it made; what else is in its folder stays."""
        run = self.book.remove(user, id)
        folder = self._settings.output_dir / run.folder
        for name in (*(made.path for made in run.made), f"{run.folder}/{MANIFEST_FILE}"):
            if is_own_file(file := self._settings.output_dir / name, folder):
                file.unlink(missing_ok=True)
        for made in run.made:
            thumbnail_path(self._settings.data_dir, user, made.id).unlink(missing_ok=True)
        for each in (*sorted(folder.rglob("*"), reverse=True), folder):
            with contextlib.suppress(OSError):  # it is no folder, something is in it, or it never was
                each.rmdir()

    def preview(self, user: str, id: str, node: str) -> bytes | None:
        """The node's newest as a small WebP, made only when somebody asks for it."""
        self.book.get(user, id)
        picture = self._previews.get((id, node))
        return None if picture is None else _webp(picture)

    def idle(self) -> contextlib.AbstractContextManager[None]:
        """No run begins while this is entered. Raises `Conflict` while one is under way."""
        return self._workers.held()

    def drain(self, timeout_s: float) -> None:
        """No run is taken and none begins from now on; waits so long for those under way."""
        self.is_draining = True
        self._workers.drain(timeout_s)

    def close(self) -> None:
        self._workers.close(CLOSE_S)
        self.work.close()

    def _check_waiting(self, user: str, count: int) -> None:
        if self.is_draining:
            raise Draining
        most = self._settings.most_waiting
        if (waiting := self.book.num_waiting(user)) + count > most:
            raise TooMany(
                worded(
                    "{} more runs would make {} that wait; at most {} may; sweep fewer values, or wait",
                    count,
                    waiting + count,
                    most,
                )
            )

    def _execute(self, run: RunRecord, tell: Callable[[Event], None], cancel: Token) -> Outcome:
        try:  # what waited before it may have filled the disk
            self._quota.check(run.user, "results", num_bytes=0, count=1)
        except NoRoom as error:
            return Outcome(state="failed", error=str(error), code=error.code)
        graph = self.book.records.read_graph(run.user, run.batch)
        if graph is None:
            return Outcome(state="failed", error=LOST, code=NotHere.code)
        settings = self._settings
        order = Order(
            run=run.id,
            keeper=run.user if settings.has_auth else "",
            graph=graph_to_plain(baked(graph, run.overrides)),
            folder=settings.output_dir / run.folder,
            output_dir=settings.output_dir,
            roots=settings.roots(run.user),
            place=run.place or to_plain(settings.place),
            max_pixels=settings.max_pixels,
            targets=run.targets,
        )
        seen: set[str] = set()

        def hear(told: Line) -> None:
            if told.made is not None:
                seen.add(told.made.id)
                self.book.add_made(run.id, told.made)
            if told.event is not None:
                node = graph.nodes.get(told.event.node)
                self.book.tally.hear(told.event, node.type if node is not None else "other")
                if told.picture is not None:
                    key = run.id, told.event.node
                    self._previews.put(key, told.picture, {key: len(told.picture.pixels)})
                is_shared = settings.shared_cache_dir is not None and not settings.has_auth
                if (told.event.kind, told.event.message) == ("cached", "disk") and is_shared:
                    tell(dataclasses.replace(told.event, message="shared"))  # nobody knows whose
                else:
                    tell(told.event)

        if run.note == AGAIN:  # the server that began it may have died while a file was being written
            _remove_half_written(order.folder)
        try:
            outcome = self.work.make(order, hear, cancel)
        except WorkerLost:
            _remove_half_written(order.folder)
            raise
        gone = seen - {made.id for made in self.book.get(run.user, run.id).made}  # the user has deleted them meanwhile
        return dataclasses.replace(outcome, made=tuple(made for made in outcome.made if made.id not in gone))

    def _groups(self, run: RunRecord) -> int:
        return from_plain(Place, run.place).replicas if run.place else self._settings.place.replicas


@lru_cache(maxsize=8)
def _webp(picture: Picture) -> bytes:
    # remembered for the pages that watch the same run; a picture is known by its pixels
    return preview_webp(picture.pixels, size=(picture.width, picture.height), side=PREVIEW_SIDE)


def _remove_half_written(folder: Path) -> None:
    # what a process that was killed was writing there; every such name begins with a dot, and no other does
    for path in folder.rglob(".*"):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
