"""The API's routes about what users keep: workflows with their versions, drafts, and links to share."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from ...nodes.graph.check import with_requires
from ...nodes.graph.graph import graph_from_plain, graph_text
from ...nodes.registry import SPECS
from ..access.answers import HEADERS, picture
from ..contract.bodies import DraftBody, Empty, NewWorkflowBody, RenameBody, SaveBody
from ..contract.kept import Draft, DraftWithGraph, NamedGraph, Token, Workflow, WorkflowVersion, WorkflowWithGraph
from ..server import Server
from ..store.paging import FIRST_ROWS, Before, Limit
from .requests import CONFLICT, Id, User, sends, takes

Search = Annotated[str, Query(max_length=200)]
Number = Annotated[int | None, Query(ge=1, le=1_000_000)]


def add_routes(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/workflows")
    def list_workflows(
        user: User, search: Search = "", limit: Limit = FIRST_ROWS, before: Before = ""
    ) -> list[Workflow]:
        """The user's workflows, newest first; with `search` those whose name and description have all its words."""
        return library.list(user, search=search, limit=limit, before=before)

    @router.post("/workflows", status_code=201)
    def create_workflow(body: NewWorkflowBody, user: User) -> Workflow:
        return library.create(user, graph_from_plain(body.graph), name=body.name, folder=body.folder)

    @router.get("/workflows/{id}")
    def get_workflow(id: Id, user: User, version: Number = None) -> WorkflowWithGraph:
        """With its graph, of the newest version or of another one."""
        return library.get(user, id, version)

    @router.put("/workflows/{id}", responses=CONFLICT)
    def save_workflow(id: Id, body: SaveBody, user: User) -> Workflow:
        """A new version; 409 when somebody saved another one meanwhile."""
        return library.save(user, id, graph_from_plain(body.graph), base_version=body.base_version)

    @router.patch("/workflows/{id}")
    def rename_workflow(id: Id, body: RenameBody, user: User) -> Workflow:
        return library.change(user, id, name=body.name, folder=body.folder)

    @router.delete("/workflows/{id}", status_code=204)
    def delete_workflow(id: Id, user: User) -> None:
        """All its versions, too."""
        library.delete(user, id)

    @router.post("/workflows/{id}/duplicate", status_code=201)
    def duplicate_workflow(id: Id, body: Empty, user: User) -> Workflow:
        return library.duplicate(user, id)

    _add_parts(router, server)
    _add_drafts(router, server)


def _add_parts(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/workflows/{id}/versions")
    def list_versions(id: Id, user: User) -> list[WorkflowVersion]:
        return library.versions(user, id)

    @router.get("/workflows/{id}/thumb", responses=sends("image/png"))
    def read_workflow_thumbnail(id: Id, user: User, v: Annotated[str, Query(max_length=40)] = "") -> Response:
        """PNG; `v` is for the browser's sake only."""
        return picture(library.thumbnail(user, id), "image/png")

    @router.put("/workflows/{id}/thumb", status_code=204, openapi_extra=takes("image/*"))
    async def write_workflow_thumbnail(id: Id, request: Request, user: User) -> None:
        """Any picture (the body); it is made small and written anew."""
        async with server.intake.file(request.stream()) as file:
            await server.intake.look(library.put_thumbnail, user, id, file)

    @router.get("/workflows/{id}/file", responses=sends("application/json"))
    def read_workflow_file(id: Id, user: User, version: Number = None) -> Response:
        """The workflow file, as `latentloom run` takes it."""
        found = library.get(user, id, version)
        text = graph_text(with_requires(graph_from_plain(found.graph), SPECS))
        named = f"attachment; filename*=utf-8''{quote(f'{found.name}.json', safe='')}"
        return Response(text, media_type="application/json", headers=HEADERS | {"Content-Disposition": named})

    @router.post("/workflows/{id}/share")
    def share_workflow(id: Id, body: Empty, user: User) -> Token:
        """A token under which every user of this server may read it."""
        return Token(token=library.share(user, id))

    @router.get("/shared/{token}")
    def read_shared(token: Id, user: User) -> NamedGraph:
        """What somebody shared."""
        return library.shared(token)


def _add_drafts(router: APIRouter, server: Server) -> None:
    drafts = server.library.drafts

    @router.get("/drafts")
    def list_drafts(user: User, limit: Limit = FIRST_ROWS, before: Before = "") -> list[Draft]:
        """Newest first."""
        return drafts.list(user, limit=limit, before=before)

    @router.get("/drafts/{key}")
    def get_draft(key: Id, user: User) -> DraftWithGraph:
        return drafts.get(user, key)

    @router.put("/drafts/{key}")
    def put_draft(key: Id, body: DraftBody, user: User) -> Draft:
        """What is on a canvas; it need not be a sound workflow."""
        return drafts.put(user, key, body)

    @router.delete("/drafts/{key}", status_code=204)
    def delete_draft(key: Id, user: User) -> None:
        drafts.delete(user, key)
