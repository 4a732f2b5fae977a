"""What diffusers' blocks take and give, made of what our values hold and back: lists, pictures, tokens.

Values hold tensors alone. Of a list `name` the tensors are called `name.0`, `name.1`.
"""

# B pictures, F latent frames, C channels, H W latent height and width, S tokens, P side of a token in latents

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..values import as_bytes
from .row import latent_width

if TYPE_CHECKING:
    from torch import Tensor

    from ..values import Latents


def flat(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors by name, those of a list by name and place, each with a row for its one prompt or picture."""
    from torch import Tensor

    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, list):
            found |= {f"{name}.{place}": each.unsqueeze(0) for place, each in enumerate(value)}
    return found


def listed(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The inverse of `flat`: a list has an entry for each row."""
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).extend(tensor.unbind(0))
        else:
            found[name] = tensor
    return found


def in_lists(references: Mapping[str, Tensor], batch: int) -> dict[str, Any]:
    """References as the blocks made them: in a list for all pictures of a batch, else with a row for each."""
    found: dict[str, Any] = {}
    for name, tensor in references.items():
        whole, _, place = name.partition(".")
        if place:
            found.setdefault(whole, []).append(tensor)
        else:
            found[name] = tensor.repeat_interleave(batch, dim=0)
    return found


def pictures(references: Sequence[Tensor], vae: Mapping[str, Any]) -> list[Any]:
    """As diffusers' blocks take them, over white where the VAE knows no alpha channel."""
    found = []
    for each in references:
        if each.shape[2] == 4 and vae.get("in_channels") != 4:
            colours, alpha = each.split((3, 1), dim=2)
            each = colours * alpha + 1 - alpha
        found.append(picture(as_bytes(each).cpu()))
    return found


def picture(pixels: Tensor) -> Any:
    """Of bytes H W C, as diffusers' blocks take it."""
    from PIL.Image import fromarray

    return fromarray(pixels.cpu().numpy())


def unpacked(tokens: Tensor, latents: Latents, *, vae: Mapping[str, Any], patch: int) -> Tensor:
    """What a loop holds, as B C F H W: of B S C*P*P or B C*P*P H/P W/P each token is P x P latents.

    Tokens without B are those of one video.
    """
    from torch.nn.functional import pixel_shuffle

    if tokens.ndim == 4:
        is_packed = tokens.shape[1] == vae.get("latent_channels", 0) * patch**2
        return pixel_shuffle(tokens, patch) if is_packed else tokens
    if tokens.ndim == 2:
        tokens = tokens.unsqueeze(0)
    if tokens.ndim != 3:
        return tokens
    multiple = patch * latent_width(vae)
    rows, columns = latents.height // multiple, latents.width // multiple
    grid = tokens.unflatten(1, (-1, rows, columns)).unflatten(4, (-1, patch, patch))  # B F H/P W/P C P P
    return grid.permute(0, 4, 1, 2, 5, 3, 6).flatten(5, 6).flatten(3, 4)  # B C F H W
