"""The API's routes that look at a workflow without keeping it: open, text, export, check, tokens, sockets, plan."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Header, Request

from ...nodes.execution.preflight import foretell
from ...nodes.graph.check import ensure, with_requires
from ...nodes.graph.graph import Graph, graph_from_plain, graph_text, graph_to_plain
from ...nodes.graph.problems import GraphError, parse_json, read_bytes
from ...nodes.graph.ready import chosen, ready
from ...nodes.headless.workflow_files import graph_of, read_workflow
from ...nodes.hosts.comfy_file import to_comfy
from ...nodes.hosts.foreign import read_foreign
from ...nodes.preview.meant import text_tokens
from ...nodes.python_script import to_python
from ...nodes.registry import SPECS, entry, find
from ...parallel.machine.folders import user_cache
from ...pipelines.costs.ran import kept
from ...pipelines.forecast.history import history_table
from ..access.answers import MAX_PROBLEMS
from ..contract.bodies import CheckBody, Empty, GraphBody, PlanBody, ScriptBody, SocketsBody
from ..contract.kept import FileText, ForeignFacts, NamedGraph
from ..contract.shown import CatalogNode, History, PlanMachine, PlanView, Problems, Tokens
from ..server import Server
from ..views.devices import devices_now
from ..views.plan_view import plan_view
from .requests import CONFLICT, User, takes

HEAD_BYTES = 16
KINDS: dict[str, Callable[[bytes], bool]] = {
    ".png": lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"),
    ".jpg": lambda head: head.startswith(b"\xff\xd8\xff"),
    ".webp": lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP",
    ".bmp": lambda head: head.startswith(b"BM"),
    ".mp4": lambda head: head[4:8] == b"ftyp",
    ".webm": lambda head: head.startswith(b"\x1aE\xdf\xa3"),
    ".flac": lambda head: head.startswith(b"fLaC"),
    ".wav": lambda head: head[:4] == b"RIFF" and head[8:12] == b"WAVE",
    ".ogg": lambda head: head.startswith(b"OggS"),
    ".mp3": lambda head: head.startswith(b"ID3"),  # without tags it carries nothing
}
FileName = Annotated[str, Header(max_length=4096, description="The file's name, percent-encoded.")]


def add_routes(router: APIRouter, server: Server) -> None:
    @router.post("/open", openapi_extra=takes("application/json", "image/*", "video/*", "audio/*"))
    async def open_workflow(request: Request, x_name: FileName = "") -> NamedGraph:
        """The workflow in a file (the body): ours, ComfyUI's API format, or a result that carries one."""
        async with server.intake.file(request.stream()) as path:
            graph = await server.intake.look(open_file, path, name=file_name(x_name))
        return NamedGraph(name=graph.name, graph=graph_to_plain(graph))

    @router.post("/foreign", openapi_extra=takes("image/*"))
    async def look_at_foreign(request: Request) -> ForeignFacts | None:
        """What a picture of another program (the body) says of how it was made; null where it says nothing."""
        async with server.intake.file(request.stream()) as path:
            found = await server.intake.look(read_foreign, path)
        return None if found is None else ForeignFacts.model_validate(found)

    @router.post("/text")
    def write_workflow(body: GraphBody) -> FileText:
        """The file's text, as the command line writes it."""
        return FileText(text=graph_text(with_requires(graph_from_plain(body.graph), SPECS)))

    @router.post("/export/comfyui")
    def export_comfyui(body: GraphBody) -> dict[str, Any]:
        """The prompt that ComfyUI runs with our nodes installed."""
        prepared = ready(graph_from_plain(body.graph), SPECS, workspace=server.settings.reading())
        ensure(prepared)
        return to_comfy(prepared)

    @router.post("/export/python")
    def export_python(body: ScriptBody) -> FileText:
        """A script that makes the same by calls of `latentloom.nodes`."""
        prepared = ready(graph_from_plain(body.graph), SPECS, workspace=server.settings.reading())
        return FileText(text=to_python(prepared, body.targets))

    @router.post("/check", responses=CONFLICT)
    async def check_workflow(body: CheckBody, user: User) -> Problems:
        """What keeps the workflow from running, may do so, or is not known, with the user's uploads, on the server's
        devices. A newer question of the same `page` ends this one."""
        settings = server.settings

        def ask(go_on: Callable[[], None]) -> Problems:
            workspace = settings.reading(settings.place, user=user)
            prepared = ready(graph_from_plain(body.graph), SPECS, body.overrides, workspace=workspace)
            told = foretell(prepared, workspace=workspace, machine=devices_now(), go_on=go_on)
            return Problems(problems=told.problems[:MAX_PROBLEMS], values=told.values, sizes=dict(told.sizes))

        return await server.newest.answer(ask, user=user, page=body.page, about="check")

    @router.post("/tokens", responses=CONFLICT)
    async def count_tokens(body: CheckBody, user: User) -> Tokens:
        """How many tokens the models' text encoders read of the workflow's texts, and which words are cut. No model is
        loaded. A newer question of the same `page` ends this one."""
        workspace = server.settings.reading(user=user)

        def ask(go_on: Callable[[], None]) -> Tokens:
            prepared = ready(graph_from_plain(body.graph), SPECS, body.overrides, workspace=workspace)
            return Tokens(tokens=text_tokens(prepared, workspace=workspace, counter=server.counter, go_on=go_on))

        return await server.counting.answer(ask, user=user, page=body.page, about="tokens")

    @router.post("/sockets")
    def read_sockets(body: SocketsBody) -> CatalogNode:
        """A node with the sockets that it has for these values; of a model's folder its index is read."""
        spec = chosen(find(body.type), body.values, server.settings.reading())
        return CatalogNode.model_validate(entry(spec))

    @router.post("/plan", responses=CONFLICT)
    async def plan_workflow(body: PlanBody, user: User) -> PlanView:
        """How its denoises would use the devices, or another machine's, and what they need there; nothing is loaded."""

        def ask(go_on: Callable[[], None]) -> PlanView:
            asked = {"devices": body.devices, "plan": body.plan, "machine": body.machine}
            graph = graph_from_plain(body.graph)
            return plan_view(graph, body.overrides, **asked, settings=server.settings, go_on=go_on)

        return await server.newest.answer(ask, user=user, page=body.page, about="plan")

    @router.get("/history")
    def list_history() -> History:
        """How well the denoises of this machine were predicted, by model and plan."""
        return History(rows=history_table(kept(user_cache())))

    @router.post("/measure", responses=CONFLICT)
    def measure_machine(body: Empty) -> PlanMachine:
        """Measure the server's machine for its predictions, in about ten seconds; refused while anything is at work."""
        with server.runs.idle():
            return server.runs.work.measured()


def file_name(header: str) -> str:
    """The last part of a file's name as the page sent it, without what no name should hold."""
    name = unquote(header).replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in name if c.isprintable())[:200].strip(". ") or "file"


def open_file(path: Path, *, name: str) -> Graph:
    """The workflow in a file, told by its first bytes and not by its name. Raises `ValueError` that says `name`."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    ending = next((ending for ending, is_kind in KINDS.items() if is_kind(head)), "")
    if not ending:
        return graph_of(parse_json(read_bytes(path)), name=Path(name).stem)
    named = path.rename(path.with_suffix(ending))
    try:
        return read_workflow(named)
    except GraphError:
        raise
    except ValueError as error:
        raise ValueError(str(error).replace(str(named), name)) from None
