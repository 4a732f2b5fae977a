"""Read a picture back: which objects it shows, and where. No model: colours by `palette`, outlines and paint by
`templates`, and both of those are made by the renderer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..world.layout import DISTANCE, ELEVATION
from ..world.scene import COLOURS, MATERIALS, Thing
from .palette import EMPTY, find_ground, labels
from .templates import SIDE, Bank, bank, painted

# T templates, K candidates, H W pixels

MIN_AREA = 45  # pixels at SIDE; less is a speck, not an object
MIN_VISIBLE = 0.5  # share of an outline; less may be a reflection in another object
MIN_MATCH = 0.6  # overlap with the best outline (intersection over union); less is no shape at all
NUM_CANDIDATES = 32
PAINT_WEIGHT = 4  # of the mean error of a channel (0..1) against the overlap of outlines
MOST_ERROR = 0.1  # a metal seen from a little aside can be as far as this from its template
NUM_PAINTED = 10  # of which are compared in colour, in both materials
HIDDEN = 0.05  # what a pixel counts where another object may hide this one
REACH = 2  # pixels that a candidate may be shifted by for a better match


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """One object found, and where it seems to stand on the ground. `shape` may be "unclear"."""

    thing: Thing
    x: float
    z: float
    visible: float  # the share of its outline that shows its colour


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a picture shows."""

    sightings: tuple[Sighting, ...]
    ground: str


def read(picture: np.ndarray | Tensor) -> Reading:
    """The objects in a picture (H W 3, uint8) and the ground they stand on, largest area first."""
    pixels = _at_side(torch.as_tensor(picture).float() / 255)
    ground = find_ground(pixels)
    label = labels(pixels, ground)
    while True:
        areas = torch.bincount(_without_specks(label).flatten(), minlength=EMPTY + 1)[:EMPTY]
        seen = [int(colour) for colour in areas.argsort(descending=True) if areas[colour] >= MIN_AREA][:4]
        num = min(max(len(seen), 1), 3)
        sightings = tuple(_sight(label, pixels, ground, colour, seen, num) for colour in seen)
        inside = [_inside(label, c, sighting) for c, sighting in zip(seen, sightings, strict=True)]
        stray = next((i for i, around in enumerate(inside) if around != EMPTY), None)
        if stray is None:
            return Reading(sightings=sightings, ground=ground)
        label = torch.where(label == seen[stray], inside[stray], label)  # a reflection in another object


def _inside(label: Tensor, colour: int, sighting: Sighting) -> int:
    """The object that a colour is a reflection in, or EMPTY: what is no solid, or hardly visible, and surrounded."""
    if sighting.thing.shape == "unclear":
        return _surrounding(label, colour, share=0.33)
    return _surrounding(label, colour, share=0.85) if sighting.visible < MIN_VISIBLE else EMPTY


def _at_side(pixels: Tensor) -> Tensor:
    """The picture with SIDE pixels on its shorter edge."""
    scale = SIDE / min(pixels.shape[:2])
    if scale == 1:
        return pixels
    size = [round(side * scale) for side in pixels.shape[:2]]
    resized = F.interpolate(pixels.movedim(-1, 0)[None], size=size, mode="bicubic", antialias=True)[0]
    return resized.movedim(0, -1).clamp(0, 1)


def _surrounding(label: Tensor, colour: int, *, share: float) -> int:
    """The object's label that this share of the pixels just around those of one colour have, or EMPTY."""
    own = (_without_specks(label) == colour).float()[None, None]
    edge = (F.max_pool2d(own, 5, stride=1, padding=2) - own)[0, 0] > 0
    around = torch.bincount(label[edge], minlength=EMPTY + 1)
    most = int(around[:EMPTY].argmax())
    return most if around[most] >= share * around.sum() else EMPTY


def _without_specks(label: Tensor) -> Tensor:
    """The labels with every pixel emptied whose 3x3 neighbourhood is not mostly its own."""
    own = F.one_hot(label, EMPTY + 1).movedim(-1, 0).float()  # labels H W
    share = F.avg_pool2d(own[None], 3, stride=1, padding=1)[0].gather(0, label[None])[0]
    return torch.where(share > 0.6, label, EMPTY)


def _sight(label: Tensor, pixels: Tensor, ground: str, colour: int, seen: Sequence[int], num: int) -> Sighting:
    """The template that fits the pixels of one colour best, where pixels of other objects may hide it."""
    templates, name = bank(num), list(COLOURS)[colour]
    mask = (label == colour).float()
    hidden = sum(((label == c).float() for c in seen if c != colour), torch.zeros_like(mask))
    valid = 1 - (1 - HIDDEN) * hidden
    layers = torch.cat([mask[None], valid[None], pixels.movedim(-1, 0)])  # 5 H W
    places = [_settle(layers, templates, *candidate) for candidate in _candidates(mask, valid, templates)]
    best = sorted(places, key=lambda place: place.score, reverse=True)[:NUM_PAINTED]
    fits = []
    for material in MATERIALS:
        looks = painted(num, [place.index for place in best], name, material, ground)
        fits += [
            (place.score - PAINT_WEIGHT * _error(layers, templates, place, look), material, place)
            for place, look in zip(best, looks, strict=True)
        ]
    _, material, place = max(fits, key=lambda fit: fit[0])
    template = templates.names[place.index]
    shape = template.shape if place.overlap >= MIN_MATCH else "unclear"
    thing = Thing(colour=name, shape=shape, material=material, size=template.size)
    window = _window(layers, templates, place.row, place.column)[0]
    outline = templates.outline[place.index]
    return Sighting(thing=thing, x=place.x, z=place.z, visible=float((window * outline).sum() / outline.sum()))


def _on_ground(right: float, up: float) -> tuple[float, float]:
    """Where a point of the picture, in scene units from its middle, lies on the ground as the camera sees it."""
    distance = DISTANCE + 1  # the ground is a little behind what the camera looks at
    z = up / (up * math.cos(ELEVATION) / distance - math.sin(ELEVATION))
    return right * (1 - z * math.cos(ELEVATION) / distance), z


def _candidates(mask: Tensor, valid: Tensor, templates: Bank) -> list[tuple[int, int, int]]:
    """The best few templates by overlap at half the resolution: which, and the row and column of its middle."""
    small, allowed = (F.avg_pool2d(m[None, None], 2) for m in (mask, valid))
    outline = F.avg_pool2d(templates.outline[:, None], 2)  # T 1 H W
    pad = outline.shape[-1] // 2
    both = F.conv2d(small, outline, padding=pad)[0]  # T H+1 W+1
    either = F.conv2d(allowed, outline, padding=pad)[0] + small.sum() - both
    overlap = (both / either.clamp(min=1)).flatten(1)
    value, place = overlap.max(1)
    chosen = value.topk(min(NUM_CANDIDATES, len(value))).indices.tolist()
    width = both.shape[-1]
    return [(i, 2 * (int(place[i]) // width), 2 * (int(place[i]) % width)) for i in chosen]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A template, the row and column of its middle, where that is on the ground, and the overlap of outlines.

    The score is the overlap less what is odd about the place: something that looks near and stands far away.
    """

    overlap: float
    score: float
    index: int
    row: int
    column: int
    x: float
    z: float


def _window(layers: Tensor, templates: Bank, row: int, column: int) -> Tensor:
    """The part of the picture that a template lies on when its middle is there."""
    half = templates.outline.shape[-1] // 2
    padded, top, left = F.pad(layers, (half + REACH,) * 4), row + REACH, column + REACH
    return padded[:, top : top + 2 * half, left : left + 2 * half]


def _settle(layers: Tensor, templates: Bank, index: int, row: int, column: int) -> _Place:
    """A candidate where it overlaps best, a few pixels around. `layers` is mask, valid, and the picture."""
    outline, total = templates.outline[index], float(layers[0].sum())
    side = outline.shape[-1]
    near = F.pad(layers[:2], (side // 2 + REACH,) * 4)
    near = near[:, row : row + side + 2 * REACH, column : column + side + 2 * REACH]
    own, allowed = F.conv2d(near[:, None], outline[None, None])[:, 0]  # shifts shifts
    overlap = own / (allowed + total - own)
    best = int(overlap.argmax())
    dy, dx = (shift - REACH for shift in divmod(best, 2 * REACH + 1))
    row, column, template = row + dy, column + dx, templates.names[index]
    height, width = layers.shape[1:]
    x, z = _on_ground((column - width / 2) / templates.scale, (height / 2 - row - template.foot) / templates.scale)
    depth = DISTANCE / (DISTANCE - z * math.cos(ELEVATION))
    odd = max(abs(math.log(template.depth / depth)) - 0.27, 0)
    match = float(overlap.flatten()[best])
    return _Place(overlap=match, score=match - 2 * odd, index=index, row=row, column=column, x=x, z=z)


def _error(layers: Tensor, templates: Bank, place: _Place, look: Tensor) -> float:
    """How far the picture is from the painted template, inside both outlines; less and less once it is far."""
    own, _, *picture = _window(layers, templates, place.row, place.column)
    inside = (own * templates.outline[place.index]) > 0
    seen, known = torch.stack(picture, dim=-1)[inside], look[inside]
    # Pixel by pixel, and by what colours there are: a highlight a little aside is still a highlight.
    apart = (seen - known).abs().mean() + (seen.sort(0).values - known.sort(0).values).abs().mean()
    error = 0.5 * float(apart)
    return error if error < MOST_ERROR else MOST_ERROR + 0.25 * (error - MOST_ERROR)
