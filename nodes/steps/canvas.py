"""Empty Latents and Upscale Latents: the canvas that denoising paints on."""

import dataclasses
from typing import Annotated, Any

from ...pipelines.models.describe import card_of, filled
from ...pipelines.shape import (
    check_fps,
    check_frames,
    check_size,
    empty_canvas,
    nearest_frames,
    nearest_size,
    why_too_large,
)
from ...pipelines.values import Image, Latents, Model
from ..files.resize import Method, interpolate, size_like, why_half
from ..graph.signature import read_spec
from ..graph.sketch import Empty, Given, Refusal
from ..graph.spec import Socket
from .arguments import checked, refused_by
from .sockets import Frames, Pixels

NOTHING = "the latents are an empty canvas; set its size in Empty Latents, or denoise it first"


@checked
def empty_latents(
    model: Model,
    *,
    width: Annotated[Pixels, "Pixels; 0 is the model's own"] = 0,
    height: Annotated[Pixels, "Pixels; 0 is the model's own"] = 0,
    frames: Frames = 0,
    fps: Annotated[
        float, Socket(min=0, max=240, auto=True, advanced=True), "Frames a second; 0 is the model's own"
    ] = 0.0,
    batch: Annotated[int, Socket(min=1, max=256), "Pictures at once; picture i uses seed + i"] = 1,
    like: Annotated[Image | None, "Where width and height are 0: its shape, at the model's own area"] = None,
) -> Latents:
    """An empty canvas of a size that the model can paint."""
    if like is not None:
        width, height = size_like(model, like, width=width, height=height)
    return empty_canvas(model, width=width, height=height, frames=frames, fps=fps, batch=batch)


@checked
def upscale_latents(
    model: Model,
    latents: Latents,
    *,
    scale: Annotated[float, Socket(min=0.1, max=8, step=0.1)] = 2.0,
    method: Method = "bicubic",
) -> Latents:
    """Denoised latents made larger, to be denoised again with a strength below 1 for more detail."""
    if latents.tensor is None:
        raise ValueError(NOTHING)
    width, height = round(latents.width * scale), round(latents.height * scale)
    check_size(model, width, height)
    small = latents.tensor  # B C H W or B C F H W
    rows, columns = (round(side * scale) for side in small.shape[-2:])
    flat = small.movedim(2, 1).flatten(0, 1) if small.ndim == 5 else small  # B*F C H W
    large = interpolate(flat.float(), columns, rows, method).to(small.dtype)
    if small.ndim == 5:
        large = large.unflatten(0, (small.shape[0], small.shape[2])).movedim(1, 2)  # B C F H W
    return dataclasses.replace(latents, width=width, height=height, tensor=large)


def empty_refusals(given: Given) -> dict[str, str | Refusal]:
    card = card_of(given.value("model"))
    return canvas_refusals(given, own=(0, 0) if given.has("like") else (card.width, card.height))


def canvas_refusals(given: Given, *, own: tuple[int, int] = (0, 0)) -> dict[str, str | Refusal]:
    """By the sockets that `canvas_sketch` asks; `own` stands for a width and a height of zero."""
    width, height, frames = (int(given.number(name)) for name in ("width", "height", "frames"))
    width, height = width or own[0], height or own[1]
    model, fps, zero = given.value("model"), given.number("fps"), {"width": 0, "height": 0}
    near = dict(zip(zero, nearest_size(model, width, height), strict=True))
    lengths = [{"frames": each} for each in nearest_frames(model, frames)]
    refusals: dict[str, str | Refusal] = {}
    if width and height:
        refusals["width"] = refused_by("not_taken", lambda: check_size(model, width, height), near)
    elif why := why_half(width, height):
        refusals["width"] = Refusal(code="not_taken", why=why, mends=(zero,))
    if frames:
        refusals["frames"] = refused_by("not_taken", lambda: check_frames(model, frames), *lengths)
    if fps:
        refusals["fps"] = refused_by("not_taken", lambda: check_fps(model, fps), {"fps": 0})
    if not refusals.get("width") and (why := why_too_large(model, width, height)):
        refusals["width"] = Refusal(code="too_large", why=why, kind="estimate", mends=(zero,))
    return refusals


def empty_sketch(given: Given) -> Latents:
    return Empty(**vars(canvas_sketch(given, batch=max(1, int(given.number("batch"))))))


def canvas_sketch(given: Given, *, batch: int) -> Latents:
    """By the sockets `model`, `width`, `height`, `frames` and `fps`; the model's own size where that cannot be."""
    model, width, height, frames = given.value("model"), *(int(given.number(n)) for n in ("width", "height", "frames"))
    fps = given.number("fps")
    try:
        return empty_canvas(model, width=width, height=height, frames=frames, fps=fps, batch=batch)
    except ValueError as error:
        given.tell(str(error))
        return empty_canvas(model, width=0, height=0, frames=0, fps=fps, batch=batch)


def canvas_means(given: Given, *, has_shape: bool) -> dict[str, Any]:
    """By the sockets that `canvas_sketch` asks. A size of zero that a picture's shape decides is not known."""
    width, height, frames, fps = (given.value(name) for name in ("width", "height", "frames", "fps"))
    canvas = filled(given.value("model"), width=width, height=height, frames=frames, fps=fps)
    if has_shape and not (width and height):
        return {name: canvas[name] for name in ("frames", "fps")}
    return canvas


def upscale_sketch(given: Given) -> Latents:
    latents: Latents = given.value("latents")
    scale = given.number("scale") or 1.0
    return dataclasses.replace(latents, width=round(latents.width * scale), height=round(latents.height * scale))


NODES = {
    "LoomEmptyLatents": read_spec(
        empty_latents,
        title="Empty Latents",
        category="latents",
        sketch=empty_sketch,
        refuses=empty_refusals,
        means=lambda given: canvas_means(given, has_shape=given.has("like")),
    ),
    "LoomUpscaleLatents": read_spec(
        upscale_latents,
        title="Upscale Latents",
        category="latents",
        sketch=upscale_sketch,
        refuses=lambda given: {"latents": NOTHING if isinstance(given.value("latents"), Empty) else ""},
    ),
}
