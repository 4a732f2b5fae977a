"""The API's routes about runs: started, ordered, seen; and results: found, marked, put on boards, models hashed."""

from contextlib import nullcontext
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from ...nodes.graph.graph import graph_from_plain
from ...parallel.wording import worded
from ..access.answers import picture
from ..contract import bodies, run
from ..contract.kept import Upload
from ..errors import NotHere
from ..library.app_form import told_by_settings
from ..library.named import named
from ..runs.once import Asked
from ..runs.results import ResultFilter
from ..server import Server
from ..store.paging import FIRST_ROWS, Before, Limit
from ..views.devices import accelerators, asked_place, devices_now
from .following import MOST_WAIT_S, events, until_over
from .requests import CONFLICT, KEYED, Id, Key, NodeName, Responses, User, sends

States = Annotated[list[run.State] | None, Query(description="Only runs in one of these states.")]
BatchId = Annotated[str, Query(max_length=64, description="Only runs that one request started.")]
WorkflowName = Annotated[str, Path(min_length=1, max_length=200)]
Wait = Annotated[float, Query(ge=0, le=MOST_WAIT_S, description="Seconds to wait at most until it is over.")]
LastEvent = Annotated[str, Header(alias="Last-Event-ID", max_length=64, description="Of the last that was seen.")]
EVENTS: Responses = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    204: {"description": "The result was seen; there is nothing more."},
}


def add_routes(router: APIRouter, server: Server) -> None:
    runs = server.runs
    _add_starts(router, server)
    _add_following(router, server)

    @router.get("/runs")
    def list_runs(
        user: User, state: States = None, batch: BatchId = "", limit: Limit = FIRST_ROWS, before: Before = ""
    ) -> list[run.RunRow]:
        """The user's runs, newest first; `state` may be given several times."""
        found = runs.list(user, states=state or (), batch=batch, limit=limit, before=before)
        return [each.row() for each in found]

    @router.delete("/runs/{id}", status_code=204, responses=CONFLICT)
    def delete_run(id: Id, user: User) -> None:
        """Forget a run that does not run, and delete its files."""
        runs.delete(user, id)

    @router.post("/runs/cancel")
    def cancel_runs(user: User, body: bodies.CancelBody) -> run.Cancelled:
        """Runs that wait are taken out, running ones stop at their next step: those that are named, or all."""
        return run.Cancelled(runs=tuple(runs.book.cancel(user, body.runs)))

    @router.post("/runs/priority", status_code=204, responses=CONFLICT)
    def prioritize_runs(user: User, body: bodies.PriorityBody) -> None:
        """Let waiting runs go before or behind the user's others, or once the machine is idle."""
        runs.book.set_priority(user, body.runs, body.priority)

    @router.post("/runs/{id}/cancel", status_code=204)
    def cancel_run(id: Id, user: User, body: bodies.Empty) -> None:
        """A waiting run is taken out, a running one stops at its next step."""
        runs.book.cancel(user, [id])

    @router.post("/runs/{id}/move", status_code=204, responses=CONFLICT)
    def move_run(id: Id, user: User, body: bodies.MoveBody) -> None:
        """Put a waiting run before another one of the user's."""
        runs.book.move(user, id, body.before)

    @router.get("/runs/{id}/previews/{node}", responses=sends("image/webp"))
    def read_preview(id: Id, node: NodeName, user: User, s: Annotated[str, Query(max_length=20)] = "") -> Response:
        """The node's newest preview; `s` is its number, for the browser's sake only."""
        if (data := runs.preview(user, id, node.replace(":", "/"))) is None:
            raise NotHere(worded("node {} of this run has no preview yet; wait for its first step", node))
        return picture(data, "image/webp")

    _add_results(router, server)
    _add_boards(router, server)
    _add_hashes(router, server)


def _add_starts(router: APIRouter, server: Server) -> None:
    runs, settings = server.runs, server.settings

    @router.post("/runs", status_code=201, responses=KEYED)
    def start_run(body: bodies.RunBody, user: User, key: Key = "") -> run.Submitted:
        """Put a run at the end of the queue, or one for each value of a sweep that can be made."""
        by = Asked.of(key, "runs", body.model_dump_json())

        def submit() -> run.Submitted:
            graph, place = graph_from_plain(body.graph), None
            if body.devices.strip() or body.plan.strip():
                here = accelerators(devices_now())
                place = asked_place(body.devices, body.plan, own=settings.place, here=here)
            asked = body.model_dump(include={"overrides", "sweep", "targets", "workflow_id", "priority"})
            return runs.submit(user, graph, place=place, is_forced=body.force, asked_by=by, **asked)

        return runs.book.answers.once(user, by, submit)

    @router.post("/workflows/{name}/runs", status_code=201, responses=KEYED)
    def start_named_run(name: WorkflowName, body: bodies.NamedRunBody, user: User, key: Key = "") -> run.Submitted:
        """Put a run of a workflow at the end of the queue, or one for each value of a sweep that can be made: by the id
        or name of one that the user has saved, by the name or token of an app, or by a template's id. `params` are read
        and checked as `--set` is; of an app they are its settings, and nothing is forced."""
        by = Asked.of(key, "workflows", name, body.model_dump_json())

        def submit() -> run.Submitted:
            found = named(server.library, user, name)
            values = found.values(body.params, body.sweep, settings.reading(user=user))
            asked = {"sweep": body.sweep, "priority": body.priority, "workflow_id": found.workflow_id, "asked_by": by}
            with told_by_settings(found.graph) if found.app else nullcontext():
                forced = body.force and not found.app
                return runs.submit(user, found.graph, overrides=values, is_forced=forced, **asked)

        return runs.book.answers.once(user, by, submit)


def _add_following(router: APIRouter, server: Server) -> None:
    @router.get("/runs/{id}")
    async def get_run(id: Id, user: User, request: Request, wait: Wait = 0.0) -> run.RunWithGraph:
        """One run with its nodes and its workflow; with `wait` once it is over, or as it is after so many seconds."""
        if wait:
            await until_over(server, request, user=user, ids=[id], timeout_s=wait)
        return await run_in_threadpool(server.runs.get, user, id)

    @router.get("/runs/{id}/events", responses=EVENTS)
    async def run_events(id: Id, user: User, request: Request, last: LastEvent = "") -> Response:
        """What the run tells, as it happens: the lines of `latentloom run --json` as server-sent events, the last one a
        `result`. `Last-Event-ID` goes on behind one that was seen."""
        return events(server, request, user=user, id=id)


def _add_results(router: APIRouter, server: Server) -> None:
    results, uploads, intake = server.results, server.uploads, server.intake

    @router.get("/results")
    def list_results(user: User, asked: Annotated[ResultFilter, Query()]) -> list[run.Result]:
        """Pictures, videos and sounds, newest first, with the beginning of what long texts they were made from."""
        return results.list(user, asked)

    @router.get("/results/{id}")
    def get_result(id: Id, user: User) -> run.Result:
        return results.get(user, id)

    @router.delete("/results/{id}", status_code=204)
    def delete_result(id: Id, user: User) -> None:
        """Delete a picture, video or sound, its file too."""
        results.delete(user, id)

    @router.post("/results/marks")
    def mark_results(body: bodies.MarkBody, user: User) -> list[run.Result]:
        """Change stars, tags and boards of some results: of all or, where one is refused, of none."""
        return results.mark(user, body)

    @router.post("/results/{id}/input", status_code=201)
    async def use_result(id: Id, body: bodies.Empty, user: User) -> Upload:
        """Keep a result among the user's inputs; `path` is what Load Image, Load Audio or Load Video takes."""
        return await intake.look(lambda: uploads.copy(user, results.path(user, id)))

    @router.put("/results/{id}/poster")
    async def set_poster(id: Id, body: bodies.PosterBody, user: User) -> run.Result:
        """Choose the frame that stands for a video."""
        return await intake.look(results.set_poster, user, id, body.frame)

    @router.get("/makers")
    def list_makers(user: User) -> list[run.Maker]:
        """The names of the workflows that made the user's results."""
        return results.makers(user)

    @router.get("/tags")
    def list_tags(user: User) -> list[run.TagRow]:
        """Those that the user's results have, most used first."""
        return results.tags(user)


def _add_boards(router: APIRouter, server: Server) -> None:
    boards, results = server.results.boards, server.results

    @router.get("/boards")
    def list_boards(user: User) -> list[run.BoardRow]:
        """Named sets of results, by name."""
        return results.board_rows(user)

    @router.post("/boards", status_code=201)
    def create_board(body: bodies.BoardBody, user: User) -> run.Board:
        return boards.add(user, body.name)

    @router.patch("/boards/{id}")
    def rename_board(id: Id, body: bodies.BoardBody, user: User) -> run.Board:
        return boards.rename(user, id, body.name)

    @router.delete("/boards/{id}", status_code=204)
    def delete_board(id: Id, user: User) -> None:
        """The results on it stay."""
        boards.delete(user, id)


def _add_hashes(router: APIRouter, server: Server) -> None:
    hashes = server.hashes

    @router.post("/hashes", status_code=201)
    def hash_model(body: bodies.HashBody, user: User) -> run.Hashing:
        """Begin to read all weights of a run's model, in the background, for their sha256."""
        return hashes.ask(user, body.run, body.node)

    @router.get("/hashes/{id}")
    def get_hash(id: Id, user: User) -> run.Hashing:
        """How far it is, and what was found."""
        return hashes.get(user, id)

    @router.delete("/hashes/{id}", status_code=204)
    def cancel_hash(id: Id, user: User) -> None:
        hashes.cancel(user, id)
