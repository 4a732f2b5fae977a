"""What one forward of a transformer is asked, in the numbers that its time follows from."""

from __future__ import annotations

from dataclasses import dataclass

from ...parallel.plan import ParallelPlan
from ..values import Dtype
from .traffic import Attention

ITEMSIZE = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One branch of guidance, one step."""

    image: int
    """Tokens of the picture or video, its references among them."""
    text: int = 0
    """Tokens of the text that are attended to with them."""
    context: int = 0
    """Tokens of the text that are attended to by cross attention, on every rank."""
    layers: int
    """Attention calls between tokens."""
    width: int
    """Numbers in a token."""
    heads: int
    kv_heads: int
    head_dim: int
    image_weights: float
    """Weights of matrix products that each token of the image passes, in all layers. The next two likewise."""
    text_weights: float
    context_weights: float = 0.0
    block_bytes: int = 0
    """A layer's weights."""
    branches: int = 1
    """Forwards a step."""
    batch: int = 1
    latent_bytes: int = 0
    """A prediction, which two branches of guidance exchange."""
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

    def attention(self, plan: ParallelPlan) -> Attention:
        """One attention call, as it travels."""
        streams = tuple(length for length in (self.text, self.image) if length)
        replicated = ()
        if self.text and not self.is_text_sharded(plan):
            streams, replicated = (self.image,), (self.text,)
        return Attention(
            sharded=streams,
            replicated=replicated,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            batch=self.batch,
            itemsize=self.itemsize,
        )

    def linear_flops(self, plan: ParallelPlan) -> float:
        """Two for each weight and token (Kaplan et al., 2020, arXiv:2001.08361)."""
        image, text = self.rows(plan)
        return (
            2
            * self.batch
            * (image * self.image_weights + text * self.text_weights + self.context * self.context_weights)
        )
