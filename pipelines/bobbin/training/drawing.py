"""Pictures of prompts by a bobbin folder, through the stages that every run uses.

What measures the model (the gate, the studies) draws with it as a user does, so that the whole path is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...models.describe import describe_model
from ...shape import empty_canvas
from ...values import Model, to_plain


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to draw; 0 is the model card's own number."""

    model: Path
    device: str = "cpu"
    steps: int = 0
    guidance: float = 0.0
    text_length: int = 0
    width: int = 0
    height: int = 0


@cache
def _model(folder: Path, device: str) -> Model:
    return describe_model(str(folder), device=device, dtype="fp32")


def draw(
    prompts: Sequence[str], *, seeds: Sequence[int], settings: Settings, negative_prompt: str = ""
) -> list[np.ndarray]:
    """One picture (H W 3, uint8) per prompt and seed."""
    from ... import stages

    model = _model(settings.model, settings.device)
    plain = to_plain(model)
    canvas = to_plain(empty_canvas(model, width=settings.width, height=settings.height, frames=0, fps=0.0, batch=1))
    pictures = []
    for prompt, seed in zip(prompts, seeds, strict=True):
        words: dict[str, Any] = {"prompt": prompt, "negative_prompt": negative_prompt}
        text = stages.encode_text({"model": plain, **words, "text_length": settings.text_length})
        request = {"model": plain, "conditioning": text, "latents": canvas, "seed": seed}
        latents = stages.denoise({**request, "steps": settings.steps, "guidance": settings.guidance})
        pixels = stages.decode({"model": plain, "latents": latents})["image"]["pixels"]
        pictures.append((pixels[0].clamp(0, 1) * 255).round().byte().cpu().numpy())
    return pictures
