"""The endpoints for `gradio_client`: list, run, look and fetch, over the same runs as the page."""

# No `from __future__ import annotations` here: Gradio describes the endpoints by the types themselves.

import asyncio
import contextlib
import logging
import math
import re
import time
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import gradio as gr
from fastapi import Request
from fastapi.responses import JSONResponse
from gradio.events import api
from gradio.processing_utils import save_file_to_cache
from gradio.route_utils import FnIndexInferError
from gradio.utils import get_upload_folder
from gradio_client.utils import is_file_obj_with_meta, traverse
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...nodes.graph.graph import graph_from_plain
from ...nodes.graph.problems import short
from ...nodes.graph.resolve import param_values
from ..access.auth import LOCAL
from ..errors import Conflict, NotHere, error_body
from ..library.shipped import templates
from ..server import Server
from ..store.paging import FIRST_ROWS, MAX_ROWS, page_of, short_values, shortened

logger = logging.getLogger("latentloom")

# The endpoints, each with what its callers have to give.
TAKES = {
    "list_workflows": "takes limit (how many at most) and before (text, an id or nothing), in this order",
    "run_workflow": "takes workflow (text), params (an object, or null) and wait (seconds), in this order",
    "get_run": "takes run (text)",
    "cancel_runs": "takes runs (a list of ids, or null for all)",
    "fetch_result": "takes result (text)",
}
NAMES = ", ".join(TAKES)
CALL = re.compile(r"/gradio_api/((call|run|api)/|queue/join/?$)")  # the routes by which endpoints are called
# Gradio's functions that look for an endpoint, and put named arguments in order.
MATCHERS = ("get_fn", "construct_args")
MAX_WAIT_S = 86400.0
POLL_S = 0.2
AT_A_TIME = 64  # calls that wait for their runs; each costs a task, and no thread


def add_endpoints(server: Server, *, copies: set[str]) -> None:
    """Inside `gr.Blocks`, whose set of files that it deletes when they are old is `copies`."""
    client = ClientApi(server, copies)
    for name in TAKES:
        api(getattr(client, name), api_name=name, concurrency_limit=AT_A_TIME)


class CheckedBlocks(gr.Blocks):
    """Blocks that tell the caller of an endpoint what it takes, where Gradio writes a traceback and says nothing."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **named: Any) -> Any:
        if (name := block_fn.api_name) not in TAKES:
            return await super().preprocess_data(block_fn, inputs, *rest, **named)
        if (given := len(inputs)) != (wanted := len(block_fn.inputs)):
            raise _mistake(f"{given} instead of {wanted} arguments were given; {usage(name)}")
        try:
            return await super().preprocess_data(block_fn, inputs, *rest, **named)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise _mistake(f"the arguments cannot be read; {usage(name)}") from None

    async def postprocess_data(self, *args: Any, **named: Any) -> list[Any]:
        """Files in answers are named without the folder that they lie in, which is the server's own business."""
        made = await super().postprocess_data(*args, **named)
        return traverse(made, _without_folder, is_file_obj_with_meta)


def usage(name: str) -> str:
    """What an endpoint takes, or which endpoints there are."""
    return f"{name} {TAKES[name]}" if name in TAKES else f"there is no endpoint {short(name)}; there is {NAMES}"


async def misused(request: Request, error: Exception) -> JSONResponse:
    """The answer to a call that Gradio cannot match to an endpoint; any other error is not hidden."""
    name = request.path_params.get("api_name")
    is_misuse = (
        isinstance(error, FnIndexInferError | RecursionError)
        or (name is not None and name not in TAKES)
        # by where Gradio failed: elsewhere sound arguments of a known endpoint met a fault of ours
        or traceback.extract_tb(error.__traceback__)[-1].name in MATCHERS
    )
    if request.method != "POST" or CALL.search(request.url.path) is None or not is_misuse:
        raise error
    logger.info("a call to %s was refused: %r", request.url.path, error)
    said = f"the call is not understood; {usage(name)}" if name else f"there is no such endpoint; there is {NAMES}"
    return JSONResponse(error_body(said, 400), 400)


# What Gradio's routes raise for an unknown endpoint, and for named arguments that are wrong.
MISUSES = {FnIndexInferError: misused, KeyError: misused, TypeError: misused, RecursionError: misused}


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
        heads = self._server.library.heads(_user(request))
        own = [_row(head.id, head.name, head.description, head.params) for head in heads]
        shipped = [
            _row(each.id, each.name, each.description, param_values(graph_from_plain(each.graph), {}))
            for each in templates()
        ]
        with _told():
            is_number = type(limit) is int and 1 <= limit <= MAX_ROWS
            _check("limit", limit, is_number, f"a whole number, from 1 to {MAX_ROWS}")
            _check_text("before", before)
            return page_of([*own, *shipped], lambda row: row["id"], limit=limit, before=before)

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
        user = _user(request)
        with _told():
            _check_text("workflow", workflow)
            is_object = params is None or isinstance(params, dict)
            _check("params", params, is_object, "values by name, such as {'prompt': 'a red star'}")
            is_number = isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < math.inf
            _check("wait", wait, is_number, "a number of seconds, 0 for not waiting")
            end = time.monotonic() + min(wait, MAX_WAIT_S)
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
            _check_text("run", run)
            return self._run(_user(request), run)

    def cancel_runs(self, request: gr.Request, runs: list[str] | None = None) -> list[str]:
        """Take waiting runs out of the queue, and end running ones at their next step.

        Args:
            runs: Their ids; without it, all of yours.

        Returns:
            The ids of those that are cancelled now.
        """
        with _told():
            is_list = runs is None or (isinstance(runs, list) and all(isinstance(id, str) for id in runs))
            _check("runs", runs, is_list, "a list of ids, or nothing for all")
            return self._server.runs.book.cancel(_user(request), runs)

    def fetch_result(self, request: gr.Request, result: str) -> dict[str, Any]:
        """The file of a result; the client downloads it and gives its path.

        Args:
            result: Its id.
        """
        with _told():
            _check_text("result", result)
            path = self._server.results.path(_user(request), result)
        copy = save_file_to_cache(path, get_upload_folder())
        self._copies.add(copy)
        return {"path": copy, "orig_name": path.name, "meta": {"_type": "gradio.FileData"}}

    def _submit(self, user: str, workflow: str, params: Mapping[str, Any]) -> str:
        template = next((each for each in templates() if each.id == workflow), None)
        graph = graph_from_plain(template.graph) if template else self._server.library.graph(user, workflow)
        return self._server.runs.submit(user, graph, overrides=params).runs[0]

    def _run(self, user: str, id: str) -> dict[str, Any]:
        run = self._server.runs.get(user, id)
        files = [file for node in run.nodes.values() for file in node.files]
        results = [{"id": file, "url": f"loom/files/{file}"} for file in files]
        return {"id": id, "state": run.state, "error": run.error, "results": results}


def _row(id: str, name: str, description: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": id, "name": name, "description": shortened(description), "params": short_values(params)}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors that speak to the user reach the client as they are; Gradio hides all others."""
    try:
        yield
    except (ValueError, NotHere, Conflict) as error:
        raise _mistake(str(error)) from None


def _mistake(said: str) -> gr.Error:
    """Of the caller, who is told what it was."""
    if (told := _MISTAKES.get()) is not None:
        told.append(said)
    return gr.Error(said, print_exception=False)


# Of the direct call that is being answered.
_MISTAKES: ContextVar[list[str] | None] = ContextVar("mistakes", default=None)
COPIES = "copies"  # what stands in names of files for Gradio's folder of copies


def _without_folder(file: dict[str, Any]) -> dict[str, Any]:
    folder = get_upload_folder()
    names = {key: str(file[key]).replace(folder, COPIES, 1) for key in ("path", "url") if file.get(key)}
    return {**file, **names}


class Answers:
    """A middleware: a caller's mistake is 422, where Gradio says 500 of whatever failed in a direct call; and a copy
    is found by the name that its answer had."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mistakes: list[str] = []

        async def told(message: Message) -> None:
            is_mistake = bool(mistakes) and message["type"] == "http.response.start" and message["status"] == 500
            await send({**message, "status": 422} if is_mistake else message)

        if scope["type"] == "http":
            scope = {**scope, "path": scope["path"].replace(f"/file={COPIES}/", f"/file={get_upload_folder()}/", 1)}
        token = _MISTAKES.set(mistakes)
        try:
            await self.app(scope, receive, told if scope["type"] == "http" else send)
        finally:
            _MISTAKES.reset(token)


def _check_text(name: str, value: Any) -> None:
    _check(name, value, isinstance(value, str), "text, such as an id that another call gave")


def _check(name: str, value: Any, is_right: bool, takes: str) -> None:
    """Gradio checks no argument of an endpoint against its type. Raises `ValueError`."""
    if not is_right:
        raise ValueError(f"{name} is {short(value)}; it takes {takes}")


def _user(request: gr.Request) -> str:
    return request.username or LOCAL
