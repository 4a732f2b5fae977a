"""Forwards replayed as CUDA graphs, with tapes for graphs."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn

from latentloom.parallel.attention import packed
from latentloom.parallel.group import Axis
from latentloom.parallel.sharding import captured
from latentloom.parallel.sharding.captured import MOST, Captured
from latentloom.parallel.sharding.padding import Texts, leaving_out
from latentloom.parallel.sharding.split_plan import Padding
from support.launches import lone_rank
from support.tapes import CPU, Tape, Tapes

runs = Counter[nn.Module]()  # not on the module, whose own numbers its graphs depend on


class Twice(nn.Module):
    """Counts what runs it, Python and all."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x: Tensor, others: dict[str, Any] | None = None, scale: float = 1.0) -> tuple[Tensor, Tensor]:
        runs[self] += 1
        y = x * self.weight * scale
        return y, y + (others or {}).get("y", 0.0)


@pytest.fixture
def tapes() -> Tapes:
    return Tapes()


@pytest.fixture
def module(tapes: Tapes) -> Iterator[Twice]:
    with torch.no_grad():
        module = Twice()
        replayed = Captured(module, recorder=tapes)
        yield module
        replayed.restore()


def of(module: nn.Module) -> Captured:
    return vars(module)["_compiled_call_impl"]


def test_from_the_second_call_on_a_graph_answers_for_the_tensors_of_each_call(module: Twice, tapes: Tapes) -> None:
    found = []
    for step in range(6):
        x, y = torch.full((3,), float(step)), torch.full((3,), 10.0 * step)
        found.append(module(x, others={"y": y}))
        x.fill_(-1.0)  # nothing of a call is read in the next
    for step, (first, second) in enumerate(found):
        assert first.tolist() == 3 * [2.0 * step] and second.tolist() == 3 * [12.0 * step], "answers are the caller's"
    assert (tapes.num_aside, len(tapes.made), tapes.made[0].num_replays) == (1, 1, 5)


def test_a_shape_a_number_and_a_hook_have_graphs_of_their_own_and_not_too_many(
    module: Twice, tapes: Tapes, caplog: pytest.LogCaptureFixture
) -> None:
    def skip(*_: Any) -> tuple[Tensor, Tensor]:
        return torch.zeros(4), torch.zeros(4)

    for _ in range(3):
        assert module(torch.ones(3))[0].shape == (3,)
        assert module(torch.ones(4))[0].shape == (4,)
        assert module(torch.ones(4), scale=3.0)[0][0] == 6.0
        hook = module.register_forward_hook(skip)  # as guiders do with layers
        assert not module(torch.ones(4))[0].any()
        hook.remove()
    assert len(tapes.made) == MOST == 4 and not caplog.records
    before = runs[module]
    for _ in range(4):
        assert module(torch.ones(5))[0].tolist() == 5 * [2.0]
    assert runs[module] == before + 4 and len(tapes.made) == MOST
    [said] = caplog.messages
    assert "steps of Twice run without a CUDA graph: it is called in more than 4 ways" in said


def test_what_a_series_did_not_use_makes_way_for_the_next(module: Twice, tapes: Tapes) -> None:
    replayed = of(module)
    for lengths in ((3, 4), (4,), (4, 5, 6, 7), (4,)):
        replayed.begin()
        for length in lengths:
            for _ in range(3):
                module(torch.ones(length))
    replayed.begin()
    assert [each.is_reset for each in tapes.made] == [True, False, True, True, True]
    replayed.forget()
    assert all(each.is_reset for each in tapes.made) and replayed.num_bytes == 0


def test_restored_the_module_is_as_it_was(module: Twice, tapes: Tapes) -> None:
    for _ in range(3):
        module(torch.ones(3))
    replayed = of(module)
    replayed.restore()
    replayed.restore()
    assert tapes.made[0].is_reset and "_compiled_call_impl" not in vars(module)
    assert module(torch.ones(3))[0].tolist() == 3 * [2.0]


class Odd(Twice):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, others: Any = None, scale: float = 1.0) -> Any:
        return self.body(x)


@pytest.mark.parametrize(
    ("body", "others", "reason"),
    [
        (lambda x: x * float(x.sum()), dict, "its _local_scalar_dense waits for the device"),
        (lambda x: x[x > 0], dict, "its index waits for the device"),
        (lambda x: x, Counter, "it is given a Counter, which may change from step to step"),
    ],
)
def test_what_no_graph_can_repeat_runs_as_ever_and_is_told_once(
    body: Callable[[Tensor], Tensor], others: type, reason: str, tapes: Tapes, caplog: pytest.LogCaptureFixture
) -> None:
    module = Odd(body)
    Captured(module, recorder=tapes)
    with torch.no_grad():
        for step in range(1, 7):
            x = torch.full((3,), float(step))
            assert torch.equal(module(x, others()), body(x))
    assert not tapes.made and caplog.messages == [f"steps of Odd run without a CUDA graph: {reason}"]


def test_what_is_read_from_the_host_is_not_captured(caplog: pytest.LogCaptureFixture) -> None:
    there, table = torch.device("meta"), torch.ones(3)
    with torch.no_grad():
        for given in (CPU, there):
            module = Odd(lambda x: x.to(there) + table.to(there))
            Captured(module, recorder=Tapes(there))
            for _ in range(4):
                assert module(torch.ones(3, device=given)).device == there
    assert [said.partition(": ")[2] for said in caplog.messages] == [
        "it is given a tensor on cpu",
        "its _to_copy copies between cpu and meta",
    ]


def test_a_capture_that_the_device_refuses_is_told_by_its_first_line(
    module: Twice, tapes: Tapes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(action: Callable[[], Any], *, beside: object) -> Any:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nCUDA kernel errors might be")

    monkeypatch.setattr(tapes, "record", fails)
    assert [module(torch.ones(1))[0].item() for _ in range(5)] == 5 * [2.0]
    [said] = caplog.messages
    assert said.endswith("without a CUDA graph: CUDA error: operation not permitted when stream is capturing")


def test_a_first_call_that_fails_is_none(module: Twice, tapes: Tapes, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Twice, "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            module(torch.ones(1))
    assert [module(torch.full((1,), x))[0].item() for x in range(3)] == [0.0, 2.0, 4.0]
    assert [each.num_replays for each in tapes.made] == [2]


def test_a_call_that_compiles_more_than_the_first_is_captured_when_it_comes_again(
    module: Twice, tapes: Tapes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once: what compiles in each capture is left alone."""
    record, num_fails = tapes.record, 1

    def compiles(action: Callable[[], Any], *, beside: object) -> Any:
        if len(fails) < num_fails:
            fails.append(0)
            raise RuntimeError("operation not permitted when stream is capturing")
        return record(action, beside=beside)

    fails = list[int]()
    monkeypatch.setattr(tapes, "record", compiles)
    monkeypatch.setattr(captured, "_num_compiled", lambda: len(fails))
    assert [module(torch.full((1,), x))[0].item() for x in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert (tapes.num_aside, [each.num_replays for each in tapes.made]) == (2, [2]) and not caplog.records
    of(module).forget()
    fails.clear()
    num_fails = 2
    assert [module(torch.full((1,), x))[0].item() for x in range(6)] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    assert len(tapes.made) == 1 and len(fails) == 2 and len(caplog.records) == 1


def test_a_graph_keeps_what_its_forward_reads(module: Twice, tapes: Tapes) -> None:
    way = packed.PackedExchange(None, 1, [], [], None, 1)
    table, places = torch.ones(3), torch.tensor([2, 0])
    odd = Odd(lambda x: (x + table)[places] * 2)
    replayed = Captured(odd, recorder=tapes)
    for _ in range(3):
        odd(torch.ones(3))
    [kind] = replayed._kinds.values()
    storages, ways = kind.kept
    kept = {storage._cdata for storage in storages}
    assert table.untyped_storage()._cdata in kept and kind.buffers[0].untyped_storage()._cdata in kept
    assert way in ways and len(kept) <= 4 and not replayed.reasons, (
        "what it made itself is not kept, but for the answer"
    )


def test_what_a_replay_sends_is_counted_and_a_capture_sends_nothing(
    tapes: Tapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tape, "replay", lambda self: None)  # which runs no Python
    with lone_rank("ulysses=2") as mesh, torch.no_grad():
        group = mesh[Axis.ULYSSES]

        class Sends(Twice):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                group.count.sent_bytes += 7
                group.count.calls += 1
                return super().forward(*args, **kwargs)

        module = Sends()
        Captured(module, mesh=mesh, recorder=tapes)
        counts = []
        for _ in range(5):
            module(torch.ones(3))
            counts.append(group.count.sent_bytes)
    assert counts == [7, 14, 21, 28, 35]


def test_graphs_are_dropped_before_a_group_goes_and_not_while_one_is_captured(
    module: Twice, tapes: Tapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, order, dropping = dropped_meanwhile(tapes.record)
    monkeypatch.setattr(tapes, "record", slow)
    found = [module(torch.full((3,), float(step)))[0][0].item() for step in range(2)]
    dropping.join(10)
    assert order == ["done", "dropped"] and tapes.made[0].is_reset
    assert [*found, module(torch.full((3,), 2.0))[0][0].item()] == [0.0, 2.0, 4.0]


def dropped_meanwhile(work: Callable[..., Any]) -> tuple[Callable[..., Any], list[str], threading.Thread]:
    """Work during which another thread drops all graphs, in what order they end, and that thread."""
    order = list[str]()

    def slow(*args: Any, **options: Any) -> Any:
        dropping.start()
        dropping.join(0.1)
        order.append("done")
        return work(*args, **options)

    dropping = threading.Thread(target=lambda: (captured.forget_all(), order.append("dropped")))
    return slow, order, dropping


def test_an_abort_is_not_kept_waiting_by_a_capture_that_waits_for_other_ranks(
    module: Twice, tapes: Tapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a capture the device has to be idle, which it never is where it waits for a rank that is lost."""
    waits = list[bool]()

    def idle() -> None:
        dropping = threading.Thread(target=captured.forget_all, daemon=True)
        dropping.start()
        dropping.join(5)
        waits.append(dropping.is_alive())

    monkeypatch.setattr(tapes, "settle", idle)
    for step in range(3):
        module(torch.full((3,), float(step)))
    assert waits == [False]


def test_what_hangs_on_a_module_is_known_by_itself_and_not_by_where_it_once_lay(tapes: Tapes) -> None:
    """As a guider exchanges processors between calls: what is let go of leaves its address to the next."""

    class Times:
        def __init__(self, factor: float) -> None:
            self.factor = factor

    class Processed(Twice):
        processor: Any = None

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs, scale=self.processor.factor)

    processed, found = Processed(), list[float]()
    Captured(processed, recorder=tapes)
    with torch.no_grad():
        for factor in (1.0, 2.0, 3.0):
            processed.processor = None
            processed.processor = Times(factor)
            found += [processed(torch.ones(1))[0].item() for _ in range(4)]
    assert found == [2.0] * 4 + [4.0] * 4 + [6.0] * 4 and len(tapes.made) == 3


def test_what_is_left_out_of_a_text_is_part_of_a_kind_and_read_once_outside_of_captures(tapes: Tapes) -> None:
    """So that a graph leaves out what the module itself does, and has its bits."""
    padding = (Padding(("mask",), "last"),)
    texts, kept = Texts(padding), list[Any]()

    class Reads(nn.Module):
        weight = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            [found] = texts.kept_in({"mask": mask})
            kept.append(found.count)
            return x * found.count

    module = Reads()
    Captured(module, recorder=tapes, paddings=padding)
    with leaving_out(True), torch.no_grad():
        for shown in (7, 7, 5, 7, 5, 5):
            assert module(torch.ones(1), mask=torch.arange(9)[None] < shown).item() == shown == kept[-1]
        with torch.enable_grad():
            module(torch.ones(1), mask=torch.arange(9)[None] < 3)  # never captured
    assert [each.num_replays for each in tapes.made] == [2, 2] and kept[-1] == 3


# ---- what of the module a graph depends on


class Block(nn.Module):
    """With what diffusers and peft hang on the blocks of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)
        self.processor: Any = SimpleNamespace(scale=1.0)
        self.fused_projections = False

    def forward(self, x: Tensor) -> Tensor:
        y = self.to_q(x) if self.fused_projections else self.to_k(self.to_q(x))
        return torch.zeros_like(x) if self.dropout.training else y * self.processor.scale


CHANGES: dict[str, Callable[[Block], object]] = {
    "LoRA scale by set_adapters": lambda block: block.to_q.set_scale("style", 0.25),
    "LoRA scale of a layer": lambda block: block.to_q.scaling.update(style=0.5),
    "LoRA off": lambda block: block.to_q.enable_adapters(False),
    "LoRA merged": lambda block: block.to_q.merge(),
    "LoRA taken off": lambda block: setattr(block, "to_q", block.to_q.get_base_layer()),
    "training": lambda block: block.train(),
    "processor": lambda block: setattr(block, "processor", SimpleNamespace(scale=2.0)),
    "processor's scale": lambda block: setattr(block.processor, "scale", 3.0),
    "fused": lambda block: setattr(block, "fused_projections", True),
    "hook": lambda block: block.to_k.register_forward_hook(lambda *_: torch.zeros(4)),
    "weight": lambda block: setattr(block.to_k, "weight", nn.Parameter(torch.ones(4, 4))),
    "weight's place": lambda block: setattr(block.to_k.weight, "data", block.to_k.weight.data.flip(0)),
    "weight's numbers": lambda block: block.to_k.weight.mul_(2.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_graph_answers_for_a_module_that_was_changed_between_two_steps(tapes: Tapes, change: str) -> None:
    torch.manual_seed(1)  # a LoRA that is merged may by chance round as before
    block = Block().eval()
    inject_adapter_in_model(LoraConfig(r=2, target_modules=["to_q"], init_lora_weights=False), block, "style")
    Captured(block, recorder=tapes)
    given = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for _ in range(3):
            before = block(given)
        [tape] = tapes.made
        num_replays = tape.num_replays
        CHANGES[change](block)
        wanted = block._call_impl(given)
        found = [block(given) for _ in range(3)]
    assert all(torch.equal(each, wanted) for each in found) and not torch.equal(before, wanted)
    is_seen_by_graphs = change == "weight's numbers"
    assert (tape.num_replays == num_replays + 3, len(tapes.made)) == (is_seen_by_graphs, 1 + (not is_seen_by_graphs))


# ---- where nobody asked for graphs


def series(module: nn.Module, num_steps: int) -> None:
    of(module).begin(is_long=num_steps >= 6)
    with torch.no_grad():
        for step in range(num_steps):
            assert module(torch.full((3,), float(step)))[0].tolist() == 3 * [2.0 * step]


@pytest.fixture
def unasked(tapes: Tapes, monkeypatch: pytest.MonkeyPatch) -> Twice:
    monkeypatch.setattr(captured, "_known", {})
    module = Twice()
    Captured(module, recorder=tapes, is_asked=False)
    return module


def test_a_short_series_is_captured_where_its_like_came_before(
    unasked: Twice, tapes: Tapes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="latentloom")
    series(unasked, 4)
    assert not tapes.made and tapes.num_aside == 0
    series(unasked, 4)
    assert [each.num_replays for each in tapes.made] == [3]
    series(unasked, 4)
    assert [each.num_replays for each in tapes.made] == [7], "kept over series"
    other, others = Twice(), Tapes()
    Captured(other, recorder=others, is_asked=False)
    series(other, 4)
    assert [each.num_replays for each in others.made] == [3], "which kinds come again is known of this process"
    assert [(each.levelname, each.getMessage().partition(": ")[2]) for each in caplog.records] == [
        ("INFO", "so few do not pay for one the first time")
    ]


def test_a_long_series_is_captured_where_memory_allows(
    unasked: Twice, tapes: Tapes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="latentloom")
    tapes.taken_bytes, tapes.num_free = 2 << 30, int(2.5 * (1 << 30))
    series(unasked, 6)
    series(unasked, 6)
    assert not tapes.made and of(unasked).num_bytes == 0
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "steps of Twice run without a CUDA graph: 2.6 GiB should be free for one, and 2.5 are")
    ]
    tapes.num_free += 1 << 30
    series(unasked, 6)
    assert [each.num_replays for each in tapes.made] == [5]


def test_graphs_make_way_for_a_forward_of_another_kind_that_has_no_room_beside_them(
    module: Twice, tapes: Tapes
) -> None:
    for num_free, lengths in ((130, (3, 4)), (129, (5,)), (129, (5,))):
        tapes.num_free = num_free
        for length in lengths:
            for _ in range(3):
                assert module(torch.ones(length))[0].shape == (length,)
    assert [each.is_reset for each in tapes.made] == [True, True, False]


@pytest.mark.parametrize("is_asked", [True, False])
def test_where_another_rank_cannot_capture_or_has_no_room_none_does(
    tapes: Tapes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_asked: bool
) -> None:
    caplog.set_level(logging.INFO, logger="latentloom")
    monkeypatch.setattr(captured, "add", lambda failed, group: failed + 1)
    with lone_rank("ulysses=2") as mesh:
        module = Twice()
        Captured(module, mesh=mesh, recorder=tapes, is_asked=is_asked)
        series(module, 6)
    assert bool(tapes.made) == is_asked
    assert all(each.is_reset and not each.num_replays for each in tapes.made)
    assert caplog.messages[0].endswith("another rank could not capture it")


def test_no_graph_is_launched_once_all_were_dropped_and_a_launch_under_way_is_waited_for(
    module: Twice, tapes: Tapes
) -> None:
    for _ in range(2):
        module(torch.ones(3))
    [tape] = tapes.made
    tape.replay, order, dropping = dropped_meanwhile(tape.replay)
    module(torch.ones(3))
    dropping.join(10)
    num_replays = tape.num_replays
    assert module(torch.ones(3))[0].tolist() == 3 * [2.0]
    assert order == ["done", "dropped"] and tape.is_reset and tape.num_replays == num_replays


@pytest.fixture(autouse=True)
def _told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="latentloom")
