"""Split plans of AnyFlow, a Wan whose every frame goes from one timestep to another, and of its causal form."""

# B batch, H heads, S tokens here, P tokens of the past, D head width

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image

if TYPE_CHECKING:
    from torch import Tensor

    from ...parallel.sharding.session import Session

FLEX_BLOCK = 128  # flex attention pads a sequence to a multiple of this


def causal_attention(old: Callable[..., Tensor], session: Session) -> Callable[..., Tensor]:
    """Every rank keeps the keys and values of past chunks whole, as the pipeline hands them out."""
    import torch
    import torch.nn.functional as F

    def attend(
        attn: Any,
        hidden_states: Tensor,
        *,
        attention_mask: Any = None,
        rotary_emb: dict[str, Tensor],
        kv_cache: dict[str, Tensor] | None = None,
        kv_cache_flag: dict[str, Any] | None = None,
    ) -> Tensor:
        from diffusers.models.transformers.transformer_anyflow import apply_rotary_emb

        query, key = (norm(to(hidden_states)) for norm, to in ((attn.norm_q, attn.to_q), (attn.norm_k, attn.to_k)))
        heads = (
            x.to(hidden_states.dtype).unflatten(2, (attn.heads, -1)) for x in (query, key, attn.to_v(hidden_states))
        )
        query, key, value = (x.transpose(1, 2) for x in heads)  # B H S D
        stream = session.streams["image"]
        start, end = stream.held(session.rank)
        num_past = rotary_emb["key"].shape[2] - stream.length
        past = []
        if kv_cache is not None and kv_cache_flag is not None:
            if kv_cache_flag["is_cache_step"]:
                _keep(kv_cache, kv_cache_flag, [session.gather(x, 2, "image") for x in (key, value)])
            else:
                past = _kept(kv_cache, kv_cache_flag)
        query = apply_rotary_emb(query, rotary_emb["query"][:, :, start:end])
        key = apply_rotary_emb(key, rotary_emb["key"][:, :, num_past + start : num_past + end])
        if past:
            past_key = apply_rotary_emb(past[0], rotary_emb["key"][:, :, :num_past])
            key, value = torch.cat([past_key, key], 2), torch.cat([past[1], value], 2)
        mask = None
        if attention_mask is None:
            # diffusers pads to whole blocks and masks nothing, so its queries see zero keys: so do ours
            padding = -stream.length % FLEX_BLOCK
            key, value = (F.pad(x, (0, 0, padding, 0)) for x in (key, value))
        else:
            mask = _dense(attention_mask, stream.length)
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        out = out.transpose(1, 2).flatten(2, 3).type_as(query)
        return attn.to_out[1](attn.to_out[0](out))

    def _keep(cache: dict[str, Tensor], flag: dict[str, Any], pair: list[Tensor]) -> None:
        num_small, num_full = flag["num_compressed_tokens"], flag["num_full_tokens"]
        for index, x in enumerate(pair):
            cache["compressed_cache"][index, :, :, :num_small] = x[:, :, :num_small]
            cache["full_cache"][index, :, :, :num_full] = x[:, :, num_small:]

    def _kept(cache: dict[str, Tensor], flag: dict[str, Any]) -> list[Tensor]:
        small = cache["compressed_cache"][:, :, :, : flag["num_cached_compressed_tokens"]]
        full = cache["full_cache"][:, :, :, : flag["num_cached_full_tokens"]]
        return list(torch.cat([small, full], 3))

    return attend


@functools.lru_cache(maxsize=1)  # all blocks of a forward share one mask
def _dense(mask: Any, length: int) -> Tensor:
    """The tensor that a block mask stands for."""
    import torch

    index = torch.arange(length, device=mask.kv_indices.device)
    return mask.mask_mod(None, None, index[:, None], index)[None, None]


ANYFLOW = SplitPlan(
    blocks=("blocks",),
    inputs={
        "blocks.0": {"hidden_states": image(1)},
        "blocks.*": {"temb": image(1), "rotary_emb": image(2)},
    },
    # No later: the last norm is modulated by vectors of all tokens.
    outputs={"blocks.-1": image(1)},
    attention={"attn2": (LOCAL,)},
)

PLANS: dict[str, SplitPlan] = {
    "AnyFlowTransformer3DModel": ANYFLOW,
    "AnyFlowFARTransformer3DModel": replace(
        ANYFLOW,
        order=("past", "image"),
        whole=("past",),
        inputs={"blocks.0": {"hidden_states": image(1)}, "blocks.*": {"temb": image(1)}},
        attention={"attn1": (Attend(("image",), ("past", "image")),), "attn2": (LOCAL,)},
        processors={"attn1": causal_attention},
    ),
}
