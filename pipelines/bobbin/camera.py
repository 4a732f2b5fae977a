"""The camera: where it stands, and one ray per pixel."""

import torch
from torch import Tensor

from .layout import DISTANCE, Layout

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
