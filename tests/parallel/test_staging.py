"""Tensors on their way to a device: the same bytes, by buffers that are not written before they are free."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from latentloom.parallel.staging import UPLOAD_BYTES, DeviceUpload, bytes_of, moving
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
