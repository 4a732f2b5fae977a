"""Blocks that come one after the other: the same bits as if all were there, and no byte read before it came."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from latentloom.parallel.streaming.layout import LINE, Layout, leaves, shared_by_several
from latentloom.parallel.streaming.movers import DeviceMover, HostMover, Mover, Pinned
from latentloom.parallel.streaming.streamed import Streamed
from support.fake_streams import FakeCuda, Race

CPU = torch.device("cpu")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)
        self.register_buffer("scale", torch.rand(width))
        self.then: Callable[[], None] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.then()
        return x + self.down(torch.relu(self.up(x))) * self.scale


class Model(nn.Module):
    def __init__(self, num_blocks: int = 8, width: int = 24) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(num_blocks))
        self.order = list(range(num_blocks))

    def forward(self, x: Tensor) -> Tensor:
        for index in self.order:
            x = self.blocks[index](x)
        return x


@pytest.fixture
def model() -> Iterator[Any]:
    torch.manual_seed(3)
    with torch.no_grad():
        yield Model().requires_grad_(False).eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 24, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("resident", [(), (0,), (1, 3, 5, 7), (7,), tuple(range(8))])
def test_streamed_blocks_give_the_same_bits(model: Any, x: Tensor, resident: tuple[int, ...]) -> None:
    whole, before = model(x), {name: value.clone() for name, value in model.state_dict().items()}
    streamed = Streamed(list(model.blocks), device=CPU, resident=resident)
    size = Layout(model.blocks[0]).num_bytes
    assert streamed.num_bytes == size * (len(resident) + min(2, 8 - len(resident)))
    for _ in range(3):
        assert torch.equal(model(x), whole)
    for name, value in model.state_dict().items():  # also while it is streamed
        assert torch.equal(value, before[name])
    # each once a forward, and two ahead of the last
    assert streamed.num_brought == (3 * (8 - len(resident)) + 2 if len(resident) < 8 else 0)
    streamed.end()
    assert torch.equal(model(x), whole) and streamed.num_bytes == 0
    assert not any("forward" in vars(block) for block in model.blocks)
    streamed.end()


def test_skipped_blocks_are_not_brought(model: Any, x: Tensor) -> None:
    streamed = Streamed(list(model.blocks), device=CPU)
    model(x)
    model.order = [0, 7]
    wanted = model(x)
    num_brought = streamed.num_brought
    for _ in range(4):
        assert torch.equal(model(x), wanted)
    assert streamed.num_brought == num_brought  # both have a slot by now
    streamed.end()
    assert torch.equal(model(x), wanted)


def test_a_failed_block_leaves_all_at_rest_and_the_next_forward_is_right(model: Any, x: Tensor) -> None:
    whole = model(x)
    streamed = Streamed(list(model.blocks), device=CPU)
    for block in model.blocks:
        at_rest = [leaf.value.data_ptr() for leaf in leaves(block.modules())]

        def fail() -> None:
            raise RuntimeError("broken")

        block.then = fail
        with pytest.raises(RuntimeError, match="broken"):
            model(x)
        block.then = lambda: None
        assert [leaf.value.data_ptr() for leaf in leaves(block.modules())] == at_rest
        assert torch.equal(model(x), whole)
    streamed.end()


def test_a_forward_that_another_thread_ends_anywhere_leaves_nothing_wrong(model: Any, x: Tensor) -> None:
    import ctypes

    whole, ended = model(x), 0
    streamed = Streamed(list(model.blocks), device=CPU)
    for attempt in range(30):

        def work() -> None:
            nonlocal ended
            try:
                for _ in range(200):
                    model(x)
            except KeyError:
                ended += 1

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.001 * (attempt % 7))
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyError))
        thread.join(60)
        assert not thread.is_alive()
        with torch.no_grad():
            assert torch.equal(model(x), whole)
    assert ended
    streamed.end()


def test_a_copy_that_fails_is_told_where_the_block_is_wanted(model: Any, x: Tensor, monkeypatch: Any) -> None:
    whole, broken = model(x), [True]
    copies = Layout.copies

    def failing(self: Layout, slot: Tensor) -> Any:
        found = copies(self, slot)
        return [(into, rest[:-1] if broken[0] else rest) for into, rest in found]

    monkeypatch.setattr(Layout, "copies", failing)
    streamed = Streamed(list(model.blocks), device=CPU)
    with pytest.raises(RuntimeError, match="size"):
        model(x)
    streamed.end()
    broken[0] = False
    streamed = Streamed(list(model.blocks), device=CPU)
    assert torch.equal(model(x), whole)
    streamed.end()


# ---- Where tensors lie


def test_each_weight_keeps_its_byte_of_the_cache_line_and_its_strides() -> None:
    block = nn.Module()
    file = torch.rand(1024).view(torch.uint8)
    for name, begin in {"a": 24, "b": 24 + 400, "c": 2000}.items():
        part = file[begin : begin + 400].view(torch.float32).view(10, 10)
        block.register_parameter(name, nn.Parameter(part.T if name == "c" else part, requires_grad=False))
    layout, slot = Layout(block), torch.zeros(4096, dtype=torch.uint8)
    assert slot.data_ptr() % LINE == 0
    copies = layout.copies(slot)
    assert [len(into) for into, _ in copies] == [800, 400]  # neighbours at once
    for into, rest in copies:
        into.copy_(rest)
    for leaf, there in layout.within(slot):
        assert there.data_ptr() % LINE == leaf.value.data_ptr() % LINE
        assert there.stride() == leaf.value.stride() and torch.equal(there, leaf.value)


def test_a_tensor_of_two_names_is_moved_once() -> None:
    block = Block(16)
    block.other = block.up.weight
    block.part = nn.Parameter(block.up.weight.data[4:8], requires_grad=False)
    layout = Layout(block)
    assert layout.num_bytes < sum(p.numel() * 4 for p in (*Block(16).parameters(), *Block(16).buffers())) + 5 * LINE
    slot = torch.zeros(layout.num_bytes, dtype=torch.uint8)
    for into, rest in layout.copies(slot):
        into.copy_(rest)
    there = {leaf.name: to for leaf, to in layout.within(slot) if leaf.owner is block}
    assert there["other"].data_ptr() + 4 * there["other"].stride(0) * 4 == there["part"].data_ptr()
    assert torch.equal(there["part"], block.part)


def test_what_several_blocks_share_moves_with_none(model: Any, x: Tensor) -> None:
    model.blocks[2].up.weight = model.blocks[5].up.weight
    model.head = model.blocks[0].down
    whole = model(x)
    shared = shared_by_several(model, list(model.blocks), kept=[model.blocks[7].up])
    assert shared == {
        value.data_ptr() for value in (model.blocks[2].up.weight, model.head.weight, *model.blocks[7].up.parameters())
    }
    streamed = Streamed(list(model.blocks), device=CPU, without=shared)
    here = model.head.weight.data_ptr()
    model.blocks[0].then = lambda: here == model.head.weight.data_ptr() or pytest.fail("it was moved")
    assert torch.equal(model(x), whole)
    streamed.end()


def test_parts_of_packed_weights_travel_packed() -> None:
    quantization = pytest.importorskip("torchao.quantization")
    torch.manual_seed(1)
    with torch.no_grad():
        model: Any = Model(4, 64).requires_grad_(False).eval()
        quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
        x = torch.randn(3, 64)
        whole = model(x)
        streamed = Streamed(list(model.blocks), device=CPU, resident=(1,))
        packed = 2 * 64 * 128 + 4 * (128 + 64) + 4 * (128 + 64)  # weights, a scale for each row, bias and buffer
        assert Layout(model.blocks[0]).num_bytes < packed + 8 * LINE
        for _ in range(2):
            assert torch.equal(model(x), whole)
        streamed.end()
        assert torch.equal(model(x), whole)


class Runtime:
    """Of CUDA, what pins memory; the third piece is refused where `most` is 2."""

    def __init__(self, most: int = 1000) -> None:
        self.pinned: set[int] = set()
        self.most = most

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if len(self.pinned) == self.most:
            return 2
        self.pinned.add(address)
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        self.pinned.remove(address)
        return 0


def test_blocks_rest_pinned_one_row_each_until_they_are_freed(model: Any, x: Tensor) -> None:
    whole, runtime = model(x), Runtime()
    pinned = Pinned(list(model.blocks), cudart=runtime)
    assert len(runtime.pinned) == 8 and pinned.num_bytes == 8 * Layout(model.blocks[0]).num_bytes
    assert all(len(Layout(block).copies(torch.zeros(1 << 16, dtype=torch.uint8))) == 1 for block in model.blocks)
    assert torch.equal(model(x), whole)
    pinned.free()
    assert not runtime.pinned and pinned.num_bytes == 0 and torch.equal(model(x), whole)


def test_what_cannot_be_pinned_stays_where_it_is(model: Any, x: Tensor, caplog: pytest.LogCaptureFixture) -> None:
    whole, runtime = model(x), Runtime(most=2)
    pinned = Pinned(list(model.blocks), cudart=runtime)
    assert len(runtime.pinned) == 2 and "pins no more" in caplog.text
    assert torch.equal(model(x), whole)
    pinned.free()
    assert not runtime.pinned


# ---- The order of streams and events on a GPU


class Drill:
    """A model whose blocks' work is noted on a fake stream that computes."""

    def __init__(self, cuda: FakeCuda, num_blocks: int = 8) -> None:
        self.cuda = cuda
        self.model: Any = Model(num_blocks).requires_grad_(False).eval()
        self.rest = [leaf.value for leaf in leaves(self.model.modules())]
        made: list[DeviceMover] = []

        def mover(device: torch.device, num_slots: int) -> Mover:
            # what had the slots' memory before is still at work
            for slot in self.streamed_slots():
                cuda.compute.work("earlier work", writes=[slot], seconds=1e-3)
            made.append(DeviceMover(device, num_slots, cuda=cuda))
            return made[-1]

        self.interrupt_at = -1
        for index, block in enumerate(self.model.blocks):
            block.then = lambda index=index, block=block: self._work(index, block)
        self.streamed = Streamed.__new__(Streamed)
        self.streamed.__init__(list(self.model.blocks), device=CPU, mover=mover)  # type: ignore[misc]

    def streamed_slots(self) -> list[Tensor]:
        return self.streamed._slots

    def _work(self, index: int, block: Any) -> None:
        self.cuda.compute.work(f"block {index}", reads=[leaf.value for leaf in leaves(block.modules())], seconds=1e-3)
        if index == self.interrupt_at:
            raise KeyError("interrupted")

    def forward(self, order: list[int], interrupt_at: int = -1) -> None:
        self.model.order, self.interrupt_at = order, interrupt_at
        with torch.no_grad():
            try:
                self.model(torch.zeros(1, 24))
            except KeyError:
                assert interrupt_at >= 0

    def random(self, seed: int) -> None:
        dice, every = random.Random(seed), list(range(len(self.model.blocks)))
        for _ in range(10):
            order = every
            if dice.random() < 0.4:  # as a step cache skips blocks
                order = [0, *sorted(dice.sample(every[1:-1], dice.randrange(3))), every[-1]]
            self.forward(order, dice.choice(order) if dice.random() < 0.3 else -1)
        assert self.cuda.num_syncs == 0, "the host waits for nothing within steps"
        self.streamed.end()
        for tensor in self.rest:
            self.cuda.by_host("what rests is given back", tensor)


def test_no_copy_races_a_block_and_the_host_never_waits_in_a_step() -> None:
    for seed in range(60):
        Drill(FakeCuda()).random(seed)


@pytest.mark.parametrize(
    "left_out",
    [("compute", "wait"), ("copy", "wait"), ("compute", "record"), ("copy", "record"), ("copy", "synchronize")],
)
def test_each_wait_that_is_left_out_is_a_race(left_out: tuple[str, str]) -> None:
    found = 0
    for seed in range(10):
        try:
            Drill(FakeCuda(lambda *asked: asked == left_out)).random(seed)
        except Race:
            found += 1
    assert found == 10


def test_an_event_that_is_left_out_once_is_a_race() -> None:
    """The one that stands for what had the slots before, and the one after a block that was interrupted."""
    calls = itertools.count()
    with pytest.raises(Race, match="earlier work"):
        Drill(FakeCuda(lambda *asked: asked == ("compute", "record") and next(calls) < 2)).random(0)


def test_the_block_after_next_is_asked_for_before_a_block_ends() -> None:
    cuda = FakeCuda(copy_s=2e-4)  # of each of four pieces
    drill = Drill(cuda, num_blocks=20)
    for _ in range(3):
        drill.forward(list(range(20)))
    ends = {what: end for what, _, end in cuda.log if what.startswith("block")}  # of the last forward
    copies = [asked for what, asked, _ in cuda.log if what == "copy"]
    num_each = 4
    assert len(copies) == num_each * (3 * 20 + 2)
    last = copies[num_each * 40 :: num_each]  # of each block of the last forward, the first two of which came before
    for index in range(18):
        assert last[index + 2] < ends[f"block {index}"]
    begin = next(end for what, _, end in cuda.log if what == "block 19")
    took = (ends["block 19"] - begin) / (2 * 20)
    assert took == pytest.approx(1e-3, rel=0.05), "a copy of 0.8 ms hides under a block of 1 ms"


def test_a_host_mover_keeps_the_order_and_ends() -> None:
    mover, slot = HostMover(), torch.zeros(1 << 20, dtype=torch.uint8)
    for value in range(20):
        mover.bring(0, [(slot, torch.full_like(slot, value))])
        mover.bring(1, [(torch.zeros(8), torch.ones(8))])
    mover.wait(0)
    assert slot.eq(19).all()
    mover.end()
    assert not mover._thread.is_alive()
