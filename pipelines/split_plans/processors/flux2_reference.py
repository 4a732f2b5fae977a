"""Attention of FLUX.2 with reference pictures whose keys and values are kept after the first step, sharded."""

# B batch, S tokens of the whole sequence, H heads, D head width

from collections.abc import Mapping
from typing import Any

import torch
from diffusers.models.embeddings import apply_rotary_emb
from torch import Tensor

from ....parallel.sharding.operator import in_no_graph
from . import StandIn

Rope = tuple[Tensor, Tensor]


class ReferenceProcessor(StandIn):
    """Around the model's own processors of either kind of block, which take the sequence apart at global positions.

    The reference pictures come before the image and are part of its stream. In the first step they see only
    themselves; later they are gone, and what was kept of them is whole on every rank.
    """

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        *others: Any,
        kv_cache: Any = None,
        kv_cache_mode: str | None = None,
        num_txt_tokens: int = 0,
        num_ref_tokens: int = 0,
    ) -> Any:
        *words, attention_mask, rope = others  # blocks of one stream give no words apart
        given: dict[str, Any] = {"attention_mask": attention_mask, "image_rotary_emb": rope}
        if words:
            given["encoder_hidden_states"] = words[0]
        if kv_cache_mode is None:
            return self.old(attn, hidden_states, **given)
        keeping = {"kv_cache": kv_cache, "kv_cache_mode": kv_cache_mode}
        return self._with_kept(attn, hidden_states, given, keeping, num_ref_tokens)

    @in_no_graph
    def _with_kept(
        self, attn: Any, hidden_states: Tensor, given: dict[str, Any], keeping: dict[str, Any], num_ref_tokens: int
    ) -> Any:
        """Collective in the first step."""
        rope, has_words = given["image_rotary_emb"], "encoder_hidden_states" in given
        kv_cache, mode = keeping["kv_cache"], keeping["kv_cache_mode"]
        if mode == "cached" and kv_cache is not None:
            given |= keeping
            if not has_words:
                given["num_txt_tokens"] = self.session.layout(("text",)).num_held(self.session.rank)
        if mode == "extract" and num_ref_tokens:
            layout = self.session.layout(("text", "image"))
            first = layout.starts()[1]
            given["attention_mask"] = reference_mask(first, first + num_ref_tokens, layout.length, hidden_states.device)
            if kv_cache is not None:
                self._keep(attn, hidden_states, rope, num_ref_tokens, kv_cache, is_joined=not has_words)
        return self.old(attn, hidden_states, **given)

    def _keep(
        self, attn: Any, hidden_states: Tensor, rope: Rope | None, num_tokens: int, kv_cache: Any, *, is_joined: bool
    ) -> None:
        """Collective. The keys and values are computed a second time, for the inner processor does not show them."""
        num_words = self.session.layout(("text",)).num_held(self.session.rank)
        tokens = hidden_states[:, num_words:] if is_joined else hidden_states
        if is_joined:
            key, value = attn.to_qkv_mlp_proj(tokens)[..., attn.inner_dim : 3 * attn.inner_dim].chunk(2, dim=-1)
        elif attn.fused_projections:
            _, key, value = attn.to_qkv(tokens).chunk(3, dim=-1)
        else:
            key, value = attn.to_k(tokens), attn.to_v(tokens)
        key, value = (x.unflatten(-1, (-1, attn.head_dim)) for x in (key, value))  # B S H D
        key = attn.norm_k(key)
        if rope is not None:
            of_tokens: Any = tuple(each[num_words:] for each in rope)
            key = apply_rotary_emb(key, of_tokens, sequence_dim=1)
        assert isinstance(key, Tensor), "rotated by cosines and sines, it is one tensor"
        whole = self.session.gather(torch.cat([key, value], dim=-1), 1, "image")[:, :num_tokens]
        kv_cache.store(*(half.clone() for half in whole.chunk(2, dim=-1)))


def keep_reference(processor: Any, session: Any) -> Any:
    keeps = type(processor).__name__ in ("Flux2KVAttnProcessor", "Flux2KVParallelSelfAttnProcessor")
    return ReferenceProcessor(processor, session) if keeps else processor


def reference_mask(start: int, end: int, length: int, device: torch.device) -> Tensor:
    """1 1 S S: tokens from `start` to `end` see only each other, all others see everything."""
    mask = torch.ones(length, length, dtype=torch.bool, device=device)
    mask[start:end, :start] = False
    mask[start:end, end:] = False
    return mask[None, None]


def joined_times(modulation: Tensor, arguments: Mapping[str, Any], session: Any) -> Tensor:
    """B S D: in the first step the model puts the references' modulation at global positions of this rank's sequence.

    What it made begins with the modulation of all other tokens, followed by that of the references.
    """
    keeping = arguments.get("joint_attention_kwargs") or {}
    num_references = keeping.get("num_ref_tokens", 0)
    if keeping.get("kv_cache_mode") != "extract" or not num_references:
        return modulation
    words, (start, end) = (session.streams[name].held(session.rank) for name in ("text", "image"))
    num_words, first = words[1] - words[0], min(max(num_references, start), end)
    place = min(keeping["num_txt_tokens"], num_words + end - start)
    other, reference = modulation[:, :1], modulation[:, place : place + 1]
    counts = (other, num_words), (reference, first - start), (other, end - first)
    return torch.cat([each.expand(-1, count, -1) for each, count in counts], dim=1)
