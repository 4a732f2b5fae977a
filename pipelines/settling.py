"""What a stage makes of what it is asked for: the numbers that stand for zeros, and what it refuses.

Each rule stands here once. A stage and its host ask with a request. Who looks before a run asks with what is known of
one: an object of the same fields, of which what nobody knows yet raises `ValueError`. Torch-free.

Loading may take minutes, so that what can be known from config files is refused first, in the words of the node's
sockets.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..parallel.errors import BadInput
from ..parallel.wording import worded
from . import shape
from .families import FAMILIES, ROWS
from .guarded import OWNERS, why_unguarded
from .models.describe import card_of, filled
from .models.folder import read_config, read_index
from .requests import Decode, DecodeAudio, Denoise, EncodeImage, EncodeText, Request, Stage, Upscale
from .values import THRESHOLDS, Model

R = TypeVar("R", bound=Request)
# (field, why): the field at which it is told that the request cannot be, and the sentence, "" where it can.
Rules = tuple[tuple[str, Callable[[Any], str]], ...]

LEAST_STRENGTH = 1e-6


def settled(request: R) -> R:
    """The request with the numbers that the stage uses. Raises `ValueError` for what the model does not take."""
    # Before the request's own zeros are filled in: a rule speaks of what was written, so that its sentence names it.
    for _, why in RULES[request.stage]:
        if told := why(request):
            raise ValueError(told)
    request = request.resolved(**own_numbers(request))
    CHECKS[request.stage](request)
    return request


def refusals(asked: Any, *fields: str) -> dict[str, str]:
    """By field, of all or of these, what the model does not take of a request, as far as it is known."""
    found: dict[str, str] = {}
    for field, why in RULES[asked.stage]:
        if field not in found and (not fields or field in fields):
            with contextlib.suppress(ValueError):  # not known before the run
                found |= {field: told} if (told := why(asked)) else {}
    return found


def own_numbers(asked: Any) -> dict[str, Any]:
    """By field, what the stage uses: what is asked for, and the model's own where that is 0 or ""."""
    return OWN[asked.stage](asked) if asked.stage in OWN else {}


def _own_canvas(r: EncodeImage) -> dict[str, Any]:
    """Of the picture's size."""
    rows, columns = r.image.pixels.shape[1:3] if r.image.pixels.ndim == 4 else (0, 0)
    clip = filled(r.model, frames=r.frames, fps=r.fps)
    return {"width": r.width or columns, "height": r.height or rows, **clip}


def _own_steps(r: Denoise) -> dict[str, Any]:
    steps, given = r.steps, len(r.sampling.sigmas)  # levels that are given replace steps
    own = filled(r.model, steps=given or steps, guidance=r.guidance, distilled_guidance=r.distilled_guidance)
    second = r.guidance_2 or own["guidance"] * card_of(r.model).second_guidance
    threshold = r.cache_threshold or THRESHOLDS.get(r.step_cache, 0.0)
    return {**own, "guidance_2": second, "cache_threshold": threshold}


OWN: Mapping[Stage, Callable[[Any], dict[str, Any]]] = {
    "encode_text": lambda r: filled(r.model, negative_prompt=r.negative_prompt, text_length=r.text_length),
    "encode_image": _own_canvas,
    "denoise": _own_steps,
}

UNGUARDED: tuple[str, Callable[[Any], str]] = (
    "model",
    lambda r: why_unguarded(r.model) if r.model.family in OWNERS else "",
)
ENCODE_TEXT: Rules = (
    ("references", lambda r: shape.why_no_references(r.model, r.references.num_pictures if r.references else 0)),
    ("references", lambda r: shape.FRAME_OR_PICTURES if r.references is not None and saw_frame(r) else ""),
    ("first_frame", lambda r: "" if r.first_frame is None else shape.why_no_frame(r.model)),
    ("prompt", lambda r: shape.why_no_prompt(r.model, r.prompt, saw=saw_frame(r) or r.references is not None)),
    ("text_length", lambda r: shape.why_no_text(r.model, r.text_length) if r.text_length else ""),
    UNGUARDED,
)
DENOISE: Rules = (
    ("mask", lambda r: "" if r.mask is None else shape.why_no_mask(r.model)),
    ("mask", lambda r: shape.KEEPS_NOTHING if r.mask is not None and r.latents.is_empty else ""),
    ("conditioning", lambda r: _why_other_family(r, r.conditioning.family, what="text was encoded")),
    ("steps", lambda r: shape.why_no_steps(r.model, r.steps) if r.steps and not r.sampling.sigmas else ""),
    ("latents", lambda r: _why_other_family(r, r.latents.family, what="latents were made")),
    ("latents", lambda r: shape.why_one_frame(r.model, r.conditioning.saw_frame, has_frame=bool(r.latents.extras))),
    ("sound", lambda r: _why_silent(r.model) if r.sound else ""),
    ("guidance_2", lambda r: shape.why_no_guidance_2(r.model, r.guidance_2)),
    ("distilled_guidance", lambda r: shape.why_no_distilled(r.model, r.distilled_guidance)),
    ("sampling", lambda r: "" if r.latents.is_empty else _why_no_second(r.model, r.sampling.sigmas)),
    ("strength", lambda r: _why_no_strength(r.strength)),
    ("strength", lambda r: shape.why_all_anew(r.model, r.strength, is_empty=r.latents.is_empty)),
)
# What may be known before a run; each sentence is told at a socket.
RULES: Mapping[Stage, Rules] = {
    "encode_text": ENCODE_TEXT,
    "encode_image": (
        ("model", lambda r: shape.why_no_image(r.model)),
        ("last_image", lambda r: _why_no_last(r.model, has_last=r.last_image is not None)),
    ),
    "denoise": DENOISE,
    "upscale": (
        ("model", lambda r: _why_no_upsampler(r.model)),
        ("latents", lambda r: shape.NOTHING_SHOWN if r.latents.is_empty else ""),
    ),
    "decode": (
        UNGUARDED,
        ("latents", lambda r: shape.NOTHING_SHOWN if r.latents.is_empty else ""),
    ),
    "decode_audio": (("model", lambda r: shape.why_not_made(r.model, "audio")),),
}


def saw_frame(asked: Any) -> bool:
    """Whether a text is read with a first frame."""
    return asked.first_frame is not None and bool(asked.first_frame.extras)


def _why_other_family(r: Request, family: str, *, what: str) -> str:
    return shape.why_other_family(r.model, family, what=what) if family else ""


def _why_silent(model: Model) -> str:
    """Why no sound can be painted beside the model's videos, as a sentence; empty where one can."""
    has_sound = FAMILIES[model.family].has_sound
    # Of a family that may there are models that were trained without.
    if has_sound and read_config(Path(model.folder), "transformer").get("sound_gen", True):
        return ""
    return worded("{} makes no sound; turn sound off in Denoise", model.source)


def _why_no_last(model: Model, *, has_last: bool) -> str:
    """Why the model cannot end a video with a picture, or not without one, as a sentence; empty where it can."""
    fewest, most = FAMILIES[model.family].last_images(partial(read_config, Path(model.folder)))
    if fewest <= has_last <= most:
        return ""
    if has_last:
        return worded("{} ends its videos with no picture that it is given; take last_image away", model.source)
    return worded("{} makes videos from a first to a last picture; give Encode Image a last_image", model.source)


def _why_no_strength(strength: float) -> str:
    if LEAST_STRENGTH <= strength <= 1:
        return ""
    return worded("strength is {:g}; give a number above 0, up to 1", strength)


def _why_no_second(model: Model, sigmas: Sequence[float]) -> str:
    if "upscale" not in FAMILIES[model.family].components or (sigmas and sigmas[0] < 1):
        return ""
    return worded(
        "{} got finished latents: how far they are noised again is the first of sigmas in Sampler Options; "
        "give some that begin below 1, such as 0.909375, 0.725, 0.421875",
        FAMILIES[model.family].title,
    )


def _why_no_upsampler(model: Model) -> str:
    if "latent_upsampler" in read_index(Path(model.folder)):
        return ""
    return worded("{} has no latent_upsampler; use Upscale Latents, or a model that has one (LTX-2)", model.source)


# ---- what only a stage's own inputs tell


def _check_text(r: EncodeText) -> None:
    if r.references is not None:
        shape.check_pictures(r.references, FAMILIES[r.model.family].longest_reference)
    if r.first_frame is not None and (why := shape.why_other_family(r.model, r.first_frame.family, what=FRAME)):
        raise ValueError(why)


def _check_image(r: EncodeImage) -> None:
    pixels = r.image.pixels  # B H W C
    shape.check_num_frames(r.model, len(pixels))
    shape.check_canvas(r.model, r)
    if pixels.ndim != 4 or tuple(pixels.shape[1:]) != (r.height, r.width, 3):
        got = " x ".join(map(str, pixels.shape))
        raise BadInput(
            "the picture is {}, but B x {} x {} x 3 is asked for; resize the picture first", got, r.height, r.width
        )
    if r.last_image is not None and r.last_image.pixels.shape != pixels.shape:
        got, right = (" x ".join(map(str, each.shape)) for each in (r.last_image.pixels, pixels))
        raise BadInput("the last picture is {}, and the first {}; give as many, of one size", got, right)


def _check_denoise(r: Denoise) -> None:
    model, conditioning, latents = r.model, r.conditioning, r.latents
    shape.check_canvas(model, latents)
    if r.mask is not None:
        shape.check_mask_size(latents, r.mask)
    if not conditioning.references and (why := shape.why_no_references(model, 0)):
        raise ValueError(why)
    guidance = max(r.guidance, r.guidance_2)
    if guidance > 1 and conditioning.negative is None:
        raise BadInput(
            "guidance is {:g}, but the text was encoded without a negative prompt to steer away "
            "from; encode it for this guidance, or set guidance to 1",
            guidance,
        )
    if latents.tensor is not None:
        makes_larger = "upscale" in FAMILIES[model.family].components
        if model.family in ROWS and ROWS[model.family].takes_image != "start" and not makes_larger:
            title = FAMILIES[model.family].title
            raise BadInput("{} starts from noise, but got finished latents; give it an empty canvas", title)
        if len(latents.tensor) not in (1, latents.batch):
            num = len(latents.tensor)
            raise BadInput("the latents hold {} pictures and a batch of {}; make them equal", num, latents.batch)


def _check_made(r: Decode | DecodeAudio | Upscale) -> None:
    if why := shape.why_other_family(r.model, r.latents.family, what="latents were made"):
        raise ValueError(why)
    if isinstance(r, DecodeAudio) and r.latents.sound is None:
        raise ValueError(
            "the latents are an empty canvas, which sounds like nothing; put a Denoise before Decode Audio"
            if r.latents.is_empty
            else "the latents have no sound; turn on sound in Denoise, or take Decode Audio away"
        )


CHECKS: Mapping[Stage, Callable[[Any], None]] = {
    "encode_text": _check_text,
    "encode_image": _check_image,
    "denoise": _check_denoise,
    "upscale": _check_made,
    "decode": _check_made,
    "decode_audio": _check_made,
}
FRAME = "first frame was encoded"
