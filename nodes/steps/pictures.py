"""Picture steps: Load Image, Save Image, Resize Image and Image Grid."""

# B batch, H height, W width, C channels

import dataclasses
import itertools
import math
from functools import partial
from typing import Annotated, Literal

from ...parallel.errors import BadInput
from ...pipelines.values import Image
from ..files import resize
from ..files.picture_files import check_file_size, check_picture, picture_bytes, read_picture, write_pictures
from ..files.workspace import HERE, SMALLER, Workspace
from ..graph.signature import read_spec
from ..graph.sketch import Given, Made
from ..graph.spec import Saved, Socket
from .arguments import checked, loading, saving
from .sockets import MAX_SIDE, FileName, Files


@checked
def load_image(
    path: Annotated[str, Socket(widget="picture"), "PNG, JPEG, WebP or BMP"], *, workspace: Workspace = HERE
) -> Image:
    """A picture from a file, turned upright, transparency over white."""
    file = workspace.input_path(path, socket="path")
    return Image(pixels=read_picture(file, max_pixels=workspace.max_pixels, remedy=SMALLER[workspace.host]))


loading_picture = partial(
    loading,
    check_size=check_file_size,
    check=check_picture,
    limits=lambda workspace: {"max_pixels": workspace.max_pixels, "remedy": SMALLER[workspace.host]},
)


def resize_sketch(given: Given) -> Made:
    width, height = int(given.number("width")), int(given.number("height"))
    return dataclasses.replace(given.value("image"), width=width, height=height)


@checked
def save_image(
    image: Annotated[Image, Socket(takes_bytes=True)], *, name: FileName = "picture", workspace: Workspace = HERE
) -> Files:
    """PNG files in the output folder, with the workflow inside. A batch gets numbers: picture-0.png, picture-1.png.

    In ComfyUI every file gets the next number, as its own nodes give: picture_00001_.png.
    """
    with workspace.output_files(name, len(image.pixels), "png", socket="name") as targets:
        for target in write_pictures(image.pixels, targets, workspace.metadata):
            workspace.on_file(target)
    return Saved(files=tuple(map(str, targets)))


def pictures_written(given: Given) -> int:
    made: Made = given.value("image")
    return made.count * picture_bytes(made.width, made.height)


@checked
def resize_image(
    image: Image,
    *,
    width: Annotated[int, Socket(min=1, max=MAX_SIDE)] = 1024,
    height: Annotated[int, Socket(min=1, max=MAX_SIDE)] = 1024,
    fit: Annotated[
        Literal["cover", "contain", "stretch"], "cover keeps the middle, contain adds black borders"
    ] = "cover",
    method: resize.Method = "bicubic",
    workspace: Workspace = HERE,
) -> Image:
    """Pictures at another size."""
    count, remedy = len(image.pixels), SMALLER[workspace.host]
    resize.check_area(width, height, count=count, max_pixels=workspace.max_pixels, remedy=remedy)
    scale = {"cover": resize.cover, "contain": resize.contain, "stretch": resize.stretch}[fit]
    return Image(pixels=scale(image.pixels, width, height, method))


@checked
def image_grid(
    image: Image,
    image_2: Image | None = None,
    image_3: Image | None = None,
    image_4: Image | None = None,
    image_5: Image | None = None,
    image_6: Image | None = None,
    *,
    columns: Annotated[int, Socket(min=0, max=256), "0 makes the grid about square"] = 0,
    gap: Annotated[int, Socket(min=0, max=256), "White pixels between pictures"] = 4,
    scale: Annotated[int, Socket(min=1, max=16), "Enlarges each picture without smoothing"] = 1,
    workspace: Workspace = HERE,
) -> Image:
    """One picture of many, row by row, in the order of the inputs."""
    import torch

    batches = [i.pixels for i in (image, image_2, image_3, image_4, image_5, image_6) if i is not None]
    sizes = {tuple(b.shape[1:3]) for b in batches}
    if len(sizes) > 1:
        listed = ", ".join(f"{w} x {h}" for h, w in sorted(sizes))
        raise BadInput("the pictures have several sizes ({}); give them one size with Resize Image first", listed)
    count = sum(map(len, batches))
    tall, wide = (side * scale for side in batches[0].shape[1:3])
    columns = min(columns or math.ceil(math.sqrt(count)), count)
    rows = math.ceil(count / columns)
    sheet_tall, sheet_wide = rows * (tall + gap) - gap, columns * (wide + gap) - gap
    if max(sheet_wide, sheet_tall) > MAX_SIDE * 2:
        raise BadInput("the grid would be {} x {} pixels; use fewer or smaller pictures", sheet_wide, sheet_tall)
    remedy = f"use fewer or smaller pictures ({SMALLER[workspace.host]})"
    resize.check_area(sheet_wide, sheet_tall, max_pixels=workspace.max_pixels, what="grid", remedy=remedy)
    sheet = torch.ones(1, sheet_tall, sheet_wide, batches[0].shape[3])
    for index, tile in enumerate(itertools.chain.from_iterable(batches)):
        top, left = index // columns * (tall + gap), index % columns * (wide + gap)
        large = tile.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
        sheet[0, top : top + tall, left : left + wide] = large
    return Image(pixels=sheet)


NODES = {
    "LoomLoadImage": loading_picture(load_image, title="Load Image", category="picture"),
    "LoomSaveImage": saving(
        save_image, title="Save Image", category="picture", made="image", ending="png", writes=pictures_written
    ),
    "LoomResizeImage": read_spec(resize_image, title="Resize Image", category="picture", sketch=resize_sketch),
    "LoomImageGrid": read_spec(image_grid, title="Image Grid", category="picture", sketch=lambda given: Made(count=1)),
}
