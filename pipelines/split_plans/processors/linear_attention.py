"""Linear attention over sharded tokens: its states are sums over tokens, so the ranks add theirs up.

Sana (Xie et al., 2024, arXiv:2410.10629) and SANA-Video (Chen et al., 2025, arXiv:2509.24695).
"""

# B batch, S tokens here, H heads, D head width

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....parallel.sharding.operator import in_no_graph


def summed(processor: Any, session: Any) -> Any:
    """What stands in for one of Sana's processors of linear attention."""
    name = type(processor).__name__
    if name not in STAND_INS:
        raise ValueError(
            f"an attention processor {name} cannot be sharded, only {' and '.join(STAND_INS)}; set it back to the "
            "class's own (perturbed attention guidance has others)"
        )
    return STAND_INS[name](in_no_graph(session.sum))


class SumLinear:
    """In place of `SanaLinearAttnProcessor2_0`: one sum over the ranks a call."""

    def __init__(self, total: Callable[[Tensor], Tensor]) -> None:
        self.total = total  # collective: the sum over the ranks that share the sequence

    def __call__(self, attn: Any, hidden_states: Tensor, **_: Any) -> Tensor:
        query, key, value = _project(attn, hidden_states)  # B H D S
        value = F.pad(value, (0, 0, 0, 1), value=1.0)  # a row of ones, whose products are the denominators
        out = self.total(value @ key.transpose(2, 3)) @ query
        out = out[:, :, :-1] / (out[:, :, -1:] + 1e-15)
        return _output(attn, out, hidden_states.dtype)


class SumLinearRotary(SumLinear):
    """In place of `SanaLinearAttnProcessor3_0`: rotated keys for the numerators, plain ones for the denominators."""

    def __call__(self, attn: Any, hidden_states: Tensor, *, rotary_emb: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        query, key, value = _project(attn, hidden_states)  # B H D S
        states = self.total(torch.cat([value @ _rotated(key, rotary_emb).transpose(2, 3), key.sum(3)[:, :, None]], 2))
        numerator = states[:, :, :-1] @ _rotated(query, rotary_emb)
        out = numerator / (states[:, :, -1:] @ query + 1e-15)
        return _output(attn, out, hidden_states.dtype)


def _project(attn: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """fp32 B H D S queries, keys and values, the first two not negative."""
    query, key, value = attn.to_q(hidden_states), attn.to_k(hidden_states), attn.to_v(hidden_states)
    query = query if attn.norm_q is None else attn.norm_q(query)
    key = key if attn.norm_k is None else attn.norm_k(key)
    query, key, value = (t.transpose(1, 2).unflatten(1, (attn.heads, -1)) for t in (query, key, value))
    return F.relu(query).float(), F.relu(key).float(), value.float()


def _rotated(x: Tensor, rotary_emb: tuple[Tensor, Tensor]) -> Tensor:
    """B H D S, neighbouring channels turned by angles given as 1 S 1 D cosines and sines."""
    cos, sin = (t.permute(0, 2, 3, 1)[:, :, ::2] for t in rotary_emb)  # 1 1 D/2 S
    first, second = x[:, :, ::2], x[:, :, 1::2]
    return torch.stack([first * cos - second * sin, first * sin + second * cos], 3).flatten(2, 3)


def _output(attn: Any, out: Tensor, dtype: torch.dtype) -> Tensor:
    hidden_states = out.flatten(1, 2).transpose(1, 2).to(dtype)  # B S HD
    hidden_states = attn.to_out[1](attn.to_out[0](hidden_states))
    return hidden_states.clip(-65504, 65504) if dtype == torch.float16 else hidden_states


STAND_INS = {"SanaLinearAttnProcessor2_0": SumLinear, "SanaLinearAttnProcessor3_0": SumLinearRotary}
