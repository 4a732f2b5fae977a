"""Attention of Qwen-Image 2.1 over a sharded sequence: its order in time is one mask, and what it keeps is whole."""

# B batch, S tokens of the whole sequence, P tokens before the picture that is made

from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21AttnProcessor, QwenImage21KVLayerCache
from torch import Tensor

from ....parallel.sharding.operator import in_no_graph
from . import StandIn

Segment = tuple[int, int, bool]  # first token, one past the last, and whether they are words


@dataclass(frozen=True)
class WholePrefix:
    """Stands in for a layer's cache while it is filled: it keeps the keys and values that all ranks hold before P."""

    cache: QwenImage21KVLayerCache
    session: Any
    num_tokens: int

    def store(self, key: Tensor, value: Tensor) -> None:
        """Collective."""
        whole = self.session.gather(torch.cat([key, value], dim=-1), 1, "tokens")[:, : self.num_tokens]
        self.cache.store(*(half.clone() for half in whole.chunk(2, dim=-1)))


class CausalProcessor(StandIn):
    """The model's own processor attends to one segment of the prefix after the other, cut at global positions."""

    def __init__(self, old: Any, session: Any) -> None:
        super().__init__(old, session)
        self.plain = QwenImage21AttnProcessor()

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        *,
        segments: list[Segment] | None = None,
        key_valid: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        if segments is not None:  # all tokens are here, not only those of the picture that is made
            mask = self._mask(segments, hidden_states.device)
            others["attention_mask"] = mask if key_valid is None else mask & key_valid[:, None, None, :]  # B 1 S S
        is_filling = others.get("layer_cache") is not None and others.get("cache_write_slice") is not None
        attend: Any = self._filling if is_filling else self.plain
        return attend(attn, hidden_states, **others)

    @in_no_graph
    def _mask(self, segments: list[Segment], device: torch.device) -> Tensor:
        return causal_mask(segments, self.session.layout(("tokens",)).length, device)

    @in_no_graph
    def _filling(
        self, attn: Any, hidden_states: Tensor, *, layer_cache: Any, cache_write_slice: slice, **others: Any
    ) -> Tensor:
        """Collective: the cache gathers what it keeps."""
        cache: Any = WholePrefix(layer_cache, self.session, cache_write_slice.stop)
        return self.plain(attn, hidden_states, layer_cache=cache, cache_write_slice=slice(None), **others)


def causal_mask(segments: list[Segment], length: int, device: torch.device) -> Tensor:
    """1 1 S S: a token sees what is before it, and of its own picture what is behind it."""
    mask = torch.ones(length, length, dtype=torch.bool, device=device)
    for start, end, is_text in segments:
        mask[start:end, end:] = False
        if is_text:
            mask[start:end, start:end].tril_()
    return mask[None, None]
