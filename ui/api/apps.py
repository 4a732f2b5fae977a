"""The API's routes about apps: published and taken back by their owner, opened and run by others.

Who opens an app says nothing but values of its settings, whatever his page would send: the workflow comes from the
server, and its run is one of his own, with his files, in his turn, within his quota.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from ...nodes.registry import SPECS
from ..access.answers import nothing
from ..contract.app import App, AppForm
from ..contract.bodies import AppRunBody, Empty
from ..contract.run import Result, Submitted
from ..library.app_form import check_values, form_of, is_shown, told_by_settings
from ..server import Server
from ..store.paging import MAX_ROWS
from .requests import Id, User

RunId = Annotated[str, Query(max_length=64, description="One of the user's own.")]


def add_routes(router: APIRouter, server: Server) -> None:
    _add_owners(router, server)
    _add_guests(router, server)


def _add_owners(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/apps")
    def list_apps(user: User) -> list[App]:
        """The links to apps that the user has given, newest first."""
        return library.published(user)

    @router.put("/workflows/{id}/app")
    def publish_app(id: Id, body: Empty, user: User) -> App:
        """Make an app of the workflow's newest version, or bring its app to that; the link stays the same."""
        return library.publish(user, id)

    @router.delete("/workflows/{id}/app", status_code=204)
    def revoke_app(id: Id, user: User) -> Response:
        """Take the link back; runs that it began go on, and results stay with who made them."""
        library.revoke(user, id)
        return nothing()


def _add_guests(router: APIRouter, server: Server) -> None:
    apps, runs, results = server.library.apps, server.runs, server.results

    @router.get("/apps/{token}")
    def open_app(token: Id, user: User) -> AppForm:
        """Its settings; nothing of its nodes."""
        app = apps.find(token)
        return form_of(app.read(), SPECS, version=app.version)

    @router.post("/apps/{token}/runs", status_code=201)
    def run_app(token: Id, body: AppRunBody, user: User) -> Submitted:
        """Put a run of the user's own at the end of the queue. Nothing but the app's settings is taken, each within its
        range, and nothing is forced.
        """
        graph = apps.find(token).read()
        check_values(graph, SPECS, body.params)
        with told_by_settings(graph):
            return runs.submit(user, graph, overrides=body.params)

    @router.get("/apps/{token}/results")
    def app_results(token: Id, user: User, run: RunId) -> list[Result]:
        """What a run of the user's made, first to last, without what the app does not show."""
        graph = apps.find(token).read()
        made = results.list(user, batch=runs.book.get(user, run).batch, limit=MAX_ROWS)
        return [each for each in reversed(made) if each.run == run and is_shown(graph, each.node)]
