"""A palette with its own wire type, a tint that takes it, and a canvas that says what it would make."""

from dataclasses import dataclass
from typing import Annotated

from latentloom import Socket, read_spec
from latentloom.nodes.graph.sketch import Given
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.values import Image, Latents, Model


@dataclass(frozen=True)
class Palette:
    """Colours in 0..1, the share of each in a picture beside it."""

    colours: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]


def palette(
    image: Image, count: Annotated[int, Socket(min=1, max=8, help="How many bands of the picture")] = 2
) -> tuple[Palette, Annotated[Image, Socket(name="swatch", help="The colours beside each other")]]:
    """The mean colours of a picture's bands, and a picture of them."""
    import torch

    bands = image.pixels[0].chunk(count)  # H W C each
    colours = [band.mean((0, 1)) for band in bands]
    swatch = torch.stack(colours)[None, None].repeat(1, 8, 1, 1).repeat_interleave(8, 2)  # 1 8 8*count C
    shares = tuple(len(band) / image.pixels.shape[1] for band in bands)
    return Palette(colours=tuple(tuple(map(float, colour)) for colour in colours), shares=shares), Image(pixels=swatch)


def tint(image: Image, palette: Palette, strengths: list[float] = [0.5]) -> Image:  # noqa: B006 (read only)
    """A picture drawn towards the first colours of a palette, by a strength for each."""
    import torch

    pixels = image.pixels
    for colour, strength in zip(palette.colours, strengths, strict=False):
        pixels = torch.lerp(pixels, torch.tensor(colour), strength)
    return Image(pixels=pixels)


def canvas(model: Model) -> Latents:
    """The studio's own size."""
    return empty_canvas(model, width=160, height=160, frames=0, fps=0.0, batch=1)


def canvas_sketch(given: Given) -> Latents:
    return canvas(given.value("model"))


NODES = {
    "loom_example_Palette": read_spec(palette, title="Palette", category="example"),
    "loom_example_Tint": read_spec(tint, title="Tint", category="example"),
    "loom_example_Canvas": read_spec(canvas, title="Studio Canvas", category="example", sketch=canvas_sketch),
}
