"""The API's routes about runs: start, list, cancel, order, previews."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ...nodes.graph.graph import graph_from_plain
from ...parallel.wording import worded
from ...pipelines.values import Place
from ..contract.bodies import CancelBody, Empty, MoveBody, PriorityBody, RunBody
from ..contract.run import Cancelled, RunRow, RunWithGraph, State, Submitted
from ..errors import NotHere
from ..server import Server
from ..store.files import picture
from ..store.paging import FIRST_ROWS
from ..views.devices import accelerators, asked_place, devices_now
from .requests import CONFLICT, Before, Id, Limit, NodeName, User, sends

States = Annotated[list[State] | None, Query(description="Only runs in one of these states.")]
BatchId = Annotated[str, Query(max_length=64, description="Only runs that one request started.")]


def add_routes(router: APIRouter, server: Server) -> None:
    runs = server.runs

    @router.post("/runs", status_code=201)
    def start(body: RunBody, user: User) -> Submitted:
        """Put a run at the end of the queue, or one for each value of a sweep that can be made."""
        return runs.submit(
            user,
            graph_from_plain(body.graph),
            overrides=body.overrides,
            sweep=body.sweep,
            targets=body.targets,
            workflow_id=body.workflow_id,
            place=_place(body, server.settings.place),
            is_forced=body.force,
            priority=body.priority,
        )

    @router.get("/runs")
    def list_runs(
        user: User, state: States = None, batch: BatchId = "", limit: Limit = FIRST_ROWS, before: Before = ""
    ) -> list[RunRow]:
        """The user's runs, newest first; `state` may be given several times."""
        found = runs.list(user, states=state or (), batch=batch, limit=limit, before=before)
        return [run.row() for run in found]

    @router.get("/runs/{id}")
    def get_run(id: Id, user: User) -> RunWithGraph:
        """One run with its nodes and its workflow."""
        return runs.get(user, id)

    @router.delete("/runs/{id}", status_code=204, responses=CONFLICT)
    def delete_run(id: Id, user: User) -> None:
        """Forget a run that does not run, and delete its files."""
        runs.delete(user, id)

    @router.post("/runs/cancel")
    def cancel_runs(user: User, body: CancelBody) -> Cancelled:
        """Runs that wait are taken out, running ones stop at their next step: those that are named, or all."""
        return Cancelled(runs=tuple(runs.book.cancel(user, body.runs)))

    @router.post("/runs/priority", status_code=204, responses=CONFLICT)
    def prioritize_runs(user: User, body: PriorityBody) -> None:
        """Let waiting runs go before or behind the user's others, or once the machine is idle."""
        runs.book.set_priority(user, body.runs, body.priority)

    @router.post("/runs/{id}/cancel", status_code=204)
    def cancel_run(id: Id, user: User, body: Empty) -> None:
        """A waiting run is taken out, a running one stops at its next step."""
        runs.book.cancel(user, [id])

    @router.post("/runs/{id}/move", status_code=204, responses=CONFLICT)
    def move_run(id: Id, user: User, body: MoveBody) -> None:
        """Put a waiting run before another one of the user's."""
        runs.book.move(user, id, body.before)

    @router.get("/runs/{id}/previews/{node}", responses=sends("image/webp"))
    def preview(id: Id, node: NodeName, user: User, s: Annotated[str, Query(max_length=20)] = "") -> Response:
        """The node's newest preview; `s` is its number, for the browser's sake only."""
        if (data := runs.preview(user, id, node.replace(":", "/"))) is None:
            raise NotHere(worded("node {} of this run has no preview yet; wait for its first step", node))
        return picture(data, "image/webp")


def _place(body: RunBody, own: Place) -> Place | None:
    """None: where the server says."""
    if not body.devices.strip() and not body.plan.strip():
        return None
    return asked_place(body.devices, body.plan, own=own, here=accelerators(devices_now()))
