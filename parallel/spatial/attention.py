"""Attention of this rank's rows to all: keys and values are gathered, in a middle block at the latents' size.

Linear attention multiplies keys by values first: the ranks' products are summed, and queries meet the sum.
"""

# B batch, H heads, S tokens here, K tokens of all ranks, D head width, T frames

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..collectives import add
from ..sharding.operator import Asked
from .part import Part, Parts
from .shapes import shared


def attend(parts: Parts, func: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Collective: `F.scaled_dot_product_attention`."""
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa = Asked(*args, **kwargs)
    part = parts.of(query)
    alike = {parts.of(x) for x in (query, key, value)}
    if part and len(alike) == 1 and part.dim < query.ndim - 2 and not dropout_p:  # each place by itself
        # The rows are among the batch, so nothing is asked of other ranks; a mask may not have them elsewhere.
        shared(parts, func, [query] if attn_mask is None else [query, attn_mask])
        out = func(query, key, value, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)
        return parts.mark(out, part)
    if part is None or len(alike) > 1 or part.dim != query.ndim - 2 or key.shape != value.shape:
        raise parts.refusal(func, "is not of rows of the picture to each other")
    if dropout_p or is_causal:
        raise parts.refusal(func, f"with dropout {dropout_p} and is_causal {is_causal} is not known to a split picture")
    if attn_mask is not None:
        attn_mask = _over_all(parts, func, attn_mask, part, query)
    pair = Part(part.dim + 1, part.outer)  # keys and values together: one exchange
    key, value = parts.gathered(torch.stack([key, value]), pair).unbind(0)  # B H K D
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, scale=scale, enable_gqa=enable_gqa)
    return parts.mark(out, part)


def _over_all(parts: Parts, func: Any, mask: Tensor, part: Part, query: Tensor) -> Tensor:
    """A mask for the keys of all ranks, from one for this rank's that tells frames apart, not places in them."""
    # It was made from the lengths here, so what it would say of other ranks' places cannot be known: only what it says
    # of whole frames, which is the same for all places.
    frames, tokens = part.outer, query.shape[part.dim]
    here, everywhere = tokens // frames, sum(parts.sizes(query, part))
    if parts.of(mask) is not None or mask.shape[-2:] != (tokens, tokens):
        raise parts.refusal(func, f"with a mask of {tuple(mask.shape)} for {tokens} tokens is not known")
    blocks = mask.unflatten(-1, (frames, here)).unflatten(-3, (frames, here))  # ... T S/T T S/T
    of_frames = blocks[..., :, :1, :, :1]  # ... T 1 T 1
    if not torch.equal(blocks, of_frames.expand_as(blocks)):
        raise parts.refusal(func, "with a mask that tells places in a frame apart cannot be split")
    leading = mask.shape[:-2]
    whole = of_frames.expand(*leading, frames, here, frames, everywhere)
    return whole.reshape(*leading, tokens, frames * everywhere)


def multiply(parts: Parts, func: Any, left: Tensor, right: Tensor) -> Tensor:
    """Collective if it sums over the rows: the product of two matrices, or of many."""
    one, other = parts.of(left), parts.of(right)
    if left.ndim != right.ndim or left.ndim < 2:
        raise parts.refusal(func, f"of {tuple(left.shape)} and {tuple(right.shape)} is not known to a split picture")
    across, along = left.ndim - 1, left.ndim - 2
    if one and other and (one.dim, other.dim, one.outer) == (across, along, other.outer):
        return add(func(left, right), group=parts.group)
    if one is None and other and other.dim == across:
        return parts.mark(func(left, right), other)
    if other is None and one and one.dim == along:
        return parts.mark(func(left, right), one)
    raise parts.refusal(func, f"of {tuple(left.shape)} and {tuple(right.shape)} mixes rows")
