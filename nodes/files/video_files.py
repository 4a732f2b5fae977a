"""Videos as files: H.264 and AAC in MP4 through PyAV, with the workflow in the container's metadata."""

# F frames, H height, W width

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from ...pipelines.values import Audio
from .atomic import replacing
from .audio_files import Track, track_rate
from .containers import opened_container
from .picture_files import check_numbers

if TYPE_CHECKING:
    from av.container import InputContainer
    from torch import Tensor


def write_video(
    pixels: Tensor,
    target: Path,
    *,
    fps: float,
    quality: int,
    metadata: Mapping[str, str],
    audio: Audio | None = None,
) -> None:
    """MP4 of one clip F H W 3 in 0..1. `quality` is x264's constant rate factor: 0 is lossless, 51 the worst.

    Width and height must be even (a limit of the pixel format); the bytes are the same for the same frames. Of `audio`,
    one sound 1 C S, what is longer than the clip is cut off, and what is shorter followed by silence.
    """
    import av

    num_frames, height, width, _ = pixels.shape
    if width % 2 or height % 2:
        raise ValueError(f"the video is {width} x {height}; H.264 needs even numbers, so resize it first")
    check_numbers(pixels, what=target.name)
    if audio is not None:
        check_numbers(audio.waveform, what=target.name)
    rate = Fraction(fps).limit_denominator(1001)
    if rate <= 0:
        raise ValueError(f"the video would show {fps:g} frames a second; give fps of 0.001 or more")
    frames = (pixels.clamp(0, 1) * 255).round().byte().cpu().numpy()
    options = {"movflags": "use_metadata_tags+faststart"}
    if audio is not None:  # in milliseconds, as without it, the sound would end some samples too early
        options["movie_timescale"] = str(track_rate(audio.rate))
    with replacing(target) as temporary, av.open(str(temporary), "w", format="mp4", options=options) as container:
        container.metadata.update(metadata)
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(quality), "threads": "1"}
        stream.codec_context.thread_count = 1  # the bytes must not depend on the number of cores
        track = Track(container, audio) if audio else None
        for index in range(num_frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frames[index], format="rgb24")))
            if track:
                container.mux(track.until((index + 1) / rate))
        container.mux(stream.encode())
        if track:
            container.mux(track.rest())


def read_video_metadata(path: Path) -> dict[str, str]:
    """The container's tags. Raises `ValueError` for what is no video."""
    with opened_video(path) as container:
        return dict(container.metadata)


def opened_video(path: Path) -> AbstractContextManager[InputContainer]:
    """A video file, for a `with`. Raises `ValueError` for what is no video, also while it is read."""
    return opened_container(path, what="video")
