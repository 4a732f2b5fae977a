"""Whether the service lives, and whether it may be sent work: states for probes, which anybody may ask for.

state      /readyz   since
ok         200       runs are taken and made
starting   503       the worker, in which runs are made, has not said that it is there
draining   503       the server was asked to end: what runs goes on, nothing new is taken
disk       503       the disk of data or results has less than stays free
worker     503       the worker cannot begin, or is silent
ranks      503       ranks of the devices cannot be started, though it was tried several times
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from ..access.answers import plain
from ..api.requests import Responses
from ..contract.answer import Answer
from ..server import Server
from ..store.quota import FREE_BYTES
from ..worker.process import WorkState

OPEN = {"security": list[Any]()}  # whoever asks is answered


class Readiness(Answer):
    state: WorkState | Literal["draining", "disk"]


class Health:
    """`is_draining` is asked first, so that a server that was asked to end is not ready from that moment on."""

    def __init__(self, server: Server, is_draining: Callable[[], bool]) -> None:
        self._server = server
        self._is_draining = is_draining

    def state(self) -> WorkState | Literal["draining", "disk"]:
        """What the table above says. Looks at disks, and begins a worker that has died anew."""
        settings = self._server.settings
        if self._is_draining():
            return "draining"
        if any(_free_bytes(folder) < FREE_BYTES for folder in (settings.data_dir, settings.output_dir)):
            return "disk"
        return self._server.runs.work.state()

    def routes(self) -> APIRouter:
        """Plain ones, which ask nobody who he is."""
        router = APIRouter(tags=["service"])

        @router.get("/livez", response_model=Readiness, operation_id="read_liveness", openapi_extra=OPEN)
        @router.head("/livez", include_in_schema=False)
        async def live() -> Response:
            """Whether the server answers: 200 as long as it does, also while it drains."""
            return plain({"state": "ok"})

        unready: Responses = {503: {"model": Readiness, "description": "It is to be sent no work; `state` says why."}}
        about: Any = {"response_model": Readiness, "responses": unready, "operation_id": "read_readiness"}

        @router.get("/readyz", **about, openapi_extra=OPEN)
        @router.head("/readyz", include_in_schema=False)
        async def ready() -> Response:
            """Whether it may be sent work: asks the worker, its ranks and the disks."""
            state = "draining" if self._is_draining() else await run_in_threadpool(self.state)
            return plain({"state": state}, 200 if state == "ok" else 503)

        return router


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # it is gone
        return 0
