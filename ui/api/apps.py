"""The API's routes about apps: published and taken back by their owner, opened and run by others.

Who opens an app says nothing but values of its settings, whatever his page would send: the workflow comes from the
server, and its run is one of his own, with his files, in his turn, within his quota.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query

from ...nodes.execution.preflight import foretell
from ...nodes.graph.graph import Graph
from ...nodes.graph.ready import ready
from ...nodes.preview.meant import text_tokens
from ...nodes.registry import SPECS
from ..contract.app import App, AppForm, AppKnown, AppTokens
from ..contract.bodies import AppCheckBody, AppRunBody, PublishBody
from ..contract.run import Result, Submitted
from ..library.app_form import by_setting, check_values, form_of, is_shown, shapes_of, told_by_settings
from ..runs.once import Asked
from ..runs.results import ResultFilter
from ..server import Server
from ..store.paging import MAX_ROWS
from ..views.devices import devices_now
from .requests import CONFLICT, KEYED, Id, Key, User

RunId = Annotated[str, Query(max_length=64, description="One of the user's own.")]


def add_routes(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/apps")
    def list_apps(user: User) -> list[App]:
        """The links to apps that the user has given, newest first."""
        return library.published(user)

    @router.put("/workflows/{id}/app")
    def publish_app(id: Id, body: PublishBody, user: User) -> App:
        """Make an app of a version of the workflow, or bring its app to that; the link stays the same."""
        return library.publish(user, id, body.version)

    @router.delete("/workflows/{id}/app", status_code=204)
    def revoke_app(id: Id, user: User) -> None:
        """Take the link back; runs that it began go on, and results stay with who made them."""
        library.revoke(user, id)

    _add_guests(router, server)


def _add_guests(router: APIRouter, server: Server) -> None:
    settings, apps, runs, results = server.settings, server.library.apps, server.runs, server.results

    @router.get("/apps/{token}")
    def open_app(token: Id, user: User) -> AppForm:
        """Its settings; nothing of its nodes."""
        app = apps.find(token)
        return form_of(app.read(), SPECS, version=app.version)

    @router.post("/apps/{token}/runs", status_code=201, responses=KEYED)
    def run_app(token: Id, body: AppRunBody, user: User, key: Key = "") -> Submitted:
        """Put a run of the user's own at the end of the queue. Nothing but the app's settings is taken, each within its
        range, and nothing is forced."""
        by = Asked.of(key, "apps", token, body.model_dump_json())

        def submit() -> Submitted:
            graph = apps.find(token).read()
            check_values(graph, SPECS, body.params)
            with told_by_settings(graph):
                return runs.submit(user, graph, overrides=body.params, asked_by=by)

        return runs.book.answers.once(user, by, submit)

    @router.post("/apps/{token}/check", responses=CONFLICT)
    async def check_app(token: Id, body: AppCheckBody, user: User) -> AppKnown:
        """What is known of its settings before a run. A newer question of the same `page` ends this one."""

        def ask(go_on: Callable[[], None]) -> AppKnown:
            graph = asked(token, body)
            workspace = settings.reading(settings.place, user=user)
            prepared = ready(graph, SPECS, body.params, workspace=workspace)
            told = foretell(prepared, workspace=workspace, machine=devices_now(), go_on=go_on)
            return AppKnown(values=by_setting(graph, told.values), shapes=shapes_of(graph, told.sizes))

        return await server.newest.answer(ask, user=user, page=body.page, about="app")

    @router.post("/apps/{token}/tokens", responses=CONFLICT)
    async def count_app_tokens(token: Id, body: AppCheckBody, user: User) -> AppTokens:
        """How many tokens text encoders read of its settings. A newer question of the same `page` ends this one."""

        def ask(go_on: Callable[[], None]) -> AppTokens:
            graph = asked(token, body)
            workspace = settings.reading(user=user)
            prepared = ready(graph, SPECS, body.params, workspace=workspace)
            counts = text_tokens(prepared, workspace=workspace, counter=server.counter, go_on=go_on)
            return AppTokens(tokens=by_setting(graph, counts))

        return await server.counting.answer(ask, user=user, page=body.page, about="app")

    def asked(token: str, body: AppCheckBody) -> Graph:
        check_values(graph := apps.find(token).read(), SPECS, body.params, is_whole=False)
        return graph

    @router.get("/apps/{token}/results")
    def list_app_results(token: Id, user: User, run: RunId) -> list[Result]:
        """What a run of the user's made, first to last, without what the app does not show."""
        graph = apps.find(token).read()
        made = results.list(user, ResultFilter(batch=runs.book.get(user, run).batch, limit=MAX_ROWS))
        return [each for each in reversed(made) if each.run == run and is_shown(graph, each.node)]
