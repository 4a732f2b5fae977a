"""Small inputs: arguments of the kinds that a call has, at a size of a few odd rows and columns, to try a plan with."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .splits.parts import FRAMES, LATENTS, latents_of, patch_of

TEXT, BATCH, SEQUENCE = 7, 2, 307  # at most; the last of sound, and of a shape
SOUND_WIDTH = 16  # of sound beside a video, B C T F, at most: LTX-2 needs so many
LEAST = {"PixArtMS": 24, "WanModel_S2V": 8, "StageB": 16}  # rows of latents without which a class fails
# What sound tells these classes of a frame they tell of eight parts of it, one as long as another.
IN_EIGHTHS = ("WanDancerModel",)
OF_CONTROL = ("input", "middle", "output")  # residuals of a UNet: as large as latents, or halved some times
AS_LARGE = ("face_pixel_values",)  # pictures that a class takes in one size only


def small_of(model: nn.Module, given: Mapping[str, Any], num_ranks: int, *, rows: int = 1) -> dict[str, Any]:
    """Arguments of the same kinds, at a size of few odd rows and columns of tokens, which no number of ranks divides,
    and of so many conditionings as groups share out; pictures, text and residuals are noise, of numbers and masks the
    first and the last."""
    small = _Small(model, given, num_ranks, most=max(BATCH, rows))
    return {name: small.of(name, value) for name, value in given.items()}


class _Small:
    """Makes what belongs to a picture that small, or to a text that short."""

    def __init__(self, model: nn.Module, given: Mapping[str, Any], num_ranks: int, *, most: int) -> None:
        latents, *others = latents_of(given)
        self._most = most * min(BATCH, given.get(FRAMES, 1))  # of its batch
        self._patch = patch_of(model)
        count = max(2, num_ranks, LEAST.get(type(model).__name__, 0) // self._patch[-1])
        columns = 8 * (count // 4 + 1) if type(model).__name__ in IN_EIGHTHS else 2 * count + 1
        self._odd = (count | 1) * self._patch[0], columns * self._patch[-1]
        self._odder = (count + 1) * self._patch[0], (count | 1) * self._patch[-1]  # of references
        self._num_frames = 3 if count % 3 else 2  # no rank ends where a frame does
        self._batch, self._canvas = int(latents.shape[0]), (int(latents.shape[-2]), int(latents.shape[-1]))
        self._frames = int(latents.shape[2]) if latents.ndim > 4 else 0
        self._length = int(latents.shape[-1]) if latents.ndim == 3 else 0  # of sound, or of a shape
        keyframes = given.get("keyframe_idxs")  # of guides, which are the last frames of a video
        self._guides = 0 if keyframes is None else keyframes.shape[2] // (self._canvas[0] * self._canvas[1])
        self._fewer_guides = min(self._guides, len(given.get("guide_attention_entries") or "1"))  # a frame of each
        self._sound = int(others[0].shape[2]) if others else 0
        self._numbered = 0 if (ids := given.get("position_ids")) is None else ids.shape[-1]  # all tokens, one by one
        context = given.get("context")
        self._text = context.shape[1] if context is not None and context.ndim > 2 else 0

    def _num_tokens(self, *, is_small: bool, patch: tuple[int, ...]) -> int:
        (height, width), frames = self._canvas, self._frames
        if is_small:
            height, width = self._small_canvas()
            frames = min(self._num_frames, frames - self._guides) + self._fewer_guides
        return -(-height // patch[0]) * -(-width // patch[-1]) * max(1, frames)

    def _small_canvas(self) -> tuple[int, int]:
        return min(self._odd[0], self._canvas[0]), min(self._odd[1], self._canvas[1])

    def of(self, name: str, value: Any) -> Any:
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
        if name in ("first_latent_frame", FRAMES):
            return min(value, BATCH if name == FRAMES else self._num_frames)
        if "tokens" in name and value == self._text:
            return min(TEXT, self._text)
        return value

    def _tensor(self, name: str, x: Tensor) -> Tensor:
        is_mask = "mask" in name or not x.is_floating_point()
        x = self._cut(name, x, is_mask)
        if x.ndim < 3 or is_mask:
            return x.clone().float() if x.is_floating_point() else x.clone()
        draw = torch.Generator().manual_seed(sum(x.shape))
        return torch.randn(x.shape, generator=draw).to(x.device)

    def _cut(self, name: str, x: Tensor, is_mask: bool) -> Tensor:
        if x.ndim and x.shape[0] == self._batch:
            x = x[: self._most]
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
            return self._picture(name, x)
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

    def _picture(self, name: str, x: Tensor) -> Tensor:
        """Some frames, rows and columns. What is as large as the latents, or so many times as large, stays so; where
        there are some frames more or fewer than of latents, there are as many more or fewer of these."""
        dim, few = (1 if "audio" in name else x.ndim - 3), min(self._num_frames, self._frames or self._num_frames)
        if x.ndim > 4 and self._guides and x.shape[2] == self._frames:
            x = torch.cat([x[:, :, : -self._guides][:, :, : self._num_frames], x[:, :, -self._fewer_guides :]], 2)
        elif x.ndim > 4:
            more = x.shape[dim] - self._frames
            x = x.narrow(dim, 0, min(x.shape[dim], few + more if -few < more <= self._frames else few))
        if "audio" in name or name in AS_LARGE:
            return x
        if name in OF_CONTROL:
            by = max(1, 2 ** math.ceil(math.log2(self._canvas[1] / x.shape[-1])))
            return x[..., : -(-self._odd[0] // by), : -(-self._odd[1] // by)]
        times = x.shape[-1] // self._canvas[1]
        is_alike = tuple(x.shape[-2:]) == tuple(times * size for size in self._canvas)
        rows, columns = (times * size for size in self._odd) if is_alike else self._odder
        return x[..., :rows, :columns]


def _ends(x: Tensor, count: int) -> Tensor:
    """The first rows and the last two: a mask may hide these alone."""
    return x if x.shape[1] <= count else torch.cat([x[:, : count - 2], x[:, -2:]], 1)
