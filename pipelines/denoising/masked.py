"""Masked denoising: inside the mask a picture is painted anew, outside it is kept.

After every step what lies outside is replaced by the original, noised to the level that the next step begins with, and
after the last step by the original itself: as diffusers' FluxInpaintPipeline, StableDiffusion3InpaintPipeline and
QwenImageInpaintPipeline do, after Blended Latent Diffusion (Avrahami et al., arXiv:2206.02779). They round the mask to
0 and 1; here a number between mixes the two, so that an edge can be soft.
"""

# B pictures, S tokens, C channels, H W latent height and width

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import InputParam
from torch.nn.functional import interpolate

from .blocks import Assembly, assembled, extended

if TYPE_CHECKING:
    from torch import Tensor

    from ..values import Mask


class KeepOutside(ModularPipelineBlocks):
    """The last but one block of a loop, before the step is told of. `painted` has the shape of the loop's latents."""

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam(name, required=True) for name in ("image_latents", "initial_noise", "painted")]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> tuple[Any, Any]:
        original = state.image_latents
        if i < len(state.timesteps) - 1:
            following = state.timesteps[i + 1 : i + 2]
            original = components.scheduler.scale_noise(original, following, state.initial_noise)
        mask = state.painted.to(state.latents)
        state.latents = (1 - mask) * original + mask * state.latents
        return components, state


def masked(
    make: Callable[[], ModularPipelineBlocks], mask: Mask | None, shape: tuple[int, int, int], *, patch: int = 1
) -> tuple[Assembly, dict[str, Tensor]]:
    """The image-to-image blocks that this makes, keeping the picture outside the mask, and their input for it; without
    a mask as they are.

    `shape` is C H W of one picture's latents, `patch` the side of the squares that the loop has as tokens.
    """
    if mask is None:
        return assembled(make), {}
    return _keeping(make), {"painted": latent_mask(mask, shape, patch=patch)}


@functools.cache
def _keeping(make: Callable[[], ModularPipelineBlocks]) -> Assembly:
    return Assembly(extended(make(), keep_outside=KeepOutside()))


def latent_mask(mask: Mask, shape: tuple[int, int, int], *, patch: int) -> Tensor:
    """B C H W, or B S C*patch*patch; of the pixels that a latent stands for the first counts, as in diffusers."""
    channels, rows, columns = shape
    grid = interpolate(mask.pixels[:, None], size=(rows, columns)).expand(-1, channels, -1, -1)  # B C H W
    if patch == 1:
        return grid
    squares = grid.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # B C H/p p W/p p
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
