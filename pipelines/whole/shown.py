"""What goes into a pipeline and what comes out of it, as values of wires: pictures, clips and sounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..families.row import sound_rate
from ..values import Audio, Image, Mask, Video, as_bytes

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# B batch, F frames, H height, W width, C channels, S samples


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


# ---- Sounds: the rate and the channels that it works with

SOUNDS = ("audio", "audios", "sound")  # what output classes call a sound
RATE = "sampling_rate"  # stands beside a sound in what a pipeline gives
WITHOUT_BATCH = ("src_audio", "reference_audio")  # parameters that take C S; the others take 1 C S
# Parameters beside which another wants to be told the rate.
WITH_RATE = {"initial_audio_waveforms": "initial_audio_sampling_rate"}


def rate_of(pipe: Any) -> int:
    """Samples a second of the sounds that it takes and gives. Raises `ValueError` where no part says so."""
    return sound_rate(lambda part: getattr(getattr(pipe, part, None), "config", {}), title=type(pipe).__name__)


def with_rate(pipe: Any, made: dict[str, Any]) -> dict[str, Any]:
    """What the pipeline gave, and beside a sound its rate."""
    has_sound = any(made.get(name) is not None for name in SOUNDS)
    return {RATE: rate_of(pipe), **made} if has_sound and RATE not in made else made


def heard(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call with each `Audio` among them as this pipeline takes it: a tensor at its rate, with its
    channels, where its VAE is. Raises `ValueError` by the argument's name."""
    found = dict(arguments)
    for name, sound in arguments.items():
        if isinstance(sound, Audio):
            waveform = _fitting(pipe, name, sound)
            found[name] = waveform[0] if name in WITHOUT_BATCH else waveform
            if name in WITH_RATE:
                found[WITH_RATE[name]] = rate_of(pipe)
    return found


def _fitting(pipe: Any, name: str, sound: Audio) -> Tensor:
    count, num_channels, _ = sound.waveform.shape
    wanted = pipe.vae.config.get("audio_channels", num_channels)
    if count != 1:
        raise ValueError(f"{name} holds {count} sounds; a pipeline takes one: give one")
    if num_channels not in (1, wanted):
        raise ValueError(
            f"{name} has {num_channels} channels; {type(pipe).__name__} takes 1 or {wanted}: give such a sound"
        )
    waveform = resampled(sound, rate_of(pipe)).expand(-1, wanted, -1)
    return waveform.to(device=pipe.vae.device, dtype=pipe.vae.dtype)


def resampled(sound: Audio, rate: int) -> Tensor:
    """The waveform at another rate, as long as it was to the nearest sample."""
    if sound.rate == rate:
        return sound.waveform
    length = max(1, round(sound.waveform.shape[-1] * rate / sound.rate))
    channels = [_resampled(channel, sound.rate, rate)[:length] for channel in sound.waveform.flatten(0, 1)]
    same = [torch.nn.functional.pad(channel, (0, length - len(channel))) for channel in channels]
    return torch.stack(same).view(*sound.waveform.shape[:2], length)


def _resampled(channel: Tensor, rate: int, wanted: int) -> Tensor:
    """S, by FFmpeg."""
    from av import AudioFrame, AudioResampler

    frame = AudioFrame.from_ndarray(channel.float().contiguous().numpy()[None], format="fltp", layout="mono")
    frame.sample_rate = rate
    resampler = AudioResampler(format="fltp", layout="mono", rate=wanted)
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    return torch.cat([torch.from_numpy(each.to_ndarray()[0]) for each in frames])
