"""A video whose decoder is causal in time is decoded call by call, to the bit, and its pixels lie in a file."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bodies.spatial import latents
from bodies.vae import by_calls, decode, vae
from latentloom.nodes.files import video_files
from latentloom.nodes.files.atomic import NotWritten
from latentloom.parallel import staging
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.progress import Progress
from latentloom.pipelines import stages
from latentloom.pipelines.components.store import store
from latentloom.pipelines.failures import NotFinite
from latentloom.pipelines.forecast.memory import work_of
from latentloom.pipelines.spreading import frames
from latentloom.pipelines.values import Latents, Model, as_bytes, from_plain
from support.alive import Alive
from support.ranks import Ranks

KINDS = ("wan", "wan22", "qwen")
RATE = 4  # frames of a frame of latents, but for the first


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_frames", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_decode_call_by_call_is_the_stock_decode(kind: str, num_frames: int, dtype: torch.dtype) -> None:
    model, z = copy.deepcopy(vae(kind)).to(dtype), latents((2, 4, num_frames, 5, 3)).to(dtype)
    whole, turns = decode(model, z), by_calls(model, z)
    assert len(turns) == num_frames and all(each.shape[2] <= RATE for each in turns)
    assert torch.equal(torch.cat(turns, dim=2), whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_frames", [1, 3])
def test_rows_of_two_ranks_are_gathered_call_by_call(pair: Ranks, kind: str, num_frames: int) -> None:
    for same, num_turns, is_restored in pair.run("bodies.vae:split_by_calls", kind, (1, 4, num_frames, 5, 3)):
        assert same and num_turns == num_frames and is_restored


@pytest.mark.parametrize("told", ["use_tiling", "use_slicing"])
def test_a_vae_that_takes_pieces_decodes_them_as_it_does(told: str) -> None:
    model, z = vae("wan"), latents((2, 4, 2, 5, 3))
    setattr(model, told, True)
    try:
        [found] = by_calls(model, z)
        assert torch.equal(found, decode(model, z))
    finally:
        setattr(model, told, False)


# ---- the stage


@pytest.fixture
def film(model: Any) -> Callable[..., Tensor]:
    """`film(frames=9, depth="bytes")` decodes latents of as many frames with the tiny Wan."""
    wan = model("wan")

    def decode(*, frames: int, batch: int = 1, progress: Progress | None = None, **fields: Any) -> Tensor:
        canvas = Latents(family="wan", width=64, height=32, frames=frames, batch=batch, fps=16.0, tensor=shown(frames))
        request = {"model": wan, "latents": canvas, **fields}
        return stages.decode(request, **({"progress": progress} if progress else {})).pixels

    def shown(frames: int) -> Tensor:
        z_dim = store().load(from_plain(Model, wan), ("vae",))["vae"].config.z_dim
        return latents((2, z_dim, 1 + (frames - 1) // RATE, 4, 8))

    return decode


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LARGE_BYTES", 0)


def mapped_from(pixels: Tensor) -> str:
    """The file that a tensor's memory is mapped from, as Linux names it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= pixels.data_ptr() < end:
            return " ".join(line.split()[5:])
    return ""


@pytest.mark.parametrize("frames", [1, 5, 13])
def test_bytes_are_the_floats_rounded_and_both_lie_in_a_file(film: Any, frames: int, on_disk: None) -> None:
    floats, rounded = film(frames=frames), film(frames=frames, depth="bytes")
    assert floats.shape == (2, frames, 32, 64, 3) and floats.dtype == torch.float32
    assert torch.equal(rounded, as_bytes(floats)) and floats.std() > 0.01
    for pixels in (floats, rounded):
        assert mapped_from(pixels).endswith("(deleted)") and "memfd" not in mapped_from(pixels)


def test_a_small_video_takes_no_disk_and_no_descriptor(film: Any) -> None:
    held = [film(frames=5)]
    before = len([*Path("/proc/self/fd").iterdir()])
    held += [film(frames=5) for _ in range(3)]
    assert len([*Path("/proc/self/fd").iterdir()]) == before and mapped_from(held[-1]) in ("", "[heap]")


def test_a_long_video_takes_no_more_of_a_device_than_a_short_one(film: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    most = []
    for length in (9, 9, 49):  # the first time, tables are made
        with Alive() as alive:
            pixels = film(frames=length)
        most.append(alive.most)
        del pixels
    a_frame = 2 * 32 * 64 * 3 * 4
    assert most[2] - most[1] < 4 * a_frame
    monkeypatch.setattr(frames, "FRAME_BY_FRAME", ())
    with Alive() as alive:
        film(frames=49)
    assert alive.most - most[1] > 40 * a_frame


def test_the_plan_counts_the_pixels_of_one_call(model: Any) -> None:
    wan, canvas = from_plain(Model, model("wan")), {"family": "wan", "width": 64, "height": 32}
    short, long, single = (work_of(wan, canvas=Latents(**canvas, frames=n), text_length=0) for n in (9, 257, 1))
    assert short.decoding(1) == long.decoding(1) > single.decoding(1)


class Impatient(Progress):
    def __init__(self) -> None:
        self.left = 2

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cancelled


def test_a_cancel_in_the_middle_leaves_the_vae_as_it_was(film: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before, known, by_calls = film(frames=13), list[Any](), frames.by_calls
    monkeypatch.setattr(frames, "by_calls", lambda vae: known.append(vae) or by_calls(vae))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(Cancelled):
        film(frames=13, progress=Impatient())
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert not {"decoder", "clear_cache"} & vars(known[0]).keys() and set(known[0]._feat_map) == {None}
    assert torch.equal(film(frames=13), before)


def test_a_number_that_is_none_is_told_at_the_call_that_made_it(film: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, check = [], frames.check_finite

    def damaged(tensors: dict[str, Tensor], *args: Any, **named: Any) -> None:
        calls.append(tensors["pixels"].shape[1])
        check({"pixels": tensors["pixels"] * (float("nan") if len(calls) == 2 else 1)}, *args, **named)

    monkeypatch.setattr(frames, "check_finite", damaged)
    with pytest.raises(NotFinite, match=r"values of the decoded picture \(pixels\) are not finite"):
        film(frames=13)
    assert calls == [1, RATE]


def test_a_save_that_fails_leaves_nothing_and_the_video_can_be_saved_again(
    film: Any, on_disk: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, target, left = film(frames=13, depth="bytes")[0], tmp_path / "clip.mp4", iter(range(5))

    def failing(frame: Tensor) -> Tensor:
        if next(left, None) is None:
            raise OSError("the disk is full")
        return as_bytes(frame)

    saved = {"fps": 16.0, "quality": 18, "metadata": {}}
    with monkeypatch.context() as patched, pytest.raises(NotWritten, match="the disk is full"):
        patched.setattr(video_files, "as_bytes", failing)
        video_files.write_video(pixels, target, **saved)
    assert not list(tmp_path.iterdir())
    video_files.write_video(pixels, target, **saved)
    again = tmp_path / "again.mp4"
    video_files.write_video(pixels.clone(), again, **saved)
    assert target.read_bytes() == again.read_bytes()
