"""One step of a denoise under a plan: what computes, travels and hides; and what the run around it asks.

A layer takes the longer of what the device does and what the host takes to ask for it. On the device an exchange or a
gather waits; a ring's hop hides under the attention to the block before it; the gather of shared weights hides under
the block before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...parallel.layout import Layout, Stream, shares_of
from ...parallel.mesh import planned_mesh
from ...parallel.plan import ParallelPlan
from ...parallel.traffic import Shape, Traffic, traffic_of
from ..values import Dtype
from .chips import KERNEL_S, REPLAY_LAUNCHES, Chip, Software

FP32 = 4
ITEMSIZE = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a run asks of devices beside its plan, in the numbers that its time follows from: first of one branch of
    guidance in one step, then of the run around the steps.
    """

    image: int  # tokens of the picture or video, its references among them
    text: int = 0  # tokens of the text that are attended to with them
    context: int = 0  # tokens of the text that are attended to by cross attention, on every rank
    layers: int  # attention calls between tokens
    width: int  # numbers in a token
    heads: int
    kv_heads: int
    head_dim: int
    # Weights of matrix products that each token of the image passes, in all layers. The next two likewise.
    image_weights: float
    text_weights: float
    context_weights: float = 0.0
    block_bytes: int = 0  # a layer's weights
    branches: int = 1  # forwards a step
    batch: int = 1
    latent_bytes: int = 0  # a prediction, which two branches of guidance exchange
    dtype: Dtype = "bf16"
    shards_text: bool = True  # whether the model's class lets text that is attended to jointly be spread over ranks
    steps: int = 1
    num_texts: int = 1  # the prompt, and what to steer away from
    encode_flops: float = 0.0  # of all text encoders, for all prompts
    encode_tokens: int = 0
    encode_layers: int = 0  # layers that are passed, one prompt after the other
    decode_flops: float = 0.0
    # How often ranks that decode by rows wait for each other: once for each convolution, for the rows at its edge, and
    # once for each group normalisation (`parallel/spatial`), in each piece of a video.
    decode_exchanges: int = 0
    decode_edge_bytes: float = 0.0  # what a rank sends of such rows to both its neighbours
    pixel_bytes: float = 0.0  # what they gather at the end
    load_bytes: int = 0  # all weights, as files hold them
    transformer_bytes: int = 0  # those of them that the denoise works with

    @property
    def tokens(self) -> int:
        return self.image + self.text

    def is_text_sharded(self, plan: ParallelPlan) -> bool:
        """`auto` shards it wherever the model's class offers that."""
        return self.shards_text and plan.text != "replicated"

    def rows(self, plan: ParallelPlan) -> tuple[int, int]:
        """Tokens of the image and of the text that the first rank, which has most, works on."""
        ranks = plan.sequence
        return -(-self.image // ranks), -(-self.text // ranks) if self.is_text_sharded(plan) else self.text

    def linear_flops(self, plan: ParallelPlan) -> float:
        """Two for each weight and token (Kaplan et al., 2020, arXiv:2001.08361)."""
        image, text = self.rows(plan)
        return (
            2
            * self.batch
            * (image * self.image_weights + text * self.text_weights + self.context * self.context_weights)
        )


@dataclass(frozen=True, kw_only=True)
class Step:
    """Seconds of one step, by what they go to; all but `host` and `hidden` add up to the step."""

    linear: float
    attention: float
    # Norms, packing and merging: passes over memory, starts of kernels, and what a ring loses at its hops.
    memory: float
    exposed: float  # waiting for what travels
    weights: float  # waiting for shared weights, or for those that come from the host's memory
    waiting: float  # of the device for the host
    idle: float  # while other sections compute blocks that those of this one follow, or that follow these
    host: float
    hidden: float  # what travels while something else is computed
    sent_bytes: float  # by each rank

    @property
    def seconds(self) -> float:
        return self.linear + self.attention + self.memory + self.exposed + self.weights + self.waiting + self.idle


def step(
    demand: Demand, plan: ParallelPlan, chip: Chip, software: Software, *, talking: int = 0, section: float = 1.0
) -> Step:
    """One step of the plan's slowest rank, whose section does that part of a forward. `talking`: ranks that work at the
    same time, of other replicas too.
    """
    talking = max(talking, plan.num_ranks)
    sent = sent_in_call(demand, plan)
    rows, flops = sum(demand.rows(plan)) * demand.batch, demand.linear_flops(plan) / demand.layers
    linear = chip.gemm_s(flops, rows=rows, width=demand.width, dtype=demand.dtype)
    attention = _attention(demand, plan, chip)
    kernels = software.kernels + software.sharded_kernels * (plan.sequence > 1)
    memory = _memory(demand, plan, chip, software) + kernels * KERNEL_S * chip.is_async
    exposed, hidden = _travel(sent, plan, chip, software, attention, talking)
    launches = REPLAY_LAUNCHES
    if not software.is_captured or plan.num_shares > 1:
        launches = (
            software.launches
            + software.sharded_launches * (plan.sequence > 1)
            + software.exchange_launches * (plan.ulysses > 1)
            + software.gather_launches * sent.num_gathers
            + software.hop_launches * sent.num_hops
        )
    host = chip.launch_s * launches
    device = linear + attention + memory + exposed
    # A GPU works off a queue that the host fills ahead of it; a processor asks itself, and does nothing else meanwhile.
    waiting = max(0.0, host - device) if chip.is_async else host
    weights = hidden_weights = 0.0  # of a block: those that travel, and of them those that hide under the block before
    if plan.weights > 1 and chip.wires:
        gathered = gathered_weights(demand.block_bytes, plan.weights)
        weights = chip.wires.seconds("gather", plan.weights, 1, talking, gathered)
        hidden_weights = min(weights, device + waiting) if chip.is_async else 0.0
    times = demand.layers * section * demand.branches / plan.cfg
    # A section works at one branch while the next one works at the branch before: N of them take N - 1 turns to fill
    # and to run dry (GPipe; Huang et al., 2018, arXiv:1811.06965), in each of which an activation crosses a border.
    turns, border = plan.layers - 1, 0.0
    crossing = rows * demand.width * ITEMSIZE[demand.dtype]
    if turns and chip.wires:
        back = chip.wires.seconds("hop", plan.layers, plan.sequence, talking, demand.latent_bytes)
        border = turns * chip.wires.seconds("hop", plan.layers, plan.sequence, talking, crossing) + back
    # What a rank sends once a step of its branch's prediction, at its end: nothing is left to hide it under.
    predicted = demand.latent_bytes * (plan.cfg - 1)
    cfg = 0.0
    if plan.cfg > 1 and chip.wires:
        cfg = chip.wires.seconds("gather", plan.cfg, plan.sequence, talking, predicted)
    ahead = hidden_weights / demand.layers  # the first block's hide under nothing
    return Step(
        linear=times * linear,
        attention=times * attention,
        memory=times * memory,
        exposed=times * exposed + cfg + border,
        weights=times * (weights - hidden_weights + ahead),
        waiting=times * waiting,
        idle=turns * demand.layers * section * (device + waiting),
        host=times * host,
        hidden=times * (hidden + hidden_weights),
        sent_bytes=times * (sent.sent_bytes + gathered_weights(demand.block_bytes, plan.weights))
        + predicted
        + (turns > 0) * crossing * demand.branches / plan.cfg,
    )


def _attention(demand: Demand, plan: ParallelPlan, chip: Chip) -> float:
    """All blocks of a ring together."""
    heads, dtype = -(-demand.heads // plan.ulysses) * demand.batch, demand.dtype
    queries, keys = -(-demand.tokens // plan.exchange), demand.tokens
    image = demand.rows(plan)[0]
    cross = chip.attention_s(image, demand.context, demand.heads * demand.batch, demand.head_dim, dtype)
    if plan.ring == 1:
        return chip.attention_s(queries, keys, heads, demand.head_dim, dtype) + cross
    tax = chip.wires.tax if chip.wires else 0.0
    block = chip.attention_s(queries, keys / plan.ring, heads, demand.head_dim, dtype) * (1 + tax)
    return plan.ring * block + cross


def _memory(demand: Demand, plan: ParallelPlan, chip: Chip, software: Software) -> float:
    rows, item = sum(demand.rows(plan)) * demand.batch, ITEMSIZE[demand.dtype]
    tensor = rows * demand.width * item
    share = demand.tokens * demand.batch * demand.head_dim / plan.sequence
    passed = software.passes * tensor
    if plan.ulysses > 1:
        passed += software.relay_passes * share * (2 * demand.heads + 2 * demand.kv_heads) * item
    if plan.allgather > 1:
        passed += software.relay_passes * share * plan.allgather * 2 * demand.kv_heads * item
    if plan.ring > 1:
        answers = share * plan.ulysses * -(-demand.heads // plan.ulysses) * FP32
        passed += (plan.ring - 1) * software.merge_passes * answers
    return chip.copy_s(passed, tensor_bytes=tensor) + (plan.ring - 1) * software.hop_s


def _travel(
    sent: Traffic, plan: ParallelPlan, chip: Chip, software: Software, attention: float, talking: int
) -> tuple[float, float]:
    """(seconds that the device waits, seconds that hide under its attention) in one layer."""
    if chip.wires is None:
        return 0.0, 0.0
    exposed = hidden = 0.0
    if sent.num_exchanges:
        start_s, bytes_per_s = chip.wires.speed("exchange", plan.ulysses, 1, talking)
        exposed += start_s + sent.exchange_bytes / bytes_per_s + software.calls_in * start_s
    around = plan.exchange, plan.ulysses, talking
    if sent.num_gathers:
        start_s, bytes_per_s = chip.wires.speed("gather", *around)
        exposed += start_s + sent.gather_bytes / bytes_per_s + (sent.num_gathers - 1) * start_s
    if sent.num_hops:
        hop = chip.wires.seconds("hop", *around, sent.hop_bytes / sent.num_hops)
        covered = min(hop, software.overlap * attention / plan.ring) if chip.is_async else 0.0
        exposed += sent.num_hops * (hop - covered)
        hidden += sent.num_hops * covered
    return exposed, hidden


def gathered_weights(block_bytes: int, degree: int) -> float:
    """What a rank sends of a block's weights that `degree` ranks share (FSDP; Zhao et al., 2023, arXiv:2304.11277)."""
    return (degree - 1) * block_bytes / degree if degree > 1 else 0.0


@lru_cache(maxsize=1024)
def sent_in_call(demand: Demand, plan: ParallelPlan) -> Traffic:
    """What the first rank of a sequence, whose share is the largest, sends in one attention call."""
    count, is_sharded = plan.sequence, demand.is_text_sharded(plan)
    if count == 1:
        return Traffic()
    lengths = [("text", demand.text, is_sharded), ("image", demand.image, True)]
    streams = tuple(
        Stream(name, length, shares_of(length, count) if shares else None) for name, length, shares in lengths if length
    )
    shape = Shape(
        batch=demand.batch,
        heads=demand.heads,
        kv_heads=demand.kv_heads,
        head_dim=demand.head_dim,
        itemsize=ITEMSIZE[demand.dtype],
    )
    return traffic_of(Layout(streams, count), planned_mesh(plan, 0), shape=shape)
