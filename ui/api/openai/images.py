"""The routes about models and images: listed, generated, edited."""

import base64
import time
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool

from ....nodes.files.thumbnails import encoded
from ...errors import Draining, NotHere
from ...library.app_form import is_shown
from ...library.named import Named, model_named, models_of
from ...live.state import MadeFile, RunRecord
from ...runs.once import Asked
from ...server import Server
from ...views.installed import templates_needs
from ..following import until_over
from ..requests import Key, User
from .bodies import GenerateBody, ImageRow, ImagesAnswer, ModelsAnswer, OfferedModel
from .making import keep, roles_in, start, why_not_made
from .route import Wrong, read_body, takes

MOST_S = 600.0  # how long a request may take: as long as OpenAI's own clients wait
ROLES = ("prompt", "size", "seed", "n", "image", "mask", "seconds")
Name = Annotated[str, Path(min_length=1, max_length=200)]


def add_routes(router: APIRouter, server: Server) -> None:
    @router.get("/models")
    def list_offered_models(user: User) -> ModelsAnswer:
        """The apps that the user has published, and the templates that run on this server."""
        runs = {each.id for each in templates_needs(server.settings) if each.runs}
        found = [each for name, each in models_of(server.library, user).items() if each.app or name in runs]
        rows = (_row(server, user, each) for each in found)
        return ModelsAnswer(data=[row for row in rows if row])

    @router.get("/models/{name}")
    def get_offered_model(name: Name, user: User) -> OfferedModel:
        """One of them, or anybody's app by its token."""
        try:
            found = _row(server, user, model_named(server.library, user, name))
        except NotHere as error:
            raise Wrong(str(error), param="model", status=404, code="model_not_found") from None
        if found is None:
            raise Wrong(f"{name[:100]} makes neither pictures nor videos of a prompt", param="model", status=404)
        return found

    @router.post("/images/generations")
    async def generate_images(body: GenerateBody, request: Request, user: User, key: Key = "") -> ImagesAnswer:
        """Pictures of a prompt, once they are there."""
        by = Asked.of(key, "generations", body.model_dump_json())
        return await made(request, user, body, by)

    @router.post("/images/edits", openapi_extra=takes(GenerateBody, "image", "mask"))
    async def edit_images(request: Request, user: User, key: Key = "") -> ImagesAnswer:
        """Pictures of a prompt and of pictures; what is transparent in a mask, or bright where nothing is, is painted
        anew."""
        async with read_body(request, GenerateBody, "image", "mask") as (body, files):
            if not files.get("image"):
                raise Wrong("no picture came; send one as image", param="image")
            images = [await keep(server, user, file) for file in files["image"]]
            mask = "".join([await keep(server, user, file, is_mask=True) for file in files.get("mask", ())[:1]])
        by = Asked.of(key, "edits", body.model_dump_json(), *images, mask)
        return await made(request, user, body, by, images=images, mask=mask)

    async def made(request: Request, user: str, body: GenerateBody, by: Asked, **pictures: Any) -> ImagesAnswer:
        """Start what is asked for, wait for it, and send what it made. Who goes away without a key wants it no more."""
        if body.response_format == "url" and body.output_format != "png":
            raise Wrong("url names the file as it was made, a PNG; ask for b64_json, or for png", param="output_format")
        submit = partial(start, server, user, body, kind="image", n=body.n, asked_by=by, **pictures)
        ids = (await run_in_threadpool(server.runs.book.answers.once, user, by, submit)).runs
        is_his = not by.key  # nobody else can wait for it
        if not await until_over(server, request, user=user, ids=ids, timeout_s=MOST_S, is_only_his=is_his):
            if is_his:
                await run_in_threadpool(server.runs.book.cancel, user, ids)
            if server.runs.is_draining:
                raise Draining
            raise Wrong(f"it was not made in {MOST_S:.0f} s; ask for less at once", status=503, code="timeout")
        public = server.settings.root_path
        base = public if "://" in public else str(request.base_url).rstrip("/")
        return await server.intake.look(_answer, server, user, ids, body, base)


def _row(server: Server, user: str, found: Named) -> OfferedModel | None:
    """None for what makes nothing of a prompt, or declares its inputs wrongly."""
    try:
        whole = roles_in(server, user, found)
    except ValueError:
        return None
    roles = whole.declared
    if whole.makes == "" or not roles.prompt:
        return None
    there = {role: bool(getattr(roles, role)) for role in ROLES}
    there |= {"n": bool(roles.n or roles.seed), "seconds": bool(roles.seconds or roles.frames)}
    unfit = {"image": {"seconds"}, "video": {"n", "mask"}}[whole.makes]
    return OfferedModel(
        id=found.name,
        created=int(found.app.time) if found.app else 0,
        owned_by=user if found.app else "latentloom",
        makes=whole.makes,
        takes=[role for role, is_there in there.items() if is_there and role not in unfit],
        description=found.graph.description,
    )


def _answer(server: Server, user: str, ids: tuple[str, ...], body: GenerateBody, base: str) -> ImagesAnswer:
    runs = [server.runs.book.get(user, id) for id in ids]
    graph = server.runs.book.records.read_graph(user, runs[0].batch)
    rows: list[ImageRow] = []
    sizes: list[str] = []
    for run in runs:
        pictures = [made for made in run.made if made.kind == "image"]
        found = [made for made in pictures if graph is None or is_shown(graph, made.node)]
        if run.state != "done" or not found:
            raise why_not_made(run)
        rows += [_image(server, user, run, made, body, base) for made in found]
        sizes += [f"{made.width}x{made.height}" for made in found]
    return ImagesAnswer(created=int(time.time()), data=rows, output_format=body.output_format, size=sizes[0])


def _image(server: Server, user: str, run: RunRecord, made: MadeFile, body: GenerateBody, base: str) -> ImageRow:
    seed = run.overrides.get(run.asked_as["seed"])
    told = {"seed": seed if isinstance(seed, int) else None, "run": run.id}
    if body.response_format == "url":
        return ImageRow(b64_json=None, url=f"{base}/loom/files/{made.id}", **told)
    path, quality = server.results.path(user, made.id), body.output_compression
    if body.output_format == "png":
        data = path.read_bytes()
    else:
        data = encoded(path, format="JPEG" if body.output_format == "jpeg" else "WEBP", quality=quality)
    return ImageRow(b64_json=base64.b64encode(data).decode(), url=None, **told)
