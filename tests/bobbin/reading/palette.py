"""Which object's colour a pixel shows, if any: a table over all colours, filled by the renderer.

Under one lamp the same paint gives many colours, and a metal mirrors sky and floor; the table counts them all, for
each ground apart, so that a dark grey pixel is a black object on sand but may be a shadow on stone.
"""

import math
from functools import cache
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from ..world.layout import ELEVATION, Pose, View, assemble
from ..world.render import draw
from ..world.scene import COLOURS, GROUNDS, MATERIALS, SHAPES, SIZES, Thing
from ..world.solids import SOLIDS

# G grounds, K colours and the ground itself, L levels of a colour channel

LEVELS = 32
SIDE = 56  # pixels of the pictures that fill the table
TURNS = (0.1, 0.5, 0.9)  # of the way from a solid's first turn to its last
EMPTY = len(COLOURS)  # the label of a pixel that shows no object


@cache
def table() -> Tensor:
    """The most likely label for every ground and colour."""
    counts = torch.zeros(len(GROUNDS), EMPTY + 1, LEVELS**3)
    for number, ground in enumerate(GROUNDS):
        for colour, name in enumerate(COLOURS):
            pictures, owner = _samples(ground, name)
            bins = _bins(pictures)
            counts[number, colour] += torch.bincount(bins[owner == 0], minlength=LEVELS**3)
            counts[number, EMPTY] += torch.bincount(bins[owner == -1], minlength=LEVELS**3)
    shares = counts / counts.sum(-1, keepdim=True)
    shares[:, EMPTY] *= 3  # what may be floor is floor
    cube = shares.reshape(-1, 1, LEVELS, LEVELS, LEVELS)
    # Colours between the counted ones go to the nearest: ever wider blurs, each far fainter than the last.
    total = cube.clone()
    for step in range(1, 7):
        cube = F.avg_pool3d(F.pad(cube, (1,) * 6, mode="replicate"), 3, stride=1)
        total += cube * 0.05**step
    return total.reshape(len(GROUNDS), EMPTY + 1, LEVELS**3).argmax(1)  # G LLL


def _samples(ground: str, colour: str) -> tuple[Tensor, Tensor]:
    """Every shape in both materials, large, in the middle."""
    groups, views = [], []
    for shape, material, share in product(SHAPES, MATERIALS, TURNS):
        first, last = SOLIDS[shape].turns
        thing = Thing(colour=colour, shape=shape, material=material, size="large")
        height = SOLIDS[shape].half_height * SIZES["large"]
        turn = math.radians(first + share * (last - first))
        groups.append([Pose(thing=thing, centre=(0.0, height, 0.0), turn=turn)])
        views.append(View(target=(0.0, height, 0.0), elevation=ELEVATION, half_view=1.3, ground=ground))
    return draw(assemble(groups, views), width=SIDE, height=SIDE)


def _bins(pictures: Tensor) -> Tensor:
    r, g, b = (pictures * (LEVELS - 0.01)).long().clamp(0, LEVELS - 1).unbind(-1)
    return (r * LEVELS + g) * LEVELS + b


def labels(picture: Tensor, ground: str) -> Tensor:
    """For every pixel of a picture (H W 3 in 0..1), its place in COLOURS, or EMPTY."""
    return table()[list(GROUNDS).index(ground)][_bins(picture)]


def find_ground(picture: Tensor) -> str:
    """The ground whose two colours come nearest to the picture's upper and lower edge."""
    edges = picture[-4:].flatten(0, 1).median(0).values, picture[:4].flatten(0, 1).median(0).values  # near, far
    known = torch.tensor(list(GROUNDS.values())) / 255  # G 2 3
    error = (known - torch.stack(edges)).square().sum((1, 2))
    return list(GROUNDS)[int(error.argmin())]
