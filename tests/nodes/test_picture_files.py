"""Pictures from hostile files, and pictures that carry their workflow."""

import io
import os
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from latentloom.nodes.files.picture_files import read_metadata, read_picture, write_picture, write_pictures
from latentloom.nodes.files.thumbnails import picture_facts
from latentloom.nodes.files.video_files import read_video_metadata, write_video
from latentloom.pipelines.values import as_bytes


def checker(height: int = 8, width: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (height, width, 3), generator=generator).float() / 255


def test_written_picture_reads_back_to_the_bit(tmp_path: Path) -> None:
    write_picture(checker(), tmp_path / "a.png", {})
    assert torch.equal(read_picture(tmp_path / "a.png")[0], checker())


def test_pictures_of_a_batch_come_in_order_each_once_it_is_whole(tmp_path: Path) -> None:
    batch = torch.rand(9, 4, 5, 3, generator=torch.Generator().manual_seed(0))
    targets = [tmp_path / f"{index}.png" for index in range(9)]
    for index, target in enumerate(write_pictures(batch, targets, {})):
        assert target == targets[index]
        assert torch.equal(as_bytes(read_picture(target)[0]), as_bytes(batch[index]))
    batch[1] = torch.nan
    with pytest.raises(ValueError, match="not a number"):
        list(write_pictures(batch, [tmp_path / f"{index}-again.png" for index in range(9)], {}))
    assert (tmp_path / "0-again.png").exists() and not (tmp_path / "1-again.png").exists()


def test_camera_rotation_is_applied(tmp_path: Path) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turn a quarter clockwise
    Pillow.new("RGB", (20, 10)).save(tmp_path / "a.jpg", exif=exif)
    assert read_picture(tmp_path / "a.jpg").shape == (1, 20, 10, 3)


def test_transparency_lies_over_white(tmp_path: Path) -> None:
    Pillow.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert torch.equal(read_picture(tmp_path / "a.png"), torch.ones(1, 2, 2, 3))


def test_sixteen_bits_keep_their_brightness(tmp_path: Path) -> None:
    Pillow.fromarray(np.full((2, 2), 32768, dtype=np.uint16)).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").mean() == pytest.approx(0.5, abs=1e-4)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("width", "height"), [(60000, 60000), (20000, 12000), (2**31 - 1, 2**31 - 1)])
def test_pixel_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, width: int, height: int) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb(width, height))
    with pytest.raises(ValueError, match=r"at most 64,000,000 are taken|not a picture"):
        read_picture(tmp_path / "bomb.png")


def test_a_small_file_of_too_many_pixels_is_refused_unless_the_limit_is_raised(tmp_path: Path) -> None:
    Pillow.new("1", (11500, 11500)).save(tmp_path / "zeros.png")
    assert (tmp_path / "zeros.png").stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"11500 x 11500 pixels, and at most 64,000,000 are taken"):
        read_picture(tmp_path / "zeros.png")
    write_picture(checker(20, 20), tmp_path / "a.png", {})
    with pytest.raises(ValueError, match="20 x 20 pixels, and at most 399 are taken"):
        read_picture(tmp_path / "a.png", max_pixels=399)
    assert read_picture(tmp_path / "a.png", max_pixels=400).shape == (1, 20, 20, 3)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_a_picture_read_in_strips_is_the_picture(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 65536 if mode == "I;16" else 256, (37, 23, 4))
    whole = Pillow.fromarray(noise[..., 0].astype(np.uint16)) if mode == "I;16" else None
    picture = whole or Pillow.fromarray(noise.astype(np.uint8), "RGBA").convert(mode)
    picture.save(tmp_path / "a.png", **({"transparency": 3} if mode == "P" else {}))
    at_once = read_picture(tmp_path / "a.png")
    monkeypatch.setattr("latentloom.nodes.files.picture_files.STRIP_PIXELS", 50)
    assert torch.equal(read_picture(tmp_path / "a.png"), at_once)
    assert at_once.is_contiguous() and at_once.shape == (1, 37, 23, 3)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for read in (read_picture, read_metadata, picture_facts):
        with pytest.raises(ValueError, match="it is a pipe, not a file"):
            read(tmp_path / "pipe.png")


WRITERS = {
    "png": write_picture,
    "mp4": lambda pixels, target, told: write_video(pixels[None], target, fps=8, quality=18, metadata=told),
}
READERS = {"png": read_metadata, "mp4": read_video_metadata}


@pytest.mark.parametrize("ending", WRITERS)
def test_the_workflow_comes_back_in_any_language_and_equal_pixels_are_equal_bytes(ending: str, tmp_path: Path) -> None:
    text = '{"prompt": "ein Stern, 星, ⭐"}' * 200
    for name, pixels in (("a", checker(16, 16)), ("b", as_bytes(checker(16, 16)))):
        WRITERS[ending](pixels, tmp_path / f"{name}.{ending}", {"latentloom": text})
    assert READERS[ending](tmp_path / f"a.{ending}").items() >= {"latentloom": text}.items()
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    (tmp_path / f"c.{ending}").write_text("hello")
    with pytest.raises(ValueError, match=r"not a (picture|video) that can be read"):
        READERS[ending](tmp_path / f"c.{ending}")


@pytest.mark.parametrize("write", [write_picture, partial(write_video, fps=8, quality=18)])
def test_pixels_that_are_no_numbers_are_not_written_as_black(write: Any, tmp_path: Path) -> None:
    pixels = checker() if write is write_picture else checker()[None]
    pixels[..., 2, 3, 1] = float("nan")
    with pytest.raises(ValueError, match=r"made would hold 1 values that are not a number \(NaN\) among 144"):
        write(pixels, tmp_path / "made", metadata={})
    assert list(tmp_path.iterdir()) == []


def png(size: int = 32) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (size, size, 3)).astype(np.uint8)
    Pillow.fromarray(noise).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("length", [0, 1, 8, 20, 40, 200, 1500, 3000])
def test_truncated_picture_is_one_sentence(tmp_path: Path, length: int) -> None:
    (tmp_path / "cut.png").write_bytes(png()[:length])
    with pytest.raises(ValueError, match=r"cut\.png"):
        read_picture(tmp_path / "cut.png")


def test_random_damage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for kind in ("PNG", "JPEG", "WEBP", "BMP"):
        buffer = io.BytesIO()
        Pillow.open(io.BytesIO(png())).save(buffer, format=kind)
        for _ in range(60):
            data = bytearray(buffer.getvalue())
            for position in rng.integers(0, min(len(data), 400), 4):
                data[position] = int(rng.integers(0, 256))
            path = tmp_path / f"damaged.{kind.lower()}"
            path.write_bytes(data)
            for read in (read_picture, read_metadata):
                try:
                    read(path)
                except ValueError as error:
                    assert str(path) in str(error)


def test_unwritable_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="choose another output folder"):
        write_picture(checker(), tmp_path / "file" / "a.png", {})
