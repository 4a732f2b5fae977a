"""What sharded attention asks a GPU to launch: a few kernels, whatever the ranks, the heads and the lengths."""

import dataclasses
import itertools

import pytest
import torch

from latentloom.parallel.attention import compose, packed
from latentloom.parallel.attention.strategy import Terms
from latentloom.parallel.group import Axis
from latentloom.parallel.layout import Layout, Stream, shares_of
from latentloom.parallel.sharding.shard import shard
from latentloom.pipelines.spreading.transformer import split_plan_of
from support.cells import outputs, variants
from support.launches import ROUNDS, Launches, lone_rank
from zoo.cases import CASES

BF16, FP32 = torch.bfloat16, torch.float32
SHAPES = [(1, 24, 24), (2, 24, 24), (2, 12, 4), (1, 9, 9), (2, 10, 5)]  # batch, heads, key heads


def launched(
    plan: str,
    count: int,
    rank: int,
    shape: tuple[int, int, int],
    image: int,
    shards_text: bool,
    dtype: torch.dtype = BF16,
) -> Launches:
    """One rank's call of a plan of `count` ranks, with 11 tokens of text; the second, for which all is reckoned."""
    batch, heads, kv_heads = shape
    text = Stream("text", 11, shares_of(11, count) if shards_text else None)
    layout = Layout((text, Stream("image", image, shares_of(image, count))), count)
    with lone_rank(plan, rank) as mesh, torch.no_grad():
        tokens = layout.num_held(mesh[Axis.SEQUENCE].index)
        q, k, v = (
            torch.randn(batch, tokens, each, 8, dtype=dtype).transpose(1, 2) for each in (heads, kv_heads, kv_heads)
        )
        for launches in (Launches(), Launches()):
            with launches:
                compose(mesh.plan)(q, k, v, scale=None, terms=Terms(layout, mesh, ROUNDS))
    packed.forget()
    return launches


@pytest.mark.parametrize("count", [2, 3, 8, *(pytest.param(count, marks=pytest.mark.by_hand) for count in range(4, 8))])
@pytest.mark.parametrize("name", ["ulysses", "allgather"])
def test_a_call_launches_at_most_ten_kernels(name: str, count: int) -> None:
    for shape, image, shards_text, rank in itertools.product(SHAPES, (40, 43), (True, False), (0, count - 1)):
        launches = launched(f"{name}={count}", count, rank, shape, image, shards_text)
        assert launches.count <= 10, f"{shape}, {image} tokens on rank {rank}: {launches.names}"


@pytest.mark.parametrize("dtype", [FP32, BF16])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_hop_of_a_ring_launches_at_most_six_kernels(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    for image, shards_text in itertools.product((40, 43), (True, False)):
        some = {count: launched(f"ring={count}", count, 1, shape, image, shards_text, dtype) for count in range(2, 9)}
        for count in some:
            assert some[count].count <= 6 * (count - 1) + 8, f"{image} tokens: {some[count].names}"  # and once a call
            assert count == 2 or some[count].count <= some[count - 1].count + 6, f"{image} tokens: {some[count].names}"


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("ulysses=8", 11),
        ("allgather=8", 7),  # replicated: fewer than ranks
        *(pytest.param(*cell, marks=pytest.mark.by_hand) for cell in (("allgather=8", 11), ("ulysses=8", 7))),
    ],
)
def test_a_forward_of_flux_on_eight_ranks_launches_at_most_a_quarter_more(plan: str, words: int) -> None:
    kind, config, inputs = variants()["flux"].build(dataclasses.replace(CASES["both_odd"], heads=8, rows=5, text=words))
    model = kind(**{**config, "num_layers": 19, "num_single_layers": 38}).eval()
    with Launches() as alone:
        outputs(model, inputs)
    with lone_rank(plan) as mesh:
        handle = shard(model, split_plan_of(model), mesh)
        outputs(model, inputs)
        with Launches() as launches:
            outputs(model, inputs)
        assert handle.session is not None
        text = handle.session.streams["text"]
        handle.remove()
    assert text.is_sharded == (words > 7 and "text" not in plan)
    assert alone.count < launches.count <= 1.25 * alone.count
