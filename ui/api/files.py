"""The API's routes about files: results' bytes, what users bring, and models that are fetched from the hub."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ..access.answers import KEEP, picture, send
from ..contract.bodies import DownloadBody, Empty, HubBody
from ..contract.kept import Download, HubLook, Upload, UploadKind, UploadRow
from ..downloads.downloads import Downloads
from ..server import Server
from ..store.paging import FIRST_ROWS, Before, Limit
from .graphs import FileName, file_name
from .requests import CONFLICT, Id, User, sends, takes

UploadPath = Annotated[str, Path(max_length=200, description="What `POST /uploads` called it.")]


def add_routes(router: APIRouter, server: Server) -> None:
    results, uploads, intake = server.results, server.uploads, server.intake

    @router.get("/files/{id}", responses=sends("image/png", "video/mp4", "audio/flac"))
    def read_file(id: Id, user: User, download: Annotated[bool, Query()] = False) -> Response:
        """A result's bytes; ranges of them for players."""
        path = results.path(user, id)
        return send(path, name=path.name, is_download=download)

    @router.get("/files/{id}/thumb", responses=sends("image/webp"))
    async def read_thumbnail(
        id: Id, user: User, poster: Annotated[int, Query(description="Its frame, so that no older one is kept.")] = 0
    ) -> Response:
        """A small WebP; of a sound, its outline, of a video, the frame that was chosen for it."""
        return picture(await intake.look(results.thumbnail, user, id), "image/webp", keep=KEEP)

    @router.post("/uploads", status_code=201, openapi_extra=takes("image/*", "audio/*"))
    async def upload_file(request: Request, user: User, x_name: FileName = "") -> Upload:
        """Keep a picture or sound (the body) as an input; `path` is what Load Image or Load Audio takes. The ending of
        `X-Name` tells a sound."""
        async with intake.file(request.stream()) as file:
            return await intake.look(uploads.add, user, file_name(x_name), file)

    @router.get("/uploads")
    def list_uploads(
        user: User, kind: UploadKind | None = None, limit: Limit = FIRST_ROWS, before: Before = ""
    ) -> list[UploadRow]:
        """All, or those of a kind, newest first."""
        return uploads.list(user, kind=kind, limit=limit, before=before)

    @router.get("/uploads/{path}", responses=sends("image/*", "video/*", "audio/*"))
    def read_upload(path: UploadPath, user: User) -> Response:
        """An upload's bytes; ranges of them for players."""
        return send(uploads.path(user, path), name=path)

    @router.delete("/uploads/{path}", status_code=204)
    def delete_upload(path: UploadPath, user: User) -> None:
        """Workflows that load it can no longer run."""
        uploads.delete(user, path)

    @router.get("/uploads/{path}/thumb", responses=sends("image/webp"))
    async def read_upload_thumbnail(path: UploadPath, user: User) -> Response:
        """A small WebP of an uploaded picture, or of a sound's outline."""
        return picture(await intake.look(uploads.thumbnail, user, path), "image/webp", keep=KEEP)

    _add_downloads(router, server.downloads)


def _add_downloads(router: APIRouter, downloads: Downloads) -> None:
    @router.post("/hub")
    def look_at_hub(body: HubBody, user: User) -> HubLook:
        """A model on the hub: licence, access, size, and whether there is room. No weights are fetched. Refused, as all
        of these, where the server was started without `--allow-downloads`."""
        return downloads.look(user, body.id, body.revision)

    @router.get("/downloads")
    def list_downloads(user: User) -> list[Download]:
        """The user's, newest first."""
        return downloads.list(user)

    @router.post("/downloads", status_code=201, responses=CONFLICT)
    def start_download(body: DownloadBody, user: User) -> Download:
        """Fetch what the user has looked at; one that is under way already is joined."""
        return downloads.start(user, body.id, body.revision, commit=body.commit)

    @router.post("/downloads/{id}/cancel", status_code=204)
    def cancel_download(id: Id, user: User, body: Empty) -> None:
        """What was fetched stays, to go on with."""
        downloads.cancel(user, id)

    @router.post("/downloads/{id}/resume", responses=CONFLICT)
    def resume_download(id: Id, user: User, body: Empty) -> Download:
        """Go on with one that failed or was cancelled, where it stopped."""
        return downloads.resume(user, id)

    @router.delete("/downloads/{id}", status_code=204, responses=CONFLICT)
    def delete_download(id: Id, user: User) -> None:
        """Throw away what was fetched of one that failed or was cancelled."""
        downloads.delete(user, id)
