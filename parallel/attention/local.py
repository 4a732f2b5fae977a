"""Attention on one rank: the kernel, chosen once per device and dtype, and the traps around it.

Found by trying: on a CPU, empty queries, keys or heads kill the process, a fully masked row gives a log-sum-exp of 0,
and bool masks are refused by the kernel that returns one.
"""

# B batch, H heads, S queries, T keys, D head width

from __future__ import annotations

import functools
import importlib.util
import logging

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layout import Layout
from ..mesh import Mesh
from .strategy import Kernel, Shape, Traffic

logger = logging.getLogger("latentloom")


def check(layout: Layout, mesh: Mesh) -> None:
    """Any layout over one rank is fine."""
    assert layout.num_ranks == 1, f"{layout.num_ranks} ranks reached the local kernel of plan {mesh.plan}"


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: Layout,
    mesh: Mesh,
    mask: Tensor | None,
    scale: float | None,
    kernel: Kernel,
) -> Tensor:
    """Attention with nothing to exchange."""
    check(layout, mesh)
    return attend_plain(q, k, v, mask=mask, scale=scale, kernel=kernel)


def traffic(layout: Layout, mesh: Mesh, *, shape: Shape) -> Traffic:
    return Traffic()


def attend_plain(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, scale: float | None, kernel: Kernel
) -> Tensor:
    """B H S D from keys of as many heads or fewer; with nothing to attend to the answer is 0."""
    if not q.numel() or not k.numel():
        return q.new_zeros(*q.shape[:3], v.shape[3])
    return kernel.plain(q, k, v, mask, scale)


def attend_with_lse(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, scale: float | None, kernel: Kernel
) -> tuple[Tensor, Tensor]:
    """fp32 B H S D, and fp32 B H S log-sum-exp: -inf in rows that attend to nothing."""
    if not q.numel() or not k.numel():
        return q.new_zeros(*q.shape[:3], v.shape[3], dtype=torch.float32), _nothing(q)
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    # The kernels below read wrong memory, and say nothing, if neighbours in the last dim are not neighbours there.
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    if mask is None:
        out, lse = kernel.with_lse(q, k, v, None, scale)
        return out.float(), lse
    bias = additive(mask, q.dtype)
    out, lse = kernel.with_lse(q, k, v, bias, scale)
    dead = (bias == -torch.inf).all(-1).expand(lse.shape)  # B H S; kernels disagree on what such a row gives
    return out.float().masked_fill(dead[..., None], 0.0), lse.masked_fill(dead, -torch.inf)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to add to the scores: 0 and -inf from a bool one."""
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
    return mask.to(dtype)


def choose(device: torch.device, dtype: torch.dtype, name: str = "auto") -> Kernel:
    """The kernel called `name`, or the fastest exact one of a device; told once in the log."""
    if name == "auto":
        name = _fastest(device.type, dtype)
    else:
        check_kernel(name, device.type)
    return _told(name, device.type)


def check_kernel(name: str, device_type: str) -> None:
    """Raises ValueError for a kernel that is unknown, not installed, or for another device."""
    if name == "auto":
        return
    if name not in KERNELS:
        raise ValueError(f"there is no attention kernel {name!r}; choose auto, {', '.join(KERNELS)}")
    if (name == "cpu_flash") != (device_type == "cpu"):
        raise ValueError(f"attention kernel {name} does not run on {device_type}; choose auto")
    package = {"flash_attn": "flash_attn", "sage": "sageattention"}.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        raise ValueError(f"attention kernel {name} needs the package {package}; install it, or choose auto")


@functools.cache
def _told(name: str, device_type: str) -> Kernel:
    logger.info("attention kernel on %s: %s", device_type, name)
    return KERNELS[name]


def _fastest(device_type: str, dtype: torch.dtype) -> str:
    if device_type == "cpu":
        return "cpu_flash"
    if device_type == "cuda" and dtype != torch.float32 and importlib.util.find_spec("flash_attn") is not None:
        return "flash_attn"
    return "sdpa"


def _nothing(q: Tensor) -> Tensor:
    return torch.full(q.shape[:3], -torch.inf, dtype=torch.float32, device=q.device)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Torch's own choice of flash, cuDNN and memory-efficient kernels."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=k.shape[1] != q.shape[1])


def _cpu_flash_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask, scale=scale)


def _cuda_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    """Flash without a mask in half precision, else memory-efficient, which takes a bias and returns log-sum-exp."""
    aten = torch.ops.aten
    is_half = q.dtype in (torch.float16, torch.bfloat16)
    if mask is None and is_half and q.shape[3] == v.shape[3] and q.shape[3] % 8 == 0:
        out, lse, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, False, False, scale=scale)
        return out, lse[..., : q.shape[2]].float()
    bias = None if mask is None else _aligned(mask, q, k)
    out, lse, *_ = aten._scaled_dot_product_efficient_attention(q, k, v, bias, True, 0.0, False, scale=scale)
    return out, lse[..., : q.shape[2]].float()  # the kernel rounds the rows up to its tile


def _aligned(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The bias at full size, its rows starting at multiples of 16 bytes as the kernel asks."""
    keys = k.shape[2]
    padded = F.pad(mask.expand(*mask.shape[:-1], keys), (0, -keys % 8))[..., :keys]
    return padded.expand(q.shape[0], q.shape[1], q.shape[2], keys)


def _flash_attn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    if mask is not None:
        return _sdpa(q, k, v, mask, scale)
    from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports]

    return flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)), softmax_scale=scale).transpose(1, 2)


def _flash_attn_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if mask is not None:
        return _cuda_lse(q, k, v, mask, scale)
    from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports]

    rows = (t.transpose(1, 2) for t in (q, k, v))
    out, lse, _ = flash_attn_func(*rows, softmax_scale=scale, return_attn_probs=True)
    return out.transpose(1, 2), lse


def _sage(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    if mask is not None:
        return _sdpa(q, k, v, mask, scale)
    from sageattention import sageattn  # pyright: ignore[reportMissingImports]

    return sageattn(q, k, v, tensor_layout="HND", sm_scale=scale)


def _sage_lse(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> tuple[Tensor, Tensor]:
    if mask is not None:
        return _cuda_lse(q, k, v, mask, scale)
    from sageattention import sageattn  # pyright: ignore[reportMissingImports]

    out, lse = sageattn(q, k, v, tensor_layout="HND", sm_scale=scale, return_lse=True)
    return out, lse


KERNELS = {
    "cpu_flash": Kernel("cpu_flash", _sdpa, _cpu_flash_lse),
    "sdpa": Kernel("sdpa", _sdpa, _cuda_lse),
    "flash_attn": Kernel("flash_attn", _flash_attn, _flash_attn_lse),
    "sage": Kernel("sage", _sage, _sage_lse),  # 8-bit scores: never chosen by itself
}
