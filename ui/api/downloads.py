"""The API's routes about models from the hub: looked at, fetched, cancelled, gone on with."""

from __future__ import annotations

from fastapi import APIRouter

from ..contract.bodies import DownloadBody, Empty, HubBody
from ..contract.downloads import Download, HubLook
from ..server import Server
from .described import CONFLICT
from .requests import Id, User


def add_routes(router: APIRouter, server: Server) -> None:
    downloads = server.downloads

    @router.post("/hub")
    def look(body: HubBody, user: User) -> HubLook:
        """A model on the hub: licence, access, size, and whether there is room. No weights are fetched. Refused, as all
        of these, where the server was started without `--allow-downloads`."""
        return downloads.look(user, body.id, body.revision)

    @router.get("/downloads")
    def list_downloads(user: User) -> list[Download]:
        """The user's, newest first."""
        return downloads.list(user)

    @router.post("/downloads", status_code=201, responses=CONFLICT)
    def start(body: DownloadBody, user: User) -> Download:
        """Fetch what the user has looked at; one that is under way already is joined."""
        return downloads.start(user, body.id, body.revision, commit=body.commit)

    @router.post("/downloads/{id}/cancel", status_code=204)
    def cancel(id: Id, user: User, body: Empty) -> None:
        """What was fetched stays, to go on with."""
        downloads.cancel(user, id)

    @router.post("/downloads/{id}/resume", responses=CONFLICT)
    def resume(id: Id, user: User, body: Empty) -> Download:
        """Go on with one that failed or was cancelled, where it stopped."""
        return downloads.resume(user, id)

    @router.delete("/downloads/{id}", status_code=204, responses=CONFLICT)
    def delete(id: Id, user: User) -> None:
        """Throw away what was fetched of one that failed or was cancelled."""
        downloads.delete(user, id)
