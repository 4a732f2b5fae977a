"""The stages from prompt to pixels and sound: functions from a request to a value, called by name in any process.

A stage checks what the user controls, loads what it needs and nothing else, and lets the model's family do the work.
What it is asked for is a request, or the fields of one by name or as plain data: `denoise(model=..., seed=7, ...)`.
What it gives is on the CPU, but for pictures, which stay where they were made: whoever wants them fetches them.
"""

# B pictures, H W height and width in pixels, C channels

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..parallel.mesh import mesh_for
from ..parallel.plan import ParallelPlan
from ..parallel.progress import SILENT, Progress, RunAhead, measured
from ..parallel.sharding.fingerprint import Comparison, fields_of
from . import preview
from .components.loading import shells, torch_dtype
from .components.memory import memory_limit
from .components.store import ONE_RANK, store
from .denoising import guidance as guiding
from .denoising import inside, schedulers  # noqa: F401 (inside for what it silences)
from .denoising.noise import generators, seeds_of
from .denoising.step_cache import cached, check_step_cache
from .failures import check_finite, told_by
from .families import FAMILIES, family_module
from .forecast.memory import work_of
from .forecast.plans import num_steps_of, text_length_of
from .guarded import OWNERS, checked, passed
from .models.describe import card_of
from .models.facts import scheduler_of
from .models.folder import read_config, read_index
from .requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText, Stage, Upscale, made
from .selfcheck.first_use import check_first_use
from .settling import saw_frame, settled
from .spreading.frames import decoded
from .spreading.vae import split_over
from .values import Audio, Conditioning, Image, Latents, Model, References, StepCache, Video

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("latentloom")

NOTHING: Mapping[str, Any] = {}  # a request whose fields are all given by name


def encode_text(
    request: EncodeText | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any
) -> Conditioning:
    """What the text encoders make of a prompt and of what to steer away from, and the VAE of reference pictures.

    The negative prompt is always read, so that any guidance can follow. `split` ranks call this alike, and all compute.
    """
    request = settled(made(EncodeText, request, fields))
    model, plan = request.model, ParallelPlan(ulysses=max(1, request.split))
    doing = f"encoding the text of {len(request.prompt)} characters"
    references = request.before.references if request.before else _encoded(request.references, model, progress, doing)
    reading = model if model.text_encoder == "device" else dataclasses.replace(model, device="cpu")
    with (
        _loaded(reading, "encode_text", progress, doing, plan=plan) as parts,
        measured(plan, progress, device=reading.device),
    ):
        progress.phase("encoding text" if reading is model else "encoding text on the CPU, as asked")
        positive, negative = family_module(model.family).encode_text(parts, request)
        check_finite(positive, parts, model, what="the prompt's conditioning")
        check_finite(negative or {}, parts, model, what="the negative prompt's conditioning")
    return Conditioning(
        family=model.family,
        prompt=passed(model, request.prompt) if model.family in OWNERS else request.prompt,
        negative_prompt=request.negative_prompt,
        positive=_at_rest(positive),
        negative=None if negative is None else _at_rest(negative),
        references=_at_rest(references),
        saw_frame=saw_frame(request),
    )


def encode_image(
    request: EncodeImage | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any
) -> Latents:
    """Where denoising starts, or what a video's model is told of its first frame."""
    request = settled(made(EncodeImage, request, fields))
    model, pixels = request.model, request.image.pixels  # B H W C
    doing = f"encoding {len(pixels)} pictures of {request.width} x {request.height}"
    with _loaded(model, "encode_image", progress, doing) as parts:
        progress.phase("encoding picture")
        with measured(ONE_RANK, progress, device=model.device):
            tensor, extras = family_module(model.family).encode_image(
                parts, request.resolved(image=Image(pixels=pixels.to(model.device, torch.float32)))
            )
        check_finite({**extras, "tensor": tensor}, parts, model, what="the encoded picture")
    return Latents(
        family=model.family,
        width=request.width,
        height=request.height,
        frames=request.frames,
        fps=request.fps,
        batch=len(pixels),
        tensor=None if tensor is None else tensor.detach().cpu(),
        extras=_at_rest(extras),
    )


def denoise(request: Denoise | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any) -> Latents:
    """The canvas, painted.

    With a plan of several ranks, every rank of the process group calls this with the same request and gets the same
    latents. Picture i of a batch is made from noise of `seed + i`, so it is the picture that this seed makes alone.
    """
    request = settled(made(Denoise, request, fields))
    model, latents, seeds = request.model, request.latents, seeds_of(request.seed, request.latents.batch)
    _check_walk(request)
    known = check_first_use(request, progress, lend=functools.partial(_lend, progress), paint=_paint)
    with _lend(progress, request, model, request.plan, step_cache=request.step_cache) as parts:
        progress.phase("denoising")
        with (
            measured(request.plan, progress, device=model.device, known=known),
            _compared(request) as compare,
            cached(parts, request),
        ):
            painted = _paint(parts, request, _reporting(model, progress, compare))
        tensor, sound = painted if isinstance(painted, tuple) else (painted, None)
        check_finite({"tensor": tensor, "sound": sound}, parts, model, what="the denoised latents")
    return dataclasses.replace(
        latents,
        tensor=tensor.detach().cpu(),
        sound=None if sound is None else sound.detach().cpu(),
        seeds=seeds,
        extras={},
    )


def _lend(
    progress: Progress, request: Denoise, model: Model, plan: ParallelPlan, *, step_cache: StepCache = "none"
) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """Collective with a plan of several ranks: what this denoise needs, of the model in this condition."""
    latents, looks = request.latents, bool(request.conditioning.references)
    doing = f"denoising {latents.batch} of {latents.width} x {latents.height} x {latents.frames}"
    needs = {"num_steps": num_steps_of(request)}
    needs["working_bytes"] = _working_bytes(model, latents, plan, conditioning=request.conditioning)
    return _loaded(model, "denoise", progress, doing, looks=looks, plan=plan, step_cache=step_cache, **needs)


def _paint(parts: dict[str, Any], request: Denoise, on_step: Callable[..., None]) -> Tensor | tuple[Tensor, Tensor]:
    drawn = generators(seeds_of(request.seed, request.latents.batch), request.noise)
    return family_module(request.model.family).denoise(
        parts, request.on_device(torch_dtype(request.model.dtype)), generators=drawn, on_step=on_step
    )


def upscale(request: Upscale | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any) -> Latents:
    """Denoised latents twice as wide and high, by the model's own upsampler; their sound stays."""
    request = settled(made(Upscale, request, fields))
    model, latents = request.model, request.latents
    doing = f"upscaling {latents.batch} of {latents.width} x {latents.height} x {latents.frames}"
    with _loaded(model, "upscale", progress, doing) as parts, measured(ONE_RANK, progress, device=model.device):
        assert latents.tensor is not None, "an empty canvas is refused"
        tensor = family_module(model.family).upscale(parts, latents.tensor.to(model.device))
        check_finite({"tensor": tensor}, parts, model, what="the upscaled latents")
    larger = {"width": 2 * latents.width, "height": 2 * latents.height}
    return dataclasses.replace(latents, **larger, tensor=tensor.cpu())


def decode(request: Decode | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any) -> Image | Video:
    """What denoised latents show: pictures or clips, as the model's family makes them.

    With `split` over 1, all that many ranks of the process group call this alike, share the rows and get all pixels.
    """
    request = settled(made(Decode, request, fields))
    model, latents = request.model, request.latents
    assert latents.tensor is not None, "an empty canvas is refused"
    plan = ParallelPlan(ulysses=max(1, request.split))
    doing = f"decoding {latents.batch} of {latents.width} x {latents.height} x {latents.frames}"
    with _loaded(model, "decode", progress, doing, working_bytes=_working_bytes(model, latents, plan)) as parts:
        progress.phase("decoding")
        tensor = latents.tensor.to(model.device, parts["vae"].dtype)
        with (
            split_over(parts["vae"], plan.num_ranks, rows=tensor.shape[-2]),
            measured(plan, progress, device=model.device, name=f"rows={plan.num_ranks}"),
        ):
            pixels = decoded(parts, request, tensor=tensor, progress=progress)
    if FAMILIES[model.family].output == "image":
        return Image(pixels=pixels)
    if model.family in OWNERS:
        pixels = checked(model, pixels)
    return Video(pixels=pixels, fps=latents.fps or card_of(model).fps)


def decode_audio(
    request: DecodeAudio | Mapping[str, Any] = NOTHING, progress: Progress = SILENT, **fields: Any
) -> Audio:
    """What denoised latents sound like, of a model that makes sound beside its videos."""
    request = settled(made(DecodeAudio, request, fields))
    model, latents, sound = request.model, request.latents, request.latents.sound
    assert sound is not None, "latents without sound are refused"
    with _loaded(model, "decode_audio", progress, f"decoding the sound of {latents.batch} videos") as parts:
        progress.phase("decoding sound")
        with measured(ONE_RANK, progress, device=model.device):
            waveform, rate = family_module(model.family).decode_audio(parts, request, sound=sound.to(model.device))
        check_finite({"waveform": waveform}, parts, model, what="the decoded sound")
    return Audio(waveform=waveform.detach().float().cpu().clamp(-1, 1), rate=rate)


# Each stage by the name that its request carries.
STAGES: Mapping[Stage, Callable[..., Any]] = {
    "encode_text": encode_text,
    "encode_image": encode_image,
    "denoise": denoise,
    "upscale": upscale,
    "decode": decode,
    "decode_audio": decode_audio,
}


@contextlib.contextmanager
def _loaded(
    model: Model,
    stage: Stage,
    progress: Progress,
    doing: str,
    *,
    looks: bool = False,
    plan: ParallelPlan = ONE_RANK,
    step_cache: StepCache = "none",
    num_steps: int = 0,
    working_bytes: int = 0,
) -> Iterator[dict[str, Any]]:
    """A stage's parts, which no other thread of this process changes meanwhile; no gradients, and one sentence, of what
    was `doing`, when the memory is not enough."""
    folder, family = Path(model.folder), FAMILIES[model.family]
    idle = family.idle(looks=looks)
    names = tuple(each for each in family.components[stage] if each.rstrip("?") != idle)
    remedy = (
        "make it smaller, make fewer at once, load the model with quantization, or share its weights over devices "
        "(plan weights=4)"
    )
    with (
        told_by(
            model.device,
            doing=f"{doing} with {model.source}",
            remedy=remedy,
            eases=functools.partial(store().ease, model, names),
        ),
        torch.no_grad(),
        store().lent(
            model, names, progress, plan=plan, step_cache=step_cache, num_steps=num_steps, working_bytes=working_bytes
        ) as parts,
    ):
        parts["model_index"] = read_index(folder)
        parts["config"] = functools.partial(read_config, folder)
        parts["shells"] = shells(
            folder, parts["model_index"], parts, dtype=torch_dtype(model.dtype), fingerprint=model.fingerprint
        )
        if stage == "denoise":
            parts["vae.config"] = read_config(folder, "vae")
        yield parts


def _check_walk(request: Denoise) -> None:
    """Refuse, before anything is loaded, a way from noise to picture that cannot be followed."""
    for name, value in (("guidance", request.guidance), ("guidance_2", request.guidance_2)):
        if 0 < value < 1:
            logger.warning("%s is %g: below 1 there is no guidance, as at 1; set it above 1 to guide", name, value)
    schedulers.check(request.sampling, scheduler=scheduler_of(Path(request.model.folder)))
    guiding.check(request.sampling)
    check_step_cache(request)


def _working_bytes(
    model: Model, canvas: Latents, plan: ParallelPlan, *, conditioning: Conditioning | None = None
) -> int:
    """What a denoise of this conditioning, or a decode, takes of an accelerator beside its weights; of a CPU it is
    reckoned where somebody has set how much that may be."""
    if model.device == "cpu" and not memory_limit():
        return 0
    if conditioning is None:
        return work_of(model, canvas=canvas, text_length=0).decoding(plan.num_ranks)
    text_length, num_references = text_length_of(conditioning), len(conditioning.references)
    return work_of(model, canvas=canvas, text_length=text_length, num_references=num_references).activations(plan)


def _encoded(references: References | None, model: Model, progress: Progress, doing: str) -> dict[str, Tensor]:
    """Latents of the pictures, on the model's device."""
    if references is None:
        return {}
    with _loaded(model, "encode_image", progress, doing) as parts:
        progress.phase("encoding reference pictures")
        pictures = [picture.to(torch.float32).clamp(0, 1) for picture in references.pictures]
        found = family_module(model.family).encode_references(parts, pictures)
        check_finite(found, parts, model, what="the encoded reference pictures")
    return found


def _at_rest(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as values hold them between stages: on the CPU, so that an accelerator holds only what works."""
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


@contextlib.contextmanager
def _compared(request: Denoise) -> Iterator[Callable[[], None]]:
    """Collective: ValueError on every rank of the plan if they were asked for different things. What it gives begins
    to compare, and is called while a first step runs."""
    if request.plan.num_ranks == 1:
        yield lambda: None
        return
    comparison = Comparison(functools.partial(_asked, request), mesh_for(request.plan))
    yield comparison.begin
    comparison.end()


def _asked(request: Denoise) -> dict[str, Any]:
    """What is alike on all ranks; each has a device, and on another machine a folder, of its own."""
    own = ("device", "folder", "place")
    return {**fields_of(request), "model": {k: v for k, v in fields_of(request.model).items() if k not in own}}


def _reporting(
    model: Model, progress: Progress, compare: Callable[[], None]
) -> Callable[[int, int, Callable[[], Tensor]], None]:
    run_ahead = RunAhead(model.device)

    def on_step(done: int, total: int, current: Callable[[], Tensor]) -> None:
        compare()
        run_ahead.asked()
        progress.step(done, total, lambda: preview.picture(current(), preview.matrix(model)))

    return on_step
