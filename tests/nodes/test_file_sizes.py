"""What files can get at most: nothing that is written is larger than what was reckoned for the disk."""

from pathlib import Path

import pytest
import torch

from latentloom.nodes.files.audio_files import sound_bytes, write_audio
from latentloom.nodes.files.picture_files import AROUND_BYTES, picture_bytes, write_picture
from latentloom.nodes.files.video_files import video_bytes, write_video

SEED = torch.Generator().manual_seed(7)


def test_noise_that_nothing_packs_is_no_larger_than_reckoned(tmp_path: Path) -> None:
    write_picture(torch.rand(256, 256, 3, generator=SEED), tmp_path / "a.png", {})
    write_audio(torch.rand(2, 48_000, generator=SEED) * 2 - 1, tmp_path / "a.flac", rate=48_000, metadata={})
    picture, sound = ((tmp_path / f"a.{ending}").stat().st_size for ending in ("png", "flac"))
    assert 3 * 256 * 256 < picture < picture_bytes(256, 256) - 0.9 * AROUND_BYTES
    assert 4 * 48_000 < sound < sound_bytes(1.0)


@pytest.mark.parametrize("quality", [0, 18, 30])
def test_a_clip_of_strong_grain_is_no_larger_than_reckoned(tmp_path: Path, quality: int) -> None:
    ramp = torch.linspace(0.2, 0.8, 192)[None, None, :, None]
    grain = ramp + torch.randn(8, 128, 192, 3, generator=SEED) * 10 / 255
    write_video(grain.clamp(0, 1), tmp_path / "a.mp4", fps=16, quality=quality, metadata={})
    pixels_only = video_bytes(192, 128, 8, quality=quality, sound_s=0.0) - AROUND_BYTES
    assert (tmp_path / "a.mp4").stat().st_size < pixels_only + 4096
