"""Decode, Decode Video, Decode Audio and Video Frames: from latents to what can be seen and heard."""

from __future__ import annotations

from ...parallel.progress import SILENT, Progress
from ...pipelines import requests
from ...pipelines.values import Audio, Image, Latents, Model, Video
from .arguments import checked


@checked
def decode(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Image:
    """Pictures of denoised latents."""
    shown = _decode(model, latents, progress)
    if not isinstance(shown, Image):
        raise ValueError(f"{model.source} makes videos; use Decode Video instead of Decode")
    return shown


@checked
def decode_video(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Video:
    """Clips of denoised latents."""
    shown = _decode(model, latents, progress)
    if not isinstance(shown, Video):
        raise ValueError(f"{model.source} makes pictures; use Decode instead of Decode Video")
    return shown


@checked
def decode_audio(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Audio:
    """The sound that a model painted beside its clips, for Save Audio, or for Save Video with them."""
    from ...pipelines import placement

    return placement.decode_audio(requests.DecodeAudio(model=model, latents=latents), progress)


@checked
def video_frames(video: Video) -> Image:
    """Every frame of every clip, as a batch of pictures."""
    return Image(pixels=video.pixels.flatten(0, 1))  # B*F H W C


def _decode(model: Model, latents: Latents, progress: Progress) -> Image | Video:
    from ...pipelines import placement

    return placement.decode(requests.Decode(model=model, latents=latents), progress)
