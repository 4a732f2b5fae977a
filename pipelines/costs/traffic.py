"""The bytes and messages that one rank sends under each strategy, as `parallel/attention` counts them.

Exact for the first rank, whose shares are the largest; a test compares them with each strategy's own `traffic`.
Ulysses: Jacobs et al., 2023 (arXiv:2309.14509). Ring: Liu et al., 2023 (arXiv:2310.01889). AllGather-KV: Dubey et al.,
2024 (arXiv:2407.21783). Hybrids: Fang and Zhao, 2024 (arXiv:2405.07719).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...parallel.layout import shares_of
from ...parallel.plan import ParallelPlan


@dataclass(frozen=True)
class Sent:
    """What a rank sends in one attention call along each axis of its plan, and in how many messages."""

    exchange_bytes: float = 0.0
    num_exchanges: int = 0
    gather_bytes: float = 0.0
    num_gathers: int = 0
    hop_bytes: float = 0.0
    """All hops together."""
    num_hops: int = 0

    @property
    def num_bytes(self) -> float:
        return self.exchange_bytes + self.gather_bytes + self.hop_bytes

    @property
    def num_messages(self) -> int:
        return self.num_exchanges + self.num_gathers + self.num_hops


@dataclass(frozen=True, kw_only=True)
class Attention:
    """The sizes of one attention call: tokens of the streams that are sharded, and of those that every rank holds."""

    sharded: tuple[int, ...]
    replicated: tuple[int, ...] = ()
    heads: int
    kv_heads: int
    head_dim: int
    batch: int = 1
    itemsize: int = 2


def sent_by(plan: ParallelPlan, call: Attention) -> Sent:
    """What the first rank of a sequence sends."""
    if plan.sequence == 1:
        return Sent()
    item = call.batch * call.head_dim * call.itemsize
    held = [sum(shares) for shares in zip(*(shares_of(each, plan.sequence) for each in call.sharded), strict=True)]
    exchanged, heads, keys = 0.0, call.heads, call.kv_heads
    if plan.ulysses > 1:
        queries, key_shares = _heads(call, plan.ulysses)
        others = sum(queries[1:]) + 2 * sum(key_shares[1:])
        back = sum(held[1 : plan.ulysses]) + (plan.ulysses - 1) * sum(call.replicated)
        exchanged = (held[0] * others + back * queries[0]) * item
        heads, keys = queries[0], _looked_at(call, queries[0])
    groups = [sum(held[first : first + plan.ulysses]) for first in range(0, len(held), plan.ulysses)]
    answers, num_answers = 0.0, 0
    if plan.exchange > 1 and call.replicated:
        divided = [sum(shares) for shares in zip(*(shares_of(n, plan.exchange) for n in call.replicated), strict=True)]
        answers, num_answers = divided[0] * heads * item * (plan.exchange - 1), 1
    gathered = groups[0] * 2 * keys * item * (plan.exchange - 1) if plan.allgather > 1 else 0.0
    hops = (sum(groups) - groups[1]) * 2 * keys * item if plan.ring > 1 else 0.0  # all blocks but the next rank's
    return Sent(
        exchange_bytes=exchanged,
        num_exchanges=2 if plan.ulysses > 1 else 0,
        gather_bytes=gathered + answers,
        num_gathers=(plan.allgather > 1) + num_answers,
        hop_bytes=hops,
        num_hops=plan.ring - 1,
    )


def _heads(call: Attention, degree: int) -> tuple[Sequence[int], Sequence[int]]:
    """Query heads of each rank, and the key heads that they look at, which travel once."""
    queries, group, start, keys = shares_of(call.heads, degree), call.heads // call.kv_heads, 0, []
    for share in queries:
        keys.append(-(-(start + share) // group) - start // group if share else 0)
        start += share
    return queries, keys


def _looked_at(call: Attention, queries: int) -> int:
    """The key heads that the first rank's kernel is given: one for each query head where those fill no whole groups."""
    group = call.heads // call.kv_heads
    return queries // group if queries % group == 0 else queries


def gathered_weights(block_bytes: int, degree: int) -> float:
    """What a rank sends of a block's weights that `degree` ranks share (FSDP; Zhao et al., 2023, arXiv:2304.11277)."""
    return (degree - 1) * block_bytes / degree if degree > 1 else 0.0


def predictions(latent_bytes: int, branches: int) -> float:
    """What a rank sends once a step of its branch's prediction."""
    return latent_bytes * (branches - 1)
