"""Videos as files: H.264 in MP4 through PyAV, with the workflow in the container's metadata."""

# F frames, H height, W width

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from ...pipelines.models.regular_file import open_regular
from .atomic import replacing
from .picture_files import check_numbers

if TYPE_CHECKING:
    from av.container import InputContainer
    from torch import Tensor

MP4, MATROSKA = "mov", "matroska"
"""What FFmpeg calls the readers of the two containers."""
MATROSKA_ENDINGS = (".webm", ".mkv")


def write_video(pixels: Tensor, target: Path, *, fps: float, quality: int, metadata: Mapping[str, str]) -> None:
    """MP4 of one clip F H W 3 in 0..1. `quality` is x264's constant rate factor: 0 is lossless, 51 the worst.

    Width and height must be even (a limit of the pixel format); the bytes are the same for the same frames.
    """
    import av

    num_frames, height, width, _ = pixels.shape
    if width % 2 or height % 2:
        raise ValueError(f"the video is {width} x {height}; H.264 needs even numbers, so resize it first")
    check_numbers(pixels, what=target.name)
    frames = (pixels.clamp(0, 1) * 255).round().byte().cpu().numpy()
    options = {"movflags": "use_metadata_tags+faststart"}
    with replacing(target) as temporary, av.open(str(temporary), "w", format="mp4", options=options) as container:
        container.metadata.update(metadata)
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(quality), "threads": "1"}
        stream.codec_context.thread_count = 1  # the bytes must not depend on the number of cores
        for index in range(num_frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frames[index], format="rgb24")))
        container.mux(stream.encode())


def read_video_metadata(path: Path) -> dict[str, str]:
    """The container's tags. Raises `ValueError` for what is no video."""
    with opened_video(path) as container:
        return dict(container.metadata)


@contextlib.contextmanager
def opened_video(path: Path) -> Iterator[InputContainer]:
    """A video file, read as what its name says. Raises `ValueError` for what is no video, also while it is read.

    FFmpeg is not asked what it could be: a playlist would make it open, and wait for, whatever files that names.
    """
    import av
    from av.error import FFmpegError

    format = MATROSKA if path.suffix.lower() in MATROSKA_ENDINGS else MP4
    try:
        with open_regular(path) as file, av.open(file, "r", format=format) as container:
            yield container
    except (OSError, FFmpegError, IndexError, StopIteration) as error:
        reason = getattr(error, "strerror", "") or "it holds no picture"
        raise ValueError(f"{path} is not a video that can be read ({reason}); use an MP4 file") from None
