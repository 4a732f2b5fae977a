"""Small inputs: arguments of the kinds that a call has, at a size of a few odd rows and columns, to try a plan with."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .plan_parts import LATENTS, latents_in

if TYPE_CHECKING:
    from torch import Tensor, nn

TEXT, BATCH, SEQUENCE = 7, 2, 307  # at most; the last of sound, and of a shape
SOUND_WIDTH = 16  # of sound beside a video, B C T F, at most: LTX-2 needs so many
LEAST = {"PixArtMS": 24}  # rows of latents without which a class fails


def small_of(model: nn.Module, given: Mapping[str, Any], num_ranks: int) -> dict[str, Any]:
    """Arguments of the same kinds, at a size of few odd rows and columns of tokens, which no number of ranks divides;
    pictures, text and residuals are noise, of numbers and masks the first and the last."""
    latents = latents_in(given)
    latents = latents[0] if isinstance(latents, list | tuple) else latents
    return {name: _Small(model, latents, given, num_ranks).of(name, value) for name, value in given.items()}


class _Small:
    """Makes what belongs to a picture that small, or to a text that short."""

    def __init__(self, model: nn.Module, latents: Tensor, given: Mapping[str, Any], num_ranks: int) -> None:
        names = ("patch_size", "patch", "patch_spatial")
        patch: Any = next((getattr(model, name) for name in names if hasattr(model, name)), 1)
        self._patch = (patch, patch) if isinstance(patch, int) else tuple(patch[-2:])
        count = max(2, num_ranks, LEAST.get(type(model).__name__, 0) // self._patch[-1])
        self._odd = self._sizes(count | 1, 2 * count + 1)
        self._odder = self._sizes(count + 1, count | 1)  # of references
        self._num_frames = 3 if count % 3 else 2  # no rank ends where a frame does
        self._batch, self._canvas = int(latents.shape[0]), (int(latents.shape[-2]), int(latents.shape[-1]))
        self._frames = int(latents.shape[2]) if latents.ndim > 4 else 0
        self._length = int(latents.shape[-1]) if latents.ndim == 3 else 0  # of sound, or of a shape
        keyframes = given.get("keyframe_idxs")  # of guides, which are the last frames of a video
        self._guides = 0 if keyframes is None else keyframes.shape[2] // (self._canvas[0] * self._canvas[1])
        self._fewer_guides = min(self._guides, len(given.get("guide_attention_entries") or "1"))  # a frame of each
        x = latents_in(given)
        self._sound = int(x[1].shape[2]) if isinstance(x, list | tuple) and len(x) > 1 else 0
        self._numbered = 0 if (ids := given.get("position_ids")) is None else ids.shape[-1]  # all tokens, one by one
        context = given.get("context")
        self._text = context.shape[1] if context is not None and context.ndim > 2 else 0

    def _sizes(self, rows: int, columns: int) -> tuple[int, int]:
        return rows * self._patch[0], columns * self._patch[-1]

    def _num_tokens(self, *, is_small: bool, patch: tuple[int, ...]) -> int:
        (height, width), frames = self._canvas, self._frames
        if is_small:
            height, width = self._small_canvas()
            frames = min(self._num_frames, frames - self._guides) + self._fewer_guides
        return -(-height // patch[0]) * -(-width // patch[-1]) * max(1, frames)

    def _small_canvas(self) -> tuple[int, int]:
        return min(self._odd[0], self._canvas[0]), min(self._odd[1], self._canvas[1])

    def of(self, name: str, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(name, value)
        if isinstance(value, dict):
            found = copy.copy(value)  # of a class of its own, perhaps
            found.update({key: self.of(str(key), each) for key, each in value.items()})
            return found
        if name == "latent_shape":  # of a guide
            return [1, *self._small_canvas()]
        if isinstance(value, list | tuple):
            return type(value)(self.of(name, each) for each in value)
        if name in ("pre_filter_count", "tokens_per_frame"):  # of a guide, and of frames between those of a video
            return math.prod(self._small_canvas())
        if name == "first_latent_frame":
            return min(value, self._num_frames)
        if "tokens" in name and value == self._text:
            return min(TEXT, self._text)
        return value

    def _tensor(self, name: str, x: Tensor) -> Tensor:
        import torch

        is_mask = "mask" in name or not x.is_floating_point()
        x = self._cut(name, x, is_mask)
        if x.ndim < 3 or is_mask:
            return x.clone().float() if x.is_floating_point() else x.clone()
        draw = torch.Generator().manual_seed(sum(x.shape))
        return torch.randn(x.shape, generator=draw).to(x.device)

    def _cut(self, name: str, x: Tensor, is_mask: bool) -> Tensor:
        import torch

        if x.ndim and x.shape[0] == self._batch:
            x = x[:BATCH]
        if x.ndim > 1 and x.shape[-1] == self._numbered:
            fewer = (self._num_tokens(is_small=each, patch=self._patch) for each in (True, False))
            return x[..., : self._numbered + next(fewer) - next(fewer)]
        if x.ndim > 3 and "encoder" in name:  # a text in each layer of its encoder, B L T C
            return x[:, :, :TEXT]
        if name == "keyframe_idxs":
            return x[:, :, : self._fewer_guides * math.prod(self._small_canvas())]
        if x.ndim == 4 and self._frames and name in LATENTS:
            return x[:, :, :TEXT, :SOUND_WIDTH]
        if x.ndim > 3:
            sizes = self._odd if tuple(x.shape[-2:]) == self._canvas else self._odder
            x = x[..., : sizes[0], : sizes[1]]
            if x.ndim > 4 and self._guides and x.shape[2] == self._frames:
                return torch.cat(
                    [x[:, :, : -self._guides][:, :, : self._num_frames], x[:, :, -self._fewer_guides :]], 2
                )
            return x[:, :, : self._num_frames] if x.ndim > 4 else x
        if x.ndim == 3 and name != "context" and "ref" not in name:
            if x.shape[-1] == self._length:
                return x[..., : SEQUENCE * self._patch[-1]]
            if "timestep" in name and x.shape[1] == self._sound:
                return _ends(x, TEXT)
            for patch in (self._patch, (1, 1)):  # latents may be tokens already
                if x.shape[1] == self._num_tokens(is_small=False, patch=patch):
                    return _ends(x, self._num_tokens(is_small=True, patch=patch))
        if x.ndim > 1 and x.shape[1] == self._text and (x.ndim == 3 or is_mask):
            return _ends(x, TEXT)
        if x.ndim == 2 and self._frames > 1 and x.shape[1] == self._frames:
            return x[:, : self._num_frames]
        return x


def _ends(x: Tensor, count: int) -> Tensor:
    """The first rows and the last two: a mask may hide these alone."""
    import torch

    return x if x.shape[1] <= count else torch.cat([x[:, : count - 2], x[:, -2:]], 1)
