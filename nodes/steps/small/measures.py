"""Sizes and differences: Picture Size, Size from Ratio, Compare Pictures and Batch Pictures."""

# B batch, H height, W width, C channels

import dataclasses
import math
import re
from typing import Annotated

from ....parallel.errors import BadInput
from ....pipelines.values import Image
from ...files.resize import check_area
from ...files.workspace import HERE, SMALLER, Workspace
from ...graph.signature import read_spec
from ...graph.sketch import Given, Made, Unknown
from ...graph.spec import Socket
from ..arguments import checked, reckoning
from ..sockets import MAX_SIDE

RATIO = re.compile(r"\s*(\d{1,5}(?:\.\d{1,4})?)\s*(?:[:/x]\s*(\d{1,5}(?:\.\d{1,4})?))?\s*", re.ASCII)
Width = Annotated[int, Socket(name="width")]
Height = Annotated[int, Socket(name="height")]


@checked
def picture_size(image: Image) -> tuple[Width, Height, Annotated[int, Socket(name="count")]]:
    """Width and height of a picture in pixels, and how many there are in the batch."""
    count, tall, wide = image.pixels.shape[:3]
    return wide, tall, count


def picture_size_sketch(given: Given) -> tuple[int, int, int]:
    made: Made = given.value("image")
    if not made.width:
        raise Unknown("the size of the picture is known only when it is there")
    return made.width, made.height, made.count


@checked
def size_from_ratio(
    ratio: Annotated[str, "Width to height, such as 16:9, 2:3 or 1.85"] = "1:1",
    *,
    megapixels: Annotated[float, Socket(min=0.001, max=256, step=0.1), "Of 1024 x 1024 pixels"] = 1.0,
    multiple: Annotated[int, Socket(min=1, max=256), "Both sides are multiples of it"] = 16,
    portrait: Annotated[bool, "The sides change places"] = False,
) -> tuple[Width, Height]:
    """Width and height of an area in a ratio, as near as the multiple allows."""
    found = RATIO.fullmatch(ratio)
    sides = (float(found[1]), float(found[2] or 1)) if found else (0.0, 0.0)
    if not all(sides) or not 1 / 100 <= sides[0] / sides[1] <= 100:
        raise ValueError(f"ratio is {ratio[:40]!r}; write one of 1:100 to 100:1, such as 16:9")
    wide, tall = reversed(sides) if portrait else sides
    scale = math.sqrt(megapixels * 2**20 / (wide * tall))
    width, height = (max(multiple, round(side * scale / multiple) * multiple) for side in (wide, tall))
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"the size would be {width} x {height}; a side has at most {MAX_SIDE} pixels; take fewer")
    return width, height


@checked
def compare_pictures(
    image: Image,
    other: Image,
    *,
    amplify: Annotated[float, Socket(min=1, max=1000), "How much brighter differences are shown"] = 8.0,
) -> tuple[
    Annotated[Image, Socket(name="difference")],
    Annotated[float, Socket(name="mean", help="Of all differences, 0 to 1; 0 is equal")],
    Annotated[float, Socket(name="largest", help="Of all differences, 0 to 1")],
]:
    """How far two pictures of one size differ: as a picture, and in numbers."""
    first, second = image.pixels, other.pixels
    if first.shape[1:] != second.shape[1:] or (len(first) != len(second) and 1 not in (len(first), len(second))):
        sizes = " and ".join(
            f"{len(p)} of {p.shape[2]} x {p.shape[1]} in {p.shape[3]} channels" for p in (first, second)
        )
        raise ValueError(f"the pictures are {sizes}; give them one size with Resize Image first")
    apart = (first - second).abs()
    return Image(pixels=(apart * amplify).clamp(0, 1)), float(apart.mean()), float(apart.max())


def compare_sketch(given: Given) -> tuple[Made, float, float]:
    raise Unknown("how far the pictures differ is known only when they are there")


@checked
def batch_pictures(
    image: Image,
    image_2: Image | None = None,
    image_3: Image | None = None,
    image_4: Image | None = None,
    image_5: Image | None = None,
    image_6: Image | None = None,
    image_7: Image | None = None,
    image_8: Image | None = None,
    *,
    workspace: Workspace = HERE,
) -> Image:
    """Pictures of one size as one batch, in the order of the inputs."""
    import torch

    given = (image, image_2, image_3, image_4, image_5, image_6, image_7, image_8)
    batches = [each.pixels for each in given if each is not None]
    if len(sizes := {tuple(each.shape[1:]) for each in batches}) > 1:
        listed = ", ".join(f"{wide} x {tall} in {channels} channels" for tall, wide, channels in sorted(sizes))
        raise BadInput("the pictures have several sizes ({}); give them one size with Resize Image first", listed)
    count, (tall, wide) = sum(map(len, batches)), batches[0].shape[1:3]
    check_area(wide, tall, count=count, max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host])
    return Image(pixels=torch.cat(batches))


def batch_sketch(given: Given) -> Made:
    sockets = ("image", *(f"image_{number}" for number in range(2, 9)))
    made: list[Made] = [given.value(each) for each in sockets if given.has(each)]
    return dataclasses.replace(made[0], count=sum(each.count for each in made))


NODES = {
    "LoomBatchPictures": read_spec(batch_pictures, title="Batch Pictures", category="picture", sketch=batch_sketch),
    "LoomPictureSize": read_spec(picture_size, title="Picture Size", category="picture", sketch=picture_size_sketch),
    "LoomComparePictures": read_spec(
        compare_pictures, title="Compare Pictures", category="picture", sketch=compare_sketch
    ),
    "LoomSizeFromRatio": reckoning(size_from_ratio, title="Size from Ratio", category="number"),
}
