"""The API's routes about the page itself: its files, the catalog of nodes, who is logged in, templates, the machine."""

import hashlib
import json
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from ... import __version__
from ...nodes.registry import catalog
from ...parallel.wording import worded
from ..access.answers import KEEP, picture, plain
from ..access.auth import COOKIES, token_of
from ..access.gate import UPLOAD_BYTES
from ..bundle import MEDIA_TYPES, Bundle
from ..contract.bodies import Empty
from ..contract.kept import Kept, Template
from ..contract.shown import Catalog, LorasView, Me, ModelsView, NodeUse, Start, TemplateNeeds
from ..errors import NotHere
from ..library.shipped import MEDIA_TYPES as SHOWN
from ..library.shipped import shipped_media, templates
from ..server import Server
from ..settings import Settings
from ..store.paging import MAX_ROWS
from ..views.installed import lora_picture, loras_view, models_view, node_use, templates_needs
from .requests import Id, User, sends

FOR_EVER = "public, max-age=31536000, immutable"
PART = re.compile(r"loom\.\w+\.[0-9A-Z]{8}\.js")  # what the page loads later has its hash in its name


def add_routes(router: APIRouter, server: Server, bundle: Bundle | None) -> None:
    nodes = catalog()
    types = sorted({socket["type"] for node in nodes for socket in (*node["inputs"], *node["outputs"])})
    version = hashlib.sha256(json.dumps(nodes).encode()).hexdigest()[:12]  # changes when any node does
    sent = Catalog.model_validate({"version": version, "nodes": nodes, "types": types}).model_dump()

    if bundle is not None:
        _add_files(router, bundle)

    @router.get("/catalog", response_model=Catalog)
    def read_catalog(request: Request) -> Response:
        """Every node with its sockets; the canvas draws from this alone."""
        tag = f'"{version}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        answer = plain(sent)
        answer.headers.update({"ETag": tag, "Cache-Control": "no-cache"})
        return answer

    @router.get("/start")
    def read_start(user: User) -> Start:
        """What a page begins with: who is logged in, the drafts, and the newest of them whole."""
        drafts = server.library.drafts
        rows = drafts.list(user, limit=MAX_ROWS)
        try:
            newest = drafts.get(user, rows[0].key) if rows else None
        except NotHere:  # deleted meanwhile
            newest = None
        return Start(me=_who(user, server.settings), drafts=rows, newest=newest)

    @router.get("/me")
    def read_me(user: User) -> Me:
        """Who is logged in, and what this server allows."""
        return _who(user, server.settings)

    @router.get("/kept")
    def read_kept(user: User) -> Kept:
        """What the user keeps on the server's disk, kind by kind, and how much that may be."""
        return server.quota.shown(user)

    @router.post("/logout", status_code=204)
    async def log_out(request: Request, body: Empty) -> Response:  # in the event loop, as logging in
        """End this session; the user's others go on."""
        request.app.tokens.pop(token_of(request), None)
        answer = Response(status_code=204)
        for name in COOKIES:
            answer.delete_cookie(name.format(request.app.cookie_id))
        return answer

    @router.get("/templates")
    def list_templates() -> list[Template]:
        """Ready workflows to start from."""
        return templates()

    @router.get("/templates/needs")
    def list_template_needs() -> list[TemplateNeeds]:
        """Which of them run on this server, and what the others lack."""
        return templates_needs(server.settings)

    @router.get("/nodes/{type}/use")
    def read_node_use(type: Id) -> NodeUse:
        """A workflow that shows a node at work, and the ready ones that have it."""
        return node_use(type, server.settings)

    @router.get("/templates/files/{name}", response_class=FileResponse)
    def read_template_file(name: str) -> Response:
        """A picture, or a sound, that templates come with."""
        if (path := shipped_media().get(name)) is None:
            raise NotHere(worded("no template comes with a picture {!r}; choose another", name[:40]))
        return FileResponse(path, media_type=SHOWN[path.suffix], headers={"Cache-Control": "no-cache"})

    @router.get("/models")
    def list_models(refresh: Annotated[bool, Query()] = False) -> ModelsView:
        """What is installed, what fits on these devices, and what is loaded; `refresh` looks for models again."""
        return models_view(server.settings, loaded=server.runs.work.loaded(), refresh=refresh)

    @router.get("/loras")
    def list_loras(
        model: Annotated[str, Query(max_length=4096, description="A source, as Load Model takes it.")] = "",
        revision: Annotated[str, Query(max_length=200)] = "",
        refresh: Annotated[bool, Query()] = False,
    ) -> LorasView:
        """The LoRAs in the folders of models, those first that fit the model; `refresh` looks for others again."""
        return loras_view(server.settings, source=model, revision=revision, refresh=refresh)

    @router.get("/loras/{id}/thumb", responses=sends("image/webp"))
    async def read_lora_thumbnail(id: Id) -> Response:
        """A small WebP of the picture that lies beside a LoRA."""
        return picture(await server.intake.look(lora_picture, server.settings, id), "image/webp", keep=KEEP)


def _add_files(router: APIRouter, bundle: Bundle) -> None:
    @router.get("/static/{name}", response_class=FileResponse)
    def read_page_file(name: str, v: Annotated[str, Query(max_length=64)] = "") -> Response:
        """One of the page's own files; with `v`, or a hash in its name, it may be kept for ever."""
        if (path := bundle.files.get(name)) is None:
            raise NotHere(worded("there is no file {!r} of the page; reload it", name[:40]))
        keeping = FOR_EVER if v == bundle.version or PART.fullmatch(name) else "no-cache"
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers={"Cache-Control": keeping})


def _who(user: str, settings: Settings) -> Me:
    return Me(
        user=user,
        has_auth=settings.has_auth,
        version=__version__,
        output_dir_name=settings.output_dir.name,
        max_upload_bytes=UPLOAD_BYTES,
        most_waiting=settings.most_waiting,
        allows_downloads=settings.allows_downloads,
        template_files=[*shipped_media()],
    )
