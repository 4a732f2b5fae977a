"""The solids as signed distances, after Inigo Quilez's distance functions (iquilezles.org/articles/distfunctions).

Each is a function of local coordinates (y up, the camera on the side of +z) in units of the solid's radius, centred
between its lowest and its highest point; a distance may be too short, never too long.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Distance = Callable[[Tensor, Tensor, Tensor], Tensor]
ROUND = 0.05  # how far edges are rounded off, so that they do not flicker between pixels


@dataclass(frozen=True, kw_only=True)
class Solid:
    """`distance`, how high its centre stands, the ball that holds it, and the turns (in degrees) it is shown at."""

    distance: Distance
    half_height: float
    bound: float
    turns: tuple[float, float] = (0.0, 0.0)


def _length(*sides: Tensor) -> Tensor:
    total = sides[0] * sides[0]
    for side in sides[1:]:
        total = torch.addcmul(total, side, side)
    return total.sqrt()


def _sphere(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _length(x, y, z) - 0.9


def _join(a: Tensor, b: Tensor) -> Tensor:
    """The distance to the meeting of two outlines that stand at right angles, edges rounded."""
    inside = torch.maximum(a, b).clamp(max=0)
    return inside + _length(a.clamp(min=0), b.clamp(min=0)) - ROUND


def _cube(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    a, b, c = (side.abs() - (0.72 - ROUND) for side in (x, y, z))
    inside = torch.maximum(a, torch.maximum(b, c)).clamp(max=0)
    return inside + _length(a.clamp(min=0), b.clamp(min=0), c.clamp(min=0)) - ROUND


def _cylinder(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _join(_length(x, z) - (0.74 - ROUND), y.abs() - (0.74 - ROUND))


def _cone(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """A slim one, half as high again as its foot is wide."""
    slope = math.atan2(0.7, 2.1)
    side = (_length(x, z) * math.cos(slope)) + (y - 1.0) * math.sin(slope) + ROUND
    return _join(side, -y - (1.0 - ROUND))


def _pyramid(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """A broad one, wider than high."""
    slope = math.atan2(0.95, 1.25)
    wide = torch.maximum(x.abs(), z.abs())
    side = wide * math.cos(slope) + (y - 0.625) * math.sin(slope) + ROUND
    return _join(side, -y - (0.625 - ROUND))


def _ring(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _length(_length(x, z) - 0.72, y) - 0.26


def _capsule(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return _length(x, y - y.clamp(-0.62, 0.62), z) - 0.42


def _star(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Five points, standing on two of them; the folds put every point of the plane beside one edge."""
    c, s = math.cos(math.pi / 5), math.sin(math.pi / 5)
    outer, inner = 1.04, 0.48
    x, y = x.abs(), y + 0.1
    fold = (c * x - s * y).clamp(min=0)
    x, y = x - 2 * fold * c, y + 2 * fold * s
    fold = (-c * x - s * y).clamp(min=0)
    x, y = (x + 2 * fold * c).abs(), y + 2 * fold * s - outer
    edge_x, edge_y = inner * s, inner * c - 1.0
    along = ((x * edge_x + y * edge_y) / (edge_x**2 + edge_y**2)).clamp(0, outer)
    side = torch.sign(y * edge_x - x * edge_y)
    return _join(_length(x - edge_x * along, y - edge_y * along) * side + ROUND, z.abs() - (0.27 - ROUND))


def _heart(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    scale = 1.62
    x, y, z = x.abs() / scale, y / scale + 0.55, z / scale
    lobe = _length(x - 0.25, y - 0.75) - math.sqrt(2) / 4
    foot = 0.5 * (x + y).clamp(min=0)
    flank = torch.minimum(_length(x, y - 1.0), _length(x - foot, y - foot)) * torch.sign(x - y)
    flat = torch.where(x + y > 1, lobe, flank)
    return scale * _join(flat + ROUND, z.abs() - (0.18 - ROUND))


SOLIDS: dict[str, Solid] = {
    "sphere": Solid(distance=_sphere, half_height=0.9, bound=0.9),
    "cube": Solid(distance=_cube, half_height=0.72, bound=1.22, turns=(30.0, 60.0)),
    "cylinder": Solid(distance=_cylinder, half_height=0.74, bound=1.03),
    "cone": Solid(distance=_cone, half_height=1.0, bound=1.22),
    "pyramid": Solid(distance=_pyramid, half_height=0.625, bound=1.45, turns=(30.0, 60.0)),
    "ring": Solid(distance=_ring, half_height=0.26, bound=0.98),
    "capsule": Solid(distance=_capsule, half_height=1.04, bound=1.04),
    "star": Solid(distance=_star, half_height=0.94, bound=1.18, turns=(-20.0, 20.0)),
    "heart": Solid(distance=_heart, half_height=0.88, bound=1.1, turns=(-20.0, 20.0)),
}
