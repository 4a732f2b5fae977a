"""The endpoints for `gradio_client`: list, run, look and fetch, over the same runs as the page."""

# No `from __future__ import annotations` here: Gradio describes the endpoints by the types themselves.

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import gradio as gr
from gradio.events import api
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder
from starlette.concurrency import run_in_threadpool

from ..nodes.graph import Graph, graph_from_plain
from ..nodes.resolve import param_values
from .auth import LOCAL
from .errors import Conflict, NotHere
from .paging import FIRST_ROWS, page_of, short_values, shortened
from .server import Server
from .templates import templates
from .workflow_files import Head

MAX_WAIT_S = 86400.0
POLL_S = 0.2
AT_A_TIME = 64
"""Calls that wait for their runs; each costs a task, and no thread."""


def add_endpoints(server: Server, *, copies: set[str]) -> None:
    """Inside `gr.Blocks`, whose set of files that it deletes when they are old is `copies`."""
    client = ClientApi(server, copies)
    for endpoint in (client.list_workflows, client.run_workflow, client.get_run, client.fetch_result):
        api(endpoint, api_name=endpoint.__name__, concurrency_limit=AT_A_TIME)


class ClientApi:
    """Each endpoint works for the user who is logged in."""

    def __init__(self, server: Server, copies: set[str]) -> None:
        self._server = server
        self._copies = copies

    def list_workflows(self, request: gr.Request, limit: int = FIRST_ROWS, before: str = "") -> list[dict[str, Any]]:
        """The workflows that can be run by name: your own, newest first, and the templates behind them.

        Args:
            limit: How many at most.
            before: The id of the last one of the list before, to go on behind it.

        Returns:
            A list of {id, name, description, params}; `params` holds the default of each parameter. Of long texts it
            has the beginning.
        """
        own = [_row(head.id, head.name, head.description, head.params) for head in self._heads(request)]
        with _told():
            return page_of([*own, *_shipped()], lambda row: row["id"], limit=limit, before=before)

    def _heads(self, request: gr.Request) -> list[Head]:
        return self._server.library.heads(_user(request))

    async def run_workflow(
        self, request: gr.Request, workflow: str, params: dict[str, Any] | None = None, wait: float = 600.0
    ) -> dict[str, Any]:
        """Run a workflow and wait for what it makes.

        Args:
            workflow: The id of one of your workflows or of a template, such as first_picture.
            params: Values for its parameters by name, or for single inputs as node.socket; the rest are its own.
            wait: Seconds to wait; 0 returns at once, and get_run tells how the run does.

        Returns:
            The run as {id, state, error, results}; each result has an id for fetch_result, and a url on this server.
        """
        user, end = _user(request), time.monotonic() + min(max(wait, 0.0), MAX_WAIT_S)
        with _told():
            id = await run_in_threadpool(self._submit, user, workflow, params or {})
            while not self._server.runs.book.get(user, id).is_over and time.monotonic() < end:
                await asyncio.sleep(POLL_S)
            return await run_in_threadpool(self._run, user, id)

    def get_run(self, request: gr.Request, run: str) -> dict[str, Any]:
        """How a run does.

        Args:
            run: Its id.

        Returns:
            The run as {id, state, error, results}.
        """
        with _told():
            return self._run(_user(request), run)

    def fetch_result(self, request: gr.Request, result: str) -> dict[str, Any]:
        """The file of a result; the client downloads it and gives its path.

        Args:
            result: Its id.
        """
        with _told():
            path = self._server.results.path(_user(request), result)
        copy = save_file_to_cache(path, get_upload_folder())
        self._copies.add(copy)
        return {"path": copy, "orig_name": path.name, "meta": {"_type": "gradio.FileData"}}

    def _submit(self, user: str, workflow: str, params: Mapping[str, Any]) -> str:
        return self._server.runs.submit(user, self._graph(user, workflow), overrides=params).runs[0]

    def _graph(self, user: str, workflow: str) -> Graph:
        if template := next((each for each in templates() if each["id"] == workflow), None):
            return graph_from_plain(template["graph"])
        return self._server.library.graph(user, workflow)

    def _run(self, user: str, id: str) -> dict[str, Any]:
        run = self._server.runs.get(user, id)
        files = [file for node in run["nodes"].values() for file in node["files"]]
        results = [{"id": file, "url": f"loom/files/{file}"} for file in files]
        return {"id": id, "state": run["state"], "error": run["error"], "results": results}


def _shipped() -> list[dict[str, Any]]:
    return [
        _row(each["id"], each["name"], each["description"], param_values(graph_from_plain(each["graph"]), {}))
        for each in templates()
    ]


def _row(id: str, name: str, description: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": id, "name": name, "description": shortened(description), "params": short_values(params)}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors that speak to the user reach the client as they are; Gradio hides all others."""
    try:
        yield
    except (ValueError, NotHere, Conflict) as error:
        raise gr.Error(str(error), print_exception=False) from None


def _user(request: gr.Request) -> str:
    return request.username or LOCAL
