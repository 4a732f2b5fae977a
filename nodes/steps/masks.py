"""Mask steps: Load Mask, Grow and Blur Mask, and Outpaint."""

# B batch, H height, W width, C channels

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from ...pipelines.values import Image, Mask
from ..files.workspace import HERE, SMALLER, Workspace
from ..graph.spec import Socket
from .arguments import checked

if TYPE_CHECKING:
    from torch import Tensor

MAX_REACH = 512
"""Pixels that a mask grows, shrinks or is blurred by: the work rises with it."""
NARROW = 0.1
"""Below it a Gaussian's deviation leaves a neighbour less than a float's precision."""
MAX_BORDER = 8192
GREY = 0.5
REACH = 3
"""Deviations of a Gaussian that are counted; 0.3 % of it lies beyond."""

Side = Annotated[int, Socket(min=0, max=MAX_BORDER, help="Pixels")]


@checked
def load_mask(
    path: Annotated[str, Socket(widget="picture", help="PNG, JPEG, WebP or BMP")],
    *,
    channel: Annotated[
        Literal["alpha", "red", "green", "blue", "luminance"],
        Socket(help="alpha: what is transparent is painted anew; any other: what is bright"),
    ] = "alpha",
    workspace: Workspace = HERE,
) -> Mask:
    """A mask from one channel of a picture, turned upright: where it is 1, a picture is painted anew."""
    from ..files.picture_files import read_channel

    file = workspace.input_path(path, socket="path")
    pixels = read_channel(file, channel, max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host])
    return Mask(pixels=1 - pixels if channel == "alpha" else pixels)


@checked
def blur_mask(
    mask: Mask,
    *,
    grow: Annotated[
        int, Socket(min=-MAX_REACH, max=MAX_REACH, help="Pixels that it grows on every side; below 0 it shrinks")
    ] = 0,
    blur: Annotated[
        float, Socket(min=0, max=MAX_REACH / REACH, help="Pixels that its edge is softened by, as a deviation")
    ] = 0.0,
) -> Mask:
    """A mask that reaches further, or less far, with a soft edge; it grows first."""
    return Mask(pixels=_blurred(_grown(mask.pixels, grow), blur))


@checked
def outpaint(
    image: Image,
    *,
    left: Side = 0,
    top: Side = 0,
    right: Side = 0,
    bottom: Side = 0,
    feathering: Annotated[
        int, Socket(min=0, max=MAX_BORDER, help="Pixels inside the old picture over which the new one fades out")
    ] = 0,
    workspace: Workspace = HERE,
) -> tuple[Image, Mask]:
    """A larger canvas: grey on the sides that are added, and the mask that has them painted.

    Wire the image to Encode Image and the mask to Denoise. With 0 for all sides the picture is as it was.
    """
    from ..files.resize import check_area

    pixels = image.pixels
    batch, tall, wide, channels = pixels.shape
    if feathering * 2 >= min(tall, wide):
        raise ValueError(
            f"feathering is {feathering}, but the picture is {wide} x {tall}; give less than half its shorter side"
        )
    height, width = top + tall + bottom, left + wide + right
    check_area(width, height, max_pixels=workspace.max_pixels, remedy=f"add less ({SMALLER[workspace.host]})")
    canvas = pixels.new_full((batch, height, width, channels), GREY)
    mask = pixels.new_ones(1, height, width)
    inside = slice(top, top + tall), slice(left, left + wide)
    canvas[:, *inside] = pixels
    mask[:, *inside] = _faded(tall, wide, (top, bottom, left, right), feathering)
    return Image(pixels=canvas), Mask(pixels=mask)


def _grown(pixels: Tensor, by: int) -> Tensor:
    """B H W, each pixel the largest around it, or the least for a number below 0; beyond the border there is none."""
    from torch.nn.functional import max_pool2d

    if not by:
        return pixels
    sign, reach = (1, by) if by > 0 else (-1, -by)
    size = 2 * reach + 1
    wide = max_pool2d(sign * pixels, (1, size), stride=1, padding=(0, reach))
    return sign * max_pool2d(wide, (size, 1), stride=1, padding=(reach, 0))


def _blurred(pixels: Tensor, deviation: float) -> Tensor:
    """B H W, through a Gaussian; the border goes on beyond itself."""
    import torch
    from torch.nn.functional import conv2d, pad

    if deviation < NARROW:
        return pixels
    reach = max(1, round(REACH * deviation))
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / deviation) ** 2)
    weights = (weights / weights.sum()).to(pixels)
    planes = pixels[:, None]  # B 1 H W
    planes = conv2d(pad(planes, (reach, reach, 0, 0), mode="replicate"), weights[None, None, None, :])
    planes = conv2d(pad(planes, (0, 0, reach, reach), mode="replicate"), weights[None, None, :, None])
    return planes[:, 0].clamp(0, 1)


def _faded(tall: int, wide: int, added: tuple[int, int, int, int], feathering: int) -> Tensor:
    """H W over the old picture: 1 at a side that something was added to, falling to 0 as ComfyUI's feathering does."""
    import torch

    far = float(max(feathering, 1))
    top, bottom, left, right = added
    rows, columns = torch.arange(tall, dtype=torch.float32)[:, None], torch.arange(wide, dtype=torch.float32)[None, :]
    distances = [(top, rows), (bottom, tall - rows), (left, columns), (right, wide - columns)]
    nearest = torch.full((tall, wide), far)
    for is_added, distance in distances:
        if is_added:
            nearest = torch.minimum(nearest, distance)
    return ((far - nearest).clamp(min=0) / far) ** 2 if feathering else torch.zeros(tall, wide)
