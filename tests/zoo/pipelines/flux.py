"""FLUX.1 and FLUX.2."""

from typing import Any

from diffusers import FluxPipeline

from support.tiny_models import flux
from zoo.pipelines.tiny import PROMPT, Tiny


def text_to_image() -> dict[str, Any]:
    """Three by five tokens, two branches, one after the other."""
    return {
        "prompt": PROMPT,
        "negative_prompt": "bad",
        "true_cfg_scale": 2.0,
        "height": 48,
        "width": 80,
        "num_inference_steps": 4,
        "max_sequence_length": 32,
    }


TINY = {FluxPipeline.__name__: Tiny(flux, text_to_image, branches=2)}
LEFT_OUT: dict[str, str] = {}
