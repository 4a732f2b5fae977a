"""Block-sparse attention of Kandinsky over a sharded sequence: local queries against gathered keys and values.

NABLA (https://huggingface.co/papers/2507.13546) lets a block of 64 tokens attend to the blocks that its mean query
likes best, and to its neighbours. Here each rank chooses for the blocks of its own tokens. The kernel is flex
attention, as in diffusers, so this attention runs the same way whichever strategy a plan names.
"""

# B batch, S tokens here, T tokens in all, R tokens of the blocks that this rank's tokens are in, H heads, D head width

from typing import Any

import torch
from diffusers.models.attention_dispatch import AttentionBackendName, dispatch_attention_fn
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from ....parallel.sharding.operator import in_no_graph
from . import StandIn

BLOCK = 64


class _BlockSparse(StandIn):
    threshold: str  # what the model calls it
    rotary_dtype: torch.dtype | None = None

    @in_no_graph
    def _attend(
        self, attn: Any, hidden_states: Tensor, rotary_emb: Tensor, sparse_params: dict[str, Any], *, backend: Any
    ) -> Tensor:
        """Collective: B S C to B S C."""
        query, key, value = (
            project(hidden_states).unflatten(-1, (attn.num_heads, -1))
            for project in (attn.to_query, attn.to_key, attn.to_value)
        )
        query = rotated(attn.query_norm(query.float()).type_as(query), rotary_emb, self.rotary_dtype)
        key = rotated(attn.key_norm(key.float()).type_as(key), rotary_emb, self.rotary_dtype)
        # Queries too: the choice needs whole blocks of them, and a rank may hold parts of two.
        query, key, value = self.session.gather(torch.stack([query, key, value]), 2, "image").unbind()  # B T H D
        self.session.num_calls += 1

        start, end = self.session.streams["image"].held(self.session.rank)
        first, last = start // BLOCK, -(-end // BLOCK)
        out = query[:, first * BLOCK : last * BLOCK]  # B R H D
        if start < end:
            near = sparse_params["sta_mask"][..., first:last, :]
            mask = chosen(out, key, near=near, threshold=sparse_params[self.threshold])
            out = dispatch_attention_fn(out, key, value, attn_mask=mask, backend=backend)
        out = out[:, start - first * BLOCK : end - first * BLOCK]  # B S H D
        return attn.out_layer(out.flatten(2))


class Kandinsky5Sparse(_BlockSparse):
    """The processor of self attention in Kandinsky 5, which is sparse for the long videos of some checkpoints."""

    threshold, rotary_dtype = "P", torch.bfloat16

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        rotary_emb: Tensor | None = None,
        sparse_params: dict[str, Any] | None = None,
    ) -> Tensor:
        if sparse_params is None or rotary_emb is None:
            return self.old(attn, hidden_states, encoder_hidden_states, rotary_emb, sparse_params)
        return self._attend(attn, hidden_states, rotary_emb, sparse_params, backend=self.old._attention_backend)


class Kandinsky6SRSparse(_BlockSparse):
    """The processor of self attention in Kandinsky 6 super-resolution."""

    threshold = "threshold"

    def __call__(self, attn: Any, hidden_states: Tensor, rotary_emb: Tensor, sparse_params: dict[str, Any]) -> Tensor:
        return self._attend(attn, hidden_states, rotary_emb, sparse_params, backend=AttentionBackendName.FLEX)


def rotated(x: Tensor, rope: Tensor, dtype: torch.dtype | None) -> Tensor:
    """`dtype` is what diffusers rounds to here, where it does."""
    pairs = x.unflatten(-1, (-1, 1, 2)).float()
    return (rope.float() * pairs).sum(dim=-1).flatten(-2).to(dtype or x.dtype).type_as(x)


def chosen(query: Tensor, key: Tensor, *, near: Tensor, threshold: float) -> Any:
    """The key blocks that each query block attends to: those `near`, and the fewest that hold `threshold` of it."""
    queries, keys = (x.transpose(1, 2).unflatten(2, (-1, BLOCK)).mean(3) for x in (query, key))  # B H R/64 D, T/64
    likes = (queries @ keys.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(-1)
    ascending, places = likes.sort(-1)
    kept = (ascending.cumsum(-1) >= 1 - threshold).gather(-1, places.argsort(-1)) | near
    count = kept.sum(-1, dtype=torch.int32)
    blocks = kept.int().argsort(dim=-1, descending=True).to(torch.int32)
    return BlockMask.from_kv_blocks(
        torch.zeros_like(count),
        blocks,
        count,
        blocks,
        BLOCK_SIZE=BLOCK,
        mask_mod=None,
        seq_lengths=(query.shape[1], key.shape[1]),
    )
