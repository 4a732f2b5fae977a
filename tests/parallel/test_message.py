import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.ranks.messages import Channel, Closed, read_body, write_body

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.bool),
]


def cross(plain: Any) -> Any:
    return read_body(write_body(plain))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_crosses_bit_for_bit(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    tensor = (torch.randn(3, 5, generator=generator) * 9).abs().to(dtype)
    found = cross({"x": tensor})["x"]
    assert found.dtype == dtype and found.shape == tensor.shape
    assert torch.equal(found.view(torch.uint8), tensor.view(torch.uint8))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1)], ids=str)
def test_empty_and_dimless_tensors_keep_their_shape(shape: tuple[int, ...]) -> None:
    found = cross([torch.ones(shape), torch.ones(shape)])
    assert [each.shape for each in found] == [torch.Size(shape)] * 2
    assert all(torch.equal(each, torch.ones(shape)) for each in found)


def test_views_of_one_storage_and_strided_tensors_cross_as_what_they_show() -> None:
    base = torch.arange(24.0).view(4, 6)
    views = [base, base, base.T, base[1:3, ::2], base[0].expand(3, 6)]
    for found, view in zip(cross(views), views, strict=True):
        assert torch.equal(found, view)


def test_what_was_received_may_be_written_to_without_touching_what_others_read() -> None:
    fd = write_body({"x": torch.zeros(4)})
    second = os.dup(fd)
    read_body(fd)["x"].fill_(1)
    assert torch.equal(read_body(second)["x"], torch.zeros(4))


def test_plain_data_crosses_as_it_is() -> None:
    plain = {"a": [1, 2.5, None, True, "text"], "b": {"c": [], "d": {}}, "e": float("inf")}
    assert cross(plain) == plain


def test_no_descriptor_is_left_by_a_body() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [cross({"x": torch.ones(9)}) for _ in range(20)]
    with pytest.raises(AttributeError):
        write_body({"x": object()})
    assert len(kept) == 20 and len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_was_said_before_the_other_side_left_is_heard() -> None:
    mine, theirs = Channel.pair()
    mine.send({"unread": 1})
    theirs.send({"last": "words"})
    theirs.close()
    message = mine.receive()
    assert message is not None and message.header == {"last": "words"}
    with pytest.raises(Closed):
        mine.receive()
    with pytest.raises(Closed):
        mine.send({})
    mine.close()


def test_descriptors_that_cannot_be_taken_leave_the_message() -> None:
    resource = pytest.importorskip("resource")
    mine, theirs = Channel.pair()
    fd = write_body({})
    theirs.send({"kind": "job"}, [fd])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        message = mine.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert message is not None and (message.header, message.fds) == ({"kind": "job"}, ())
    os.close(fd)
    mine.close()
    theirs.close()


def test_an_end_that_does_not_wait_hears_nothing_yet() -> None:
    mine, theirs = Channel.pair()
    mine.socket.setblocking(False)
    assert mine.receive() is None
    assert mine.socket.family == socket.AF_UNIX
    mine.close()
    theirs.close()
