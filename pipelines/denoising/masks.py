"""The masks of a denoise: what lies outside a picture's is kept, and a text's that hides nothing is left out.

After every step what lies outside is replaced by the original, noised to the level that the next step begins with, and
after the last step by the original itself: as diffusers' FluxInpaintPipeline, StableDiffusion3InpaintPipeline and
QwenImageInpaintPipeline do, after Blended Latent Diffusion (Avrahami et al., arXiv:2206.02779). They round the mask to
0 and 1; here a number between mixes the two, so that an edge can be soft.
"""

# B pictures, S tokens, C channels, H W latent height and width

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline_utils import InputParam
from torch.nn.functional import interpolate

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..values import Mask


TEXT_MASKS = ("prompt_embeds_mask", "negative_prompt_embeds_mask")


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


def latent_mask(mask: Mask, shape: tuple[int, int, int], *, patch: int) -> Tensor:
    """B C H W of pictures of `shape` C H W, or B S C*patch*patch where the loop has a token for each square of latents.

    Of the pixels that a latent stands for the first counts, as in diffusers.
    """
    channels, rows, columns = shape
    grid = interpolate(mask.pixels[:, None], size=(rows, columns)).expand(-1, channels, -1, -1)  # B C H W
    if patch == 1:
        return grid
    squares = grid.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # B C H/p p W/p p
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


@contextlib.contextmanager
def unmasked(transformer: nn.Module, argument: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Within, the transformer is asked without `argument`, the mask of its text, if none of the texts given hides
    anything.

    By this thread only: another may share the transformer meanwhile, and have a text that is hidden in part.
    """
    # With any mask, one that hides nothing too, torch attends by a slower kernel. Decided once for a denoise, from the
    # texts alone: on one device as on several, and on all ranks alike.
    masks = [given[name] for name in TEXT_MASKS if given.get(name) is not None]
    if not argument or not all(bool(mask.bool().all()) for mask in masks):
        yield
        return

    own = threading.get_ident()

    def leave_out(
        _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, argument: None} if threading.get_ident() == own else kwargs

    hook = transformer.register_forward_pre_hook(leave_out, with_kwargs=True, prepend=True)
    try:
        yield
    finally:
        hook.remove()
