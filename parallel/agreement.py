"""Decisions that all ranks of a group take alike: measured over everybody's tokens, and put to one vote.

Ranks that share a token sequence exchange in every block: one that skipped a block by what it alone measured would
leave the others waiting. So a step cache, which skips what has changed little, asks here.
"""

import math

import torch
from torch import Tensor

from .collectives import add
from .group import Group

ALONE = Group((0,), 0)  # the group of a rank that shares nothing: it decides by the same arithmetic and sends nothing


def change(now: Tensor, before: Tensor, *, group: Group) -> float:
    """Collective: sum |now - before| / sum |before| over the parts of all members, the same number on each."""
    # Equal to the quotient of the means over the whole tensors. Summed in fp32, because a mean in bf16 would depend on
    # how the tokens are shared out.
    sums = torch.stack([x.abs().sum(dtype=torch.float32) for x in (now - before, before)])
    changed, kept = _total(sums, group).tolist()
    if kept == 0:
        return math.inf if changed else 0.0
    return changed / kept


def any_says(is_so: bool, *, group: Group, device: torch.device) -> bool:
    """Collective: whether any member says so; `device` is where the group's tensors are."""
    return _total(torch.tensor(float(is_so), device=device), group).item() > 0


def _total(value: Tensor, group: Group) -> Tensor:
    return value if group.size == 1 else add(value, group=group)
