"""Previews: latents to a small picture by one matrix, fitted by least squares to colour charts through the VAE.

While a denoise runs, decoding each step would take longer than the step. A matrix from latent channels to colours costs
nothing; it is found once for each VAE.
"""

# B pictures, C channels, H W latent height and width, F frames

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..parallel.recent import Recent
from .families.row import has_alpha, has_frames, latent_width

if TYPE_CHECKING:
    from .values import Model

logger = logging.getLogger("latentloom")

MAX_PICTURES = 4  # how many pictures of a batch are shown, side by side
MAX_MATRICES = 32
CHART_LATENTS = 16
# Mean and deviation of the pixels that a VAE takes, where they are not -1..1.
IMAGENET = {"AutoencoderKLMiniMaxH3": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
# By a model's fingerprint, each in a tuple: None in it where there is none. Two threads may fit the same one.
_MATRICES = Recent[tuple[Tensor | None]](MAX_MATRICES)


def picture(latents: Tensor, matrix: Tensor | None) -> Tensor:
    """Latents B C H W or B C F H W (the middle frame is shown) as uint8 H W 3, one pixel a latent, on the CPU.

    Without a matrix for so many channels the first three stand for red, green and blue: shapes, but not the colours.
    """
    flat = latents[:MAX_PICTURES].float()
    if flat.ndim == 5:
        flat = flat[:, :, flat.shape[2] // 2]  # B C H W
    strip = torch.cat(list(flat), dim=-1).movedim(0, -1)  # H B*W C
    if matrix is None or len(matrix) != strip.shape[-1] + 1:
        colours = 0.5 + F.pad(strip[..., :3], (0, max(0, 3 - strip.shape[-1]))) / 4
    else:
        weights = matrix.to(strip.device)
        colours = strip @ weights[:-1] + weights[-1]  # H B*W 3
    return (colours.nan_to_num(0.5).clamp(0, 1) * 255).round().to("cpu", torch.uint8)


def matrix(model: Model) -> Tensor | None:
    """This model's matrix, C+1 3; the first call loads its VAE (without dropping the transformer) to encode the charts.

    None where that does not work, which is logged once: a preview never stops a run.
    """
    from .components.store import store
    from .families import FAMILIES

    if (known := _MATRICES.get(model.fingerprint)) is not None:
        return known[0]
    found = None
    try:
        in_use = FAMILIES[model.family].components["denoise"]
        found = fit(store().load(model, ("vae",), keep=in_use)["vae"])
    except Exception as error:  # of classes that were never seen here: whatever they raise, a run goes on
        reason = " ".join(str(error).split())
        logger.warning("previews of %s show no true colours: %s", model.source, reason)
    _MATRICES.put(model.fingerprint, (found,), {model.fingerprint: 1})  # counted, not weighed
    return found


def fit(vae: Any) -> Tensor:
    """The matrix (C weights and an offset, for red, green and blue) that comes nearest to this VAE's encoder."""
    factor = latent_width(vae.config)
    rows, colours = [], []
    for chart in colour_charts(CHART_LATENTS * factor):  # 3 H W
        with torch.no_grad():
            latents = _encode(vae, chart).float().cpu()  # C H W
        rows.append(latents.flatten(1).T)  # H*W C
        colours.append(F.avg_pool2d(chart, factor).flatten(1).T)  # H*W 3
    known = torch.cat(rows)
    known = torch.cat([known, torch.ones(len(known), 1)], dim=1)
    return torch.linalg.lstsq(known.double(), torch.cat(colours).double(), driver="gelsd").solution.float()  # C+1 3


def colour_charts(size: int) -> list[Tensor]:
    """Charts 3 H W in 0..1, of 3 x 3 patches on white and on grey: all mixtures of 4 levels of red, green and blue."""
    # Few patches and much ground, as in a picture: a VAE normalises over the whole of what it encodes, and a chart full
    # of colours gave a small one colours 0.2 off on white.
    levels = torch.linspace(0.0, 1.0, 4)
    colours = torch.cartesian_prod(levels, levels, levels)  # 64 3
    mixed = colours[torch.arange(9 * 8) * 37 % 64]  # neighbours far apart; 8 charts, the last repeats some
    charts = []
    for ground in (1.0, 0.5):
        for patches in mixed.split(9):
            cells = torch.full((3, 7, 7), ground)
            cells[:, 1::2, 1::2] = patches.T.reshape(3, 3, 3)
            charts.append(F.interpolate(cells[None], size=(size, size), mode="nearest")[0])
    return charts


def _encode(vae: Any, chart: Tensor) -> Tensor:
    """Normalised latents C H W of a picture, as diffusers' blocks of each VAE do it."""
    config = vae.config
    pixels = 2 * chart[None] - 1  # 1 3 H W
    if type(vae).__name__ in IMAGENET:
        mean, deviation = (torch.tensor(each).view(1, 3, 1, 1) for each in IMAGENET[type(vae).__name__])
        pixels = (chart[None] - mean) / deviation
    pixels = pixels.to(vae.device, vae.dtype)
    if has_alpha(config):
        pixels = F.pad(pixels, (0, 0, 0, 0, 0, 1), value=1.0)  # opaque
    if has_frames(config):
        pixels = pixels.unsqueeze(2)  # a video of one frame
    latents = vae.encode(pixels).latent_dist.mode()
    if hasattr(vae, "bn"):  # FLUX.2: a mean and a deviation of each place in patches
        patches = F.pixel_unshuffle(latents, config.patch_size[0])  # 1 C*P*P H/P W/P
        mean, variance = (each.view(1, -1, 1, 1) for each in (vae.bn.running_mean, vae.bn.running_var))
        return F.pixel_shuffle((patches - mean) / (variance + config.batch_norm_eps) ** 0.5, config.patch_size[0])[0]
    latents = latents[0, :, 0] if latents.ndim == 5 else latents[0]  # C H W
    found = config if config.get("latents_mean") is not None else vars(vae).get("_buffers", {})
    if found.get("latents_mean") is None:  # one shift and one scale for all channels
        shift = config.get("shift_factor") or 0.0
        return (latents - shift) * config.scaling_factor
    mean, deviation = (
        torch.as_tensor(found[name]).to(latents).view(-1, 1, 1) for name in ("latents_mean", "latents_std")
    )
    return (latents - mean) / deviation
