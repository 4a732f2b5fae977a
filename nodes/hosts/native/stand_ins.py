"""What stands in for parts of ComfyUI's classes whose tokens are spread: attention of other kinds than torch's.

Linear attention of ACE-Step (Gong et al., 2025, arXiv:2506.00045) is a sum over tokens, which ranks add up. ACE-Step
1.5 sees a window of its tokens, by their numbers. Stable Audio sets its answers off from their mean over all tokens.
"""

# B batch, H heads, S tokens here, D head width

from __future__ import annotations

import copy
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ....parallel.sharding.split_plan import Attend

    Forward = Callable[..., Tensor]


def linear(processor: Any, session: Any) -> Callable[..., tuple[Tensor, Any]]:
    """In place of ACE-Step's `CustomLiteLAProcessor2_0`. Raises ValueError for another."""
    name = type(processor).__name__
    if name != "CustomLiteLAProcessor2_0":
        raise ValueError(f"{session.title} is not split with the attention processor {name}; sample it on one device")

    def attend(attn: Any, x: Tensor, *, rotary_freqs_cis: Any, encoder_hidden_states: Any = None, **_: Any) -> Any:
        import torch
        import torch.nn.functional as F

        def rotated(t: Tensor) -> Tensor:
            cos, sin = rotary_freqs_cis  # S D
            turned = torch.stack([-t[..., 1::2], t[..., ::2]], -1).flatten(-2)
            return F.relu(t.float() * cos + turned.float() * sin)

        layers = (attn.to_q, attn.norm_q), (attn.to_k, attn.norm_k), (attn.to_v, None)
        q, k, v = (layer(x).unflatten(2, (attn.heads, -1)).transpose(1, 2) for layer, _ in layers)  # B H S D
        q, k = (t if norm is None else norm(t) for t, (_, norm) in zip((q, k), layers[:2], strict=True))
        ones = F.pad(v.float(), (0, 1), value=1.0)  # a column of ones, whose products are the denominators
        out = rotated(q) @ session.sum(rotated(k).transpose(2, 3) @ ones)
        out = (out[..., :-1] / (out[..., -1:] + 1e-15)).transpose(1, 2).flatten(2).to(x.dtype)
        return attn.to_out[1](attn.to_out[0](out)).clip(-65504, 65504), encoder_hidden_states

    return attend


def windowed(attention: Any, session: Any) -> Forward:
    """In place of the forward of ACE-Step 1.5's attention, where it has a window."""
    if attention.sliding_window is None:
        return types.MethodType(type(attention).forward, attention)

    def forward(x: Tensor, *, position_embeddings: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        import torch
        import torch.nn.functional as F

        def headed(layer: Any, norm: Any) -> Tensor:
            t = norm(layer(x).unflatten(2, (-1, attention.head_dim))).transpose(1, 2)  # B H S D
            a, b = t.chunk(2, -1)
            cos, sin = position_embeddings  # S D
            return t * cos + torch.cat([-b, a], -1) * sin

        q, k = headed(attention.q_proj, attention.q_norm), headed(attention.k_proj, attention.k_norm)
        v = attention.v_proj(x).unflatten(2, (-1, attention.head_dim)).transpose(1, 2)
        places = torch.arange(session.layout(("tokens",)).length, device=x.device)
        near = (places[:, None] - places).abs() <= attention.sliding_window
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=near[None, None], enable_gqa=k.shape[1] != q.shape[1])
        return attention.o_proj(out.transpose(1, 2).flatten(2))

    return forward


def set_off(attention: Any, session: Any) -> Forward:
    """In place of the forward of Stable Audio's attention: as it is, but for the mean over all tokens."""
    own = type(attention).forward
    if not attention.feat_scale:
        return types.MethodType(own, attention)

    def forward(*args: Any, **kwargs: Any) -> Tensor:
        attention.feat_scale = False
        try:
            out = own(attention, *args, **kwargs)
        finally:
            attention.feat_scale = True
        mean = session.sum(out.sum(1, keepdim=True)) / session.layout(("tokens",)).length
        return out + attention.lambda_dc.to(out) * mean + attention.lambda_hf.to(out) * (out - mean)

    return forward


def guided(of_image: Attend, of_guides: Attend) -> Callable[[Any, Any], Forward]:
    """In place of the forward of LTX's attention to video: as it is, which asks apart for guides that have a mask, told
    which of a rank's rows are theirs."""

    def make(attention: Any, session: Any) -> Forward:
        def forward(*args: Any, mask: Any = None, **kwargs: Any) -> Tensor:
            if mask is not None:
                calls = of_image, of_guides
                session.calls = tuple(session.kinds.index(each) for each in calls)
                mask = copy.copy(mask)
                held = (session.layout(each.queries).num_held(session.rank) for each in calls)
                mask.guide_start, mask.tracked_count = held
            return type(attention).forward(attention, *args, mask=mask, **kwargs)

        return forward

    return make
