"""The attention kernels: what one rank can attend with on its device, by name.

Each is two functions, one for any mask and one that also returns log-sum-exp; both take what the other kernels of a
device take, and leave to torch's own choice what theirs does not. A plain function of somebody else, which knows of no
log-sum-exp, serves where none is merged (`of_function`). FlashAttention 3 and 4 stand in for torch's own flash
kernel in the whole process, by torch's own switch: a process has one of them. `choice.py` decides which kernel is used.
"""

# B batch, H heads, S queries, T keys, D head width

from collections.abc import Callable
from typing import Never

import torch
import torch.nn.functional as F
from torch import Tensor

from ..plan import ParallelPlan
from .strategy import Kernel

Function = Callable[[Tensor, Tensor, Tensor, Tensor | None, float | None], Tensor]  # q, k, v, mask and scale to B H S D

HALF = (torch.float16, torch.bfloat16)
WIDEST = 256  # the widest heads that flash kernels take
# Bytes of which the memory-efficient kernel wants multiples between any two rows: of heads, and of a bias.
ALIGNMENT = 16


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Torch's own choice of flash, cuDNN and memory-efficient kernels."""
    is_grouped = bool(k.shape[1] != q.shape[1])  # a symbol in a graph for any lengths
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=is_grouped)


def _cpu_flash_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    # Half precision too in fp32, whose answers are not rounded before they are merged: as fast, where a CPU has no
    # units for tiles of bf16.
    q, k, v = (x.float() if x.dtype in HALF else x for x in (q, k, v))
    mask = mask if mask is None else mask.to(q.dtype)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask, scale=scale)


def _sdpa_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    """Torch's flash kernel for what it takes, else the memory-efficient one."""
    if mask is not None or not _fits_flash(q, v) or q.shape[3] % 8:
        return _efficient_lse(q, k, v, mask, scale)
    out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, False, False, scale=scale)
    return out, lse.narrow(2, 0, q.shape[2]).float()


def _efficient_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if any(x.shape[3] * x.element_size() % ALIGNMENT for x in (q, v)):
        # Zeros in q and k add nothing to a score. The scale stays that of the model's width.
        scale = q.shape[3] ** -0.5 if scale is None else scale
        wide_q, wide_k, wide_v = (F.pad(x, (0, -x.shape[3] % (ALIGNMENT // x.element_size()))) for x in (q, k, v))
        out, lse = _efficient_lse(wide_q, wide_k, wide_v, mask, scale)
        return out.narrow(3, 0, v.shape[3]), lse
    bias = None if mask is None else _aligned(mask, q, k)
    found = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, False, scale=scale)
    return found[0], found[1].narrow(2, 0, q.shape[2]).float()  # the kernel rounds the rows up to its tile


def _aligned(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The bias at full size, its rows starting at multiples of 16 bytes."""
    # The kernel asks for both, and refuses others; expanded, the rows that are alike stay one in memory.
    keys = k.shape[2]
    padded = F.pad(mask.expand(*mask.shape[:-1], keys), (0, -keys % 8)).narrow(-1, 0, keys)
    return padded.expand(q.shape[0], q.shape[1], q.shape[2], keys)


def _math_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    """By the formula, with all scores in memory: where no kernel gives a log-sum-exp, as for bf16 on Turing."""
    scores = (q.float() @ k.float().transpose(2, 3)) * (q.shape[3] ** -0.5 if scale is None else scale)  # B H S T
    scores = scores if mask is None else scores + mask
    lse = scores.logsumexp(-1)
    return torch.exp(scores - lse.unsqueeze(3)) @ v.float(), lse


def _cudnn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    if mask is not None or not _fits_cudnn(q, k, v):
        return _sdpa(q, k, v, mask, scale)
    aten = torch.ops.aten
    return aten._scaled_dot_product_cudnn_attention(q, k, v, None, False, 0.0, False, False, scale=scale)[0]


def _cudnn_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if mask is not None or not _fits_cudnn(q, k, v):
        return _sdpa_lse(q, k, v, mask, scale)
    aten = torch.ops.aten
    found = aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, False, False, scale=scale)
    return found[0], found[1].squeeze(3)


def _fits_cudnn(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """By torch's own rules, which follow cuDNN's version: widths, lengths, strides."""
    if torch.compiler.is_compiling():
        return True  # asked before a graph is made (`Session._learn`): a trace has no tensors to ask with
    cuda = torch.backends.cuda
    return cuda.can_use_cudnn_attention(cuda.SDPAParams(q, k, v, None, 0.0, False, k.shape[1] != q.shape[1]))


def _fits_flash(q: Tensor, v: Tensor) -> bool:
    return q.dtype in HALF and q.shape[3] == v.shape[3] <= WIDEST


def _flash_attn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    if mask is not None or not _fits_flash(q, v):
        return _sdpa(q, k, v, mask, scale)
    from flash_attn import flash_attn_func

    return flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), softmax_scale=scale).transpose(1, 2)


def _flash_attn_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if mask is not None or not _fits_flash(q, v):
        return _sdpa_lse(q, k, v, mask, scale)
    from flash_attn import flash_attn_func

    rows = (t.transpose(1, 2) for t in (q, k, v))
    out, lse, _ = flash_attn_func(*rows, softmax_scale=scale, return_attn_probs=True)
    return out.transpose(1, 2), lse


def _sage(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    if mask is not None:
        return _sdpa(q, k, v, mask, scale)
    from sageattention import sageattn

    return sageattn(q, k, v, tensor_layout="HND", sm_scale=scale)


def _sage_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if mask is not None:
        return _sdpa_lse(q, k, v, mask, scale)
    from sageattention import sageattn

    out, lse = sageattn(q, k, v, tensor_layout="HND", sm_scale=scale, return_lse=True)
    return out, lse


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("cpu_flash", _sdpa, _cpu_flash_lse),
        Kernel("sdpa", _sdpa, _sdpa_lse),
        Kernel("cudnn", _cudnn, _cudnn_lse, fits=_fits_cudnn),
        Kernel("flash3", _sdpa, _sdpa_lse, package="flash_attn_interface", stand_in="FA3"),
        Kernel("flash4", _sdpa, _sdpa_lse, package="flash_attn.cute", stand_in="FA4"),
        Kernel("flash_attn", _flash_attn, _flash_attn_lse, package="flash_attn", is_traced=False),
        Kernel("efficient", _sdpa, _efficient_lse),
        Kernel("math", _sdpa, _math_lse),
        # 8-bit scores: never chosen by itself.
        Kernel("sage", _sage, _sage_lse, package="sageattention", is_traced=False, error=0.1),
    )
}


def of_function(function: Function, plan: ParallelPlan) -> Kernel:
    """A function `(q, k, v, mask, scale)` as the kernel of a plan: B H S D, keys of as many heads as queries or fewer.

    Raises ValueError for a plan with a ring, which merges answers by their log-sum-exp.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if plan.ring > 1:
        raise ValueError(
            f"plan {plan}: a ring merges answers by their log-sum-exp, which the function {name} does not give; use "
            "ulysses or allgather, or a kernel by its name"
        )

    def with_lse(*_: object) -> Never:
        raise AssertionError(f"{name} was asked for a log-sum-exp under plan {plan}")

    return Kernel(name, function, with_lse, is_traced=False)
