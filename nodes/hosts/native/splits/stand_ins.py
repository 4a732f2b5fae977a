"""What stands in for parts of ComfyUI's classes whose tokens are spread: attention of other kinds than torch's.

Linear attention of ACE-Step (Gong et al., 2025, arXiv:2506.00045) is a sum over tokens, which ranks add up. ACE-Step
1.5 sees a window of its tokens, by their numbers. Stable Audio sets its answers off from their mean over all tokens.
Faces and sound are told to the tokens of one frame of a video each.
"""

# B batch, H heads, S tokens here, D head width

from __future__ import annotations

import copy
import types
from typing import TYPE_CHECKING, Any

from .....parallel.sharding.split_plan import LOCAL, Along, Attend
from .parts import per_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

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
    if not getattr(attention, "feat_scale", False):  # 0.3.64 has no such
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


# ---- what is told to each frame of a video


def _by_frames(
    ask: Callable[[Tensor, slice], Tensor], x: Tensor, num_frames: int, session: Any, count: int | None = None
) -> Tensor:
    """What `ask` answers of this rank's tokens, B S C, where the first `count` of all are of frames one after another.

    Queries do not see each other: so frames of which this rank has a part are filled up with zeros, and `ask` is told
    which frames these are. Raises ValueError where frames are not of as many tokens each.
    """
    import torch.nn.functional as F

    stream = session.streams["tokens"]
    count = stream.length if count is None else count
    per_frame, rest = divmod(count, num_frames)
    if rest:
        raise ValueError(
            f"{session.title}: {count} tokens do not share out to {num_frames} frames; give it as many frames of sound "
            "or faces as the video has, or another size"
        )
    start, end = (0, count) if x.shape[1] == stream.length else stream.held(session.rank)  # whole behind all blocks
    if start >= (end := min(end, count)):
        return x[:, :0]
    first, last = start // per_frame, -(-end // per_frame)
    before = start - first * per_frame
    frames = F.pad(x[:, : end - start], (0, 0, before, last * per_frame - end))
    return ask(frames, slice(first, last))[:, before : before + end - start]


def face(block: Any, session: Any) -> Forward:
    """In place of the forward of a face block of Wan-Animate."""
    own = type(block).forward

    def forward(x: Tensor, motion: Tensor, *args: Any) -> Tensor:
        return _by_frames(lambda x, at: own(block, x, motion[:, at], *args), x, motion.shape[1], session)

    return forward


def injected(injector: Any, session: Any) -> Forward:
    """In place of the forward of what tells Wan-S2V and Wan-Dancer of sound, behind some of the blocks."""
    own = type(injector).forward

    def forward(
        x: Tensor, block_id: int, audio_emb: Tensor, audio_emb_global: Tensor | None, seq_len: int, **more: Any
    ) -> Tensor:
        def ask(x: Tensor, at: slice) -> Tensor:
            overall = None if audio_emb_global is None else audio_emb_global[:, at]
            return own(injector, x, block_id, audio_emb[:, at], overall, x.shape[1], **more)

        if block_id in injector.injected_block_id:
            new = _by_frames(ask, x, audio_emb.shape[1], session, seq_len)
            x[:, : new.shape[1]] = new
        return x

    return forward


def of_sound(wrapper: Any, session: Any) -> Forward:
    """In place of the forward of what tells HuMo of sound, within a block; it is 16 tokens for each frame."""
    own, each = type(wrapper).forward, 16

    def forward(x: Tensor, audio: Tensor, **more: Any) -> Tensor:
        def ask(x: Tensor, at: slice) -> Tensor:
            return own(wrapper, x, audio[:, at.start * each : at.stop * each], **more)

        return _by_frames(ask, x, audio.shape[1] // each, session)

    return forward


# ---- Wan-Animate 2: a pose's tokens go through the same blocks as the video's, by methods beside their forward


def of_stream(stream: str, method: str) -> Callable[[Any, Any], Forward]:
    """In place of such a method: it runs as the block's forward, with what hangs around that, on this rank's part."""

    def make(block: Any, session: Any) -> Forward:
        def forward(x: Tensor, e: Tensor, freqs: Tensor, *args: Any, **more: Any) -> Any:
            part = Along(1, (stream,))
            if stream not in session.streams:  # before the first block all of it is here
                session.define(stream, x.shape[1], what="x")
                x = session.cut(x, part, what="x")

            def asked(*given: Any, **named: Any) -> Any:
                session.calls = (session.kinds.index(Attend((stream,), (stream,))),)
                return getattr(type(block), method)(block, *given, **named)

            block.forward = asked
            try:
                return block(x, per_token(e, session, stream), session.cut(freqs, part, what="freqs"), *args, **more)
            finally:
                del block.forward

        return forward

    return make


def seeing_poses(attention: Any, session: Any) -> Forward:
    """In place of the `forward_gen` of its attention: each frame of the video sees all of it, and its own pose."""

    def forward(
        x: Tensor,
        freqs: Tensor,
        k_pose: Tensor | None,
        v_pose: Tensor | None,
        f_gen: int,
        hw: int,
        buffers: Any,
        ref_strength: float = 1.0,
        **more: Any,
    ) -> Tensor:
        import torch
        import torch.nn.functional as F

        start, end = session.streams["tokens"].held(session.rank)
        if k_pose is None:
            of_reference = min(max(hw - start, 0), end - start)
            own = type(attention).forward_gen
            return own(attention, x, freqs, None, None, f_gen, of_reference, buffers, ref_strength, **more)
        q, k, v = attention.qkv(x, freqs)  # B S H D
        k, v = (session.gather(each, 1, "tokens") for each in (k, v))
        v[:, :hw] *= ref_strength
        k_pose, v_pose = (session.gather(each, 1, "pose") for each in (k_pose, v_pose))
        session.calls = (session.kinds.index(LOCAL),)
        out = []
        for frame in range(start // hw, -(-end // hw)):
            of_frame = slice(max(frame * hw - start, 0), min((frame + 1) * hw, end) - start)
            of_pose = slice((frame - 1) * hw, frame * hw) if frame else slice(0)  # the reference has none
            keys, values = (torch.cat([a, b[:, of_pose]], 1).transpose(1, 2) for a, b in ((k, k_pose), (v, v_pose)))
            out.append(F.scaled_dot_product_attention(q[:, of_frame].transpose(1, 2), keys, values))
        return attention.o(torch.cat(out, 2).transpose(1, 2).flatten(2))

    return forward
