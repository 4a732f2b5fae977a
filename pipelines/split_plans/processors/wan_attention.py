"""Attention processors of the Wan family, where a video's tokens are spread over ranks.

They stand in for diffusers' own in attention that is no plain call over the sharded stream, or whose keys are
kept from one forward for others. A video's tokens lie frame after frame, so that a rank's share is some whole frames
with a part of one at each end:

    frames      0 0 0 0 | 1 1 1 1 | 2 2 2 2          N = 4 tokens of each
    rank 0      0 0 0 0   1 1
    rank 1                    1 1   2 2 2 2          starts in the middle of frame 1
"""

# B batch, F frames, N tokens of a frame, S tokens here, P tokens of the past, H heads, D head width

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....parallel.sharding.operator import in_no_graph
from . import StandIn

FLEX_BLOCK = 128  # flex attention pads a sequence to a multiple of this
Grid = tuple[int, int, int]  # frames, rows and columns of a video's tokens


class FaceAttention(StandIn):
    """Each frame's tokens attend to that frame's motion tokens, which every rank has: nothing is exchanged."""

    @in_no_graph
    def __call__(
        self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        assert attention_mask is None, "no pipeline gives the face blocks a mask"
        stream = self.session.streams["image"]
        per_frame = stream.length // encoder_hidden_states.shape[1]
        start, end = stream.held(self.session.rank)
        if start == end:
            return hidden_states
        # `old` reshapes to frames, so a rank's share is filled up with zeros to whole ones, and their answers are
        # dropped: queries do not see each other, so what fills up changes no answer of a real token.
        first, last = start // per_frame, -(-end // per_frame)
        before, after = start - first * per_frame, last * per_frame - end
        frames = F.pad(hidden_states, (0, 0, before, after))  # B F*N C
        out = self.old(attn, frames, encoder_hidden_states[:, first:last])
        return out[:, before : before + end - start]


class Animate2Attention(StandIn):
    """Wan-Animate 2: the reference video's keys are kept whole in one pass; in the others each frame sees its own.

    In the pass that keeps (`extract`) the keys are gathered before their rotation, which depends on the pass that
    reads them. In the others (`cached`) they stand before this rank's own, and a mask lets each query see its own
    frame's of them, and the whole joint sequence besides:

        keys        gaps | kept keys of the frames that this rank's queries see | the video, exchanged by the session
        query of f  yes  | those of reference frame f - 1 only                  | yes
    """

    @in_no_graph
    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        *,
        rotary_emb: Tensor,
        grid_sizes: Tensor,
        kv_cache: Any,
        kv_cache_mode: str,
        rope_stride: int = 1,
        reference_rotary_emb: Tensor | None = None,
        reference_grid_sizes: Tensor | None = None,
        reference_rope_stride: int = 1,
        attention_mask: Any = None,
        origin_latent_frames: int = 0,
        origin_latent_hw: int = 0,
    ) -> Tensor:
        from diffusers.models.transformers.transformer_wan_animate_2 import _get_qkv_projections

        query, key, value = _get_qkv_projections(attn, hidden_states, None)
        query, key = attn.norm_q(query), attn.norm_k(key)
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, value))  # B S H D
        start, end = self.session.streams["image"].held(self.session.rank)
        if kv_cache_mode == "extract":
            kv_cache.store(*(self.session.gather(x, 1, "image") for x in (key, value)))
        turns = _turns(rotary_emb, grid_sizes, rope_stride)[:, start:end]
        query, key = (_turned(x, turns).type_as(value) for x in (query, key))
        mask = None
        if kv_cache_mode == "cached":
            assert reference_rotary_emb is not None and reference_grid_sizes is not None
            past_key, past_value = kv_cache.get()
            past_turns = _turns(reference_rotary_emb, reference_grid_sizes, reference_rope_stride)
            past = [_turned(past_key, past_turns).type_as(value), past_value]
            grids = tuple(grid_sizes[0].tolist()), tuple(reference_grid_sizes[0].tolist())
            past, mask = self._seen(past, *grids, frames=origin_latent_frames, tokens=origin_latent_hw)
            key, value = (torch.cat(pair, 1) for pair in zip(past, (key, value), strict=True))
        return _attended(attn, *(x.transpose(1, 2) for x in (query, key, value)), mask=mask)

    def _seen(
        self, past: list[Tensor], grid: Grid, reference: Grid, *, frames: int, tokens: int
    ) -> tuple[list[Tensor], Tensor]:
        """Of kept keys and values B F*N H D, in `frames` frames of `tokens` tokens, those that this rank's queries see,
        behind the gaps; and the mask 1 1 S T of these and of the video's own."""
        per_frame = grid[1] * grid[2]
        start, end = self.session.streams["image"].held(self.session.rank)
        frame = torch.arange(start, end, device=past[0].device) // per_frame  # S
        first, last = start // per_frame, -(-end // per_frame)
        # Frame f sees reference frame f - 1; one past the reference's end is all gaps.
        seen = range(max(first - 1, 0), min(last - 1, frames))
        kept = [x.unflatten(1, (reference[0], reference[1] * reference[2])) for x in past]
        kept = [_fit(x[:, seen.start : seen.stop], len(seen), tokens) for x in kept]  # B P H D
        # The gaps are zero keys of diffusers' packed buffer, which its block mask lets every query see; a softmax
        # counts a zero key like any other, so they must stay, though they add nothing but weight.
        num_gaps = (frames + 1) * tokens - grid[0] * per_frame
        of_frame = torch.arange(seen.start, seen.stop, device=frame.device).repeat_interleave(tokens) + 1
        mask = F.pad(frame[:, None] == of_frame, (num_gaps, self.session.streams["image"].length), value=True)
        return [F.pad(x, (0, 0, 0, 0, num_gaps, 0)) for x in kept], mask[None, None]


class CausalAttention(StandIn):
    """AnyFlow's causal form: all ranks keep keys and values of past chunks whole, as the pipeline hands them out."""

    @in_no_graph
    def __call__(
        self,
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
        stream = self.session.streams["image"]
        start, end = stream.held(self.session.rank)
        num_past = rotary_emb["key"].shape[2] - stream.length
        past = []
        if kv_cache is not None and kv_cache_flag is not None:
            if kv_cache_flag["is_cache_step"]:
                _keep(kv_cache, kv_cache_flag, [self.session.gather(x, 2, "image") for x in (key, value)])
            else:
                past = _kept(kv_cache, kv_cache_flag)
        query = apply_rotary_emb(query, rotary_emb["query"][:, :, start:end])
        key = apply_rotary_emb(key, rotary_emb["key"][:, :, num_past + start : num_past + end])
        if past:
            past_key = apply_rotary_emb(past[0], rotary_emb["key"][:, :, :num_past])
            key, value = torch.cat([past_key, key], 2), torch.cat([past[1], value], 2)
        if attention_mask is not None:
            return _attended(attn, query, key, value, mask=_dense(attention_mask, stream.length))
        # diffusers pads to whole blocks and masks nothing, so its queries see zero keys: so do ours
        padding = -stream.length % FLEX_BLOCK
        return _attended(attn, query, *(F.pad(x, (0, 0, padding, 0)) for x in (key, value)))


def _attended(attn: Any, query: Tensor, key: Tensor, value: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """B H S D to B S HD."""
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    out = out.transpose(1, 2).flatten(2, 3).type_as(query)
    return attn.to_out[1](attn.to_out[0](out))


def _fit(x: Tensor, frames: int, tokens: int) -> Tensor:
    """B F N H D to this many frames and tokens of each, then flat."""
    return F.pad(x, (0, 0, 0, 0, 0, tokens - x.shape[2], 0, frames - x.shape[1])).flatten(1, 2)


def _turns(freqs: Tensor, grids: Tensor, stride: int) -> Tensor:
    """The complex factors of all tokens of each item: B F*N 1 D/2."""
    third = freqs.shape[1] // 3
    time, rows, columns = freqs.split([freqs.shape[1] - 2 * third, third, third], dim=1)
    items = []
    for frames, height, width in grids.tolist():
        shape = frames, height, width, -1
        axes = (
            time[: frames * stride : stride].view(frames, 1, 1, -1).expand(shape),
            rows[:height].view(1, height, 1, -1).expand(shape),
            columns[:width].view(1, 1, width, -1).expand(shape),
        )
        items.append(torch.cat(axes, -1).flatten(0, 2))
    return torch.stack(items)[:, :, None]


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.to(torch.float64).unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(3)


def _keep(cache: dict[str, Tensor], flag: dict[str, Any], pair: list[Tensor]) -> None:
    num_small, num_full = flag["num_compressed_tokens"], flag["num_full_tokens"]
    for index, x in enumerate(pair):
        cache["compressed_cache"][index, :, :, :num_small] = x[:, :, :num_small]
        cache["full_cache"][index, :, :, :num_full] = x[:, :, num_small:]


def _kept(cache: dict[str, Tensor], flag: dict[str, Any]) -> list[Tensor]:
    small = cache["compressed_cache"][:, :, :, : flag["num_cached_compressed_tokens"]]
    full = cache["full_cache"][:, :, :, : flag["num_cached_full_tokens"]]
    return list(torch.cat([small, full], 3))


@functools.lru_cache(maxsize=1)  # all blocks of a forward share one mask
def _dense(mask: Any, length: int) -> Tensor:
    """The tensor that a block mask stands for."""
    index = torch.arange(length, device=mask.kv_indices.device)
    return mask.mask_mod(None, None, index[:, None], index)[None, None]
