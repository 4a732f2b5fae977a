"""Videos as files: H.264 and AAC in MP4 through PyAV, with the workflow in the container's metadata."""

# F frames, H height, W width

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.values import Audio, as_bytes
from .atomic import replacing
from .audio_files import AAC_BITS, Track, track_rate
from .containers import num_bytes_of, opened_container
from .picture_files import AROUND_BYTES, check_numbers

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from torch import Tensor

MAX_FPS = 1000
MAX_BYTES = 16 << 30  # the longest file that is read
# Of a pixel at rate factor 0, and half as many at each 8 above: a bit more than strong film grain takes at 16 frames a
# second (2.3 of 2.5 at 18, where a smooth clip takes 0.2). Only frames of mere noise take more (5.3).
PIXEL_BITS, HALVED_AT = 12.0, 8


def write_video(
    pixels: Tensor, target: Path, *, fps: float, quality: int, metadata: Mapping[str, str], audio: Audio | None = None
) -> None:
    """MP4 of one clip F H W 3 in 0..1, or of bytes. `quality` is x264's constant rate factor: 0 is lossless, 51 worst.

    Width and height must be even (a limit of the pixel format); the bytes are the same for the same frames. Of `audio`,
    one sound 1 C S, what is longer than the clip is cut off, and what is shorter followed by silence.
    """
    import av

    num_frames, height, width, _ = pixels.shape
    if width % 2 or height % 2:
        raise BadInput("the video is {} x {}; H.264 needs even numbers, so resize it first", width, height)
    check_numbers(pixels, what=target.name)
    if audio is not None:
        check_numbers(audio.waveform, what=target.name)
    rate = Fraction(fps).limit_denominator(1001)
    if rate <= 0:
        raise BadInput("the video would show {:g} frames a second; give fps of 0.001 or more", fps)
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
            frame = as_bytes(pixels[index]).cpu().numpy()
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            if track:
                container.mux(track.until((index + 1) / rate))
        container.mux(stream.encode())
        if track:
            container.mux(track.rest())


def video_bytes(width: int, height: int, frames: int, *, quality: int, sound_s: float) -> int:
    """How large a clip can get by x264's rate factor, with its sound in stereo, for the room on a disk."""
    bits = PIXEL_BITS * 2 ** (-quality / HALVED_AT)
    return round(width * height * frames * bits / 8 + sound_s * (AAC_BITS * 2 // 8)) + AROUND_BYTES


def check_video_size(path: Path) -> None:
    """Refuse a file that is longer than any video, before all of it is read. Raises `ValueError`."""
    num_bytes = num_bytes_of(path, "video")
    if num_bytes > MAX_BYTES:
        raise BadInput("{} has {:,} bytes, and at most {:,} are read; cut it shorter", path, num_bytes, MAX_BYTES)


def check_video(path: Path) -> None:
    """Refuse what is no video, or too long a file. Raises `ValueError`."""
    check_video_size(path)
    with opened_container(path, what="video") as container:
        picture_stream(container, path)


def read_video_metadata(path: Path) -> dict[str, str]:
    """The container's tags. Raises `ValueError` for what is no video."""
    with opened_container(path, what="video") as container:
        return dict(container.metadata)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Which frames of a video are taken: `start`, below 0 counted from its end, `start + every` and on, `frames` of
    them, or all for 0."""

    start: int = 0
    frames: int = 0
    every: int = 1


def read_video(
    path: Path, cut: Cut, *, max_pixels: int, remedy: str, check: Callable[[], None]
) -> tuple[Tensor, float]:
    """(F H W 3 floats in 0..1, frames a second) of a video, upright. Raises `ValueError` for what is not sound.

    `max_pixels` is of all frames together, and `remedy` what the sentence says of more. `check` is called at each
    frame, also at those that are passed over.
    """
    import numpy as np
    import torch

    taken: list[np.ndarray] = []
    with opened_container(path, what="video") as container:
        stream = picture_stream(container, path)
        fps = float(stream.average_rate or stream.guessed_rate or 0)
        if not 0 < fps <= MAX_FPS:
            raise BadInput("{} says that it has {:g} frames a second; save it again with a frame rate", path, fps)
        most = max_pixels // max(1, stream.width * stream.height)
        if max(1, cut.frames, -cut.start) > most:  # before the first is decoded
            raise ValueError(_too_many(path, stream, most=most, max_pixels=max_pixels, remedy=remedy))

        def decoded() -> Iterator[VideoFrame]:
            for frame in container.decode(stream):
                check()
                yield frame

        found = decoded() if cut.start >= 0 else iter(deque(decoded(), maxlen=-cut.start))
        start = max(0, cut.start)
        end = start + (cut.frames - 1) * cut.every + 1 if cut.frames else None
        for frame in itertools.islice(found, start, end, cut.every):
            if (frame.width, frame.height) != (stream.width, stream.height):
                raise BadInput("{} has frames of several sizes; save it again at one size", path)
            if len(taken) == most:
                raise ValueError(_too_many(path, stream, most=most, max_pixels=max_pixels, remedy=remedy))
            upright = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90))
            taken.append(np.ascontiguousarray(upright))
    if len(taken) < max(1, cut.frames):
        raise BadInput(
            "{} has {} frames from frame {} on, taking one of {}, but {} are asked for; ask for "
            "fewer, or begin earlier",
            path,
            len(taken),
            cut.start,
            cut.every,
            cut.frames or "more",
        )
    pixels = torch.empty(len(taken), *taken[0].shape)
    for index, frame in enumerate(taken):
        pixels[index] = torch.from_numpy(frame)
    return pixels.div_(255), fps / cut.every


def _too_many(path: Path, stream: VideoStream, *, most: int, max_pixels: int, remedy: str) -> str:
    return worded(
        "{} has {} x {} pixels a frame, and at most {:,} are taken, which are {} frames; {}",
        path,
        stream.width,
        stream.height,
        max_pixels,
        most,
        remedy,
    )


def picture_stream(container: InputContainer, path: Path) -> VideoStream:
    """The first stream of pictures. Raises `ValueError` where nothing can read it."""
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise BadInput("{} is not a video that can be read (its coding is unknown); use an MP4 file", path)
    return stream
