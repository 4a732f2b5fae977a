"""Pictures of scenes: solids traced, lit by one wide lamp and the sky, laid over the ground from far to near."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from .layout import DISTANCE, Layout, lay_out
from .scene import SHAPES, Scene
from .solids import SOLIDS
from .trace import LIGHT, Hits, hits, nearness, sunlight

# B pictures, H W pixels


def eyes(layout: Layout) -> Tensor:
    """Where each picture is looked at from: straight ahead of its target, above it."""
    back = torch.stack(
        [torch.zeros_like(layout.elevation), layout.elevation.sin(), layout.elevation.cos()], dim=-1
    )  # B 3
    return layout.target + DISTANCE * back


def rays(layout: Layout, *, width: int, height: int) -> Tensor:
    """Unit directions through the middle of every pixel; the nearer edge shows `half_view` on either side."""
    device, short = layout.elevation.device, min(width, height)
    u = (torch.arange(width, device=device) + 0.5 - width / 2) * (2 / short)  # W
    v = (height / 2 - 0.5 - torch.arange(height, device=device)) * (2 / short)  # H
    scale = (layout.half_view / DISTANCE)[:, None, None]
    sin, cos = (f(layout.elevation)[:, None, None] for f in (torch.sin, torch.cos))
    x = (u[None, None, :] * scale).expand(-1, height, -1)  # B H W
    up = v[None, :, None] * scale
    y, z = up * cos - sin, -up * sin - cos
    return torch.nn.functional.normalize(torch.stack(torch.broadcast_tensors(x, y, z), dim=-1), dim=-1)  # B H W 3


def pixel_angle(layout: Layout, *, width: int, height: int) -> Tensor:
    """How wide a pixel is at distance one."""
    return 2 * layout.half_view / (DISTANCE * min(width, height))  # B


# B pictures, R rays, H W pixels

GAMMA = 2.2
HALF_HEIGHTS = torch.tensor([SOLIDS[shape].half_height for shape in SHAPES])
CHUNK, CHUNK_GPU = 64, 2048  # pictures rendered at once: what a CPU's cache holds; what keeps a GPU busy


def render(
    scenes: Sequence[Scene], rng: random.Random, *, width: int = 128, height: int = 128, device: str = "cpu"
) -> Tensor:
    """One picture per scene, uint8, B H W 3; `rng` decides places, turns and camera."""
    return render_owned(scenes, rng, width=width, height=height, device=device)[0]


def render_owned(
    scenes: Sequence[Scene], rng: random.Random, *, width: int, height: int, device: str = "cpu"
) -> tuple[Tensor, Tensor]:
    """`render`, and whose each pixel is, as `draw` tells it."""
    chunk = CHUNK if device == "cpu" else CHUNK_GPU
    parts = [
        draw(lay_out(scenes[i : i + chunk], rng).to(device), width=width, height=height)
        for i in range(0, len(scenes), chunk)
    ]
    pictures, owners = (torch.cat(column) for column in zip(*parts, strict=True))
    return (pictures * 255).round().clamp(0, 255).byte(), owners


@torch.no_grad()
def draw(layout: Layout, *, width: int, height: int) -> tuple[Tensor, Tensor]:
    """The pictures of one batch, floats from 0 to 1, and the slot of the thing that fills each pixel.

    The slot is -1 where no thing is, and -2 where one fills a part of the pixel only.
    """
    eye, ray = eyes(layout), rays(layout, width=width, height=height)
    picture = _ground(layout, eye, ray).flatten(1, 2)  # B HW 3
    found = hits(layout, eye, ray, pixel_angle(layout, width=width, height=height))
    colour = _surface(layout, found, eye)
    # Per pixel at most one row of each slot: far to near, slot by slot of the ranking.
    slots = layout.table.shape[1]
    depth = torch.full((*picture.shape[:2], slots), -1.0, device=picture.device)  # B HW slots
    where = (layout.picture[found.thing], found.pixel, layout.slot[found.thing])
    depth[where] = found.depth
    owner = torch.full(picture.shape[:2], -1, device=picture.device)  # B HW
    order = (depth[where[:2]] > found.depth[:, None]).sum(-1)  # R, 0 is drawn first
    for rank in range(slots):
        rows = (order == rank).nonzero().squeeze(-1)
        at = (where[0][rows], where[1][rows])
        cover = found.cover[rows]
        picture[at] = torch.lerp(picture[at], colour[rows], cover[:, None])
        owner[at] = torch.where(cover > 0.99, where[2][rows], -2)
    picture, owner = (value.unflatten(1, (height, width)) for value in (picture, owner))
    return picture.clamp(0, 1).pow(1 / GAMMA), owner


def _ground(layout: Layout, eye: Tensor, ray: Tensor) -> Tensor:
    """The floor in linear light: lighter with distance, darker under and behind things."""
    b, h, w, _ = ray.shape
    reach = eye[:, None, None, 1] / -ray[..., 1]
    points = eye[:, None, None] + reach[..., None] * ray  # B H W 3
    far = (0.5 - points[..., 2] / 7).clamp(0, 1)[..., None]
    near_colour, far_colour = (layout.ground[:, None, None, i].pow(GAMMA) for i in (0, 1))
    picture = torch.arange(b, device=ray.device).repeat_interleave(h * w)
    flat = points.reshape(-1, 3)
    sun = sunlight(layout, flat, picture, torch.full_like(picture, -1))
    sky = 1 - 0.55 * nearness(layout, flat, picture)
    light = (0.42 * sky + 0.58 * sun * (0.5 + 0.5 * sky)).reshape(b, h, w, 1)
    return torch.lerp(near_colour, far_colour, far) * light


def _surface(layout: Layout, found: Hits, eye: Tensor) -> Tensor:
    """The colour of every hit, in linear light."""
    picture = layout.picture[found.thing]
    light = LIGHT.to(eye.device)
    sun = sunlight(layout, found.point + 0.01 * found.normal, picture, found.thing)
    view = torch.nn.functional.normalize(found.point - eye[picture], dim=-1)
    own = layout.colour[found.thing].pow(GAMMA)  # R 3
    floor = layout.ground[picture, 0].pow(GAMMA)
    matte = _matte(own, floor, found.normal, sun, light)
    foot = layout.centre[:, 1] - layout.radius * HALF_HEIGHTS.to(eye.device)[layout.shape]  # N
    height = found.point[:, 1:2] - foot[found.thing, None]
    metal = _metal(own, floor, found.normal, height, view, sun, light)
    return torch.where(layout.is_metal[found.thing, None], metal, matte)


def _matte(own: Tensor, floor: Tensor, normal: Tensor, sun: Tensor, light: Tensor) -> Tensor:
    """Even scatter: lamp, sky from above, and a little of the floor from below."""
    up = normal[:, 1:2]
    lamp = 0.85 * (normal @ light).clamp(min=0)[:, None] * sun[:, None]
    return own * (lamp + 0.2 + 0.12 * up + 0.14 * floor * (1 - up))


def _metal(
    own: Tensor, floor: Tensor, normal: Tensor, height: Tensor, view: Tensor, sun: Tensor, light: Tensor
) -> Tensor:
    """A mirror in its own colour: bright sky above, a dark band at the horizon, the floor below, the lamp on top."""
    mirror = view - 2 * (view * normal).sum(-1, keepdim=True) * normal
    up = mirror[:, 1:2]
    sky = (0.1 + 1.3 * _smooth(up, 0.1, 0.95)) * (0.55 + 0.45 * sun[:, None])
    # The floor is dark under the thing itself and bright where the mirrored ray lands far from it.
    landing = height / (-up).clamp(min=0.05)
    below = (0.12 + 1.05 * floor * _smooth(landing, 0.0, 1.9)) * _smooth(-up, -0.05, 0.3)
    lamp = _smooth(mirror @ light, 0.86, 0.97)[:, None] * sun[:, None]
    seen = torch.where(up > 0, sky, below)
    return (own + 0.03 * (1 - own)) * seen + (0.25 + 0.75 * own) * 0.9 * lamp


def _smooth(value: Tensor, low: float, high: float) -> Tensor:
    share = ((value - low) / (high - low)).clamp(0, 1)
    return share * share * (3 - 2 * share)
