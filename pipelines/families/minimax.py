"""Reference pictures as MiniMax H3's blocks take them: objects of diffusers', of a kind each."""

from collections.abc import Sequence
from typing import Any

FEWEST_FRAMES = 124  # to which a video or a sound would be cut; of pictures nothing is


def sees(pictures: Sequence[Any]) -> dict[str, Any]:
    """Inputs of the blocks by their names; of denoising, which only asks of what kind each is, without pixels."""
    from diffusers.modular_pipelines.minimax_h3.references import MiniMaxH3ImageReference

    made = [MiniMaxH3ImageReference(image=each) for each in pictures]
    named = {"references": made, "normalized_references": made, "audio_condition_latents": []}
    return {**named, "num_frames": FEWEST_FRAMES} if made else {}
