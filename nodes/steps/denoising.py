"""Denoise and Sampler Options, from noise to latents step by step; and the canvas that they paint on."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ...parallel.errors import BadInput
from ...parallel.progress import SILENT, Progress
from ...pipelines import requests, settling, shape
from ...pipelines.models import describe
from ...pipelines.models.describe import card_of
from ...pipelines.models.facts import scheduler_of, shift_of
from ...pipelines.values import Conditioning, Image, Latents, Mask, Model, Sampling, Scheduler, StepCache
from ..files.resize import Method, cover, interpolate, size_like, why_half
from ..graph.signature import read_spec
from ..graph.sketch import Asked, Denoising, Empty, Given, Refusal, Text, filled, if_known
from ..graph.spec import Socket
from .arguments import checked, refused_by, sketch_by
from .sockets import Frames, NoiseChoice, OtherScale, Pixels, Scale, Seed

Part = Annotated[float, Socket(min=0, max=1, step=0.05, advanced=True)]


def noise_recipe(values: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """By what is known of results from before there was a choice: they have the noise of diffusers, no sound and no
    last image. Where `seed` makes another noise, the schedule says so."""
    before = {"last_image": None, "sound": False}
    known = (name for name, value in values.items() if name != "noise" and before.get(name, ...) != value)
    return 1, {name: values[name] for name in known}


@checked
def denoise(
    model: Model,
    conditioning: Conditioning,
    latents: Latents,
    *,
    seed: Annotated[Seed, "Picture i of a batch uses seed + i"] = 0,
    steps: Annotated[int, Socket(min=0, max=10_000, auto=True, help="0 is the model's own")] = 0,
    guidance: Annotated[Scale, "How strongly the prompt acts; 1 is off, 0 is the model's own"] = 0.0,
    strength: Annotated[
        float, Socket(min=0.01, max=1, step=0.01), "How much of a start picture is painted anew; 1 is all of it"
    ] = 1.0,
    guidance_2: Annotated[OtherScale, "Of the second expert (Wan 2.2); 0 is the model's own"] = 0.0,
    distilled_guidance: Annotated[OtherScale, "Of guidance-distilled models (FLUX.1-dev); 0 is the model's own"] = 0.0,
    step_cache: Annotated[
        StepCache,
        Socket(advanced=True),
        "Reuses most of a step that changes little: faster, but no longer the same picture as without. "
        "On several devices it gives what it gives on one",
    ] = "none",
    cache_threshold: Annotated[
        float,
        Socket(min=0, max=10, auto=True, step=0.01, advanced=True),
        "How much change a step cache overlooks; more is faster and less exact, 0 is the cache's own",
    ] = 0.0,
    sampling: Sampling | None = None,
    mask: Annotated[
        Mask | None, "Where a start picture is painted anew; elsewhere it is kept. Scaled as Encode Image scales"
    ] = None,
    noise: NoiseChoice = "seed",
    sound: Annotated[
        bool, "Paint a sound beside the video, of a model that may (Cosmos 3); others do or cannot"
    ] = False,
    progress: Progress = SILENT,
) -> Latents:
    """Run the diffusion transformer over the canvas."""
    from ...pipelines import placement

    if mask is not None and latents.tensor is not None:  # it lies over the picture as Encode Image scaled that
        pixels = cover(mask.pixels[..., None], latents.width, latents.height, "bilinear")
        mask = Mask(pixels=pixels[..., 0])
    request = requests.Denoise(
        model=model,
        conditioning=conditioning,
        latents=latents,
        seed=seed,
        steps=steps,
        guidance=guidance,
        strength=strength,
        guidance_2=guidance_2,
        distilled_guidance=distilled_guidance,
        step_cache=step_cache,
        cache_threshold=cache_threshold,
        mask=mask,
        sound=sound,
        sampling=sampling or Sampling(),
        noise=noise,
    )
    return placement.denoise(request, progress)


@checked
def sampler_options(
    *,
    scheduler: Annotated[Scheduler, "model is the one in the model's folder"] = "model",
    shift: Annotated[Scale, "More steps on the layout; 0 is the model's own"] = 0.0,
    sigmas: Annotated[
        str, Socket(advanced=True), "Noise levels such as 1, 0.75, 0.5, 0.25; replaces the number of steps"
    ] = "",
    guidance_start: Annotated[Part, "Guidance acts from this part"] = 0.0,
    guidance_stop: Annotated[Part, "Guidance acts up to this part"] = 1.0,
    guidance_rescale: Annotated[Part, "Takes back the contrast that guidance adds"] = 0.0,
    shift_sigmas: Annotated[
        bool,
        Socket(advanced=True),
        "The shift bends sigmas too, as diffusers' pipelines do with theirs; else they are taken as they are",
    ] = False,
) -> Sampling:
    """How to walk from noise to picture, beyond the number of steps."""
    try:
        levels = tuple(float(part) for part in sigmas.replace(",", " ").split())
    except ValueError:
        raise BadInput("sigmas is {!r}; give falling numbers such as '1, 0.75, 0.5, 0.25'", sigmas) from None
    return Sampling(
        scheduler=scheduler,
        shift=shift,
        sigmas=levels,
        shift_sigmas=shift_sigmas,
        guidance_start=guidance_start,
        guidance_stop=guidance_stop,
        guidance_rescale=guidance_rescale,
    )


def options_recipe(values: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """As before there was a choice of what sigmas are, where they are taken as they are."""
    return 1, {name: value for name, value in values.items() if name != "shift_sigmas" or value}


def denoises(given: Given) -> Denoising:
    """The denoise that the node would do; a prompt that is not known counts as one of the model's own length."""
    try:
        latents, doubt = given.value("latents"), ""
    except ValueError as error:
        latents, doubt = None, str(error)
    text = if_known(lambda: given.value("conditioning"), Text(num_tokens=0))
    has_step_cache = if_known(lambda: given.value("step_cache") != "none", True)
    refusals = settling.refusals(Asked(requests.Denoise, given))
    return Denoising(
        model=given.value("model"),
        latents=latents,
        num_tokens=text.num_tokens,
        num_references=text.num_references,
        steps=int(given.number("steps")),
        guidance=given.number("guidance"),
        guidance_2=given.number("guidance_2"),
        has_step_cache=has_step_cache,
        doubt=doubt,
        refusals={**refusals, "conditioning": text.refusal} if text.refusal else refusals,
    )


def denoise_means(given: Given) -> dict[str, Any]:
    """What its own zeros stand for, and those of its sampler options, whether a node gives them or not."""
    asked = Asked(requests.Denoise, given)
    found, sampling, folder = settling.own_numbers(asked), asked.sampling, Path(asked.model.folder)
    options = {
        "scheduler": scheduler_of(folder) if sampling.scheduler == "model" else "",
        "shift": 0 if sampling.shift or (sampling.sigmas and not sampling.shift_sigmas) else shift_of(folder),
    }
    return {**found, "sampling": {name: value for name, value in options.items() if value}}


# ---- The canvas: Empty Latents and Upscale Latents.

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
    return shape.empty_canvas(model, width=width, height=height, frames=frames, fps=fps, batch=batch)


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
    shape.check_size(model, width, height)
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
    near = dict(zip(zero, shape.nearest_size(model, width, height), strict=True))
    lengths = [{"frames": each} for each in shape.nearest_frames(model, frames)]
    refusals: dict[str, str | Refusal] = {}
    if width and height:
        refusals["width"] = refused_by("not_taken", lambda: shape.check_size(model, width, height), near)
    elif why := why_half(width, height):
        refusals["width"] = Refusal(code="not_taken", why=why, mends=(zero,))
    if frames:
        refusals["frames"] = refused_by("not_taken", lambda: shape.check_frames(model, frames), *lengths)
    if fps:
        refusals["fps"] = refused_by("not_taken", lambda: shape.check_fps(model, fps), {"fps": 0})
    if not refusals.get("width") and (why := shape.why_too_large(model, width, height)):
        refusals["width"] = Refusal(code="too_large", why=why, kind="estimate", mends=(zero,))
    return refusals


def canvas_sketch(given: Given, *, batch: int) -> Latents:
    """By the sockets `model`, `width`, `height`, `frames` and `fps`; the model's own size where that cannot be."""
    model, width, height, frames = given.value("model"), *(int(given.number(n)) for n in ("width", "height", "frames"))
    fps = given.number("fps")
    try:
        return shape.empty_canvas(model, width=width, height=height, frames=frames, fps=fps, batch=batch)
    except ValueError as error:
        given.tell(str(error))
        return shape.empty_canvas(model, width=0, height=0, frames=0, fps=fps, batch=batch)


def canvas_means(given: Given, *, has_shape: bool) -> dict[str, Any]:
    """By the sockets that `canvas_sketch` asks. A size of zero that a picture's shape decides is not known."""
    width, height, frames, fps = (given.value(name) for name in ("width", "height", "frames", "fps"))
    canvas = describe.filled(given.value("model"), width=width, height=height, frames=frames, fps=fps)
    if has_shape and not (width and height):
        return {name: canvas[name] for name in ("frames", "fps")}
    return canvas


def upscale_sketch(given: Given, *, scale: float = 0.0) -> Latents:
    latents: Latents = given.value("latents")
    scale = scale or given.number("scale") or 1.0
    return dataclasses.replace(latents, width=round(latents.width * scale), height=round(latents.height * scale))


NODES = {
    "LoomDenoise": read_spec(
        denoise,
        title="Denoise",
        category="denoise",
        uses_device=True,
        recipe=noise_recipe,
        sketch=lambda given: dataclasses.replace(filled(given.value("latents")), extras={}),
        denoises=denoises,
        means=denoise_means,
    ),
    "LoomSamplerOptions": read_spec(
        sampler_options,
        title="Sampler Options",
        category="denoise",
        recipe=options_recipe,
        sketch=sketch_by(sampler_options),
    ),
    "LoomEmptyLatents": read_spec(
        empty_latents,
        title="Empty Latents",
        category="latents",
        sketch=lambda given: Empty(**vars(canvas_sketch(given, batch=max(1, int(given.number("batch")))))),
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
