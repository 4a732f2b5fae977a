"""What a sharded attention call asks a GPU to launch: a few kernels, however many ranks there are."""

import itertools

import pytest
import torch

from latentloom.parallel.attention import compose, local
from latentloom.parallel.group import Axis
from latentloom.parallel.layout import Layout, Stream, shares_of
from support.launches import Launches, lone_rank

KERNEL = local.choose(torch.device("cpu"), torch.float32)
SHAPES = [(1, 24, 24), (2, 24, 24), (2, 12, 4), (1, 9, 9), (2, 10, 5)]  # batch, heads, key heads


def most(plan: str, count: int, rank: int) -> tuple[int, str]:
    """The most launches of a call of one rank, over shapes and layouts."""
    found = []
    with lone_rank(plan, rank) as mesh:
        for (batch, heads, kv_heads), image, is_sharded in itertools.product(SHAPES, (40, 43), (True, False)):
            text = Stream("text", 11, shares_of(11, count) if is_sharded else None)
            layout = Layout((text, Stream("image", image, shares_of(image, count))), count)
            tokens = layout.num_held(mesh[Axis.SEQUENCE].index)
            q, k, v = (torch.randn(batch, tokens, each, 8).transpose(1, 2) for each in (heads, kv_heads, kv_heads))

            def call() -> torch.Tensor:
                return compose(mesh.plan)(q, k, v, layout=layout, mesh=mesh, mask=None, scale=None, kernel=KERNEL)

            call()
            with Launches() as launches, torch.no_grad():
                call()
            found.append((launches.count, f"{layout} {batch} {heads} {kv_heads} {launches.names}"))
    return max(found)


@pytest.mark.parametrize("count", [2, 3, 5, 8])
@pytest.mark.parametrize("name", ["ulysses", "allgather"])
def test_a_call_launches_at_most_ten_kernels(name: str, count: int) -> None:
    for rank in (0, count - 1):
        found, shape = most(f"{name}={count}", count, rank)
        print(name, count, rank, found, shape)
        assert found <= 10, shape
