"""The API's routes that look at a workflow without keeping it: open, text, export, check, sockets, plan."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, Request

from ...nodes.catalog import entry, find
from ...nodes.execution.preflight import foretell
from ...nodes.graph.check import ensure
from ...nodes.graph.choosing import chosen
from ...nodes.graph.graph import graph_from_plain, graph_text, graph_to_plain
from ...nodes.graph.requires import with_requires
from ...nodes.hosts.comfy_file import to_comfy
from ...nodes.registry import SPECS
from ...parallel.machine.now import devices_now
from ..access.answers import MAX_PROBLEMS
from ..contract.bodies import CheckBody, GraphBody, PlanBody, SocketsBody
from ..contract.kept import FileText, NamedGraph
from ..contract.shown import CatalogNode, PlanView, Problems
from ..library.opening import open_file
from ..server import Server
from ..store.uploads import inputs_folder
from ..views.plan_view import plan_view
from .described import takes
from .requests import User

FileName = Annotated[str, Header(max_length=4096, description="The file's name, percent-encoded.")]


def add_routes(router: APIRouter, server: Server) -> None:
    @router.post("/open", openapi_extra=takes("application/json", "image/*", "video/*", "audio/*"))
    async def open_workflow(request: Request, x_name: FileName = "") -> NamedGraph:
        """The workflow in a file (the body): ours, ComfyUI's API format, or a result that carries one."""
        async with server.intake.body(request) as path:
            graph = await server.intake.look(open_file, path, name=file_name(x_name))
        return NamedGraph(name=graph.name, graph=graph_to_plain(graph))

    @router.post("/text")
    def text(body: GraphBody) -> FileText:
        """The file's text, as the command line writes it."""
        return FileText(text=graph_text(with_requires(graph_from_plain(body.graph), SPECS)))

    @router.post("/export/comfyui")
    def export_comfyui(body: GraphBody) -> dict[str, Any]:
        """The prompt that ComfyUI runs with our nodes installed."""
        graph = graph_from_plain(body.graph)
        ensure(graph, SPECS, workspace=server.settings.reading())
        return to_comfy(graph, SPECS)

    @router.post("/check")
    def check_workflow(body: CheckBody, user: User) -> Problems:
        """Everything that keeps the workflow from running, with the user's own uploads, on the server's devices."""
        settings = server.settings
        workspace = settings.reading(settings.place, inputs=inputs_folder(settings.data_dir, user))
        graph = graph_from_plain(body.graph)
        told = foretell(graph, SPECS, body.overrides, workspace=workspace, machine=devices_now())
        return Problems(problems=told.problems[:MAX_PROBLEMS], values=told.values)

    @router.post("/sockets")
    def sockets(body: SocketsBody) -> CatalogNode:
        """A node with the sockets that it has for these values; of a model's folder its index is read."""
        spec = chosen(find(body.type), body.values, server.settings.reading())
        return CatalogNode.model_validate(entry(spec))

    @router.post("/plan")
    def plan(body: PlanBody) -> PlanView:
        """How its denoises would use the devices, and what they need there; nothing is loaded."""
        return plan_view(
            graph_from_plain(body.graph), body.overrides, devices=body.devices, plan=body.plan, settings=server.settings
        )


def file_name(header: str) -> str:
    """The last part of a file's name as the page sent it, without what no name should hold."""
    name = unquote(header).replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:200].strip(". ") or "file"
