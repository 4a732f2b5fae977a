"""Rays through the scene: what a pixel sees of a solid, and how much of the light a point gets.

Sphere tracing (Hart 1996) with soft edges and soft shadows from the nearest approach of a ray. Rays that miss a
solid's bounding ball are left out before anything else, so the work goes with the area that solids cover.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .layout import Layout
from .scene import SHAPES
from .solids import SOLIDS, Distance

# B pictures, N things of all pictures, R rays

STEPS = 24
SHADOW_STEPS = 10
LIGHT = torch.nn.functional.normalize(torch.tensor([-0.55, 1.0, 0.42]), dim=0)
SOFTNESS = 0.16  # how wide the light looks: half an angle, in radians
BOUNDS = torch.tensor([SOLIDS[shape].bound for shape in SHAPES])


@dataclass(frozen=True, kw_only=True)
class Hits:
    """What pixels see of the things: one row for each pixel and thing that meet."""

    thing: Tensor  # R
    pixel: Tensor  # R, row times width plus column
    cover: Tensor  # R, share of the pixel
    point: Tensor  # R 3
    normal: Tensor  # R 3
    depth: Tensor  # R


def _turned(layout: Layout, thing: Tensor, vectors: Tensor, *, back: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and z of R vectors as the thing of each sees them, or `back` from there."""
    sin, cos = layout.turn[thing].sin(), layout.turn[thing].cos()
    x, y, z = vectors.unbind(-1)
    sin = -sin if back else sin
    return x * cos - z * sin, y, x * sin + z * cos


def _by_shape(layout: Layout, thing: Tensor) -> Iterator[tuple[Distance, Tensor]]:
    """For each kind of solid among R rows, its distance and which rows."""
    shapes = layout.shape[thing]
    for number, shape in enumerate(SHAPES):
        rows = (shapes == number).nonzero().squeeze(-1)
        if len(rows):
            yield SOLIDS[shape].distance, rows


def hits(layout: Layout, eye: Tensor, rays: Tensor, angle: Tensor) -> Hits:
    """Every thing as the pixels of its picture see it. `eye` B 3, `rays` B H W 3, `angle` of a pixel B."""
    size = layout.radius * BOUNDS.to(layout.radius.device)[layout.shape] * 1.04  # N
    away = eye[layout.picture] - layout.centre  # N 3
    directions = rays.flatten(1, 2)  # B HW 3
    toward = torch.bmm(directions[layout.picture], away[:, :, None]).squeeze(-1)  # N HW
    inside = toward.square() - (away.square().sum(-1) - size.square())[:, None]
    thing, pixel = (inside > 0).nonzero(as_tuple=True)  # R
    ray = directions[layout.picture[thing], pixel]  # R 3
    radius = layout.radius[thing]
    start = -toward[thing, pixel] - inside[thing, pixel].sqrt()
    width = angle[layout.picture[thing]]
    origin, heading = _turned(layout, thing, away[thing]), _turned(layout, thing, ray)
    nearest, reach = torch.empty_like(start), torch.empty_like(start)
    normal = torch.empty_like(ray)
    for distance, rows in _by_shape(layout, thing):
        o = [value[rows] / radius[rows] for value in origin]
        d = [value[rows] for value in heading]
        nearest[rows], reach[rows], gradient = _march(distance, o, d, start[rows] / radius[rows], width[rows])
        normal[rows] = gradient
    keep = (nearest < 1).nonzero().squeeze(-1)
    thing, pixel, reach = thing[keep], pixel[keep], (reach * radius)[keep]
    point = eye[layout.picture[thing]] + reach[:, None] * ray[keep]
    normal = torch.stack(_turned(layout, thing, normal[keep], back=True), dim=-1)
    return Hits(thing=thing, pixel=pixel, cover=1 - nearest[keep], point=point, normal=normal, depth=reach)


def _march(
    distance: Distance, o: list[Tensor], d: list[Tensor], t: Tensor, width: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """How near each ray comes, in pixels; how far along that is; the surface's normal there."""
    nearest, reach = torch.full_like(t, 1e6), t
    for _ in range(STEPS):
        gap = distance(*(torch.addcmul(a, b, t) for a, b in zip(o, d, strict=True)))
        pixels = gap / (t * width)
        closer = pixels < nearest
        nearest, reach = torch.where(closer, pixels, nearest), torch.where(closer, t, reach)
        t = t + gap.clamp(min=0)
    x, y, z = (torch.addcmul(a, b, reach) for a, b in zip(o, d, strict=True))
    e = 0.004
    corners = ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1))
    gaps = [distance(x + i * e, y + j * e, z + k * e) for i, j, k in corners]
    normal = torch.stack(gaps, dim=-1) @ torch.tensor(corners, dtype=t.dtype, device=t.device)  # R 3
    normal = torch.nn.functional.normalize(normal, dim=-1)
    return nearest.clamp(0, 1), reach, normal


def sunlight(layout: Layout, points: Tensor, picture: Tensor, own: Tensor) -> Tensor:
    """The share of the light that reaches R points, past every thing of their picture but their own (-1: none)."""
    light = LIGHT.to(points.device)
    share = torch.ones_like(points[:, 0])
    for slot in range(layout.table.shape[1]):
        thing = layout.table[picture, slot]
        away = points - layout.centre[thing]
        ahead = -(away @ light)
        size = layout.radius[thing] * (BOUNDS.to(points.device)[layout.shape[thing]] + 0.3)
        inside = size.square() + ahead.square() - away.square().sum(-1)
        half = inside.clamp(min=0).sqrt()
        meets = ((inside > 0) & (ahead + half > 0.1) & (thing >= 0) & (thing != own)).nonzero().squeeze(-1)
        lit = _lit(layout, thing[meets], away[meets], ahead[meets], half[meets])
        share[meets] = share[meets] * lit
    return share


def _lit(layout: Layout, thing: Tensor, away: Tensor, ahead: Tensor, half: Tensor) -> Tensor:
    """How much of the light passes one thing, from how near the ray towards the light comes to it."""
    radius = layout.radius[thing]
    origin = _turned(layout, thing, away)
    light = _turned(layout, thing, LIGHT.to(away.device).expand_as(away))
    first, last = ((ahead - half) / radius).clamp(min=0.01), (ahead + half) / radius
    least = torch.ones_like(radius)
    for distance, rows in _by_shape(layout, thing):
        o, d = [value[rows] / radius[rows] for value in origin], [value[rows] for value in light]
        a, b, low = first[rows], (last - first)[rows] / (SHADOW_STEPS - 1), least[rows]
        for step in range(SHADOW_STEPS):
            t = a + step * b
            gap = distance(*(torch.addcmul(u, v, t) for u, v in zip(o, d, strict=True)))
            low = torch.minimum(low, gap / (SOFTNESS * t + 0.04))
        least[rows] = low
    lit = (0.5 + 0.5 * least).clamp(0, 1)
    return lit * lit * (3 - 2 * lit)


def nearness(layout: Layout, points: Tensor, picture: Tensor) -> Tensor:
    """How much of the sky things hide from R points of the ground: 0 in the open, 1 in touch with one."""
    hidden = torch.zeros_like(points[:, 0])
    for slot in range(layout.table.shape[1]):
        thing = layout.table[picture, slot]
        away = points - layout.centre[thing]
        near = away.square().sum(-1) < (layout.radius[thing] * 2.2).square()
        rows = (near & (thing >= 0)).nonzero().squeeze(-1)
        hidden[rows] = torch.maximum(hidden[rows], _touch(layout, thing[rows], away[rows]))
    return hidden


def _touch(layout: Layout, thing: Tensor, away: Tensor) -> Tensor:
    radius, local = layout.radius[thing], _turned(layout, thing, away)
    gap = torch.empty_like(radius)
    for distance, rows in _by_shape(layout, thing):
        gap[rows] = distance(*(value[rows] / radius[rows] for value in local))
    return torch.exp(-4 * gap.clamp(min=0))
