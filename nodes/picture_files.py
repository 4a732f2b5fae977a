"""Pictures as files: reading what may be hostile, writing PNG with the workflow inside."""

# B batch, H height, W width, C channels

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .atomic import replacing

if TYPE_CHECKING:
    from PIL import Image as Pillow
    from torch import Tensor

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
MAX_PIXELS = 128 * 1024 * 1024
SMALLER = f"use a picture of at most {MAX_PIXELS // 1024**2} megapixels"
WORKFLOW_KEY = "latentloom"
"""The PNG text chunk (and video tag) that holds the workflow file."""


def read_picture(path: Path) -> Tensor:
    """1 H W 3 floats in 0..1, upright, transparency over white. Raises `ValueError` for what is no sound picture."""
    import numpy as np
    import torch
    from PIL import Image as Pillow

    with opened(path) as picture:
        load(picture, str(path))
        if picture.mode.startswith(("I", "F")):  # 16 and 32 bits a pixel, grey
            grey = np.asarray(picture, dtype=np.float32) / (65535.0 if picture.mode != "F" else 1.0)
            return torch.from_numpy(grey.clip(0, 1))[None, :, :, None].repeat(1, 1, 1, 3)
        upright = turned(picture)
        if upright.has_transparency_data:
            rgba = upright.convert("RGBA")
            upright = Pillow.alpha_composite(Pillow.new("RGBA", rgba.size, "white"), rgba)
        pixels = np.asarray(upright.convert("RGB"), dtype=np.float32) / 255.0
    return torch.from_numpy(pixels)[None]  # 1 H W 3


def write_picture(pixels: Tensor, target: Path, metadata: Mapping[str, str]) -> None:
    """PNG of one picture H W 3 in 0..1, rounded to 8 bits, with `metadata` as text chunks; whole or not at all."""
    from PIL import Image as Pillow
    from PIL import PngImagePlugin

    chunks = PngImagePlugin.PngInfo()
    for key, text in metadata.items():
        if text.isascii():
            chunks.add_text(key, text)  # the form that ComfyUI's page reads
        else:
            chunks.add_itxt(key, text)  # not packed: Pillow refuses to unpack more than 1 MiB
    bytes_hwc = (pixels.clamp(0, 1) * 255).round().byte().cpu().numpy()
    with replacing(target) as temporary:
        Pillow.fromarray(bytes_hwc).save(temporary, format="PNG", pnginfo=chunks, compress_level=6)


def read_metadata(path: Path) -> dict[str, str]:
    """The text chunks of a PNG; empty for other pictures."""
    with opened(path) as picture:
        try:
            text = getattr(picture, "text", {})  # reads to the end of the file
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise ValueError(f"{path} is damaged ({error}); use the file as it was saved") from None
        return {str(key): str(value) for key, value in text.items()}


_FILTERS = threading.Lock()
"""The warning filters belong to the whole process, and nodes run in threads."""


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Pillow warns of large pictures (MAX_PIXELS decides) and of damaged camera data (it counts as none)."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def opened(path: Path, *, name: str = "") -> Iterator[Pillow.Image]:
    """A picture whose header was read and whose size is bearable. Raises `ValueError`, which calls it `name`."""
    with _quietly(), _open(path, name or str(path)) as picture:
        yield picture


def load(picture: Pillow.Image, name: str) -> None:
    """Read the pixels of an opened picture. Raises `ValueError` where they are not sound."""
    try:
        picture.load()
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise ValueError(f"{name} is damaged or cut short ({error}); export the picture again") from None


def _open(path: Path, name: str) -> Pillow.Image:
    from PIL import Image as Pillow

    try:
        picture = Pillow.open(path, formats=FORMATS)
    except Pillow.DecompressionBombError:
        raise ValueError(f"{name} has far too many pixels; {SMALLER}") from None
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ValueError(f"{name} cannot be opened ({error.strerror}); check the path") from None
        raise ValueError(f"{name} is not a picture that can be read; use {', '.join(FORMATS)}") from None
    if picture.width * picture.height > MAX_PIXELS:
        size = f"{picture.width} x {picture.height}"
        picture.close()
        raise ValueError(f"{name} has {size} pixels; {SMALLER}")
    return picture


def turned(picture: Pillow.Image) -> Pillow.Image:
    """Turned as its camera says; damaged camera data counts as none."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, OverflowError):
        return picture
