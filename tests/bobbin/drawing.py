"""Pictures of prompts by a bobbin folder, through the stages that every run uses.

What measures the model (the gate, the studies) draws with it as a user does, so that the whole path is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.values import Model


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
    from latentloom.pipelines import stages

    model = _model(settings.model, settings.device)
    canvas = empty_canvas(model, width=settings.width, height=settings.height, frames=0, fps=0.0, batch=1)
    pictures = []
    for prompt, seed in zip(prompts, seeds, strict=True):
        text = stages.encode_text(
            model=model, prompt=prompt, negative_prompt=negative_prompt, text_length=settings.text_length
        )
        latents = stages.denoise(
            model=model, conditioning=text, latents=canvas, seed=seed, steps=settings.steps, guidance=settings.guidance
        )
        pixels = stages.decode(model=model, latents=latents).pixels.cpu()
        pictures.append((pixels[0].clamp(0, 1) * 255).round().byte().cpu().numpy())
    return pictures
