"""Group normalisation over rows that several ranks hold.

Each rank's means and sums of squared deviations are merged by the parallel formula of Chan, Golub and LeVeque (1983),
in double precision: no difference of large sums loses digits.
"""

# N samples, G groups, C channels, P ranks

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..collectives import gather
from .part import Part, Parts


def normalise(
    parts: Parts,
    func: Any,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Collective: `F.group_norm`."""
    part = parts.of(input)
    if part is None or part.dim < 2:
        raise parts.refusal(func, "has its rows among the channels")
    samples, channels = input.shape[:2]
    mean, variance = _moments(parts, part, input, num_groups)  # N*G
    each = channels // num_groups
    # A batch norm with given moments: one kernel and no copy in higher precision, with samples as channels.
    rows = input.reshape(1, samples * channels, *input.shape[2:])
    out = F.batch_norm(
        rows,
        _like(mean, input).repeat_interleave(each),
        _like(variance, input).repeat_interleave(each),
        None if weight is None else _like(weight, input).repeat(samples),
        None if bias is None else _like(bias, input).repeat(samples),
        eps=eps,
    )
    return parts.mark(out.view(input.shape), part)


def _moments(parts: Parts, part: Part, x: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
    """Collective: mean and biased variance of each group over all ranks' rows, the same bits on each."""
    sizes = parts.sizes(x, part)
    own = torch.stack(_own_moments(x, num_groups)).double()  # 2 N*G
    found = gather(own.flatten(), sizes=[own.numel()] * parts.group.size, group=parts.group)
    means, variances = found.view(-1, *own.shape).unbind(1)  # P N*G
    shares = means.new_tensor(sizes)[:, None] / sum(sizes)
    mean = (shares * means).sum(0)
    return mean, (shares * (variances + (means - mean).square())).sum(0)


def _own_moments(x: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of this rank's part of each group."""
    groups = x.reshape(x.shape[0] * num_groups, -1)  # N*G ...
    if x.dtype in (torch.float32, torch.float64):
        variances, means = torch.var_mean(groups, 1, correction=0)
        return means, variances
    # In fp32, for sums of halves would lose digits; one at a time, so that copies are small.
    moments = [torch.var_mean(group.float(), correction=0) for group in groups]
    return torch.stack([mean for _, mean in moments]), torch.stack([variance for variance, _ in moments])


def _like(value: Tensor, x: Tensor) -> Tensor:
    # In double precision for that, else in single: batch norm takes such moments for half precision too.
    return value.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
