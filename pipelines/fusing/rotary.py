"""Rotary positions in one launch: text and image are put side by side, and q and k turned, by a kernel in Triton.

One operator after the other, as without an engine, FLUX's formula takes 18 launches a block, on numbers that fit in a
cache. The kernel does the same sums in the same order, each rounded by itself, and so gives the same bits. That is not
taken on trust: the first call of each signature (shapes, strides, formats, device) makes both, and compares them; where
they differ, or the kernel fails, the plain formula is used for good. The norms before it stay torch's own: a sum over a
head's numbers in another order would round differently.
"""

# B batch, S tokens, H heads, D head width

import logging
from collections.abc import Callable, Hashable, Sequence
from importlib.util import find_spec
from typing import Any, cast

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.transformers.transformer_flux import FluxAttnProcessor
from torch import Tensor, nn

logger = logging.getLogger("latentloom")

DEVICES = ("cuda",)
WIDEST = 16384  # numbers in a token, of all heads, that one program of the kernel holds

_faults: dict[Hashable, str] = {}  # by signature, why the kernel does not do; "" if it does


def fuse_rotary(transformer: nn.Module) -> Callable[[], None]:
    """Until what this gives is called, FLUX's attention turns q and k by the kernel, if there is Triton."""
    replaced: list[tuple[Any, Any, Any]] = []
    for each in transformer.modules() if find_spec("triton") else ():
        holder: Any = each
        old: Any = getattr(holder, "processor", None)
        if type(old) is FluxAttnProcessor:  # one for pictures as prompts has sums of its own
            processor = OneLaunch()
            vars(processor).update(vars(old))
            holder.processor = processor
            replaced.append((holder, old, processor))

    def undo() -> None:
        for holder, old, processor in replaced:
            if holder.processor is processor:
                holder.processor = old

    return undo


class OneLaunch(FluxAttnProcessor):
    """What diffusers' does, but for the positions."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Any = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        if attn.fused_projections or image_rotary_emb is None:
            return super().__call__(attn, hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb)
        image = [layer(hidden_states).unflatten(-1, (-1, attn.head_dim)) for layer in (attn.to_q, attn.to_k, attn.to_v)]
        q, k, values = [attn.norm_q(image[0])], [attn.norm_k(image[1])], image[2]
        if encoder_hidden_states is not None:
            layers = attn.add_q_proj, attn.add_k_proj, attn.add_v_proj
            text = [layer(encoder_hidden_states).unflatten(-1, (-1, attn.head_dim)) for layer in layers]
            q, k = [attn.norm_added_q(text[0]), *q], [attn.norm_added_k(text[1]), *k]
            values = torch.cat([text[2], values], 1)
        query, key = turned(q, k, *image_rotary_emb)
        out = dispatch_attention_fn(
            query,
            key,
            values,
            attn_mask=attention_mask,
            backend=self._attention_backend,
            parallel_config=self._parallel_config,
        )
        out = out.flatten(2, 3).to(query.dtype)
        if encoder_hidden_states is None:
            return out
        num_text = encoder_hidden_states.shape[1]
        told, shown = out.split_with_sizes([num_text, out.shape[1] - num_text], 1)
        shown = attn.to_out[1](attn.to_out[0](shown.contiguous()))
        return shown, attn.to_add_out(told.contiguous())


def turned(q: Sequence[Tensor], k: Sequence[Tensor], cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """q and k, the parts of each joined, turned by the angles S D: B S H D."""
    key = tuple((x.shape, x.stride(), x.dtype, x.device) for x in (*q, *k, cos, sin))
    if _faults.get(key) == "":
        return _by_kernel(q, k, cos, sin)
    wanted = _plain(q, k, cos, sin)
    if key not in _faults and not (cos.is_cuda and torch.cuda.is_current_stream_capturing()):
        _faults[key] = reason = _fault(q, k, cos, sin, wanted)
        if reason:
            logger.warning("positions are turned by the plain formula for %s: %s", tuple(wanted[0].shape), reason)
    return wanted


def _plain(q: Sequence[Tensor], k: Sequence[Tensor], cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    angles: Any = (cos, sin)
    whole = (parts[0] if len(parts) == 1 else torch.cat(list(parts), 1) for parts in (q, k))
    query, key = (cast(Tensor, apply_rotary_emb(x, angles, sequence_dim=1)) for x in whole)
    return query, key


def _fault(q: Sequence[Tensor], k: Sequence[Tensor], cos: Tensor, sin: Tensor, wanted: Sequence[Tensor]) -> str:
    """Why the kernel does not do for this signature; waits for the device."""
    num_tokens, (_, _, heads, width) = sum(x.shape[1] for x in q), q[0].shape
    if cos.dtype != torch.float32 or sin.dtype != torch.float32 or cos.shape != (num_tokens, width):
        return "its angles are not as FLUX makes them"
    if not all(map(Tensor.is_contiguous, (*q, *k, cos, sin))) or heads * width > WIDEST or width % 2:
        return "its numbers do not lie as the kernel reads them"
    try:
        found = _by_kernel(q, k, cos, sin)
    except Exception as error:  # whatever a compiler of somebody else raises
        return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    return "" if all(map(torch.equal, found, wanted)) else "the kernel's bits differ"


def _by_kernel(q: Sequence[Tensor], k: Sequence[Tensor], cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    from .rotary_kernel import turn

    launch: Any = turn
    cos, sin = cos.detach(), sin.detach()  # seen by who notes what a captured forward reads
    batch, _, heads, width = q[0].shape
    num_tokens, num_text = len(cos), q[0].shape[1] if len(q) > 1 else 0
    query, key = (q[0].new_empty(batch, num_tokens, heads, width) for _ in range(2))
    block = 1 << (heads * width - 1).bit_length()
    launch[(batch * num_tokens, 2)](
        *(q[0], q[-1], k[0], k[-1], cos, sin, query, key),
        *(num_text, num_tokens, heads * width, width),
        BLOCK=block,
        enable_fp_fusion=False,  # a product that is added unrounded would give other bits
    )
    return query, key
