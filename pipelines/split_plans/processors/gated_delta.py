"""SANA-WM's gated delta attention over frames that are spread over ranks.

It is a recurrence from frame to frame, forwards and backwards, whose state is one matrix per head. What a frame does to
the state depends on that frame only, and is much smaller than its tokens: every rank gathers that of all frames and
runs the recurrence itself. The recurrence is that of Yang et al., 2024 (Gated Delta Networks, arXiv:2412.06464).
"""

# B batch, H heads, D head width, F frames here, G frames of all ranks, S tokens of a frame, C channels

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ....parallel.group import Axis
from ....parallel.sharding.halo import extended, trimmed
from ....parallel.sharding.operator import in_no_graph
from ....parallel.sharding.split_plan import Halo
from . import StandIn


class FramesAround(StandIn):
    """In place of the forward of `SanaWMTemporalShortConvolution`: neighbours lend it the frames that it reaches."""

    def __init__(self, old: Any, session: Any) -> None:
        super().__init__(old, session)
        self.forward = old.forward  # which this is about to take the place of
        self.halo = Halo("image", 1, old.kernel_size - 1)

    @in_no_graph
    def __call__(self, hidden_states: Tensor, num_frames: int) -> Tensor:
        stream, group = self.session.streams["image"], self.session.mesh[Axis.SEQUENCE]
        around = extended(hidden_states.unflatten(1, (num_frames, -1)), self.halo, stream, group)  # B F S C
        out = self.forward(around.flatten(1, 2), around.shape[1]).unflatten(1, around.shape[1:3])
        return trimmed(out, self.halo, stream, group.index).flatten(1, 2)


class GatedDelta(StandIn):
    """In place of the forward of `SanaWMBidirectionalGDNAttention`: one gather of B H F D 3D+1 a call."""

    @in_no_graph
    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        beta: Tensor,
        decay: Tensor,
        recall_gate: Tensor,
        num_frames: int,
        rotary_emb: Tensor | None = None,
        **masks: Tensor | None,
    ) -> Tensor:
        from diffusers.models.transformers.transformer_sana_wm import _apply_rotary_emb

        dtype, key = value.dtype, _scaled(key, num_frames, masks)
        query, key, value = (x.permute(0, 2, 3, 1) for x in (query, key, value))  # B H D FS
        turned = [x if rotary_emb is None else _apply_rotary_emb(x, rotary_emb) for x in (query, key)]
        query, key, value, query_turned, key_turned = (
            _by_frame(x.float(), num_frames) for x in (query, key, value, *turned)
        )
        beta, decay = beta.float()[:, :, :, None], decay.float()[..., None, None]
        step = torch.cat(
            [
                _kept(key_turned, beta, decay),
                (value * beta) @ key_turned.transpose(-1, -2),
                _kept(key, beta, decay).transpose(-1, -2),
                (key * beta).sum(-1, keepdim=True),
            ],
            -1,
        )
        steps = self.session.gather(step, 2, "frames").split([*[key.shape[3]] * 3, 1], -1)  # B H G D D or 1
        held = self.session.streams["frames"].held(self.session.rank)
        numerator = _states(steps[0], steps[1], held) @ query_turned
        denominator = _states(steps[2], steps[3].transpose(-1, -2), held) @ query  # its recurrence as one of rows
        out = numerator / (denominator + self.old.eps)  # B H F D S
        return out.permute(0, 2, 4, 1, 3).flatten(3).flatten(1, 2).to(dtype)  # B FS HD


class GatedDeltaCamera(StandIn):
    """In place of the forward of `SanaWMBidirectionalGDNCamAttention`: one gather of B H F D 2D a call."""

    @in_no_graph
    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        ray_transforms: tuple[Tensor, Tensor, Tensor, Tensor | None],
        beta: Tensor,
        decay: Tensor,
        num_frames: int,
        **masks: Tensor | None,
    ) -> Tensor:
        from diffusers.models.transformers.transformer_sana_wm import _apply_ucpe_transform

        dtype, key = value.dtype, _scaled(key, num_frames, masks)
        ray, ray_turned, ray_inverse, rotary_emb = ray_transforms
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # B H FS D
        length = torch.linalg.vector_norm(key, dim=3).clamp_min(1e-6)
        query, key, value = (
            _in_envelope(x, _apply_ucpe_transform(x, matrix, rotary_emb))
            for x, matrix in ((query, ray_turned), (key, ray_inverse), (value, ray_inverse))
        )
        growth = (torch.linalg.vector_norm(key, dim=3).clamp_min(1e-6) / length) ** 2
        growth = growth.unflatten(2, (num_frames, -1)).mean(3, keepdim=True)  # B H F 1
        query, key, value = (_by_frame(x.transpose(2, 3).float(), num_frames) for x in (query, key, value))
        beta, decay = (beta / growth.clamp_min(1)).float()[:, :, :, None], decay.float()[..., None, None]
        step = torch.cat([_kept(key, beta, decay), (value * beta) @ key.transpose(-1, -2)], -1)
        steps = self.session.gather(step, 2, "frames").split(key.shape[3], -1)
        held = self.session.streams["frames"].held(self.session.rank)
        out = (_states(steps[0], steps[1], held) @ query).to(dtype)
        out = out.transpose(3, 4).flatten(2, 3)  # B H FS D
        return _apply_ucpe_transform(out, ray, rotary_emb, inverse_rope=True).transpose(1, 2).flatten(2)


def _scaled(key: Tensor, num_frames: int, masks: Mapping[str, Tensor | None]) -> Tensor:
    """B FS H D, by the head width and the tokens of a frame."""
    assert masks.get("token_valid_mask") is None, "frames that are padding reach no sharded block"
    return key * ((key.shape[3] * (key.shape[1] // num_frames)) ** -0.5)


def _by_frame(x: Tensor, num_frames: int) -> Tensor:
    """B H D FS -> B H F D S."""
    return x.unflatten(3, (num_frames, -1)).transpose(2, 3)


def _kept(key: Tensor, beta: Tensor, decay: Tensor) -> Tensor:
    """B H F D D: what is left of a state after a frame, by which it is multiplied from the right."""
    unit = torch.eye(key.shape[3], device=key.device, dtype=key.dtype)
    return decay * (unit - (key * beta) @ key.transpose(-1, -2))


def _states(kept: Tensor, added: Tensor, held: tuple[int, int]) -> Tensor:
    """B H F R D states at the frames in `held`: that of the frames up to each one, and that of the frames after it."""
    start, end = held
    num_frames = kept.shape[2]
    state = torch.zeros_like(added[:, :, 0])
    behind, ahead = [], []
    for frame in range(end):
        state = state @ kept[:, :, frame] + added[:, :, frame]
        if frame >= start:
            behind.append(state)
    state = torch.zeros_like(state)
    for frame in reversed(range(start, num_frames)):
        if frame < end:
            ahead.append(state)
        state = state @ kept[:, :, frame] + added[:, :, frame]
    return torch.stack(behind, 2) + torch.stack(ahead[::-1], 2)


def _in_envelope(before: Tensor, after: Tensor) -> Tensor:
    """B H FS D, no larger on average over D than before its transform."""
    was, now = (x.square().mean(3, keepdim=True).add(1e-6).sqrt() for x in (before, after))
    return after * (was / now.clamp_min(1e-6)).clamp(max=1)


STAND_INS = {
    "SanaWMTemporalShortConvolution": FramesAround,
    "SanaWMBidirectionalGDNAttention": GatedDelta,
    "SanaWMBidirectionalGDNCamAttention": GatedDeltaCamera,
}


def over_frames(module: Any, session: Any) -> Any:
    """The forward of one of SANA-WM's modules that look at other frames; softmax attention is not among them."""
    name = type(module).__name__
    return STAND_INS[name](module, session) if name in STAND_INS else module.forward
