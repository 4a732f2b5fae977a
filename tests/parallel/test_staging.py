"""Tensors on their way to a device: the same bytes, by buffers that are not written before they are free; and files
without a name, in memory or on a disk."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from latentloom.parallel import staging
from latentloom.parallel.ranks.channel import read_body, write_body
from latentloom.parallel.staging import UPLOAD_BYTES, DeviceUpload, bytes_of, in_host_memory, moving, unnamed_file
from support.alive import Alive


class Late(DeviceUpload):
    """A device that copies only when it is waited for."""

    def __init__(self, sizes: Sequence[int], *, is_waited_for: bool = True) -> None:
        super().__init__([torch.empty(size, dtype=torch.uint8) for size in sizes], self.marked)
        self.is_waited_for = is_waited_for
        self.asked: list[tuple[Tensor, Tensor]] = []
        self.num_done = self.num_waits = 0

    def _send(self, target: Tensor, piece: Tensor) -> None:
        self.asked.append((target, piece))

    def marked(self) -> Callable[[], None]:
        count = len(self.asked)

        def wait() -> None:
            self.num_waits += 1
            if self.is_waited_for:
                self.finish(count)

        return wait

    def finish(self, count: int) -> None:
        for target, piece in self.asked[self.num_done : count]:
            target.copy_(piece)
        self.num_done = max(self.num_done, count)


def tensors() -> list[Tensor]:
    return [
        torch.randn(7, 11),
        torch.randn(3, 5).T,
        torch.tensor(2.5),
        torch.tensor(2.5).expand(1),
        torch.empty(0, 4),
        torch.arange(300, dtype=torch.int16).to(torch.bfloat16),
        torch.ones(3, dtype=torch.bool),
        torch.randn(200).to(torch.float8_e4m3fn),
        torch.randn(64),
    ]


def gone_up(upload: Late) -> bool:
    """Whether all have arrived as they are."""
    sources = tensors()
    targets = [torch.empty(each.shape, dtype=each.dtype) for each in sources]
    for target, source in zip(targets, sources, strict=True):
        upload.copy(target, source)
    upload.finish(len(upload.asked))
    both = zip(targets, sources, strict=True)
    return all(torch.equal(*map(bytes_of, pair)) for pair in both)


@pytest.mark.parametrize("sizes", [(64, 64), (100, 100), (4096, 4096)])
def test_what_goes_up_by_turns_is_the_same_to_the_byte(sizes: Sequence[int]) -> None:
    upload = Late(sizes)
    num_bytes = sum(each.nbytes for each in tensors())
    assert gone_up(upload)
    assert upload.num_waits == max(0, -(-num_bytes // sizes[0]) - 2), "for a buffer that is needed again, and no other"


def test_a_buffer_that_is_not_waited_for_would_be_overwritten() -> None:
    assert not gone_up(Late((64, 64), is_waited_for=False))


def test_the_host_holds_two_buffers_whatever_goes_up() -> None:
    upload, source, target = Late((1000, 1000)), torch.randn(5000), torch.empty(5000)
    with Alive() as live:
        upload.copy(target, source)
    assert live.most == 0


def test_on_a_cpu_nothing_is_copied() -> None:
    source = torch.randn(4)
    assert moving(torch.device("cpu"))(source) is source


@pytest.mark.gpu
def test_weights_go_up_to_a_gpu_as_they_are() -> None:
    move = moving(torch.device("cuda:0"))
    large = torch.randint(0, 255, (5 * UPLOAD_BYTES + 3,), dtype=torch.uint8)
    there = [(each, move(each)) for each in (*tensors(), large, *tensors())]
    for source, moved in there:
        assert moved.is_cuda and torch.equal(bytes_of(source), bytes_of(moved.cpu()))


# ---- files without a name


def place_of(file: int) -> str:
    return os.readlink(f"/proc/self/fd/{file}")  # noqa: PTH115 (which would say that there is no such file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(staging, "LARGE_BYTES", 100)
    return tmp_path


@pytest.mark.parametrize(("num_bytes", "is_on_disk"), [(100, False), (101, True)])
def test_what_is_large_lies_on_the_disk_of_temporary_files_in_no_folder(
    folder: Path, num_bytes: int, is_on_disk: bool
) -> None:
    file = unnamed_file(num_bytes)
    try:
        assert place_of(file).startswith(str(folder) if is_on_disk else "/memfd:")
        assert os.fstat(file).st_nlink == 0 and not list(folder.iterdir())
        assert os.fstat(file).st_size == (num_bytes if is_on_disk else 0), "the room is taken before anything is made"
        assert not os.get_inheritable(file)
    finally:
        os.close(file)


def test_a_disk_without_room_leaves_it_in_memory_and_that_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    before = len(list(Path("/proc/self/fd").iterdir()))
    file = unnamed_file(10**9)
    assert place_of(file).startswith("/memfd:")
    os.close(file)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert "1.0 GB lie in memory" in caplog.text and "No space left on device" in caplog.text


def test_where_no_file_can_lie_in_memory_all_lie_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.delattr(os, "posix_fallocate")
    file = unnamed_file(1)
    assert place_of(file).startswith(str(folder))
    os.close(file)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    with pytest.raises(FileNotFoundError):
        unnamed_file(1)


def test_a_large_body_crosses_by_a_file_and_a_tensor_in_another_order_without_a_whole_copy(folder: Path) -> None:
    film = torch.arange(7 * 2 * 3 * 5 * 3, dtype=torch.float32).view(7, 2, 3, 5, 3).transpose(0, 1)
    with Alive() as alive:
        assert b"".join(map(bytes, in_host_memory(film))) == film.contiguous().numpy().tobytes()
    assert [len(piece) for piece in in_host_memory(film)] == [3 * 5 * 3 * 4] * 14 and alive.largest <= film.nbytes
    body = write_body({"film": film, "text": "x"})
    assert place_of(body).startswith(str(folder))
    found = read_body(body)
    assert torch.equal(found["film"], film) and found["text"] == "x"
