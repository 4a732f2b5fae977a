"""Pictures as files: reading what may be hostile, writing PNG with the workflow inside."""

# B batch, H height, W width, C channels

from __future__ import annotations

import contextlib
import functools
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, get_args

from ...parallel.errors import BadInput
from ...parallel.machine.now import num_free_cores
from ...parallel.ranks.heap import give_back_rest
from ...pipelines.values import as_bytes
from .atomic import replacing
from .containers import num_bytes_of, opened_file

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image as Pillow
    from torch import Tensor

    Strip = Callable[[Pillow.Image], np.ndarray]  # reads a strip of a picture as H W C, of 8 bits or floats

Channel = Literal["red", "green", "blue", "alpha", "luminance"]
CHANNELS = get_args(Channel)

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
# The most pixels of a picture that is read or made, unless whoever runs it says otherwise: 768 MB as floats.
MAX_PIXELS = 64_000_000
# What the largest picture takes that is not packed at all: a longer file is not read into the memory.
FILE_BYTES_PER_PIXEL = 8
LARGE_PIXELS = 8 << 20
# Pictures written at a time, where there are so many cores: packing one takes longer than a few steps on a GPU, and
# lets go of Python's lock.
WRITERS = 4
# A large picture is converted strip by strip: as a whole, each step on the way would take its memory once more.
STRIP_PIXELS = 1 << 20
AROUND_BYTES = 1 << 16  # the workflow in a file, and the file's own heads; most have a tenth of it
PIXEL_BYTES = 3.01  # of a PNG that nothing can pack: a byte for each colour, and what filters and packing add
PACKING = 4  # zlib's level: 6 takes a quarter longer for files of the same size
WORKFLOW_KEY = "latentloom"  # the PNG text chunk (and video tag) that holds the workflow file
# That which says what 0, "" and "auto" meant, for people: of ours only `NOISE_KEY`'s absence has it read.
VALUES_KEY = "latentloom.values"
# That which says that noise was drawn by `seed` where the workflow names none. Results without it are of a time when
# all noise was what diffusers draws.
NOISE_KEY = "latentloom.noise"


def pixel_limit(asked: int | None) -> int:
    """What `--max-pixels` asks for, and the default without it. Raises `ValueError`."""
    if asked is not None and asked < 1:
        raise ValueError(f"--max-pixels is {asked}; give the largest number of pixels of a picture, such as 64000000")
    return asked or MAX_PIXELS


def read_picture(path: Path, *, max_pixels: int = MAX_PIXELS, remedy: str = "make it smaller") -> Tensor:
    """1 H W 3 floats in 0..1, upright, transparency over white. Raises `ValueError` for what is no sound picture.

    `remedy` is what its sentence says of a picture that is too large.
    """
    pixels = _floats(path, _colours, max_pixels=max_pixels, remedy=remedy)
    return pixels.repeat(1, 1, 1, 3) if pixels.shape[3] == 1 else pixels


def read_channel(path: Path, channel: Channel, *, max_pixels: int, remedy: str) -> Tensor:
    """1 H W floats in 0..1 of one channel, upright; alpha is 1 where the picture is opaque. Raises `ValueError` as
    `read_picture` does, and for a picture without alpha."""
    read = functools.partial(_channel, channel=channel)
    return _floats(path, read, max_pixels=max_pixels, remedy=remedy, has_alpha=channel == "alpha")[..., 0]


def _floats(path: Path, read_8_bits: Strip, *, max_pixels: int, remedy: str, has_alpha: bool = False) -> Tensor:
    """1 H W C floats in 0..1; one channel of a picture of more than 8 bits a pixel, which is grey."""
    import torch

    with opened(path, max_pixels=max_pixels, remedy=remedy) as picture:
        load(picture, str(path))
        is_grey = picture.mode.startswith(("I", "F"))  # 16 and 32 bits a pixel
        if has_alpha and (is_grey or not picture.has_transparency_data):
            raise BadInput("{} has no alpha channel that says what is transparent; choose another channel", path)
        read, most = (_grey, 65535.0 if picture.mode != "F" else 1.0) if is_grey else (read_8_bits, 255.0)
        upright = picture if is_grey else turned(picture)
        width, height = upright.size
        pixels = torch.empty(1, height, width, 3 if read is _colours else 1)
        rows = max(1, STRIP_PIXELS // max(1, width))
        for top in range(0, height, rows):
            strip = upright.crop((0, top, width, min(top + rows, height)))
            pixels[0, top : top + rows] = torch.from_numpy(read(strip))
    del upright, picture
    if width * height > LARGE_PIXELS:
        give_back_rest()  # what Pillow freed: glibc would keep it, beside the floats that take its place
    return pixels.div_(most).clamp_(0, 1)


def _grey(strip: Pillow.Image) -> np.ndarray:
    """H W 1 of 16 or 32 bits a pixel."""
    import numpy as np

    return np.array(strip, dtype=np.float32)[:, :, None]


def _colours(strip: Pillow.Image) -> np.ndarray:
    """H W 3 of any picture of 8 bits, transparency over white."""
    import numpy as np
    from PIL import Image as Pillow

    if strip.has_transparency_data:
        rgba = strip.convert("RGBA")
        strip = Pillow.alpha_composite(Pillow.new("RGBA", rgba.size, "white"), rgba)
    return np.array(strip if strip.mode == "RGB" else strip.convert("RGB"))


def _channel(strip: Pillow.Image, channel: Channel) -> np.ndarray:
    """H W 1 of any picture of 8 bits; luminance is that of the colours over white."""
    import numpy as np
    from PIL import Image as Pillow

    if channel == "luminance":
        return np.array(Pillow.fromarray(_colours(strip)).convert("L"))[:, :, None]
    return np.array(strip.convert("RGBA"))[:, :, CHANNELS.index(channel), None]


def picture_bytes(width: int, height: int) -> int:
    """How large a PNG can get, for the room on a disk."""
    return round(width * height * PIXEL_BYTES) + AROUND_BYTES


def write_picture(pixels: Tensor, target: Path, metadata: Mapping[str, str]) -> Path:
    """PNG of one picture H W 3 in 0..1, rounded to 8 bits, or of bytes, with `metadata` as text chunks. It is written
    whole or not at all. Gives `target`."""
    from PIL import Image as Pillow
    from PIL import PngImagePlugin

    chunks = PngImagePlugin.PngInfo()
    for key, text in metadata.items():
        if text.isascii():
            chunks.add_text(key, text)  # the form that ComfyUI's page reads
        else:
            chunks.add_itxt(key, text)  # not packed: Pillow refuses to unpack more than 1 MiB
    check_numbers(pixels, what=target.name)
    picture = Pillow.fromarray(as_bytes(pixels).cpu().numpy())
    with replacing(target) as temporary:
        picture.save(temporary, format="PNG", pnginfo=chunks, compress_level=PACKING)
    return target


def write_pictures(pixels: Tensor, targets: Sequence[Path], metadata: Mapping[str, str]) -> Iterator[Path]:
    """A PNG of each picture B H W 3, as `write_picture` makes them, several at a time; gives each file in their order,
    once it is whole. The first that cannot be written is raised, and no more are begun."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(WRITERS, num_free_cores()), "pictures") as threads:
        yield from threads.map(functools.partial(write_picture, metadata=metadata), pixels, targets)


def check_numbers(values: Tensor, *, what: str) -> None:
    """Refuse NaN, which would be written as black, or as silence."""
    # One after the other: what is told of all frames of a video at once is a quarter of their size.
    num_bad = sum(int(each.isnan().sum()) for each in values) if values.is_floating_point() else 0
    if num_bad:
        raise ValueError(
            f"{what} would hold {num_bad} values that are not a number (NaN) among {values.numel()}, and nothing is "
            "written; look at what made them"
        )


def read_metadata(path: Path) -> dict[str, str]:
    """The text chunks of a PNG; empty for other pictures. Of a very large one those before the pixels, as ours are."""
    with opened(path, max_pixels=None) as picture:
        if picture.format != "PNG":
            return {}
        try:
            is_large = picture.width * picture.height > MAX_PIXELS
            text = picture.info if is_large else getattr(picture, "text", {})  # which reads to the end of the file
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise BadInput("{} is damaged ({}); use the file as it was saved", path, error) from None
        return {str(key): str(value) for key, value in text.items() if isinstance(value, str)}


_FILTERS = threading.Lock()  # the warning filters belong to the whole process, and nodes run in threads


@contextlib.contextmanager
def opened(
    path: Path, *, name: str = "", max_pixels: int | None = MAX_PIXELS, remedy: str = "make it smaller"
) -> Iterator[Pillow.Image]:
    """A picture whose header was read and whose size is bearable. Raises `ValueError`, which calls it `name`.

    `max_pixels` None is for pictures that this process made itself.
    """
    name, most = name or str(path), math.inf if max_pixels is None else max_pixels
    if max_pixels is not None:
        check_file_size(path, name=name, max_pixels=max_pixels, remedy=remedy)
    # closed, since some of Pillow's pictures are kept alive by themselves until Python looks for circles
    with (
        _FILTERS,
        warnings.catch_warnings(action="ignore"),  # of large pictures, and of damaged camera data, which counts as none
        opened_file(path, "picture", name=name) as file,
        contextlib.closing(_open(file, name, most)) as picture,
    ):
        if picture.width * picture.height > most:
            size = f"{picture.width} x {picture.height}"
            raise BadInput("{} has {} pixels, and at most {:,} are taken; {}", name, size, most, remedy)
        yield picture


def load(picture: Pillow.Image, name: str) -> None:
    """Read the pixels of an opened picture. Raises `ValueError` where they are not sound."""
    try:
        picture.load()
        if hasattr(picture, "_decoder"):  # of WebP: it keeps two pictures of that size, and a third as a file
            picture._decoder = picture.fp = None  # pyrefly: ignore[missing-attribute]
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise BadInput("{} is damaged or cut short ({}); export the picture again", name, error) from None


def check_picture(path: Path, max_pixels: int, remedy: str) -> None:
    """Refuse what is no picture, too large a one, or damaged, as far as is soon seen: of a large one the header is
    read. Raises `ValueError`."""
    with opened(path, max_pixels=max_pixels, remedy=remedy) as picture:
        if picture.width * picture.height <= LARGE_PIXELS:
            load(picture, str(path))


def check_file_size(path: Path, *, max_pixels: int, remedy: str, name: str = "") -> None:
    """Refuse a file that is longer than any picture of so many pixels, before it is read. Raises `ValueError`."""
    name = name or str(path)
    num_bytes = num_bytes_of(path, "picture", name=name)
    if num_bytes > max(max_pixels, 1 << 20) * FILE_BYTES_PER_PIXEL:
        raise BadInput("{} has {:,} bytes, more than a picture of {:,} pixels; {}", name, num_bytes, max_pixels, remedy)


def _open(file: BinaryIO, name: str, most: float) -> Pillow.Image:
    from PIL import Image as Pillow

    limit = Pillow.MAX_IMAGE_PIXELS  # the process's: raised only for whom it would keep out, since a host relies on it
    if limit is not None and most > 2 * limit:
        Pillow.MAX_IMAGE_PIXELS = None
    try:
        return Pillow.open(file, formats=FORMATS)
    except Pillow.DecompressionBombError:
        raise BadInput("{} has far too many pixels, and at most {:,} are taken; make it smaller", name, most) from None
    except (OSError, SyntaxError, ValueError):
        raise BadInput("{} is not a picture that can be read; use {}", name, ", ".join(FORMATS)) from None
    finally:
        Pillow.MAX_IMAGE_PIXELS = limit


def turned(picture: Pillow.Image) -> Pillow.Image:
    """The picture itself, turned as its camera says; damaged camera data counts as none."""
    from PIL import ImageOps

    with contextlib.suppress(OSError, SyntaxError, ValueError, KeyError, TypeError, ZeroDivisionError, OverflowError):
        ImageOps.exif_transpose(picture, in_place=True)  # a copy would take a large picture's memory twice
    return picture
