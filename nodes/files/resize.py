"""Picture sizes: which size a picture gets, and scaling it to that size."""

# B batch, H height, W width, C channels

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.values import Image, Model

if TYPE_CHECKING:
    from torch import Tensor

Method = Literal["bicubic", "bilinear", "nearest"]
MOST_TOGETHER = 4  # a batch may have the pixels of so many of the largest pictures


def size_like(model: Model, image: Image, *, width: int, height: int) -> tuple[int, int]:
    """(width, height) as given; where both are 0, the picture's shape at the model's own area, as the model allows."""
    from ...pipelines.models.describe import card_of
    from ...pipelines.shape import check_size, size_multiple

    tall, wide = image.pixels.shape[1:3]
    if not width and not height:
        card, multiple = card_of(model), size_multiple(model)
        scale = math.sqrt(card.width * card.height / (wide * tall))
        width, height = (max(multiple, round(side * scale / multiple) * multiple) for side in (wide, tall))
    elif why := why_half(width, height):
        raise ValueError(why)
    check_size(model, width, height)
    return width, height


def why_half(width: int, height: int) -> str:
    """Why a size that a picture's shape may stand for is none, as a sentence; empty where it is one."""
    one = bool(width) != bool(height)
    return worded("width is {} and height is {}; set both, or leave both at 0", width, height) if one else ""


def check_area(width: int, height: int, *, count: int = 1, max_pixels: int, what: str = "picture", remedy: str) -> None:
    """Refuse a picture, or a batch of so many, before the memory for it is asked for."""
    if width * height > max_pixels:
        raise BadInput(
            "the {} would be {} x {} pixels, more than the {:,} that are made; {}",
            what,
            width,
            height,
            max_pixels,
            remedy,
        )
    if count * width * height > max_pixels * MOST_TOGETHER:
        raise BadInput("{} pictures of {} x {} are too many pixels; {}", count, width, height, remedy)


def cover(pixels: Tensor, width: int, height: int, method: Method = "bicubic") -> Tensor:
    """B H W C scaled to cover the size, with the middle kept. Cut first: scaling what is cut off may take terabytes."""
    tall, wide = pixels.shape[1:3]
    return stretch(pixels[:, *kept(wide, tall, width, height)], width, height, method)


def kept(wide: int, tall: int, width: int, height: int) -> tuple[slice, slice]:
    """Rows and columns of a picture of `wide` x `tall` that `cover` keeps for `width` x `height`: all of one side."""
    columns = min(wide, max(1, round(tall * width / height)))
    rows = min(tall, max(1, round(wide * height / width)))
    top, left = (tall - rows) // 2, (wide - columns) // 2
    return slice(top, top + rows), slice(left, left + columns)


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
    if pixels.shape[1:3] == (height, width):
        return pixels
    planes = interpolate(pixels.movedim(3, 1), width, height, method)  # B C H W
    return planes.movedim(1, 3).clamp(0, 1).contiguous()


def interpolate(planes: Tensor, width: int, height: int, method: Method) -> Tensor:
    """B C H W at another size; made smaller without jagged edges."""
    import torch

    is_smooth = method != "nearest"
    return torch.nn.functional.interpolate(
        planes, size=(height, width), mode=method, antialias=is_smooth, align_corners=False if is_smooth else None
    )
