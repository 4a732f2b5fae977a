"""Every solid as the camera can show it, to hold against a picture: outlines, and how they look when painted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from torch import Tensor

from ..world.layout import ELEVATION, HALF_VIEW, Pose, View, assemble
from ..world.render import draw
from ..world.scene import SHAPES, SIZES, Thing
from ..world.solids import SOLIDS

# T templates, H W pixels

SIDE = 128  # pictures are read at this many pixels on their shorter edge
# How much smaller or larger things look for being far or near, among one, two and three.
DEPTHS = ((1.0,), (0.88, 0.96, 1.04, 1.13), (0.78, 0.85, 0.92, 1.0, 1.1, 1.21))
NUM_TURNS = 5
WINDOWS = (112, 76, 64)  # pixels per side that hold any solid, for one, two and three things


@dataclass(frozen=True, kw_only=True)
class Template:
    """What a template shows, how near, and where its foot is, in pixels below the window's middle."""

    shape: str
    size: str
    depth: float
    foot: float


@dataclass(frozen=True, kw_only=True)
class Bank:
    """All templates for pictures of one number of things; `scale` is pixels per scene unit."""

    names: tuple[Template, ...]
    outline: Tensor  # T H W, 0 or 1
    scale: float


@cache
def bank(num: int) -> Bank:
    """The templates for pictures of `num` things."""
    scale = SIDE / (2 * HALF_VIEW[num - 1])
    names = []
    for thing, _, depth in _poses(num):
        foot = SOLIDS[thing.shape].half_height * SIZES[thing.size] * math.cos(ELEVATION) * scale * depth
        names.append(Template(shape=thing.shape, size=thing.size, depth=depth, foot=foot))
    _, owner = _views(num, _poses(num), "matte", "red", "paper")
    return Bank(names=tuple(names), outline=(owner != -1).float(), scale=scale)


def painted(num: int, indices: Sequence[int], colour: str, material: str, ground: str) -> Tensor:
    """Some of the same templates in colour, T H W 3."""
    poses = _poses(num)
    return _views(num, [poses[i] for i in indices], material, colour, ground)[0]


@cache
def _poses(num: int) -> list[tuple[Thing, float, float]]:
    """Every solid in both sizes, at all its turns (radians) and depths."""
    poses = []
    for shape, size, depth in product(SHAPES, SIZES, DEPTHS[num - 1]):
        first, last = SOLIDS[shape].turns
        turns = [first + (last - first) * i / (NUM_TURNS - 1) for i in range(NUM_TURNS)] if last > first else [0.0]
        poses += [(Thing(shape=shape, size=size), math.radians(turn), depth) for turn in turns]
    return poses


def _views(
    num: int, poses: Sequence[tuple[Thing, float, float]], material: str, colour: str, ground: str
) -> tuple[Tensor, Tensor]:
    """Pictures of poses in the middle of a window, and what is a thing in them."""
    window, groups, views = WINDOWS[num - 1], [], []
    for thing, turn, depth in poses:
        centre = (0.0, SOLIDS[thing.shape].half_height * SIZES[thing.size], 0.0)
        groups.append([Pose(thing=replace(thing, material=material, colour=colour), centre=centre, turn=turn)])
        half_view = HALF_VIEW[num - 1] * window / (SIDE * depth)
        views.append(View(target=centre, elevation=ELEVATION, half_view=half_view, ground=ground))
    return draw(assemble(groups, views), width=window, height=window)
