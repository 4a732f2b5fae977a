"""Small pictures for a page: of latents on their way, of picture files, of videos and of sounds; and what a file's
header says.
"""

# H height, W width, C channels, S samples

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .audio_files import audio_facts, read_audio
from .containers import opened_container
from .picture_files import MAX_PIXELS, load, opened, turned
from .video_files import picture_stream

if TYPE_CHECKING:
    from PIL import Image as Pillow

Format = Literal["WEBP", "PNG"]
QUALITY = 80  # the quality of WebP pictures, from 0 to 100
SOUND_COLOR = (124, 140, 214)  # seen on light and on dark


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a picture, video or sound is. Frames a second are 0 for a picture, sides for a sound."""

    width: int = 0
    height: int = 0
    frames: int = 1
    fps: float = 0.0
    rate: int = 0  # samples a second of a sound, or of a video's; 0 is silence
    channels: int = 0
    length_s: float = 0.0  # of a sound


def preview_webp(pixels: bytes, *, size: tuple[int, int], side: int) -> bytes:
    """WebP of uint8 H W 3 of this width and height, at most `side` pixels long."""
    from PIL import Image as Pillow

    return _small(Pillow.frombytes("RGB", size, pixels), side, "WEBP")


def picture_facts(path: Path, *, name: str = "") -> Facts:
    """From the header alone. Raises `ValueError` for what is no picture."""
    with opened(path, name=name, max_pixels=None) as picture:
        return Facts(width=picture.width, height=picture.height)


def checked_picture(path: Path, *, name: str, max_pixels: int = MAX_PIXELS) -> tuple[Facts, str]:
    """The facts of a stranger's picture and its format, once all of it was read. Raises `ValueError`."""
    from PIL import Image as Pillow

    with opened(path, name=name, max_pixels=max_pixels) as picture:
        load(picture, name)
        width, height = picture.size
        lies = turned(picture.resize((2, 1), Pillow.Resampling.NEAREST)).height > 1  # turning copies all pixels
        return Facts(width=height if lies else width, height=width if lies else height), str(picture.format)


def picture_thumbnail(path: Path, *, side: int, name: str = "", format: Format = "WEBP") -> bytes:
    """A small WebP of a picture file, whose size was looked at when it came or was made. Raises `ValueError` for what
    is not sound."""
    with opened(path, name=name, max_pixels=None) as picture:
        picture.draft("RGB", (2 * side, 2 * side))  # a JPEG is read at a fraction of its size
        load(picture, name or str(path))
        return _small(picture, side, format)


def video_facts(path: Path) -> Facts:
    """Raises `ValueError` for what is no video."""
    with opened_container(path, what="video") as container:
        stream = picture_stream(container, path)
        fps = float(stream.average_rate or 0)
        frames = stream.frames or round(float((stream.duration or 0) * (stream.time_base or 0)) * fps)
        rate, channels, _ = audio_facts(container, str(path)) if container.streams.audio else (0, 0, 0.0)
        return Facts(width=stream.width, height=stream.height, frames=frames, fps=fps, rate=rate, channels=channels)


def video_thumbnail(path: Path, *, side: int, frame: int = 0) -> bytes:
    """WebP of one frame, from 0. Raises `ValueError` for what is no video, or has no such frame."""
    with opened_container(path, what="video") as container:
        shown = next(itertools.islice(container.decode(video=0), frame, None), None)
        if shown is None:
            raise ValueError(f"the video has no frame {frame}; choose an earlier one")
        return _small(shown.to_image(), side, "WEBP")


def sound_facts(path: Path) -> Facts:
    """From the header alone. Raises `ValueError` for what is no sound."""
    with opened_container(path, what="sound") as container:
        rate, channels, length_s = audio_facts(container, str(path))
    return Facts(frames=0, rate=rate, channels=channels, length_s=length_s)


def checked_sound(path: Path, *, name: str) -> Facts:
    """The facts of a stranger's sound, once all of it was read. Raises `ValueError`."""
    audio = read_audio(path, name=name)
    _, channels, samples = audio.waveform.shape
    return Facts(frames=0, rate=audio.rate, channels=channels, length_s=samples / audio.rate)


def sound_thumbnail(path: Path, *, side: int, name: str = "") -> bytes:
    """WebP of the sound's outline, half as tall as `side`. Raises `ValueError` for what is no sound."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    waveform = read_audio(path, name=name).waveform[0]  # C S
    picture, middle = Pillow.new("RGBA", (side, side // 2)), side / 4
    pen = ImageDraw.Draw(picture)
    for x, part in enumerate(waveform.tensor_split(side, dim=1)):
        part = part.nan_to_num().clamp(-1, 1)  # Pillow draws a line to infinity for ever
        low, high = (float(part.min()), float(part.max())) if part.numel() else (0.0, 0.0)
        pen.line((x, middle - middle * high, x, middle - middle * low), fill=(*SOUND_COLOR, 255))
    return _small(picture, side, "WEBP")


def encoded(path: Path, *, format: Literal["JPEG", "WEBP"], quality: int) -> bytes:
    """A picture that was made here in another format; transparency is over white in JPEG. Raises `ValueError`."""
    from PIL import Image as Pillow

    with opened(path, max_pixels=None) as picture:
        load(picture, str(path))
        if picture.has_transparency_data and format == "JPEG":
            whole = picture.convert("RGBA")
            picture = Pillow.alpha_composite(Pillow.new("RGBA", whole.size, "white"), whole)
        file = io.BytesIO()
        picture.convert("RGB" if format == "JPEG" else None).save(file, format=format, quality=quality)
        return file.getvalue()


def mask_by_any_channel(path: Path, target: Path, *, name: str, max_pixels: int = MAX_PIXELS) -> None:
    """Write a mask as a PNG that means the same by whichever channel it is read: what is transparent in it is painted
    anew, or of a picture without transparency what is bright. Raises `ValueError`."""
    from PIL import Image as Pillow
    from PIL import ImageChops

    with opened(path, name=name, max_pixels=max_pixels) as picture:
        load(picture, name)
        whole = turned(picture)
        if whole.has_transparency_data:
            alpha = whole.convert("RGBA").getchannel("A")
        else:
            alpha = ImageChops.invert(whole.convert("L"))
        bright = ImageChops.invert(alpha)
        Pillow.merge("RGBA", (bright, bright, bright, alpha)).save(target, format="PNG")


def _small(picture: Pillow.Image, side: int, format: Format) -> bytes:
    from PIL import Image as Pillow

    if picture.mode not in ("RGB", "RGBA"):
        picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    picture.thumbnail((side, side), Pillow.Resampling.LANCZOS)
    file = io.BytesIO()
    turned(picture).save(file, format=format, quality=QUALITY)
    return file.getvalue()
