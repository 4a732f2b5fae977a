"""Denoise and Sampler Options: walk from noise to latents, step by step."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from ...parallel.progress import SILENT, Progress
from ...parallel.wording import worded
from ...pipelines import requests, settling
from ...pipelines.models.facts import scheduler_of, shift_of
from ...pipelines.values import Conditioning, Latents, Mask, Model, Sampling, Scheduler, StepCache
from ..files.resize import cover
from ..graph.signature import read_spec
from ..graph.sketch import Asked, Denoising, Given, Text, filled
from ..graph.spec import Socket
from .arguments import checked, sketch_by
from .sockets import NoiseChoice, OtherScale, Scale, Seed

Part = Annotated[float, Socket(min=0, max=1, step=0.05, advanced=True)]


def noise_recipe(values: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    """By what is known of results from before there was a choice: they have the noise of diffusers. Where `seed` makes
    another one, the schedule says so."""
    return 1, {name: value for name, value in values.items() if name != "noise"}


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
) -> Sampling:
    """How to walk from noise to picture, beyond the number of steps."""
    try:
        levels = tuple(float(part) for part in sigmas.replace(",", " ").split())
    except ValueError:
        raise ValueError(worded("sigmas is {!r}; give falling numbers such as '1, 0.75, 0.5, 0.25'", sigmas)) from None
    return Sampling(
        scheduler=scheduler,
        shift=shift,
        sigmas=levels,
        guidance_start=guidance_start,
        guidance_stop=guidance_stop,
        guidance_rescale=guidance_rescale,
    )


def denoises(given: Given) -> Denoising:
    """The denoise that the node would do; a prompt that is not known counts as one of the model's own length."""
    try:
        latents, doubt = given.value("latents"), ""
    except ValueError as error:
        latents, doubt = None, str(error)
    try:
        text = given.value("conditioning")
    except ValueError:
        text = Text(num_tokens=0)
    try:
        has_step_cache = given.value("step_cache") != "none"
    except ValueError:
        has_step_cache = True
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
        "shift": 0 if sampling.shift or sampling.sigmas else shift_of(folder),
    }
    return {**found, "sampling": {name: value for name, value in options.items() if value}}


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
        sampler_options, title="Sampler Options", category="denoise", sketch=sketch_by(sampler_options)
    ),
}
