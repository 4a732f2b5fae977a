import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom.parallel.errors import BadMessage, Closed
from latentloom.parallel.progress import RankWork
from latentloom.parallel.ranks import messages as m
from latentloom.parallel.ranks.channel import Channel, Received, read_body, write_body
from latentloom.parallel.ranks.rank_job import PIECE_WORDS, digest, mark
from latentloom.parallel.ranks.seat import World
from latentloom.parallel.staging import by_turns, bytes_of

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.bool),
]


def cross(plain: Any) -> Any:
    return read_body(write_body(plain))


BASE = torch.arange(24.0).view(4, 6)
# Every dtype, empty ones, views of one storage, and what torch calls contiguous and does not view as bytes.
TENSORS = {
    **{str(dtype): (torch.linspace(-2, 2, 15).view(3, 5) * 9).abs().to(dtype) for dtype in DTYPES},
    **{f"ones of {shape}": torch.ones(shape) for shape in ((), (0,), (2, 0, 3), (1, 1, 1))},
    **{
        f"view {number}": view for number, view in enumerate([BASE, BASE, BASE.T, BASE[1:3, ::2], BASE[0].expand(3, 6)])
    },
    "expanded": torch.tensor(0.5).expand(1),
    "expanded, half": torch.tensor(0.5, dtype=torch.bfloat16).expand(1, 1),
    "expanded, complex": torch.tensor(1 + 2j).expand(1),
    "every sixth": torch.arange(6.0)[::6],
    "strides of nothing": torch.arange(30.0).as_strided((1, 2, 1), (7, 1, 3)),
    "expanded of nothing": torch.empty(0, 1).expand(0, 5),
    "bool": torch.tensor(True).expand(1),
    "conjugated": torch.tensor([1 + 2j, 3j]).conj(),
    "negated": torch.tensor([1 + 2j]).conj().imag,
}


def test_a_tensor_in_several_places_goes_once() -> None:
    x = torch.arange(4096.0)
    fd = write_body({"a": [x, x], "b": x, "c": x.clone()})
    assert 2 * x.nbytes < os.fstat(fd).st_size < 3 * x.nbytes
    found = read_body(fd)
    assert found["a"][0] is found["b"] and torch.equal(found["b"], x) and torch.equal(found["c"], x)


def test_tensors_cross_together_bit_for_bit_and_are_summed_up_as_what_they_show() -> None:
    """Each begins where its dtype may, whatever goes before."""
    for found, (name, tensor) in zip(cross([*TENSORS.values()]), TENSORS.items(), strict=True):
        plain = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        assert found.dtype == tensor.dtype and found.shape == tensor.shape, name
        assert torch.equal(bytes_of(found), bytes_of(plain)), name
        assert mark(tensor) == mark(plain.view(-1).view(plain.shape)), name


def test_a_mark_tells_any_word_that_differs_or_is_elsewhere() -> None:
    tensor = torch.randint(0, 256, (3, PIECE_WORDS, 5), dtype=torch.uint8)
    flat = tensor.flatten()
    others = [tensor.clone() for _ in range(4)]
    for other, place in zip(others, (0, 8 * PIECE_WORDS, len(flat) - 9, len(flat) - 1), strict=True):
        other.view(-1)[place] ^= 1
    moved = [tensor.clone() for _ in range(2)]
    for other, place in zip(moved, (1, PIECE_WORDS), strict=True):  # of its own piece, and there of the next
        other.view(-1, 8)[[0, place]] = flat.view(-1, 8)[[place, 0]]
    marks = [mark([each]) for each in (tensor, *others, *moved, flat, tensor.view(torch.int8))]
    assert len(set(marks)) == len(marks)
    assert mark({"a": tensor.mT}) == mark({"a": tensor.mT.contiguous()})
    assert digest(flat[3:]) == digest(flat[3:].clone())
    assert digest(flat[:5]) != digest(flat[1:6]) and digest(flat[:0]) == 0
    assert digest(flat[:9]) != digest(torch.cat([flat[:8], flat[8:9] ^ 1]))


def test_pieces_come_by_two_buffers_in_turn_and_none_is_overwritten_while_it_is_read() -> None:
    pieces = torch.arange(22, dtype=torch.uint8).split(5)
    buffers = [torch.zeros(5, dtype=torch.uint8) for _ in range(2)]
    told: list[str] = []

    def mark() -> Callable[[], None]:
        number = sum(each.startswith("copied") for each in told)
        told.append(f"copied {number}")
        return lambda: told.append(f"waited {number}")

    found = []
    for piece in by_turns(pieces, buffers, mark):
        found.append(bytes(piece))
        told.append("read")
    assert b"".join(found) == bytes(range(22))
    assert told[:6] == ["copied 0", "waited 0", "copied 1", "read", "waited 1", "copied 2"]
    assert told[-3:] == ["read", "waited 4", "read"]


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


ROUND_TRIP = [
    m.Fork(rank=3, birth=2, device="cuda:1", num_threads=4, ping_s=0.6),
    m.ForkSpare(),
    m.ServerReady(7),
    m.Forked(rank=3, birth=2, pid=7),
    m.NotForked(rank=3, birth=2, problem="no memory"),
    m.NoSpare("no memory"),
    m.Exited(pid=7, code=-9),
    m.Hello(gpu="a GPU", uuid="7"),
    m.Kernels(found=(m.Attends(dtype="torch.bfloat16", kernel="sdpa", left_out=(("cudnn", "none"),)),), is_first=True),
    m.Ping(),
    m.Join(world=World(name="group0-1", store="/tmp/x", size=2), rank=1),
    m.Joined(world="group0-1", problem=""),
    m.RunJob(job=5, function="a:b", lane="side", rank=0, num_ranks=1, previews=True, answers=False),
    m.Cancel(5),
    m.Abort(5),
    m.Stuck(5),
    m.Phase(job=5, text="\u00fcbt", is_loading=True),
    m.StepDone(job=5, done=1, total=2),
    m.Moves(5),
    m.Preview(5),
    m.Ended(job=5, state="refused", is_whole=False),
    m.Ended(
        job=5,
        state="done",
        is_whole=True,
        mark=9,
        spread=m.SpreadWork(
            plan="ulysses=2",
            work=(RankWork(rank=0, device="cpu", seconds=1), RankWork(rank=1, device="cpu", seconds=0.5)),
        ),
    ),
]


@pytest.mark.parametrize("message", ROUND_TRIP, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(ends: Any, message: m.Message) -> None:
    mine, theirs = ends(tuple(m.KINDS.values()))
    Channel(theirs, ()).send(message)
    received = mine.receive()
    assert received is not None and received.message == message


def test_every_kind_of_message_is_tried_and_in_the_table() -> None:
    assert {type(message) for message in ROUND_TRIP} == set(m.KINDS.values())
    rows = [line.split()[:3] for line in (m.__doc__ or "").splitlines() if line.startswith("    ")][1:]
    ways = {("host", "server"): m.TO_SERVER, ("server", "host"): m.FROM_SERVER}
    ways |= {("host", "rank"): m.TO_RANK, ("rank", "host"): m.FROM_RANK}
    told = [[kind.__name__, *way] for way, kinds in ways.items() for kind in kinds]
    assert sorted(rows) == sorted(told)
    assert sorted({name for name, *_ in told}) == sorted(kind.__name__ for kind in m.KINDS.values())


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (None, "a message is None, which has no kind"),
        ([1], "which has no kind"),
        ({"kind": 3}, "which has no kind"),
        ({"kind": "dance"}, "a message of kind 'dance' is not known; it hears abort, cancel, join, kernels, run_job"),
        ({"kind": "hello"}, "a message of kind 'hello' is not for this end"),
        ({"kind": "cancel"}, r"cancel has \[\] instead of \['job'\]"),
        ({"kind": "cancel", "job": 1, "why": ""}, r"cancel has \['job', 'why'\] instead of"),
        ({"kind": "cancel", "job": "1"}, r"cancel.job is '1', a str"),
        ({"kind": "cancel", "job": True}, "cancel.job is 'True', a bool"),
        ({"kind": "cancel", "job": None}, "cancel.job is 'None', a NoneType"),
        ({**m.encode(ROUND_TRIP[12]), "lane": "third"}, "run_job.lane is 'third'"),
        ({**m.encode(ROUND_TRIP[10]), "world": {"name": "x"}}, r"join.world has \['name'\] instead of"),
        ({**m.encode(ROUND_TRIP[10]), "world": 3}, "join.world has int instead of"),
        *(
            ({**m.encode(ROUND_TRIP[-2]), "spread": spread}, "ended.spread")
            for spread in (3, {"plan": "x"}, {"plan": "x", "work": [3]}, {"plan": "x", "work": "all"})
        ),
        ({**m.encode(ROUND_TRIP[0]), "ping_s": 10**400}, "fork.ping_s is '1000"),  # beyond a float
    ],
)
def test_what_is_no_message_is_refused_by_name(plain: Any, words: str) -> None:
    hears = m.FROM_RANK if words.startswith("ended") else m.TO_SERVER if words.startswith("fork") else m.TO_RANK
    with pytest.raises(BadMessage, match=words):
        m.decode(plain, hears)


@pytest.mark.parametrize("data", [b"\xff", b"{", b"[" * 60_000, b"x" * 70_000], ids=["bytes", "cut", "deep", "long"])
def test_what_is_no_json_is_refused_and_its_descriptors_are_closed(ends: Any, data: bytes) -> None:
    mine, theirs = ends(m.TO_RANK)
    before = len(list(Path("/proc/self/fd").iterdir()))
    fd = write_body({})
    socket.send_fds(theirs, [data], [fd])
    os.close(fd)
    with pytest.raises(BadMessage, match="is no JSON"):
        mine.receive()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_was_said_before_the_other_side_left_is_heard(ends: Any) -> None:
    mine, theirs = ends(m.FROM_RANK)
    mine.send(m.Cancel(1))
    Channel(theirs, ()).send(m.Ping())
    theirs.close()
    assert mine.receive() == Received(m.Ping())
    with pytest.raises(Closed):
        mine.receive()
    with pytest.raises(Closed):
        mine.send(m.Cancel(1))


def test_descriptors_that_cannot_be_taken_leave_the_message(ends: Any) -> None:
    resource = pytest.importorskip("resource")
    mine, theirs = ends(m.FROM_RANK)
    fd = write_body({})
    Channel(theirs, ()).send(m.Preview(1), [fd])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        received = mine.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert received == Received(m.Preview(1), ())
    os.close(fd)


def test_an_end_that_does_not_wait_hears_nothing_yet(ends: Any) -> None:
    mine, _ = ends(m.FROM_RANK)
    mine.socket.setblocking(False)
    assert mine.receive() is None
    assert mine.socket.family == socket.AF_UNIX
