"""What one forward of a transformer is asked, in the numbers that its time follows from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...parallel.layout import Layout, Stream, shares_of
from ...parallel.mesh import planned_mesh
from ...parallel.plan import ParallelPlan
from ...parallel.traffic import Shape, Traffic, traffic_of
from ..values import Dtype

ITEMSIZE = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One branch of guidance, one step."""

    image: int  # tokens of the picture or video, its references among them
    text: int = 0  # tokens of the text that are attended to with them
    context: int = 0  # tokens of the text that are attended to by cross attention, on every rank
    layers: int  # attention calls between tokens
    width: int  # numbers in a token
    heads: int
    kv_heads: int
    head_dim: int
    image_weights: float
    """Weights of matrix products that each token of the image passes, in all layers. The next two likewise."""
    text_weights: float
    context_weights: float = 0.0
    block_bytes: int = 0  # a layer's weights
    branches: int = 1  # forwards a step
    batch: int = 1
    latent_bytes: int = 0  # a prediction, which two branches of guidance exchange
    dtype: Dtype = "bf16"
    shards_text: bool = True
    """Whether the model's class lets text that is attended to jointly be spread over ranks."""

    @property
    def tokens(self) -> int:
        return self.image + self.text

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

    def is_text_sharded(self, plan: ParallelPlan) -> bool:
        """`auto` shards it wherever the model's class offers that."""
        return self.shards_text and plan.text != "replicated"

    def rows(self, plan: ParallelPlan) -> tuple[int, int]:
        """Tokens of the image and of the text that the first rank, which has most, works on."""
        ranks = plan.sequence
        return -(-self.image // ranks), -(-self.text // ranks) if self.is_text_sharded(plan) else self.text

    def linear_flops(self, plan: ParallelPlan) -> float:
        """Two for each weight and token (Kaplan et al., 2020, arXiv:2001.08361)."""
        image, text = self.rows(plan)
        return (
            2
            * self.batch
            * (image * self.image_weights + text * self.text_weights + self.context * self.context_weights)
        )


@lru_cache(maxsize=1024)
def sent_in_call(forward: Forward, plan: ParallelPlan) -> Traffic:
    """What the first rank of a sequence, whose share is the largest, sends in one attention call."""
    count, is_sharded = plan.sequence, forward.is_text_sharded(plan)
    if count == 1:
        return Traffic()
    lengths = [("text", forward.text, is_sharded), ("image", forward.image, True)]
    streams = tuple(
        Stream(name, length, shares_of(length, count) if shares else None) for name, length, shares in lengths if length
    )
    shape = Shape(
        batch=forward.batch,
        heads=forward.heads,
        kv_heads=forward.kv_heads,
        head_dim=forward.head_dim,
        itemsize=forward.itemsize,
    )
    return traffic_of(Layout(streams, count), planned_mesh(plan, 0), shape=shape)
