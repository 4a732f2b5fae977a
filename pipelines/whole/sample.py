"""A small call of any pipeline, made of its signature: what `latentloom verify` asks it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..signatures.table import parameters_of
from ..verify import PROMPT
from .called import asked
from .modular import taken

STEPS = 2
FRAMES = 9  # one more than a multiple of what video VAEs make one latent frame of: four or eight
SECONDS = 1.0
SIDES = (256, 320)  # width and height: not square, so that rows and columns that are mixed up show
LENGTHS = ("num_frames", "frames", "video_length")
# What a call is given where it has a parameter of the name; all else has the pipeline's own default.
GIVEN: dict[str, Any] = {
    "prompt": PROMPT,
    "negative_prompt": "blurred",
    "true_cfg_scale": 3.0,
    "class_labels": [1],
    "output_type": "np",
    # as little work as there can be
    "num_inference_steps": STEPS,
    "pyramid_num_inference_steps_list": [1, 1, 1],
    "guidance_schedule": (3.0,) * STEPS,
    **dict.fromkeys(LENGTHS, FRAMES),
    **dict.fromkeys(("audio_duration", "audio_duration_s", "audio_end_in_s", "duration"), SECONDS),
    # at the size that is asked for, and by the pipeline's own parts alone
    **dict.fromkeys(("use_resolution_binning", "_auto_resize"), False),
    **dict.fromkeys(("clean_caption", "enable_prompt_rewrite"), False),
}
SCENES = ("image", "control_image", "cond_image")
MASKS = ("mask_image", "mask", "control_mask")
VIDEOS = ("video", "control_video", "pose_video", "face_video")


def calls_of(kind: type, *, width: int, height: int) -> list[dict[str, Any]]:
    """Arguments for a pipeline of this class: of a text alone, then with all the pictures and videos that it takes.
    Then both as long as it likes, for one that makes no video so short.

    No signature says what a call needs besides its required parameters: the first that is not refused will do. Zeros
    stand for a small size. Raises ValueError for a size that the call does not take, or a required parameter that
    nobody can make up.
    """
    wanted = parameters_of(kind)
    size = {"width": width or SIDES[0], "height": height or SIDES[1]}
    if width and not size.keys() <= wanted.keys():
        raise ValueError(f"--size is {width}x{height}, but {kind.__name__} takes no width and height; leave --size out")
    given = {**size, **GIVEN, "max_area": size["width"] * size["height"]}
    if 0 < getattr(wanted.get("strength"), "default", 1.0) < 1:
        given["num_inference_steps"] = 2 * STEPS  # some of which are left out
    drawn = _drawn(**size)
    required = {
        name for name, each in wanted.items() if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    }
    if missing := sorted(required - given.keys() - drawn.keys()):
        raise ValueError(
            f"the call of {kind.__name__} needs {', '.join(missing)}, which verify cannot make up; call it from Python "
            "with and without latentloom.spread, and compare"
        )
    if "image" in wanted.keys() - required:
        drawn.pop("video")  # one or the other
    text = {name: value for name, value in {**given, **_of(required, drawn)}.items() if name in wanted}
    pictures = {**text, **_of(wanted, drawn)}
    short = [text, pictures] if len(pictures) > len(text) else [text]
    long = [{name: value for name, value in call.items() if name not in LENGTHS} for call in short]
    return short if long == short else short + long


def run(pipe: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """What the pipeline gives, by name; the same random numbers each time, its own and torch's."""
    torch.manual_seed(0)
    seeded: dict[str, Any] = {}
    if "generator" in parameters_of(type(pipe)):
        seeded["generator"] = torch.Generator().manual_seed(0)
    given = {**call, **seeded}
    return asked(pipe, taken(pipe, given))


def _of(names: Any, drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drawn.items() if name in names}


def _drawn(width: int, height: int) -> dict[str, Any]:
    """Pictures, masks, videos and a sound, by the names of the parameters that take them."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 3 % 256, y * 2 % 256, (x + y) % 256], -1).astype("uint8")
    picture = Image.fromarray(pixels)
    video = [Image.fromarray(np.roll(pixels, 8 * number, axis=1)) for number in range(FRAMES)]
    mask = Image.fromarray(np.uint8(255) * (x > width // 4).astype("uint8"))
    drawn = {**dict.fromkeys(SCENES, picture), **dict.fromkeys(MASKS, mask), **dict.fromkeys(VIDEOS, video)}
    return {**drawn, "images": [picture], "audio": torch.sin(torch.arange(48_000) * 0.05).expand(1, 2, -1)}
