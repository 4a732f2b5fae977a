"""From what a request to /v1 asks for to runs: which input is what, seeds, lengths, and how much may be rounded."""

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from starlette.datastructures import UploadFile

from ....nodes.files.thumbnails import mask_by_any_channel
from ....nodes.files.workspace import Workspace
from ....nodes.graph.problems import GraphError
from ....nodes.graph.ready import ready
from ....nodes.preview.carried import PLANS_KEY, rows_of
from ....nodes.preview.walk import Walk
from ....nodes.registry import SPECS
from ....parallel.errors import where_of
from ....parallel.plan import ParallelPlan
from ....parallel.wording import worded
from ....pipelines.models.describe import card_of
from ....pipelines.shape import nearest_frames
from ....pipelines.values import MARK
from ...contract.run import Submitted
from ...errors import NotHere
from ...library.app_form import told_by_settings
from ...library.named import Named, model_named
from ...library.roles import Roles, Rounding, roles_of
from ...live.state import RunRecord
from ...runs.once import Asked
from ...server import Server
from ...views.devices import accelerators, devices_now
from ..graphs import file_name
from .bodies import Making
from .route import Wrong

Kind = Literal["image", "video"]
PIECE = 1 << 20  # bytes of a file that are read at once
SEEDS = 2**32  # of those that are drawn
# Sockets at which any other value than the usual one is not of one device's bits, and what it is then.
LOOSE: Mapping[str, Rounding] = {
    **dict.fromkeys(("step_cache", "quantization"), "approximate"),
    **dict.fromkeys(("engine", "text_encoder", "plan"), "allowed"),
}


def roles_in(server: Server, user: str, found: Named) -> Roles:
    """Raises `ValueError` where it declares its inputs wrongly."""
    prepared = ready(found.graph, SPECS, workspace=server.settings.reading(user=user))
    return roles_of(prepared, is_app=found.app is not None)


def start(
    server: Server,
    user: str,
    body: Making,
    *,
    kind: Kind,
    n: int = 1,
    images: Sequence[str] = (),
    mask: str = "",
    seconds: float | None = None,
    asked_by: Asked,
) -> Submitted:
    """Put what is asked for into the queue: a run for each picture or video. Raises `Wrong`."""
    try:
        found = model_named(server.library, user, body.model)
    except NotHere as error:
        raise Wrong(str(error), param="model", status=404, code="model_not_found") from None
    roles, workspace = roles_in(server, user, found), server.settings.reading(server.settings.place, user=user)
    if roles.makes != kind:
        raise Wrong(worded("{} makes no {}; choose another model", body.model, kind), param="model")
    if n > (most := server.settings.most_points):
        raise Wrong(worded("n is {}; at most {} are made at once here", n, most), param="n")
    values = _values(found, roles, body, workspace=workspace, n=n, images=images, mask=mask)
    prepared, here = ready(found.graph, SPECS, values, workspace=workspace), accelerators(devices_now())
    walk = Walk(prepared, workspace=workspace, accelerators=here)
    if seconds is not None:
        values |= _length(found, roles, walk, seconds)
    place, order = server.settings.place, get_args(Rounding)
    for rounding, why in looser(walk, place.plan if place.devices else ""):
        if order.index(rounding) > order.index(body.rounding):
            said = worded("{} rounds otherwise than one device: {}; send rounding {}", body.model, why, rounding)
            raise Wrong(said, param="rounding", code="rounding")
    seed, sweep = roles.declared.seed, []
    if n > 1 and not roles.declared.n:
        sweep = [f"{seed}={values[seed]}..{values.pop(seed) + n - 1}"]
    told = {"object": kind, "model": body.model, "prompt": roles.declared.prompt, "seed": seed}
    told |= {"size": body.size, "seconds": "" if seconds is None else f"{seconds:g}"}
    try:
        return server.runs.submit(user, found.graph, overrides=values, sweep=sweep, asked_by=asked_by, asked_as=told)
    except GraphError as error:
        raise _where(found, roles, error) from None


def _where(found: Named, roles: Roles, error: GraphError) -> Wrong:
    """With the field of the request that sets what is wrong; of an app nothing is said of nodes."""
    first = error.problems[0]
    param = roles.role_at(first.node, first.socket)
    if found.app:
        try:
            with told_by_settings(found.graph):
                raise error
        except GraphError as told:
            error, first = told, told.problems[0]
    return Wrong(str(error), param=param or ".".join(filter(None, (first.node, first.socket))) or None, code=error.code)


def _values(
    found: Named, all_roles: Roles, body: Making, *, workspace: Workspace, n: int, images: Sequence[str], mask: str
) -> dict[str, Any]:
    """What the owner's words for quality and rounding set, then what the request sets."""
    roles = all_roles.declared
    values: dict[str, Any] = {**roles.rounding.get(body.rounding, {})} if body.rounding != "none" else {}
    if body.quality != "auto" and body.quality not in roles.quality:
        there = ", ".join(("auto", *roles.quality))
        raise Wrong(worded("{} has no quality {!r}; it takes {}", body.model, body.quality, there), param="quality")
    values |= roles.quality.get(body.quality, {})
    try:
        values |= found.values(body.params, (), workspace)
    except ValueError as error:
        raise Wrong(str(error), param="params") from None
    if n > 1 and not (roles.seed or roles.n):
        raise Wrong(worded("{} has no seed, so that all {} would be the same; ask for 1", body.model, n), param="n")
    if len(images) > len(roles.image):
        raise Wrong(
            worded("{} takes {} pictures, and {} came", body.model, len(roles.image), len(images)), param="image"
        )
    seed = body.seed
    if seed is None and roles.seed:
        takes = all_roles.places[roles.seed].spec
        low, high = int(takes.min or 0), SEEDS - 1 if takes.max is None else min(SEEDS - 1, int(takes.max))
        seed = low + secrets.randbelow(max(1, high - low + 2 - n))
    width, _, height = body.size.partition("x")
    sides = () if body.size == "auto" else (int(width), int(height))
    given = {"prompt": body.prompt, "seed": seed, "mask": mask or None, "n": n if roles.n else None, "size": sides}
    for role, value in given.items():
        names = getattr(roles, role)
        if value not in (None, ()) and not names:
            raise Wrong(worded("{} has no input that is its {}; leave it out", body.model, role), param=role)
        values |= dict(zip(names, sides, strict=True)) if role == "size" and sides else {}
        values |= {names: value} if role != "size" and value is not None else {}
    return values | dict(zip(roles.image, images, strict=False))


def _length(found: Named, all_roles: Roles, walk: Walk, seconds: float) -> dict[str, Any]:
    """What makes a video so long: an input that takes seconds, or the nearest number of frames that the model can."""
    roles, places = all_roles.declared, all_roles.places
    if roles.seconds:
        is_whole = places[roles.seconds].spec.type == "int"
        return {roles.seconds: round(seconds) if is_whole else seconds}
    at = places.get(roles.frames)
    socket = at.owner.input("model") if at and at.owner else None
    if at is None or not (socket or roles.fps):
        raise Wrong(worded("{} has no input for its length; leave seconds out", found.name), param="seconds")
    if socket is None:
        return {roles.frames: round(seconds * roles.fps)}
    try:
        painter = walk.value(at.node, socket)[0]
    except ValueError as error:
        raise Wrong(str(error), param="model") from None
    wanted = seconds * (roles.fps or card_of(painter).fps)
    return {roles.frames: min(nearest_frames(painter, round(wanted)), key=lambda frames: abs(frames - wanted))}


def looser(walk: Walk, run_plan: str) -> Iterator[tuple[Rounding, str]]:
    """What of a workflow that runs by this plan is not of one device's bits, and how far from them. What is known only
    in the run counts as if it were."""
    carried = walk.meta.get(PLANS_KEY)
    plans = [run_plan, *(map(str, carried.values()) if isinstance(carried, dict) else ())]
    yield from (("allowed", f"plan {plan}") for plan in plans if _rounds(plan))
    for name, spec in walk.specs.items():
        for socket in spec.inputs:
            if (rounding := LOOSE.get(socket.name)) is None:
                continue
            try:
                value = walk.value(name, socket)[0]
            except ValueError as error:
                yield rounding, str(error)
                continue
            if _rounds(value) if socket.name == "plan" else value != socket.default:
                yield rounding, f"{socket.name} {value}"
    yield from (("allowed", f"decoded by {rows} ranks") for rows in rows_of(walk, walk.specs).values())


def _rounds(plan: Any) -> bool:
    """Whether a plan of this text does; one that is none is refused elsewhere."""
    text = str(plan)
    try:
        return text.endswith(MARK) or (text not in ("", "auto") and ParallelPlan.parse(text).rounds)
    except ValueError:
        return False


async def keep(server: Server, user: str, sent: UploadFile, *, is_mask: bool = False) -> str:
    """Keep a picture of a request among the user's inputs, a mask so that any node reads it alike; its path. Raises
    `ValueError`."""
    name = file_name(sent.filename or "picture.png")

    async def pieces() -> AsyncIterator[bytes]:
        while piece := await sent.read(PIECE):
            yield piece

    def add(file: Path) -> str:
        if is_mask:
            mask_by_any_channel(file, file := file.with_name("mask"), name=name, max_pixels=server.settings.max_pixels)
        return server.uploads.add(user, f"{Path(name).stem}.png", file).path

    async with server.intake.file(pieces()) as file:
        return await server.intake.look(add, file)


def why_not_made(run: RunRecord) -> Wrong:
    """Of a run that failed, was cancelled, or made nothing that is shown."""
    status = {"input": 400, "machine": 503, "user": 400}.get(where_of(run.code), 500)
    if run.state == "cancelled":
        return Wrong("the run was cancelled; send the request again", code="cancelled")
    return Wrong(run.error or "the workflow made nothing that it shows", status=status, code=run.code)
