"""Pictures that denoising starts from, as diffusers' blocks take them: opaque, as a video of one frame, as layers."""

# B pictures, C channels, H W height and width, F layers

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .row import Row, has_alpha, has_frames

if TYPE_CHECKING:
    from torch import Tensor

    from ..requests import Denoise


def opaque(pixels: Tensor, vae: Mapping[str, Any]) -> Tensor:
    """B 3 H W with an alpha channel of ones where the VAE knows one."""
    import torch

    if pixels.shape[1] == 4 or not has_alpha(vae):
        return pixels
    return torch.nn.functional.pad(pixels, (0, 0, 0, 0, 0, 1), value=1.0)


def started(row: Row, request: Denoise, vae: Mapping[str, Any]) -> dict[str, Any]:
    """What the denoise block is told of the picture on the canvas."""
    if (tensor := request.latents.tensor) is None:
        return {}
    if has_frames(vae):
        tensor = tensor.unsqueeze(1 if row.layered else 2)  # B F C H W, B C F H W
    return {"image_latents": tensor, "strength": request.strength, "layers": request.latents.frames}


def alone(request: Denoise, place: int) -> Denoise:
    """With what is told of the first frame of that video alone."""
    extras = {name: each[place:][:1] if len(each) > 1 else each for name, each in request.latents.extras.items()}
    return request.resolved(latents=dataclasses.replace(request.latents, extras=extras))


def stacked(layers: Sequence[Tensor], num_pictures: int) -> Tensor:
    """B F C H W of the lists that the block makes: it counts a layer too many of each picture, and so of several
    pictures puts some of the next one's into the list of the one before."""
    import torch

    return torch.cat([*layers]).unflatten(0, (num_pictures, -1))
