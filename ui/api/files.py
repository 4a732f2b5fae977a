"""The API's routes about files: results, their thumbnails, and the pictures that users bring."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ..access.answers import nothing
from ..contract.kept import Upload, UploadRow
from ..contract.run import Result
from ..server import Server
from ..store.files import KEEP, picture, send
from ..store.paging import FIRST_ROWS, Before, Limit
from .described import sends, takes
from .graphs import FileName, file_name
from .requests import Id, User

UploadPath = Annotated[str, Path(max_length=200, description="What `POST /uploads` called it.")]


def add_routes(router: APIRouter, server: Server) -> None:
    results, uploads, intake = server.results, server.uploads, server.intake

    @router.get("/results")
    def list_results(
        user: User,
        search: Annotated[str, Query(max_length=200)] = "",
        batch: Annotated[str, Query(max_length=64)] = "",
        limit: Limit = FIRST_ROWS,
        before: Before = "",
    ) -> list[Result]:
        """Pictures and videos, newest first, with the beginning of what long texts they were made from."""
        return results.list(user, search=search, batch=batch, limit=limit, before=before)

    @router.delete("/results/{id}", status_code=204)
    def delete_result(id: Id, user: User) -> Response:
        """Delete a picture or video, its file too."""
        results.delete(user, id)
        return nothing()

    @router.get("/files/{id}", responses=sends("image/png", "video/mp4"))
    def read_file(id: Id, user: User, download: Annotated[bool, Query()] = False) -> Response:
        """A result's bytes; ranges of them for players."""
        path = results.path(user, id)
        return send(path, name=path.name, is_download=download)

    @router.get("/files/{id}/thumb", responses=sends("image/webp"))
    async def thumbnail(id: Id, user: User) -> Response:
        """A small WebP."""
        return picture(await intake.look(results.thumbnail, user, id), "image/webp", keep=KEEP)

    @router.post("/uploads", status_code=201, openapi_extra=takes("image/*"))
    async def upload(request: Request, user: User, x_name: FileName = "") -> Upload:
        """Keep a picture (the body) as an input; `path` is what Load Image takes."""
        async with intake.body(request) as file:
            return await intake.look(uploads.add, user, file_name(x_name), file)

    @router.get("/uploads")
    def list_uploads(user: User, limit: Limit = FIRST_ROWS, before: Before = "") -> list[UploadRow]:
        """Newest first."""
        return uploads.list(user, limit=limit, before=before)

    @router.delete("/uploads/{path}", status_code=204)
    def delete_upload(path: UploadPath, user: User) -> Response:
        """Workflows that load it can no longer run."""
        uploads.delete(user, path)
        return nothing()

    @router.get("/uploads/{path}/thumb", responses=sends("image/webp"))
    async def upload_thumbnail(path: UploadPath, user: User) -> Response:
        """A small WebP of an uploaded picture."""
        return picture(await intake.look(uploads.thumbnail, user, path), "image/webp", keep=KEEP)
