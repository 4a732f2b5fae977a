"""The API's routes about what users keep: workflows with their versions, drafts, and links to share."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ...nodes.graph.graph import graph_from_plain, graph_text
from ...nodes.graph.requires import with_requires
from ...nodes.registry import SPECS
from ..access.answers import nothing, plain
from ..server import Server
from ..store.files import HEADERS, attachment, picture
from ..store.paging import FIRST_ROWS, Before, Limit
from .bodies import DraftBody, Empty, NewWorkflowBody, RenameBody, SaveBody
from .requests import Id, User
from .shapes import (
    CONFLICT,
    Draft,
    DraftWithGraph,
    NamedGraph,
    Token,
    Workflow,
    WorkflowVersion,
    WorkflowWithGraph,
    answers,
    sends,
    takes,
)

Search = Annotated[str, Query(max_length=200)]
Number = Annotated[int | None, Query(ge=1, le=1_000_000)]


def add_routes(router: APIRouter, server: Server) -> None:
    _add_workflows(router, server)
    _add_parts(router, server)
    _add_drafts(router, server)


def _add_workflows(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/workflows", responses=answers(list[Workflow]))
    def list_workflows(user: User, search: Search = "", limit: Limit = FIRST_ROWS, before: Before = "") -> Response:
        """The user's workflows, newest first; with `search` those whose name and description have all its words."""
        return plain(library.list(user, search=search, limit=limit, before=before))

    @router.post("/workflows", status_code=201, responses=answers(Workflow, 201))
    def create_workflow(body: NewWorkflowBody, user: User) -> Response:
        return plain(library.create(user, graph_from_plain(body.graph), name=body.name, folder=body.folder), 201)

    @router.get("/workflows/{id}", responses=answers(WorkflowWithGraph))
    def get_workflow(id: Id, user: User, version: Number = None) -> Response:
        """With its graph, of the newest version or of another one."""
        return plain(library.get(user, id, version))

    @router.put("/workflows/{id}", responses=answers(Workflow) | CONFLICT)
    def save_workflow(id: Id, body: SaveBody, user: User) -> Response:
        """A new version; 409 when somebody saved another one meanwhile."""
        return plain(library.save(user, id, graph_from_plain(body.graph), base_version=body.base_version))

    @router.patch("/workflows/{id}", responses=answers(Workflow))
    def rename_workflow(id: Id, body: RenameBody, user: User) -> Response:
        return plain(library.change(user, id, name=body.name, folder=body.folder))

    @router.delete("/workflows/{id}", status_code=204)
    def delete_workflow(id: Id, user: User) -> Response:
        """All its versions, too."""
        library.delete(user, id)
        return nothing()

    @router.post("/workflows/{id}/duplicate", status_code=201, responses=answers(Workflow, 201))
    def duplicate_workflow(id: Id, body: Empty, user: User) -> Response:
        return plain(library.duplicate(user, id), 201)


def _add_parts(router: APIRouter, server: Server) -> None:
    library = server.library

    @router.get("/workflows/{id}/versions", responses=answers(list[WorkflowVersion]))
    def list_versions(id: Id, user: User) -> Response:
        return plain(library.versions(user, id))

    @router.get("/workflows/{id}/thumb", responses=sends("image/png"))
    def read_thumb(id: Id, user: User, v: Annotated[str, Query(max_length=40)] = "") -> Response:
        """PNG; `v` is for the browser's sake only."""
        return picture(library.thumbnail(user, id), "image/png")

    @router.put("/workflows/{id}/thumb", status_code=204, openapi_extra=takes("image/*"))
    async def write_thumb(id: Id, request: Request, user: User) -> Response:
        """Any picture (the body); it is made small and written anew."""
        async with server.intake.body(request) as file:
            await server.intake.look(library.put_thumbnail, user, id, file)
        return nothing()

    @router.get("/workflows/{id}/file", responses=sends("application/json"))
    def read_workflow_file(id: Id, user: User, version: Number = None) -> Response:
        """The workflow file, as `latentloom run` takes it."""
        found = library.get(user, id, version)
        text = graph_text(with_requires(graph_from_plain(found["graph"]), SPECS))
        return Response(text, media_type="application/json", headers=HEADERS | attachment(f"{found['name']}.json"))

    @router.post("/workflows/{id}/share", responses=answers(Token))
    def share_workflow(id: Id, body: Empty, user: User) -> Response:
        """A token under which every user of this server may read it."""
        return plain({"token": library.share(user, id)})

    @router.get("/shared/{token}", responses=answers(NamedGraph))
    def read_shared(token: Id, user: User) -> Response:
        """What somebody shared."""
        return plain(library.shared(token))


def _add_drafts(router: APIRouter, server: Server) -> None:
    drafts = server.library.drafts

    @router.get("/drafts", responses=answers(list[Draft]))
    def list_drafts(user: User, limit: Limit = FIRST_ROWS, before: Before = "") -> Response:
        """Newest first."""
        return plain(drafts.list(user, limit=limit, before=before))

    @router.get("/drafts/{key}", responses=answers(DraftWithGraph))
    def get_draft(key: Id, user: User) -> Response:
        return plain(drafts.get(user, key))

    @router.put("/drafts/{key}", responses=answers(Draft))
    def put_draft(key: Id, body: DraftBody, user: User) -> Response:
        """What is on a canvas; it need not be a sound workflow."""
        draft = drafts.put(user, key, body.graph, workflow_id=body.workflow_id, base_version=body.base_version)
        return plain(draft)

    @router.delete("/drafts/{key}", status_code=204)
    def delete_draft(key: Id, user: User) -> Response:
        drafts.delete(user, key)
        return nothing()
