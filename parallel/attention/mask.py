"""Masks that a model built from local lengths, made global.

A mask is *global* where it has a row and a column for every token of the joint sequence, and *local* along a dim where
a model made it from the tokens that this rank holds. Strategies take global ones.
"""

# B batch, H heads, S queries, T keys

import torch
from torch import Tensor

from ..collectives import gather
from ..group import Group
from ..layout import Layout
from .rows import gather_along


def global_mask(mask: Tensor, *, layout: Layout, rank: int, group: Group) -> Tensor:
    """Collective if the mask is local: b h s t, each 1 or of the size of the whole sequence.

    Raises ValueError for a mask that is local on both axes: the scores between two other ranks' tokens are not in it.
    """
    here, whole = layout.num_held(rank), layout.length
    held = [layout.num_held(other) for other in range(layout.num_ranks)]
    if (min(held) > 1 and max(held) < whole) or group.size == 1:
        mask = collapsed(mask)
        local = [dim for dim in (2, 3) if mask.shape[dim] not in (1, whole) and mask.shape[dim] == here]
    else:  # the one token or the whole sequence of some rank looks like a mask for all: the ranks decide together
        while mask.ndim < 4:
            mask = mask.unsqueeze(0)
        own = torch.tensor(mask.shape[2:], device=mask.device)
        rows, keys = gather(own, sizes=[2] * group.size, group=group).view(group.size, 2).T.tolist()
        local = [dim for dim, sizes in ((2, rows), (3, keys)) if sizes == held]
    if len(local) == 2:
        raise ValueError(
            f"an attention mask of {tuple(mask.shape)} was built from this rank's {here} tokens on both axes and "
            f"cannot be made global for {whole}; give the class a split plan with mask='outer', or a processor"
        )
    for dim in local:
        mask = gather_along(mask, dim, layout=layout, rank=rank, group=group)
    if any(mask.shape[dim] not in (1, whole) for dim in (2, 3)):
        raise ValueError(
            f"an attention mask of {tuple(mask.shape)} fits neither the {whole} tokens of the whole sequence nor "
            f"the {here} on this rank; the split plan of this class does not describe its masks"
        )
    return mask


def collapsed(mask: Tensor) -> Tensor:
    """B H S T, with 1 for heads and queries that a mask was merely expanded over."""
    while mask.ndim < 4:
        mask = mask.unsqueeze(0)
    for dim in (1, 2):
        if mask.shape[dim] > 1 and mask.stride(dim) == 0:
            mask = mask.narrow(dim, 0, 1)
    return mask


def outer_mask(mask: Tensor, *, layout: Layout, rank: int, group: Group) -> Tensor:
    """Collective: the global mask from a local one that is m m^T of a vector of valid tokens: bools, or 0 and 1."""
    assert mask.ndim == 4, "an outer mask is B H S S"
    valid = gather_along(mask.diagonal(dim1=2, dim2=3), 2, layout=layout, rank=rank, group=group)
    return valid[..., :, None] * valid[..., None, :]
