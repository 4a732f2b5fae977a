"""Picture sizes: which size a picture gets, and scaling it to that size."""

# B batch, H height, W width, C channels

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from ..pipelines.values import Image, Model

if TYPE_CHECKING:
    from torch import Tensor

Method = Literal["bicubic", "bilinear", "nearest"]


def size_like(model: Model, image: Image, *, width: int, height: int) -> tuple[int, int]:
    """(width, height) as given; where both are 0, the picture's shape at the model's own area, as the model allows."""
    from ..pipelines.describe import card_of
    from ..pipelines.shape import check_size, size_multiple

    tall, wide = image.pixels.shape[1:3]
    if not width and not height:
        card, multiple = card_of(model), size_multiple(model)
        scale = math.sqrt(card.width * card.height / (wide * tall))
        width, height = (max(multiple, round(side * scale / multiple) * multiple) for side in (wide, tall))
    elif not width or not height:
        raise ValueError(f"width is {width} and height is {height}; set both, or leave both at 0")
    check_size(model, width, height)
    return width, height


def cover(pixels: Tensor, width: int, height: int, method: Method = "bicubic") -> Tensor:
    """B H W C scaled to cover the size, with the middle kept."""
    tall, wide = pixels.shape[1:3]
    scale = max(width / wide, height / tall)
    large = stretch(pixels, max(width, round(wide * scale)), max(height, round(tall * scale)), method)
    top, left = (large.shape[1] - height) // 2, (large.shape[2] - width) // 2
    return large[:, top : top + height, left : left + width]


def contain(pixels: Tensor, width: int, height: int, method: Method = "bicubic") -> Tensor:
    """B H W C scaled to fit inside the size; the rest is black."""
    tall, wide = pixels.shape[1:3]
    scale = min(width / wide, height / tall)
    small = stretch(pixels, max(1, round(wide * scale)), max(1, round(tall * scale)), method)
    result = pixels.new_zeros((len(pixels), height, width, pixels.shape[3]))
    top, left = (height - small.shape[1]) // 2, (width - small.shape[2]) // 2
    result[:, top : top + small.shape[1], left : left + small.shape[2]] = small
    return result


def stretch(pixels: Tensor, width: int, height: int, method: Method = "bicubic") -> Tensor:
    """B H W C scaled to the size, whatever its shape."""
    import torch

    if pixels.shape[1:3] == (height, width):
        return pixels
    smooth = method != "nearest"
    planes = torch.nn.functional.interpolate(
        pixels.movedim(3, 1),
        size=(height, width),
        mode=method,
        antialias=smooth,
        align_corners=False if smooth else None,
    )  # B C H W
    return planes.movedim(1, 3).clamp(0, 1).contiguous()
