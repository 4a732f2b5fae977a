"""Which VAEs decode by rows, and into how many ranks' rows latents can be cut: told without torch."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from ...parallel.spatial import LEAST_ROWS

# Classes whose decoders are known to compute nothing across rows but what `parallel.spatial` shares out.
#
# Not among them: AutoencoderKLMiniMaxH3, whose published pictures are those of its tiles, and whose decoder attends to
# tokens besides the picture's; AutoencoderKLAllegro, which decodes tiles only; AutoencoderKLKVAEVideo, which writes
# frames into tensors that it makes of a rank's size; those without `_decode`, such as AutoencoderTiny.
DECODERS = (
    "AutoencoderKL",
    "AutoencoderDC",
    "AutoencoderKLCogVideoX",
    "AutoencoderKLCosmos",
    "AutoencoderKLFlux2",
    "AutoencoderKLHunyuanImage",
    "AutoencoderKLHunyuanImageRefiner",
    "AutoencoderKLHunyuanVideo",
    "AutoencoderKLHunyuanVideo15",
    "AutoencoderKLKVAE",
    "AutoencoderKLLTX2Video",
    "AutoencoderKLLTXVideo",
    "AutoencoderKLMagvit",
    "AutoencoderKLMochi",
    "AutoencoderKLQwenImage",
    "AutoencoderKLQwenImage21",
    "AutoencoderKLWan",
)
# Those that take large frames in pieces by their size: ranks with more rows than others could take other pieces.
EVEN = ("AutoencoderKLCogVideoX",)
# Options of a VAE's config that no split decode can follow: what they do.
INEXACT = {"decoder_inject_noise": "noise is drawn for each place of the picture"}
HEIGHT = -2


def why_not(name: str, config: Mapping[str, Any]) -> str | None:
    """Why a VAE of this class and config cannot be split over ranks; None if it can."""
    if name not in DECODERS:
        near = difflib.get_close_matches(name, DECODERS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{name} cannot be split over ranks{hint}, only {', '.join(DECODERS)} can"
    for option, what in INEXACT.items():
        if any(config.get(option) or ()):
            return f"{name} with {option} cannot be split over ranks, because {what}"
    return None


def has_rows(name: str, config: Mapping[str, Any], shape: Sequence[int], num_ranks: int) -> bool:
    """Whether latents of this shape have rows enough for the ranks, and are decoded by each as they are whole."""
    return shape[HEIGHT] >= LEAST_ROWS * num_ranks and unfit(name, config, shape, num_ranks) is None


def unfit(name: str, config: Mapping[str, Any], shape: Sequence[int], num_ranks: int) -> str | None:
    """Why latents that have rows enough would be decoded in another way by a rank than whole; None if they would not.

    Diffusers' linear attention multiplies in another order for as many places as a head is wide, and for fewer.
    """
    rows, columns = shape[HEIGHT:]
    places = config.get("attention_head_dim", 0)
    if rows // num_ranks * columns <= places:
        return (
            f"cannot be split over {num_ranks} ranks, because it attends in another way to {places} places and fewer; "
            "split them over less, or make the picture larger"
        )
    if name in EVEN and rows % num_ranks:
        return f"cannot be split over {num_ranks} ranks, which need as many each; use a number that divides {rows}"
    return None
