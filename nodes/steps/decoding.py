"""Decode, Decode Video and Video Frames: from latents to what can be seen."""

from __future__ import annotations

from ...parallel.progress import SILENT, Progress
from ...pipelines.values import Image, Latents, Model, Video, from_plain, to_plain
from .arguments import checked


@checked
def decode(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Image:
    """Pictures of denoised latents."""
    result = _decode(model, latents, progress)
    if "image" not in result:
        raise ValueError(f"{model.source} makes videos; use Decode Video instead of Decode")
    return from_plain(Image, result["image"])


@checked
def decode_video(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Video:
    """Clips of denoised latents."""
    result = _decode(model, latents, progress)
    if "video" not in result:
        raise ValueError(f"{model.source} makes pictures; use Decode instead of Decode Video")
    return from_plain(Video, result["video"])


@checked
def video_frames(video: Video) -> Image:
    """Every frame of every clip, as a batch of pictures."""
    return Image(pixels=video.pixels.flatten(0, 1))  # B*F H W C


def _decode(model: Model, latents: Latents, progress: Progress) -> dict[str, dict[str, object]]:
    from ...pipelines import placement

    return placement.decode({"model": to_plain(model), "latents": to_plain(latents)}, progress)
