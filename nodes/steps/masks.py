"""Mask steps: Load Mask, Grow and Blur Mask, Outpaint; a part of a picture by itself, and put back."""

# B batch, H height, W width, C channels

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

from ...parallel.errors import BadInput
from ...pipelines.values import Image, Mask
from ..files.picture_files import read_channel
from ..files.resize import check_area, cover, kept, stretch
from ..files.workspace import HERE, SMALLER, Workspace
from ..graph.signature import read_spec
from ..graph.sketch import Given, Made
from ..graph.spec import Socket
from .arguments import checked
from .pictures import loading_picture
from .sockets import MAX_SIDE

if TYPE_CHECKING:
    from torch import Tensor

MAX_REACH = 512  # pixels that a mask grows, shrinks or is blurred by: the work rises with it
NARROW = 0.1  # below it a Gaussian's deviation leaves a neighbour less than a float's precision
MAX_BORDER = 8192
GREY = 0.5
REACH = 3  # deviations of a Gaussian that are counted; 0.3 % of it lies beyond

Side = Annotated[int, Socket(min=0, max=MAX_BORDER, help="Pixels")]
Corner = Annotated[int, Socket(min=0, max=MAX_SIDE, help="Pixels of the picture that lie before the part")]
Extent = Annotated[int, Socket(min=0, max=MAX_SIDE, help="Pixels of the part; 0 is all that follow")]


@checked
def load_mask(
    path: Annotated[str, Socket(widget="mask", help="PNG, JPEG, WebP or BMP")],
    *,
    channel: Annotated[
        Literal["alpha", "red", "green", "blue", "luminance"],
        "alpha: what is transparent is painted anew; any other: what is bright",
    ] = "alpha",
    workspace: Workspace = HERE,
) -> Mask:
    """A mask from one channel of a picture, turned upright: where it is 1, a picture is painted anew."""
    file = workspace.input_path(path, socket="path")
    pixels = read_channel(file, channel, max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host])
    return Mask(pixels=1 - pixels if channel == "alpha" else pixels)


@checked
def blur_mask(
    mask: Mask,
    *,
    grow: Annotated[
        int, Socket(min=-MAX_REACH, max=MAX_REACH), "Pixels that it grows on every side; below 0 it shrinks"
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
    feathering: Annotated[Side, "Pixels inside the old picture over which the new one fades out"] = 0,
    workspace: Workspace = HERE,
) -> tuple[Image, Mask]:
    """A larger canvas: grey on the sides that are added, and the mask that has them painted.

    Wire the image to Encode Image and the mask to Denoise. With 0 for all sides the picture is as it was.
    """
    pixels = image.pixels
    batch, tall, wide, channels = pixels.shape
    if feathering * 2 >= min(tall, wide):
        raise BadInput(
            "feathering is {}, but the picture is {} x {}; give less than half its shorter side",
            feathering,
            wide,
            tall,
        )
    height, width = top + tall + bottom, left + wide + right
    remedy = f"add less ({SMALLER[workspace.host]})"
    check_area(width, height, count=batch, max_pixels=workspace.max_pixels, remedy=remedy)
    canvas = pixels.new_full((batch, height, width, channels), GREY)
    mask = pixels.new_ones(1, height, width)
    inside = slice(top, top + tall), slice(left, left + wide)
    canvas[:, *inside] = pixels
    mask[:, *inside] = _faded(tall, wide, (top, bottom, left, right), feathering)
    return Image(pixels=canvas), Mask(pixels=mask)


@checked
def crop_image(
    image: Image,
    mask: Annotated[Mask | None, "Lies over the picture, and is cut with it"] = None,
    *,
    left: Corner = 0,
    top: Corner = 0,
    width: Extent = 0,
    height: Extent = 0,
) -> tuple[Image, Mask]:
    """A part of a picture, to be worked on by itself; Paste Image puts it back. Without a mask all of it is painted."""
    rows, columns = part = _part(image, left, top, width, height)
    pixels = image.pixels[:, *part]
    cut = pixels.new_ones(1, *pixels.shape[1:3]) if mask is None else _over(mask, image)[:, rows, columns]
    return Image(pixels=pixels), Mask(pixels=cut)


@checked
def paste_image(
    image: Annotated[Image, "What was painted"],
    onto: Annotated[Image, "The picture that it was painted from, or that its part was cut out of"],
    mask: Annotated[
        Mask | None, "Lies over the lower picture: where it is 0, that stays to the byte. None: all is new"
    ] = None,
    *,
    left: Corner = 0,
    top: Corner = 0,
    width: Extent = 0,
    height: Extent = 0,
    workspace: Workspace = HERE,
) -> Image:
    """What was painted, put back where Encode Image, or Crop Image with the same numbers, took it from.

    It is scaled back to the picture's own size; what Encode Image cut off to fit the model stays as it was.
    """
    import torch

    above, below = image.pixels, onto.pixels
    if len(below) not in (1, len(above)) or above.shape[3] != below.shape[3]:
        one, other = (f"{len(pixels)} of {pixels.shape[3]} channels" for pixels in (above, below))
        raise BadInput(
            "image is {} and onto is {}; give one picture for all or one for each, of as many channels", one, other
        )
    if mask is not None and len(mask.pixels) not in (1, len(above)):
        raise BadInput("masks are {} for {} pictures; give one for all or one for each", len(mask.pixels), len(above))
    tall, wide = below.shape[1:3]
    check_area(wide, tall, count=len(above), max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host])
    part = _part(onto, left, top, width, height)
    made = below.expand(len(above), -1, -1, -1).clone()
    room = made[:, *part]
    inside = kept(room.shape[2], room.shape[1], above.shape[2], above.shape[1])
    old = room[:, *inside]
    share = old.new_ones(1, 1, 1, 1) if mask is None else _over(mask, onto)[:, *part][:, *inside][..., None]
    for picture, under, one in zip(above, old, share.expand(len(above), -1, -1, -1), strict=True):
        # each by itself: beside what is made there is never more than one of them
        new = stretch(picture[None], old.shape[2], old.shape[1])[0]
        under.copy_(torch.where(one > 0, under + (new - under) * one, under))
    return Image(pixels=made)


def crop_sketch(given: Given) -> tuple[Made]:
    """Sides that reach to a border follow from the picture, which is not read."""
    made: Made = given.value("image")
    width, height = int(given.number("width")), int(given.number("height"))
    return (dataclasses.replace(made, width=width or made.width, height=height or made.height),)


def paste_sketch(given: Given) -> Made:
    made, onto = given.value("image"), given.value("onto")
    return dataclasses.replace(made, width=onto.width or made.width, height=onto.height or made.height)


def _part(image: Image, left: int, top: int, width: int, height: int) -> tuple[slice, slice]:
    """Rows and columns. Raises `ValueError` where they are not inside the picture."""
    tall, wide = image.pixels.shape[1:3]
    right, bottom = (left + width if width else wide), (top + height if height else tall)
    if not (left < right <= wide and top < bottom <= tall):
        asked = f"{right - left} x {bottom - top} pixels from {left}, {top}"
        raise BadInput("the part is {}, but the picture is {} x {}; choose a part inside it", asked, wide, tall)
    return slice(top, bottom), slice(left, right)


def _over(mask: Mask, image: Image) -> Tensor:
    """B H W: the mask as it lies over the picture."""
    tall, wide = image.pixels.shape[1:3]
    return cover(mask.pixels[..., None], wide, tall, "bilinear")[..., 0]


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


NODES = {
    "LoomLoadMask": loading_picture(load_mask, title="Load Mask", category="mask"),
    "LoomBlurMask": read_spec(blur_mask, title="Grow and Blur Mask", category="mask"),
    "LoomOutpaint": read_spec(outpaint, title="Outpaint", category="mask"),
    "LoomCropImage": read_spec(crop_image, title="Crop Image", category="mask", sketch=crop_sketch),
    "LoomPasteImage": read_spec(paste_image, title="Paste Image", category="mask", sketch=paste_sketch),
}
