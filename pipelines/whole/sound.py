"""Sounds that go into a pipeline and come out of it: the rate and the channels that it works with."""

# B batch, C channels, S samples

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..families.row import sound_rate
from ..values import Audio

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
