"""Attention over tokens that are spread over ranks: three strategies, and what they share.

allgather: AllGather-KV: every rank gathers all keys and values and attends with its own queries, once.
choice: Which attention kernel a rank uses: the fastest exact one of its architecture that was seen to work there.
exchange: What ring and allgather share: each rank keeps its queries, and keys and values come to it.
kernels: The attention kernels: what one rank can attend with on its device, by name.
local: Attention on one rank, and the traps around its kernels.
mask: Masks that a model built from local lengths, made global.
packed: One buffer each way: which row of it comes from where, reckoned once for each layout and shape.
ring: Ring attention: keys and values go round, and each rank merges what it attends to, block by block.
rows: Packing attention's tensors into rows of tokens, the form in which they travel.
standing: Standing buffers: an attention call answered again and again in the same memory, under Ulysses.
strategy: What an attention strategy is: four functions, and the values they speak of.
ulysses: Ulysses: ranks trade tokens for heads, attend to whole sequences with their heads, and trade back.
"""

from functools import partial

from ..plan import ParallelPlan
from . import allgather, local, ring, ulysses
from .strategy import Attend, Strategy

STRATEGIES: dict[str, Strategy] = {"ulysses": ulysses, "ring": ring, "allgather": allgather}


def compose(plan: ParallelPlan, first: int = 0) -> Attend:
    """The attention of a plan: each strategy around the next one, the local kernel innermost; from the `first` on."""
    attend: Attend = local.attend
    for name in reversed(plan.strategies[first:]):
        attend = partial(STRATEGIES[name].attend, inner=attend)
    return attend
