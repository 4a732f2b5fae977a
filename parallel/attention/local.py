"""Attention on one rank, and the traps around its kernels, which were found by trying."""

# B batch, H heads, S queries, T keys, D head width

import torch
from torch import Tensor

from .strategy import Kernel, Terms


def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, terms: Terms) -> Tensor:
    """Attention with nothing to exchange."""
    num_ranks = terms.layout.num_ranks
    assert num_ranks == 1, f"{num_ranks} ranks reached the local kernel of plan {terms.mesh.plan}"
    return attend_plain(q, k, v, mask=terms.mask, scale=scale, kernel=terms.kernel)


def attend_plain(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, scale: float | None, kernel: Kernel
) -> Tensor:
    """B H S D from keys of as many heads or fewer; with nothing to attend to the answer is 0."""
    # On a CPU torch's kernels end the process at empty queries, keys or heads.
    if not q.numel() or not k.numel():
        return q.new_zeros(*q.shape[:3], v.shape[3])
    return kernel.plain(q, k, v, mask, scale)


def attend_with_lse(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, scale: float | None, kernel: Kernel
) -> tuple[Tensor, Tensor]:
    """B H S D in the kernel's format (the model's, or fp32), and fp32 B H S log-sum-exp: -inf in rows without keys."""
    if not q.numel() or not k.numel():
        nothing = torch.full(q.shape[:3], -torch.inf, dtype=torch.float32, device=q.device)
        return q.new_zeros(*q.shape[:3], v.shape[3]), nothing
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    # The kernels below read wrong memory, and say nothing, if neighbours in the last dim are not neighbours there.
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    if mask is None:
        return kernel.with_lse(q, k, v, None, scale)
    bias = additive(mask, q.dtype)  # the CPU's kernel that gives a log-sum-exp refuses bool masks
    out, lse = kernel.with_lse(q, k, v, bias, scale)
    # Kernels disagree on what a row without keys gives: a CPU's says 0, which would weigh in a merge as much as a key.
    dead = (bias == -torch.inf).all(-1).expand(lse.shape)  # B H S
    return out.masked_fill(dead.unsqueeze(3), 0.0), lse.masked_fill(dead, -torch.inf)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to add to the scores: 0 and -inf from a bool one."""
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask.logical_not(), -torch.inf)
    return mask.to(dtype)
