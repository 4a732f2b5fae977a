"""Clips as MP4: what goes in comes out, and the workflow with it."""

from pathlib import Path

import pytest
import torch

from latentloom.nodes.files.video_files import read_video_metadata, write_video


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


def test_metadata_comes_back(tmp_path: Path) -> None:
    text = '{"prompt": "ein Fuchs 🦊"}' * 100
    write_video(clip(), tmp_path / "a.mp4", fps=8, quality=18, metadata={"latentloom": text})
    assert read_video_metadata(tmp_path / "a.mp4")["latentloom"] == text


def test_same_frames_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(clip(), tmp_path / name, fps=8, quality=18, metadata={"k": "v"})
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_odd_size_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"33 x 32; H\.264 needs even"):
        write_video(clip(width=33), tmp_path / "a.mp4", fps=8, quality=18, metadata={})
    assert list(tmp_path.iterdir()) == []


def test_text_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("hello")
    with pytest.raises(ValueError, match="not a video"):
        read_video_metadata(tmp_path / "a.mp4")
