"""Blocks that come one after the other: the same bits as if all were there, and no byte read before it came."""

import fcntl
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from latentloom.parallel.group import Group
from latentloom.parallel.streaming import movers, pinned
from latentloom.parallel.streaming.layout import GPU_ALIGN, Layout, bytes_under, leaves, shared_by_several
from latentloom.parallel.streaming.movers import DeviceMover, GatheringMover, HostMover, Mover, padded
from latentloom.parallel.streaming.pinned import Pinned
from latentloom.parallel.streaming.streamed import Streamed
from support.fake_streams import FakeCuda, Race

LINE = 64  # of a CPU's cache
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

    def failing(self: Layout, slot: Tensor, **asked: Any) -> Any:
        found = copies(self, slot, **asked)
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
    copies = list(layout.copies(slot))
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
    there = {leaf.name: to for leaf, to in layout.within(slot) if leaf.held is block._parameters}
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
    """Of CUDA, what pins memory, or refuses to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.pinned: dict[int, int] = {}
        self.refuses = refuses

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if not self.refuses:
            self.pinned[address] = size
        return 2 if self.refuses else 0

    def cudaHostUnregister(self, address: int) -> int:
        del self.pinned[address]
        return 0


def shared_files() -> list[Path]:
    return list(pinned.FOLDER.glob(f"{pinned.PREFIX}*"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pinned, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("key", ["", "a model"])
def test_blocks_rest_pinned_until_they_are_freed(model: Any, x: Tensor, folder: Path, key: str) -> None:
    model.blocks[1].other = model.blocks[1].up.weight  # tied within a block
    whole, runtime = model(x), Runtime()
    rests = Pinned(list(model.blocks), key=key, cudart=runtime)
    ((address, size),) = runtime.pinned.items()
    assert size == rests.num_bytes and len(shared_files()) == bool(key)
    for block in model.blocks:
        for leaf in leaves(block.modules()):
            assert address <= leaf.value.data_ptr() < address + size and leaf.value.data_ptr() % GPU_ALIGN == 0
        layout = Layout(block, align=GPU_ALIGN)
        assert all(spot.offset % GPU_ALIGN == 0 for spot in layout.spots), "as torch aligns them where they are there"
        (copy,) = layout.copies(torch.zeros(1 << 16, dtype=torch.uint8))  # a block is copied at once
        assert len(copy[0]) <= layout.num_bytes
    assert model.blocks[1].other is model.blocks[1].up.weight
    streamed = Streamed(list(model.blocks), device=CPU)
    assert torch.equal(model(x), whole)
    streamed.end()
    rests.free()
    assert not runtime.pinned and not shared_files() and torch.equal(model(x), whole)


def test_what_cannot_be_pinned_rests_all_the_same(model: Any, x: Tensor, caplog: pytest.LogCaptureFixture) -> None:
    whole = model(x)
    rests = Pinned(list(model.blocks), cudart=Runtime(refuses=True))
    assert "does not pin" in caplog.text and not rests.is_pinned and torch.equal(model(x), whole)
    rests.free()


def test_who_names_the_same_shares_one_copy(x: Tensor, folder: Path) -> None:
    torch.manual_seed(3)
    models = [Model().requires_grad_(False).eval() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    with torch.no_grad():
        wanted = models[0](x)
        rests = [Pinned(list(each.blocks), key="the same", cudart=Runtime()) for each in models]
        assert len(shared_files()) == 1
        models[1].blocks[0].up.weight[0, 0] = 7  # what one writes the other reads: they are one
        assert models[0].blocks[0].up.weight[0, 0] == 7
        other = Pinned(list(Model(4).blocks), key="the same", cudart=Runtime())  # and of another shape
        assert len(shared_files()) == 2
        rests[0].free()
        other.free()
        assert len(shared_files()) == 1
        rests[1].free()
        assert not shared_files() and not torch.equal(models[1](x), wanted)


def test_one_fills_while_the_others_wait(folder: Path) -> None:
    """Threads stand for ranks: locks are of open files."""
    filled, real = list[int](), bytes_under
    models = [Model().requires_grad_(False) for _ in range(4)]

    def slowly(first: Tensor, size: int) -> Tensor:
        filled.append(threading.get_ident())
        time.sleep(0.01)
        return real(first, size)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as threads:
        patch.setattr(pinned, "bytes_under", slowly)
        rests = list(threads.map(lambda each: Pinned(list(each.blocks), key="one", cudart=Runtime()), models))
    assert len(set(filled)) == 1 and len(filled) == 8 * 4
    for each in models[1:]:
        assert all(map(torch.equal, each.state_dict().values(), models[0].state_dict().values()))
    for rest in rests:
        rest.free()
    assert not shared_files()


def test_what_a_killed_process_left_is_filled_anew_and_swept(folder: Path) -> None:
    code = """
import os, sys, torch
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from latentloom.parallel.streaming import pinned
pinned.FOLDER = Path(sys.argv[1])
memory = pinned._Memory(1 << 16, sys.argv[3])
memory.map[:4] = b"half"
if sys.argv[4] == "full":
    memory.fill()
os.kill(os.getpid(), 9)
"""
    root = str(Path(pinned.__file__).resolve().parents[3])
    for state in ("half", "full"):
        subprocess.run([sys.executable, "-c", code, str(folder), root, "a", state], check=False)
        (left,) = shared_files()
        other = pinned._Memory(1 << 16, "b")
        assert other.is_mine and [each.name for each in shared_files()] == [other._path.name] != [left.name], "swept"
        other.leave()
        subprocess.run([sys.executable, "-c", code, str(folder), root, "a", state], check=False)
        memory = pinned._Memory(1 << 16, "a")
        assert memory.is_mine
        memory.leave()
        assert not shared_files()


def test_no_other_account_can_lay_blocks_down_for_us(folder: Path) -> None:
    memory = pinned._Memory(1 << 16, "a")
    path = memory._path
    memory.leave()
    path.write_bytes(b"x" * (1 << 16) + pinned.FULL)
    path.chmod(0o666)
    held = path.open("rb")
    fcntl.flock(held, fcntl.LOCK_SH)  # so that it is not swept
    memory = pinned._Memory(1 << 16, "a")
    assert memory.is_mine and memory._file < 0
    memory.map[:1] = b"y"
    assert path.read_bytes()[:1] == b"x"
    held.close()


# ---- The order of streams and events on a GPU


class Drill:
    """A model whose blocks' work is noted on a fake stream that computes."""

    def __init__(self, cuda: FakeCuda, num_blocks: int = 8, *, group: Group | None = None, keeps: bool = False) -> None:
        self.cuda = cuda
        self.model: Any = Model(num_blocks).requires_grad_(False).eval()
        self.rest = [leaf.value for leaf in leaves(self.model.modules())]
        empty = torch.empty

        def used(*args: Any, **kwargs: Any) -> Tensor:
            # what had this memory before is still at work
            cuda.compute.work("earlier work", writes=[made := empty(*args, **kwargs)], seconds=1e-3)
            return made

        def mover(slots: Sequence[Tensor], group: Group | None) -> Mover:
            for slot in slots:
                cuda.compute.work("earlier work", writes=[slot], seconds=1e-3)
            with patch.object(torch, "empty", used):
                if group is None:
                    return DeviceMover(slots, cuda=cuda)
                found = GatheringMover(slots, group, keeps=keeps, cuda=cuda)
            share = found._share

            def shared(turn: int, size: int) -> Tensor:
                with patch.object(torch, "empty", used):
                    return share(turn, size)

            found._share = shared  # type: ignore[method-assign]
            return found

        self.interrupt_at = -1
        for index, block in enumerate(self.model.blocks):
            block.then = lambda index=index, block=block: self._work(index, block)
        self.streamed = Streamed(list(self.model.blocks), device=CPU, group=group, mover=mover)

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
        self.forward(every)
        assert self.cuda.num_syncs == 0, "the host waits for nothing within steps"
        slots = self.streamed._slots
        self.streamed.end()
        self.cuda.compute.work("later work", writes=slots, seconds=1e-3)
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


@pytest.fixture
def gathering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Drill]:
    def drill(cuda: FakeCuda, num_blocks: int = 8, size: int = 2, keeps: bool = False) -> Drill:
        monkeypatch.setattr(movers, "gather_into", cuda.gather_into)
        return Drill(cuda, num_blocks, group=Group(range(size), 1), keeps=keeps)

    return drill


@pytest.mark.parametrize(("size", "keeps"), [(2, False), (3, False), (2, True)])
def test_no_gather_races_and_the_host_never_waits_in_a_step(
    gathering: Callable[..., Drill], size: int, keeps: bool
) -> None:
    for seed in range(60):
        gathering(FakeCuda(), size=size, keeps=keeps).random(seed)


def test_a_share_that_is_kept_comes_once(gathering: Callable[..., Drill]) -> None:
    drill = gathering(cuda := FakeCuda(), keeps=True)
    for _ in range(3):
        drill.forward(list(range(8)))
    layouts, mover = drill.streamed._layouts, drill.streamed._mover
    assert mover is not None and mover.num_bytes == sum(
        padded(each.num_bytes, Group((0, 1), 1)) // 2 for each in layouts
    )
    share = torch.zeros(mover.num_bytes // 8, dtype=torch.uint8)
    once = sum(len(list(each.copies(share, begin=len(share)))) for each in layouts)
    gathers = [what for what, _, _ in cuda.log if what == "gather"]
    assert len([what for what, _, _ in cuda.log if what == "copy"]) == once and len(gathers) >= 3 * 8


@pytest.mark.parametrize(
    "left_out",
    [
        ("wire", "wait for copy"),
        ("wire", "wait for compute"),
        ("copy", "wait for all of compute"),
        ("wire", "synchronize"),
    ],
)
def test_each_wait_of_a_gather_of_kept_shares_that_is_left_out_is_a_race(
    gathering: Callable[..., Drill], left_out: tuple[str, str]
) -> None:
    for seed in range(10):
        with pytest.raises(Race):
            gathering(FakeCuda(lambda *asked: asked == left_out), keeps=True).random(seed)


@pytest.mark.parametrize(
    "left_out",
    [
        ("copy", "wait"),  # for the gather that read the share before
        ("copy", "record"),
        ("wire", "wait for copy"),
        ("wire", "wait for compute"),
        ("wire", "record"),
        ("compute", "wait"),
        ("compute", "record"),
        ("wire", "synchronize"),
    ],
)
def test_each_wait_of_a_gather_that_is_left_out_is_a_race(
    gathering: Callable[..., Drill], left_out: tuple[str, str]
) -> None:
    for seed in range(10):
        with pytest.raises(Race):
            gathering(FakeCuda(lambda *asked: asked == left_out)).random(seed)


def test_what_had_the_memory_of_shares_is_waited_for(gathering: Callable[..., Drill]) -> None:
    calls = itertools.count()
    without = lambda *asked: asked == ("compute", "record") and 2 <= next(calls) < 4  # noqa: E731
    with pytest.raises(Race, match="earlier work"):
        gathering(FakeCuda(without)).random(0)


def test_a_share_comes_while_its_slot_computes(gathering: Callable[..., Drill]) -> None:
    """Copies that take 1.5 times as long as blocks hide on two ranks: four pieces of half their bytes."""
    cuda = FakeCuda(copy_s=1.5e-3 / 5)
    drill = gathering(cuda, num_blocks=20)
    for _ in range(3):
        drill.forward(list(range(20)))
    ends = [end for what, _, end in cuda.log if what == "block 19"]
    assert (ends[-1] - ends[-2]) / 20 == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_of_all_ranks_make_the_block(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, shares = Layout(Block(40)), list[Tensor]()
    whole = torch.zeros(layout.num_bytes, dtype=torch.uint8)
    for into, rest in layout.copies(whole):
        into.copy_(rest)
    for rank in range(size):
        cuda, group = FakeCuda(), Group(range(size), rank)
        monkeypatch.setattr(movers, "gather_into", lambda out, block, **_: shares.append(block.clone()))
        with patch.object(torch, "empty", torch.zeros):
            mover = GatheringMover(
                [torch.zeros(padded(2 * layout.num_bytes, group), dtype=torch.uint8)], group, cuda=cuda
            )
        mover.bring(0, layout)
    assert len({len(share) for share in shares}) == 1 and len(shares[0]) % movers.UNIT_BYTES == 0
    assert torch.equal(torch.cat(shares)[: len(whole)], whole)


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
    slots = [torch.zeros(1 << 20, dtype=torch.uint8) for _ in range(2)]
    mover = HostMover(slots)
    for value in range(20):
        block = nn.Module()
        block.register_buffer("all", torch.full((1 << 20,), value, dtype=torch.uint8))
        mover.bring(0, Layout(block))
        mover.bring(1, Layout(nn.Linear(8, 8)))
    mover.wait(0)
    assert slots[0].eq(19).all()
    mover.end()
    assert not mover._thread.is_alive()
