"""What a compiled block costs the host, in exact counts: calls that a mode sees, guards, cuts, launches, and groups by
name."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters

from latentloom.parallel import process_groups
from latentloom.parallel.attention import packed
from latentloom.parallel.attention.choice import choose
from latentloom.parallel.group import Axis
from latentloom.parallel.layout import Layout, Stream, shares_of
from latentloom.parallel.ranks.rank_job import LOST_CONNECTION
from latentloom.parallel.sharding import compiled, cutting, operator
from latentloom.parallel.sharding.graphs import kept, traced
from latentloom.parallel.sharding.graphs.traced import AttentionCall, Traced, way_of, wire_of
from latentloom.parallel.sharding.session import Session
from latentloom.parallel.sharding.shard import shard
from latentloom.parallel.sharding.split_plan import SplitPlan
from latentloom.parallel.traffic import Shape
from latentloom.pipelines.spreading.transformer import split_plan_of
from support.cells import model_of, outputs
from support.launches import Launches, Operators, lone_rank
from zoo.cases import CASES

CPU = torch.device("cpu")
MOST_GUARDS = 60
MOST_LAUNCHES = 8
MOST_OPERATORS = 12
SHAPES = [(1, 24, 24), (2, 24, 24), (2, 12, 4), (1, 9, 9), (2, 10, 5)]  # batch, heads, key heads


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch._dynamo.reset()
    kept.forget()
    counters.clear()
    yield
    kept.forget()
    process_groups.forget_names()


def flux(**other: int) -> tuple[nn.Module, dict[str, Any]]:
    return model_of("flux", dataclasses.replace(CASES["both_odd"], heads=8, rows=5, text=11), **other)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """What a function is called with from now on."""
    real, seen = getattr(owner, name), list[Any]()

    def call(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return seen


@pytest.mark.parametrize("plan", ["ulysses=8", "allgather=8", "ring=4"])
def test_a_compiled_block_costs_the_host_little(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = flux()
    kept, needed = list[int](), traced._needed

    def filtered(entries: Any) -> list[bool]:
        found = needed(entries)
        kept.append(sum(found))
        return found

    monkeypatch.setattr(traced, "_needed", filtered)
    with lone_rank(plan) as mesh:
        handle = shard(model, split_plan_of(model), mesh)
        handle.compile(backend="eager")
        for _ in range(2):  # learns, and makes graphs
            outputs(model, inputs)
        modes = counted(monkeypatch, operator.Intercepting, "__torch_function__")
        attends = counted(monkeypatch, type(handle.session), "attend")
        cuts = counted(monkeypatch, cutting, "part_of")
        outputs(model, inputs)
        handle.remove()
    assert modes == [] and attends == [], "the exchange is in the graph"
    assert len(kept) == 2 and max(kept) <= MOST_GUARDS, "one graph of each kind of block"
    tables = [args for args in cuts if args[-1].endswith("'s image_rotary_emb") and isinstance(args[0], tuple)]
    assert len(tables) == 1, "all blocks are given the same"


def test_what_stays_an_operator_costs_no_calls_of_a_mode_either(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = flux()
    with lone_rank("ulysses=2") as mesh:
        mesh[Axis.ULYSSES].packs = False  # as gloo
        handle = shard(model, split_plan_of(model), mesh)
        handle.compile(backend="eager")
        monkeypatch.setattr("latentloom.parallel.attention.ulysses.start_exchange", lambda *_, **__: lambda: None)
        for _ in range(2):
            outputs(model, inputs)
        modes = counted(monkeypatch, operator.Intercepting, "__torch_function__")
        attends = counted(monkeypatch, type(handle.session), "attend")
        outputs(model, inputs)
        handle.remove()
    assert modes == [] and len(attends) == len(model.transformer_blocks) + len(model.single_transformer_blocks)


@pytest.mark.parametrize("plan", ["ulysses=8", "ulysses=3"])
def test_an_attention_call_outside_a_graph_asks_for_few_operators(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views, and both collectives, counted; the heads are uneven on three ranks."""
    model, inputs = flux()
    operators, attend = list[Operators](), Session.attend

    def watched(*args: Any, **kwargs: Any) -> Any:
        operators.append(Operators())
        with operators[-1]:
            return attend(*args, **kwargs)

    with lone_rank(plan) as mesh:
        handle = shard(model, split_plan_of(model), mesh)
        outputs(model, inputs)  # ranks compare
        monkeypatch.setattr(Session, "attend", watched)
        outputs(model, inputs)
        assert not handle.session._decided, "buffers are gone with the forward"
        handle.remove()
    assert len(operators) > 2 and max(each.count for each in operators[1:]) <= MOST_OPERATORS, operators[-1].names


@pytest.mark.parametrize("count", [2, 3, 8, *(pytest.param(count, marks=pytest.mark.by_hand) for count in range(4, 8))])
@pytest.mark.parametrize("name", ["ulysses", "allgather"])
def test_a_call_in_a_graph_launches_at_most_eight_kernels(name: str, count: int) -> None:
    """As it is traced, before a compiler fuses any of it."""
    for (batch, heads, kv_heads), image, rank in itertools.product(SHAPES, (40, 43), (0, count - 1)):
        streams = (Stream("text", 11, shares_of(11, count)), Stream("image", image, shares_of(image, count)))
        layout, kernel = Layout(streams, count), choose(CPU, torch.bfloat16)
        shape = Shape(batch=batch, heads=heads, kv_heads=kv_heads, head_dim=8, itemsize=2)
        with lone_rank(f"{name}={count}", rank) as mesh, torch.no_grad():
            tokens = layout.num_held(mesh[Axis.SEQUENCE].index)
            call = AttentionCall(0, way_of(mesh, layout, kernel), ("text", "image"), shape, kernel)
            q, k, v = (
                torch.randn(batch, tokens, each, 8, dtype=torch.bfloat16).transpose(1, 2)
                for each in (heads, kv_heads, kv_heads)
            )
            wire = wire_of(call, layout, mesh, CPU)
            wire.make_ready()
            with Launches() as launches, Traced([call], [wire.fixed], [wire.given]):
                F.scaled_dot_product_attention(q, k, v)
        del launches.names["wait_tensor"]  # a stream waits, and the host does not
        del launches.names["clone"]  # of a kernel's answer, which is picked from next: one kernel of a compiler's
        assert launches.count <= MOST_LAUNCHES, f"{image} tokens on rank {rank}: {launches.names}"
    packed.forget()


@pytest.mark.parametrize(("num_words", "way"), [(0, "ulysses"), (3, "opaque")])
def test_an_exchange_of_words_that_the_call_alone_counts_is_in_no_graph(num_words: int, way: str) -> None:
    split = SplitPlan(order=("image", "text"), whole=("text",), blocks=(), inputs={}, outputs={})  # Mochi's
    with lone_rank("ulysses=2") as mesh:
        session = Session(split, mesh, title="Mochi", shards_text=False, kernel="auto")
        session.define("image", 8)
        tokens = torch.zeros(1, 2, 4 + num_words, 8)
        assert session._learn(operator.Asked(tokens, tokens, tokens), 0).way == way


def test_groups_come_and_go_and_graphs_stay() -> None:
    model, inputs = flux()
    made = []
    for _ in range(3):
        with lone_rank("ulysses=2") as mesh:
            handle = shard(model, split_plan_of(model), mesh)
            handle.compile(backend="eager")
            for _ in range(2):
                outputs(model, inputs)
            made.append(counters["stats"]["unique_graphs"])
            handle.remove()
        process_groups.forget_names()
    assert made == [2, 2, 2]


def test_a_graph_whose_group_is_gone_says_so_in_the_words_of_a_lost_connection() -> None:
    with lone_rank("ulysses=2") as mesh:
        group = mesh[Axis.ULYSSES].process_group
        assert group is not None
        name = process_groups.name_of(Axis.ULYSSES)
        process_groups.point(name, group)
        torch.ops._c10d_functional.all_reduce(torch.ones(1), "sum", name)
        process_groups.forget_names()
        with pytest.raises(RuntimeError) as told:
            torch.ops._c10d_functional.all_reduce(torch.ones(1), "sum", name)
    assert any(words in str(told.value).lower() for words in LOST_CONNECTION if words.startswith("resolve"))


def test_graphs_not_used_for_longest_make_way_and_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_GRAPHS", 2)
    freed = counted(monkeypatch, kept, "free")
    model = nn.Sequential(nn.Linear(2, 2))
    forwards = compiled.Forwards(model, [model[0]], "Toy")
    forwards.compile(backend="eager")
    with torch.no_grad():
        for number in range(4):
            model[0].number = number  # another state
            model(torch.ones(1, 2))
    forwards.restore()
    assert len(freed) == 2 and counters["stats"]["unique_graphs"] == 4


@pytest.mark.by_hand
def test_a_block_that_torch_takes_in_several_graphs_only_runs_in_those(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = flux(num_layers=1, num_single_layers=1)
    for block in model.single_transformer_blocks:
        block.proj_out.register_forward_hook(lambda *_: torch._dynamo.graph_break())
    with lone_rank("ulysses=2") as mesh:
        handle = shard(model, split_plan_of(model), mesh)
        wanted = outputs(model, inputs)
        handle.compile(backend="eager", fullgraph=False)
        attends = counted(monkeypatch, type(handle.session), "attend")
        for number in range(3):
            attends.clear()
            outputs(model, inputs)
            is_learning = number == 0
            assert len(attends) == len(model.single_transformer_blocks) + is_learning * len(model.transformer_blocks)
        handle.uncompile()
        with pytest.raises(torch._dynamo.exc.Unsupported):
            handle.compile(backend="eager")
            outputs(model, inputs)
        handle.remove()
    assert len(wanted) == 1
