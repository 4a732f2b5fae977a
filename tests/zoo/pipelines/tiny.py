"""What a row holds, pictures to give them, and how one is built."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from PIL import Image

from latentloom.pipelines.whole.assembled import without_bars
from support.tiny_parts import fill

REPLACED = "perturbed attention (pag_scale) is none that the split plan of its transformer describes"
NO_ROWS = "perturbed attention (pag_scale) needs the rows of all branches in one call"


@dataclass(frozen=True)
class Tiny:
    """A tiny pipeline. `call` gives its arguments, without `generator` and `output_type`: small sizes, four steps."""

    row: str  # the pipeline's class; a second way to call one is `Class:what is different`
    made: Callable[[Any], Any]  # of parts with random weights, given the class
    call: Callable[[], dict[str, Any]]
    # Of guidance in a step of this call, which `cfg=2` may share out: rows of a doubled batch, or calls.
    branches: int = 2
    # What its call takes in place of a generator with seed 0 and `output_type="np"`.
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    embeds: str = ""  # why `prompt_embeds` stand in for what a text encoder would make; empty where the encoder works
    refused: str = ""  # words by which plans that split tokens are refused in its first run; empty where they are not
    unshared: str = ""  # words by which `cfg=2` is refused before its first step; empty where it is not
    rounds: str = ""  # why ring, whose sums have other last bits, is not compared; empty where it is

    def make(self) -> Any:
        return self.made(getattr(diffusers, self.row.partition(":")[0]))


def table(*rows: Tiny) -> dict[str, Tiny]:
    return {each.row: each for each in rows}


def build(tiny: Tiny) -> Any:
    """The pipeline in fp32 on the CPU, its parts in eval mode: the same weights each time."""
    with torch.random.fork_rng(), warnings.catch_warnings(action="ignore", category=FutureWarning):  # of diffusers' own
        torch.manual_seed(0)
        pipeline = tiny.make()
    fill(pipeline)
    for part in pipeline.components.values():
        if isinstance(part, torch.nn.Module):
            part.eval().requires_grad_(False)  # as loaded: torch folds a product otherwise, which rounds differently
    without_bars(pipeline)
    return pipeline


def save(pipeline: Any, folder: Path) -> None:
    """As diffusers does; a modular pipeline's index then names this folder as the place of each component."""
    options = {"overwrite_modular_index": True} if isinstance(pipeline, diffusers.ModularPipeline) else {}
    pipeline.save_pretrained(str(folder), **options)


def picture(width: int = 48, height: int = 48, *, seed: int = 0) -> Image.Image:
    """RGB, never flat, another for each seed."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([(x * 3 + seed) % 256, (y * 2) % 256, (x + y + seed) % 256], -1)
    return Image.fromarray(pixels.astype("uint8"))


def mask(width: int = 48, height: int = 48) -> Image.Image:
    """White, what is painted anew, in the middle."""
    found = Image.new("L", (width, height), 0)
    found.paste(255, (width // 4, height // 4, width - width // 4, height - height // 4))
    return found


def frames(count: int, width: int = 48, height: int = 48) -> list[Image.Image]:
    return [picture(width, height, seed=8 * number) for number in range(count)]


def wide(name: str) -> dict[str, Any]:
    """A picture of the size of `SIZED`, by that name."""
    return {name: picture(80, 48)}


def painted() -> dict[str, Any]:
    return {**wide("image"), "mask_image": mask(80, 48)}


def seeded(**call: Any) -> dict[str, Any]:
    """For pipelines that draw the latents of a picture from torch's own generator, whatever they are given."""
    torch.manual_seed(0)
    return call


PROMPT = "a red circle above a blue square"
WIDTH, HEIGHT = 80, 48  # three by five tokens where a token is 16 pixels wide
SIZED: dict[str, Any] = {"height": HEIGHT, "width": WIDTH, "num_inference_steps": 4}
FEWER: dict[str, Any] = {"num_inference_steps": 5, "strength": 0.8}  # four steps of five, from a picture
GUIDED: dict[str, Any] = {"negative_prompt": "bad", "guidance_scale": 3.0}
PICTURE: dict[str, Any] = {"prompt": PROMPT, **GUIDED, **SIZED}


def video_call(**changed: Any) -> dict[str, Any]:
    """Three latent frames where each but the first is of four; two branches by a negative prompt."""
    shared = {"prompt": PROMPT, "negative_prompt": "bad", **SIZED, "num_frames": 9, "max_sequence_length": 32}
    return {**shared, **changed}


def without(call: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in call.items() if name not in names}
