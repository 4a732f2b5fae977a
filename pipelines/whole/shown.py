"""What goes into a pipeline and what comes out of it, as values of wires: pictures, clips and sounds."""

# B batch, F frames, H height, W width, C channels, S samples

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..values import Audio, Image, Mask, Video, as_bytes

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


def pictures_of(image: Image | Mask) -> list[Picture]:
    """As diffusers' processors take them; masks in one grey channel."""
    return [_picture(pixels) for pixels in image.pixels]


def frames_of(video: Video) -> list[Picture]:
    """Raises `ValueError` for several clips."""
    if len(video.pixels) != 1:
        raise ValueError(f"there are {len(video.pixels)} clips; a pipeline takes one: give one")
    return [_picture(pixels) for pixels in video.pixels[0]]


def _picture(pixels: Tensor) -> Picture:
    from PIL import Image as Pillow

    if not pixels.isfinite().all():
        raise ValueError("a picture has values that are no numbers (NaN or infinity); give another")
    return Pillow.fromarray(as_bytes(pixels).cpu().numpy())


def image_of(found: Any) -> Image:
    """Pictures in whatever form a pipeline gives them: arrays, tensors, Pillow's, lists of these, lists of layers."""
    return Image(pixels=_stacked(_each(found)))


def video_of(found: Any, fps: float) -> Video:
    """Clips likewise; without a dimension for several it is one clip."""
    clips = [found] if _num_dims(found) == 4 else found
    return Video(pixels=torch.stack([_stacked(_each(clip)) for clip in clips]), fps=fps)


def audio_of(found: Any, rate: int, *, is_one: bool = False) -> Audio:
    """Sounds as arrays or tensors: B C S, of one channel B S, or, where it `is_one`, C S."""
    waveform = torch.as_tensor(found).detach().float().cpu()
    if waveform.ndim == 2:
        waveform = waveform.unsqueeze(0 if is_one else 1)
    return Audio(waveform=waveform, rate=rate)


def _each(found: Any) -> Iterator[Tensor]:
    """Every picture, H W C in 0..1."""
    if isinstance(found, list | tuple) or _num_dims(found) > 3:
        for part in found:
            yield from _each(part)
        return
    is_channels_first = isinstance(found, Tensor)
    pixels = found if isinstance(found, Tensor) else torch.from_numpy(np.array(found))
    if not pixels.is_floating_point():
        pixels = pixels.float() / 255
    pixels = pixels.unsqueeze(0 if is_channels_first else -1) if pixels.ndim == 2 else pixels
    pixels = pixels.movedim(0, -1) if is_channels_first else pixels
    yield pixels.detach().float().cpu().expand(-1, -1, max(3, pixels.shape[-1]))


def _num_dims(found: Any) -> int:
    if isinstance(found, list | tuple):
        return 1 + (_num_dims(found[0]) if found else 0)
    return found.ndim if isinstance(found, Tensor | np.ndarray) else 3


def _stacked(pictures: Iterator[Tensor]) -> Tensor:
    each = list(pictures)
    if len(sizes := {tuple(picture.shape) for picture in each}) != 1:
        named = ", ".join(f"{width} x {height}" for height, width, _ in sorted(sizes)) or "none"
        raise ValueError(f"the pipeline gave pictures of several sizes ({named}); ask for one at a time")
    return torch.stack(each)
