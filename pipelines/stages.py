"""The four stages from prompt to pixels: functions from plain data to plain data, called by name in any process.

A stage checks what the user controls, loads what it needs and nothing else, and lets the model's family do the work.
Zero stands for the model's own number everywhere.
"""

# B pictures, H W height and width in pixels, C channels

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..parallel.errors import OutOfMemory, is_out_of_memory
from ..parallel.plan import ParallelPlan
from ..parallel.progress import SILENT, Progress
from . import preview
from .components.loading import torch_dtype
from .components.store import store
from .denoise_checks import check_denoise, check_family, check_guidance
from .denoising import quiet  # noqa: F401 (quiet for what it silences)
from .denoising.noise import generators, seeds_of
from .denoising.step_cache import cached, choice_of
from .families import FAMILIES, family_module
from .families.family import Stage
from .finite import check_finite
from .models.describe import card_of
from .models.folder import read_config, read_index
from .out_of_memory import shortage
from .requests import number, seed_of, steps_of, text
from .shape import check_frames, check_size
from .spreading.measured import finish, measured
from .spreading.transformer import sharded_parts
from .spreading.vae import split_over
from .values import Conditioning, Image, Latents, Model, Sampling, Video, from_plain, to_plain

if TYPE_CHECKING:
    from torch import Tensor

Plain = dict[str, Any]

ONE_RANK = ParallelPlan()
"""The plan of a stage that one rank does, or this process."""


def encode_text(request: Mapping[str, Any], progress: Progress = SILENT) -> Plain:
    """{model, prompt, negative_prompt, text_length} -> Conditioning.

    The negative prompt is always read, so that any guidance can follow; the text encoders leave the accelerator
    afterwards.
    """
    model = from_plain(Model, request["model"])
    card = card_of(model)
    prompt, negative_prompt = text(request, "prompt"), text(request, "negative_prompt") or card.negative_prompt
    with _stage(model, f"encoding the text of {len(prompt)} characters"):
        try:
            with _loaded(model, "encode_text", progress) as parts, measured(ONE_RANK, progress, device=model.device):
                progress.phase("encoding text")
                positive, negative = family_module(model.family).encode_text(
                    parts,
                    prompt=prompt,
                    negative_prompt=negative_prompt,
                    text_length=int(number(request, "text_length")) or card.text_length,
                )
                check_finite(positive, parts, model, what="the prompt's conditioning")
                check_finite(negative or {}, parts, model, what="the negative prompt's conditioning")
        finally:
            store().offload(model, FAMILIES[model.family].components["encode_text"])
    return to_plain(
        Conditioning(
            family=model.family,
            prompt=prompt,
            negative_prompt=negative_prompt,
            positive=positive,
            negative=negative,
        )
    )


def encode_image(request: Mapping[str, Any], progress: Progress = SILENT) -> Plain:
    """{model, image, width, height, frames, fps, seed} -> Latents: where denoising starts, or a video's first frame."""
    model = from_plain(Model, request["model"])
    card = card_of(model)
    pixels = from_plain(Image, request["image"]).pixels  # B H W C
    width, height = int(request["width"]), int(request["height"])
    frames = int(number(request, "frames")) or card.frames
    check_size(model, width, height)
    check_frames(model, frames)
    if pixels.ndim != 4 or tuple(pixels.shape[1:]) != (height, width, 3):
        got = " x ".join(map(str, pixels.shape))
        raise ValueError(f"the picture is {got}, but B x {height} x {width} x 3 is asked for; resize the picture first")
    with (
        _stage(model, f"encoding {len(pixels)} pictures of {width} x {height}"),
        _loaded(model, "encode_image", progress) as parts,
    ):
        progress.phase("encoding picture")
        with measured(ONE_RANK, progress, device=model.device):
            tensor, extras = family_module(model.family).encode_image(
                parts,
                pixels=pixels.to(model.device, torch.float32),
                width=width,
                height=height,
                frames=frames,
                seeds=seeds_of(seed_of(request), len(pixels)),
            )
        check_finite({**extras, "tensor": tensor}, parts, model, what="the encoded picture")
    return to_plain(
        Latents(
            family=model.family,
            width=width,
            height=height,
            frames=frames,
            fps=number(request, "fps") or card.fps,
            batch=len(pixels),
            tensor=tensor,
            extras=extras,
        )
    )


def denoise(request: Mapping[str, Any], progress: Progress = SILENT) -> Plain:
    """{model, conditioning, latents, seed, steps, [distilled_]guidance[_2], strength, sampling, plan, step_cache,
    cache_threshold} -> Latents.

    With a plan of several ranks, every rank of the process group calls this with the same request and gets the same
    latents. Picture i of a batch is made from noise of `seed + i`, so it is the picture that this seed makes alone.
    """
    model = from_plain(Model, request["model"])
    conditioning = from_plain(Conditioning, request["conditioning"])
    latents = from_plain(Latents, request["latents"])
    sampling = from_plain(Sampling, request.get("sampling") or {})
    plan = ParallelPlan.parse(str(request.get("plan") or ""))
    card = card_of(model)
    steps = len(sampling.sigmas) or steps_of(request) or card.steps
    guidance = number(request, "guidance") or card.guidance
    strength = number(request, "strength", 1.0)
    guidance_2 = number(request, "guidance_2")
    distilled_guidance = number(request, "distilled_guidance")
    check_guidance(model, card, guidance=guidance, guidance_2=guidance_2, distilled_guidance=distilled_guidance)
    most = max(guidance, guidance_2)
    check_denoise(model, conditioning, latents, sampling=sampling, guidance=most, strength=strength)
    cache = choice_of(request, model, sampling=sampling, strength=strength)
    seeds = seeds_of(seed_of(request), latents.batch)
    is_changed = plan.num_ranks > 1 or cache.kind != "none"  # by hooks on the transformers
    with (
        _stage(model, f"denoising {latents.batch} of {latents.width} x {latents.height} x {latents.frames}"),
        _loaded(model, "denoise", progress, plan=plan, alone=is_changed) as parts,
    ):
        progress.phase("denoising")
        with (
            measured(plan, progress, device=model.device),
            sharded_parts(parts, plan) as parts,
            cached(parts, cache, sampling=sampling, steps=steps),
        ):
            tensor = family_module(model.family).denoise(
                parts,
                conditioning=_conditioning_on_device(conditioning, model),
                latents=_latents_on_device(latents, model),
                generators=generators(seeds),
                steps=steps,
                guidance=guidance,
                guidance_2=guidance_2,
                distilled_guidance=distilled_guidance or card.distilled_guidance,
                strength=strength,
                sampling=sampling,
                on_step=_reporting(model, progress),
            )
        check_finite({"tensor": tensor}, parts, model, what="the denoised latents")
    return to_plain(dataclasses.replace(latents, tensor=tensor, seeds=seeds, extras={}))


def decode(request: Mapping[str, Any], progress: Progress = SILENT) -> Plain:
    """{model, latents, split} -> {"image": Image} or {"video": Video}.

    With `split` over 1, all that many ranks of the process group call this alike, share the rows and get all pixels.
    """
    model = from_plain(Model, request["model"])
    latents = from_plain(Latents, request["latents"])
    check_family(model, latents.family, what="latents were made")
    if latents.tensor is None:
        raise ValueError("the latents are an empty canvas, which shows nothing; put a Denoise before Decode")
    with (
        _stage(model, f"decoding {latents.batch} of {latents.width} x {latents.height} x {latents.frames}"),
        _loaded(model, "decode", progress) as parts,
    ):
        progress.phase("decoding")
        tensor = latents.tensor.to(model.device, parts["vae"].dtype)
        num_ranks = max(1, int(number(request, "split")))
        with (
            split_over(parts["vae"], num_ranks, rows=tensor.shape[-2]),
            measured(ParallelPlan(ulysses=num_ranks), progress, device=model.device, name=f"rows={num_ranks}"),
        ):
            pixels = family_module(model.family).decode(parts, tensor=tensor).float()
        check_finite({"pixels": pixels}, parts, model, what="the decoded picture")
    if FAMILIES[model.family].output == "image":
        return {"image": to_plain(Image(pixels=pixels))}
    return {"video": to_plain(Video(pixels=pixels, fps=latents.fps or card_of(model).fps))}


@contextlib.contextmanager
def _stage(model: Model, doing: str) -> Iterator[None]:
    """No gradients, and one sentence when the memory is not enough."""
    try:
        with torch.no_grad():
            yield
    except OutOfMemory:
        raise  # while loading: it names the component
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"{model.device} ran out of memory{shortage(error)} {doing} with {model.source}; make it smaller, make "
            "fewer at once, load the model with quantization, or share its weights over devices (plan weights=4)"
        ) from None


@contextlib.contextmanager
def _loaded(
    model: Model, stage: Stage, progress: Progress, *, plan: ParallelPlan | None = None, alone: bool = False
) -> Iterator[Plain]:
    """A stage's parts; no other thread of this process changes them meanwhile."""
    folder = Path(model.folder)
    with store().lent(model, FAMILIES[model.family].components[stage], progress, plan=plan, alone=alone) as parts:
        parts["model_index"] = read_index(folder)
        if stage == "denoise":
            parts["vae.config"] = read_config(folder, "vae")
        yield parts


def _conditioning_on_device(conditioning: Conditioning, model: Model) -> Conditioning:
    negative = conditioning.negative
    return dataclasses.replace(
        conditioning,
        positive=_on_device(conditioning.positive, model),
        negative=None if negative is None else _on_device(negative, model),
    )


def _latents_on_device(latents: Latents, model: Model) -> Latents:
    tensor = latents.tensor
    if tensor is not None:
        tensor = _on_device({"tensor": tensor}, model)["tensor"]
        tensor = tensor.expand(latents.batch, *tensor.shape[1:])
    return dataclasses.replace(latents, tensor=tensor, extras=_on_device(latents.extras, model))


def _on_device(tensors: Mapping[str, Tensor], model: Model) -> dict[str, Tensor]:
    """On the model's device; numbers in its dtype, masks as they are."""
    dtype = torch_dtype(model.dtype)
    return {
        name: tensor.to(model.device, dtype if tensor.is_floating_point() else tensor.dtype)
        for name, tensor in tensors.items()
    }


def _reporting(model: Model, progress: Progress) -> Callable[[int, int, Callable[[], Tensor]], None]:
    def on_step(done: int, total: int, current: Callable[[], Tensor]) -> None:
        finish(model.device)  # a step told is a step done, and a cancel waits for one step, not for all in the stream
        progress.step(done, total, lambda: preview.picture(current(), preview.matrix(model)))

    return on_step
