"""FLUX's attention as plain matrix products, and group norms without copies, for training on a CPU.

Over so short sequences torch's own kernels (2.13) are slower: one computes in single precision, the other has a slow
backward pass.
"""

from typing import Any

import torch
from torch import Tensor, nn

# B batch, C channels, H W picture


class _QuickGroupNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float) -> Tensor:  # pyrefly: ignore[bad-override]
        b, c, h, w = x.shape
        weight, bias = weight.to(x.dtype), bias.to(x.dtype)
        y, mean, scale = torch.native_group_norm(x, weight, bias, b, c, h * w, groups, eps)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.groups = groups
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, weight, mean, scale = ctx.saved_tensors
        b, c, h, w = x.shape
        plain = (value.contiguous() for value in (grads[0], x))
        dx, dw, db = torch.ops.aten.native_group_norm_backward(
            *plain, mean, scale, weight, b, c, h * w, ctx.groups, [True, True, True]
        )
        return dx.to(memory_format=torch.channels_last), dw.float(), db.float(), None, None


class QuickGroupNorm(nn.GroupNorm):
    """What `hasten` makes of a module's GroupNorm; its weights, names and results stay as they are."""

    def forward(self, input: Tensor) -> Tensor:
        return _QuickGroupNorm.apply(input, self.weight, self.bias, self.num_groups, self.eps)


def hasten(model: nn.Module) -> None:
    """Make every GroupNorm of a model quick to train, in place."""
    for module in model.modules():
        if type(module) is nn.GroupNorm:
            module.__class__ = QuickGroupNorm


# B batch, S sequence, H heads, D channels of a head


class QuickAttention:
    """What diffusers' FluxAttnProcessor computes; `transformer.set_attn_processor(QuickAttention())` puts it in."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        assert attention_mask is None and image_rotary_emb is not None
        text, heads = encoder_hidden_states, attn.heads

        def split(x: Tensor) -> Tensor:
            return x.unflatten(-1, (heads, -1))  # B S H D

        q, k, v = (split(f(hidden_states)) for f in (attn.to_q, attn.to_k, attn.to_v))
        q, k = attn.norm_q(q), attn.norm_k(k)
        if text is not None:
            text_q, text_k, text_v = (split(f(text)) for f in (attn.add_q_proj, attn.add_k_proj, attn.add_v_proj))
            q = torch.cat([attn.norm_added_q(text_q), q], dim=1)
            k = torch.cat([attn.norm_added_k(text_k), k], dim=1)
            v = torch.cat([text_v, v], dim=1)
        q, k = _turned(q, *image_rotary_emb), _turned(k, *image_rotary_emb)
        b, s = q.shape[:2]
        q, k, v = (x.transpose(1, 2).reshape(b * heads, s, -1) for x in (q, k, v))
        shares = torch.softmax(torch.bmm(q * q.shape[-1] ** -0.5, k.transpose(1, 2)), dim=-1)
        seen = torch.bmm(shares, v).view(b, heads, s, -1).transpose(1, 2).reshape(b, s, -1)
        if text is None:
            return seen
        num = text.shape[1]
        return attn.to_out[1](attn.to_out[0](seen[:, num:])), attn.to_add_out(seen[:, :num])


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: every pair of channels turned by its angle."""
    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], dim=-1).flatten(-2)
    return (x.float() * cos[None, :, None] + turned.float() * sin[None, :, None]).to(x.dtype)
