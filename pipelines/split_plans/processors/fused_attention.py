"""Attention through torch's fused call, for models that spell it out in matrix products and so hide it from us."""

# B batch, S queries here, T keys, H heads, D head width

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from . import StandIn


class FusedAttention(StandIn):
    """In place of `AttnProcessor`, for modules without norms of their own."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        batch = hidden_states.shape[0]
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        mask: Tensor | None = attn.prepare_attention_mask(attention_mask, source.shape[1], batch)  # BH S T
        mask = mask if mask is None else mask.unflatten(0, (batch, attn.heads))
        projected = attn.to_q(hidden_states), attn.to_k(source), attn.to_v(source)
        query, key, value = (x.unflatten(2, (attn.heads, -1)).transpose(1, 2) for x in projected)  # B H S D
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=attn.scale)
        return attn.to_out[1](attn.to_out[0](out.transpose(1, 2).flatten(2)))
