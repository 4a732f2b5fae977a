"""Clips as MP4: what goes in comes out, and the workflow with it; and clips of others, cut and bounded."""

import struct
from pathlib import Path

import pytest
import torch

from latentloom.nodes import load_video
from latentloom.nodes.files.video_files import write_video
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress


def clip(frames: int = 5, height: int = 32, width: int = 48) -> torch.Tensor:
    ramp = torch.linspace(0, 1, width)[None, None, :, None].expand(frames, height, width, 3)
    return ramp * torch.linspace(0.2, 1, frames)[:, None, None, None]


def frames_of(path: Path) -> torch.Tensor:
    import av

    with av.open(str(path)) as container:
        return torch.stack([torch.from_numpy(f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]) / 255


def test_frames_come_back_close_to_what_went_in(tmp_path: Path) -> None:
    write_video(clip(), tmp_path / "a.mp4", fps=8, quality=10, metadata={})
    read = frames_of(tmp_path / "a.mp4")
    assert read.shape == clip().shape
    assert (read - clip()).abs().mean() < 0.02


@pytest.mark.parametrize("fps", [0.0, 0.0004])
def test_a_rate_that_no_file_can_say_is_refused(tmp_path: Path, fps: float) -> None:
    with pytest.raises(ValueError, match=rf"would show {fps:g} frames a second; give fps of 0\.001 or more"):
        write_video(clip(), tmp_path / "a.mp4", fps=fps, quality=10, metadata={})


@pytest.mark.parametrize("fps", [8, 23.976, 16.0])
def test_frame_rate_is_kept(tmp_path: Path, fps: float) -> None:
    import av

    write_video(clip(), tmp_path / "a.mp4", fps=fps, quality=18, metadata={})
    with av.open(str(tmp_path / "a.mp4")) as container:
        rate = container.streams.video[0].average_rate
    assert rate is not None
    assert float(rate) == pytest.approx(fps, rel=1e-4)


def test_odd_size_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"33 x 32; H\.264 needs even"):
        write_video(clip(width=33), tmp_path / "a.mp4", fps=8, quality=18, metadata={})
    assert list(tmp_path.iterdir()) == []


# ---- Load Video


def save(folder: Path, frames: int = 6, **size: int) -> Path:
    write_video(clip(frames=frames, **size), folder / "a.mp4", fps=12, quality=0, metadata={})
    return folder / "a.mp4"


@pytest.mark.parametrize(
    ("cut", "taken", "fps"),
    [
        ({}, [0, 1, 2, 3, 4, 5], 12.0),
        ({"start": 2}, [2, 3, 4, 5], 12.0),
        ({"start": 1, "every": 2}, [1, 3, 5], 6.0),
        ({"start": -1, "frames": 1}, [5], 12.0),
        ({"start": -3, "every": 2}, [3, 5], 6.0),
        ({"start": -99}, [0, 1, 2, 3, 4, 5], 12.0),
        ({"start": 1, "every": 2, "frames": 2}, [1, 3], 6.0),
    ],
)
def test_a_video_gives_the_frames_that_are_asked_for(
    cut: dict[str, int], taken: list[int], fps: float, tmp_path: Path
) -> None:
    whole = frames_of(save(tmp_path))
    video, rate = load_video("a.mp4", **cut, workspace=Workspace(roots=(tmp_path,)))  # type: ignore[arg-type]
    assert torch.equal(video.pixels, whole[taken][None])
    assert (video.fps, rate) == (pytest.approx(fps), pytest.approx(fps))


@pytest.mark.parametrize(
    ("cut", "found"),
    [
        ({"frames": 7}, "6 frames from frame 0 on, taking one of 1, but 7"),
        ({"start": 6}, "0 frames .* but more are"),
        ({"start": -2, "frames": 3}, "2 frames from frame -2 on, taking one of 1, but 3"),
    ],
)
def test_a_video_that_is_too_short_says_how_long_it_is(cut: dict[str, int], found: str, tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(ValueError, match=rf"a\.mp4 has {found}.*ask for fewer, or begin earlier"):
        load_video("a.mp4", **cut, workspace=Workspace(roots=(tmp_path,)))  # type: ignore[arg-type]


def test_a_video_has_the_pixels_of_four_pictures_at_most(tmp_path: Path) -> None:
    save(tmp_path)
    small = Workspace(roots=(tmp_path,), max_pixels=32 * 48, host="command line")
    assert load_video("a.mp4", frames=4, workspace=small)[0].pixels.shape == (1, 4, 32, 48, 3)
    with pytest.raises(ValueError, match=r"48 x 32 pixels a frame.*which are 4 frames; take fewer.*--max-pixels"):
        load_video("a.mp4", workspace=small)


def test_no_more_frames_are_decoded_than_are_taken(tmp_path: Path) -> None:
    save(tmp_path)
    decoded: list[str] = []

    class Counting(Progress):
        def check(self) -> None:
            decoded.append("frame")

    workspace = Workspace(roots=(tmp_path,))
    load_video("a.mp4", start=1, frames=2, every=2, workspace=workspace, progress=Counting())
    assert len(decoded) == 4
    for most, cut in ((32 * 48 // 4 - 1, {}), (32 * 48, {"frames": 5})):
        with pytest.raises(ValueError, match="pixels a frame"):
            load_video("a.mp4", **cut, workspace=Workspace(roots=(tmp_path,), max_pixels=most), progress=Counting())
    assert len(decoded) == 4


def test_a_video_lying_on_its_side_is_turned_upright(tmp_path: Path) -> None:
    path = save(tmp_path)
    upright = frames_of(path)
    data = bytearray(path.read_bytes())
    matrix = data.index(b"tkhd") + 4 + 40  # of a header of version 0: 3 x 3 of 32 bits
    data[matrix : matrix + 20] = struct.pack(">5i", 0, 1 << 16, 0, -1 << 16, 0)  # a quarter turn clockwise
    path.write_bytes(data)
    video, _ = load_video("a.mp4", workspace=Workspace(roots=(tmp_path,)))
    assert torch.equal(video.pixels[0], upright.rot90(-1, (1, 2)))


def test_reading_a_video_ends_when_the_user_says_so(tmp_path: Path) -> None:
    save(tmp_path)

    class Cancelling(Progress):
        def check(self) -> None:
            raise Cancelled

    with pytest.raises(Cancelled):
        load_video("a.mp4", start=5, workspace=Workspace(roots=(tmp_path,)), progress=Cancelling())


def test_what_is_no_video_or_far_too_long_is_refused(tmp_path: Path) -> None:
    workspace = Workspace(roots=(tmp_path,))
    (tmp_path / "a.mp4").write_text("hello")
    with pytest.raises(ValueError, match="not a video"):
        load_video("a.mp4", workspace=workspace)
    cut_short = save(tmp_path).read_bytes()[:2000]
    (tmp_path / "a.mp4").write_bytes(cut_short)
    with pytest.raises(ValueError, match=r"a\.mp4 "):
        load_video("a.mp4", workspace=workspace)
    with (tmp_path / "huge.mp4").open("wb") as file:
        file.truncate(1 << 40)
    fingerprint = SPECS["LoomLoadVideo"].fingerprint
    assert fingerprint is not None
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes"):
        fingerprint({"path": "huge.mp4"}, workspace)
    with pytest.raises(ValueError, match="outside the allowed folders"):
        load_video("/etc/passwd", workspace=workspace)
