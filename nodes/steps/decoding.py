"""Decode, Decode Video, Decode Audio and Video Frames: from latents to what can be seen and heard."""

import dataclasses
from functools import partial
from typing import Any, Literal

from ...parallel.progress import SILENT, Progress
from ...pipelines import requests, settling
from ...pipelines.shape import why_not_made
from ...pipelines.values import Audio, Depth, Image, Latents, Model, Video
from ..graph.signature import read_spec
from ..graph.sketch import Asked, Given, Made, Unknown
from .arguments import checked


@checked
def decode(model: Model, latents: Latents, *, depth: Depth = "floats", progress: Progress = SILENT) -> Image:
    """Pictures of denoised latents."""
    return _decoded(model, latents, depth, progress, "image")


@checked
def decode_video(model: Model, latents: Latents, *, depth: Depth = "floats", progress: Progress = SILENT) -> Video:
    """Clips of denoised latents."""
    return _decoded(model, latents, depth, progress, "video")


@checked
def decode_audio(model: Model, latents: Latents, *, progress: Progress = SILENT) -> Audio:
    """The sound that a model painted beside its clips, for Save Audio, or for Save Video with them."""
    from ...pipelines import placement

    return placement.decode_audio(requests.DecodeAudio(model=model, latents=latents), progress)


@checked
def video_frames(video: Video) -> Image:
    """Every frame of every clip, as a batch of pictures."""
    return Image(pixels=video.pixels.flatten(0, 1))  # B*F H W C


def _decoded(
    model: Model, latents: Latents, depth: Depth, progress: Progress, output: Literal["image", "video"]
) -> Any:
    from ...pipelines import placement

    if why := why_not_made(model, output):
        raise ValueError(why)
    return placement.decode(requests.Decode(model=model, latents=latents, depth=depth), progress)


def decoded_sketch(given: Given) -> Made:
    """As many pictures, clips or sounds as latents, of their size and length."""
    latents: Latents = given.value("latents")
    size = {"width": latents.width, "height": latents.height, "frames": latents.frames}
    return Made(count=latents.batch, **size, fps=latents.fps)


def decoded_refusals(given: Given, *, output: Literal["image", "video"]) -> dict[str, str]:
    why = why_not_made(given.value("model"), output)
    return {"model": why} if why else settling.refusals(Asked(requests.Decode, given))


def frames_sketch(given: Given) -> Made:
    video: Made = given.value("video")
    if not video.frames:
        raise Unknown("how many frames the video has is known when it is read")
    return dataclasses.replace(video, count=video.count * video.frames, frames=1)


NODES = {
    "LoomDecode": read_spec(
        decode,
        title="Decode",
        category="decode",
        uses_device=True,
        sketch=decoded_sketch,
        refuses=partial(decoded_refusals, output="image"),
    ),
    "LoomDecodeVideo": read_spec(
        decode_video,
        title="Decode Video",
        category="decode",
        uses_device=True,
        sketch=decoded_sketch,
        refuses=partial(decoded_refusals, output="video"),
    ),
    "LoomDecodeAudio": read_spec(
        decode_audio,
        title="Decode Audio",
        category="decode",
        uses_device=True,
        sketch=decoded_sketch,
        refuses=lambda given: settling.refusals(Asked(requests.DecodeAudio, given)),
    ),
    "LoomVideoFrames": read_spec(video_frames, title="Video Frames", category="picture", sketch=frames_sketch),
}
