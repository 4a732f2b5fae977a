"""Small pictures and the facts of a file: upright, as the camera says."""

import io
from pathlib import Path

import pytest
from PIL import Image

from latentloom.nodes.files.thumbnails import checked_picture, picture_thumbnail

ORIENTATION, QUARTER_TURN = 0x0112, 6


def lying(path: Path, format: str, mode: str) -> Path:
    """A picture 60 wide and 40 high whose left half is white, to be turned clockwise: its top is white then."""
    picture = Image.new("RGB", (60, 40))
    picture.paste("white", (0, 0, 30, 40))
    exif = Image.Exif()
    exif[ORIENTATION] = QUARTER_TURN
    picture.convert(mode).save(path, format, exif=exif)
    return path


@pytest.mark.parametrize(
    ("format", "mode"), [("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB"), ("PNG", "P"), ("WEBP", "RGB")]
)
def test_a_picture_that_lies_is_shown_upright(tmp_path: Path, format: str, mode: str) -> None:
    path = lying(tmp_path / "lying", format, mode)
    facts, kind = checked_picture(path, name="lying")
    assert (facts.width, facts.height, kind) == (40, 60, format)
    with Image.open(io.BytesIO(picture_thumbnail(path, side=30))) as small:
        assert small.size == (20, 30)
        top, bottom = (small.convert("L").getpixel((10, y)) for y in (5, 25))
    assert isinstance(top, int) and isinstance(bottom, int) and top > 200 > 50 > bottom


def test_a_picture_that_stands_stays(tmp_path: Path) -> None:
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    facts, _ = checked_picture(tmp_path / "a.png", name="a")
    assert (facts.width, facts.height) == (60, 40)
