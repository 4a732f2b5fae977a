"""One step of a denoise under a plan, and what one forward of it is asked: what computes, travels and hides.

A layer takes the longer of what the device does and what the host takes to ask for it. On the device an exchange or a
gather waits; a ring's hop hides under the attention to the block before it; the gather of shared weights hides under
the block before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ...parallel.layout import Layout, Stream, shares_of
from ...parallel.mesh import planned_mesh
from ...parallel.plan import ParallelPlan
from ...parallel.traffic import Shape, Traffic, traffic_of
from ..values import Dtype
from .chips import KERNEL_S, REPLAY_LAUNCHES, Chip, Software
from .wires import Wires

FP32 = 4


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """A machine's rates while so many of its devices work together."""

    chip: Chip
    wires: Wires | None  # None where one device works alone
    launch_s: float  # what one launch costs the host
    is_async: bool = True  # whether the host runs ahead of the device; on a CPU it is the device


@dataclass(frozen=True, kw_only=True)
class Step:
    """Seconds of one step, by what they go to; all but `host` and `hidden` add up to the step."""

    linear: float
    attention: float
    # Norms, packing and merging: passes over memory, starts of kernels, and what a ring loses at its hops.
    memory: float
    exposed: float  # waiting for what travels
    weights: float  # waiting for shared weights
    waiting: float  # of the device for the host
    host: float
    hidden: float  # what travels while something else is computed
    sent_bytes: float  # by each rank

    @property
    def seconds(self) -> float:
        return self.linear + self.attention + self.memory + self.exposed + self.weights + self.waiting


def step(forward: Forward, plan: ParallelPlan, speeds: Speeds, software: Software, *, talking: int = 0) -> Step:
    """One step of the plan's slowest rank. `talking`: ranks that work at the same time, of other replicas too."""
    talking = max(talking, plan.num_ranks)
    sent = sent_in_call(forward, plan)
    linear, attention = _linear(forward, plan, speeds.chip), _attention(forward, plan, speeds)
    kernels = software.kernels + software.sharded_kernels * (plan.sequence > 1)
    memory = _memory(forward, plan, speeds.chip, software) + kernels * KERNEL_S * speeds.is_async
    exposed, hidden = _travel(sent, plan, speeds, software, attention, talking)
    host = speeds.launch_s * _launches(sent, plan, software)
    device = linear + attention + memory + exposed
    # A GPU works off a queue that the host fills ahead of it; a processor asks itself, and does nothing else meanwhile.
    waiting = max(0.0, host - device) if speeds.is_async else host
    weights, hidden_weights = _weights(forward, plan, speeds, device + waiting, talking)
    times = forward.layers * forward.branches / plan.cfg
    cfg = _predictions(forward, plan, speeds, talking)  # once a step, at its end: nothing is left to hide it under
    ahead = hidden_weights / forward.layers  # the first block's hide under nothing
    return Step(
        linear=times * linear,
        attention=times * attention,
        memory=times * memory,
        exposed=times * exposed + cfg,
        weights=times * (weights - hidden_weights + ahead),
        waiting=times * waiting,
        host=times * host,
        hidden=times * (hidden + hidden_weights),
        sent_bytes=times * (sent.sent_bytes + gathered_weights(forward.block_bytes, plan.weights))
        + predictions(forward.latent_bytes, plan.cfg),
    )


def times(step: Step, factor: float) -> Step:
    """The step so many times as long; it sends what it sends."""
    if factor == 1:
        return step
    seconds = {name: value * factor for name, value in vars(step).items() if name != "sent_bytes"}
    return replace(step, **seconds)


def _linear(forward: Forward, plan: ParallelPlan, chip: Chip) -> float:
    rows = sum(forward.rows(plan)) * forward.batch
    flops = forward.linear_flops(plan) / forward.layers
    return chip.gemm_s(flops, rows=rows, width=forward.width, dtype=forward.dtype)


def _attention(forward: Forward, plan: ParallelPlan, speeds: Speeds) -> float:
    """All blocks of a ring together."""
    heads, dtype = -(-forward.heads // plan.ulysses) * forward.batch, forward.dtype
    queries, keys = -(-forward.tokens // plan.exchange), forward.tokens
    chip, image = speeds.chip, forward.rows(plan)[0]
    cross = chip.attention_s(image, forward.context, forward.heads * forward.batch, forward.head_dim, dtype)
    if plan.ring == 1:
        return chip.attention_s(queries, keys, heads, forward.head_dim, dtype) + cross
    tax = speeds.wires.tax if speeds.wires else 0.0
    block = chip.attention_s(queries, keys / plan.ring, heads, forward.head_dim, dtype) * (1 + tax)
    return plan.ring * block + cross


def _memory(forward: Forward, plan: ParallelPlan, chip: Chip, software: Software) -> float:
    rows, item = sum(forward.rows(plan)) * forward.batch, forward.itemsize
    tensor = rows * forward.width * item
    share = forward.tokens * forward.batch * forward.head_dim / plan.sequence
    passed = software.passes * tensor
    if plan.ulysses > 1:
        passed += software.relay_passes * share * (2 * forward.heads + 2 * forward.kv_heads) * item
    if plan.allgather > 1:
        passed += software.relay_passes * share * plan.allgather * 2 * forward.kv_heads * item
    if plan.ring > 1:
        answers = share * plan.ulysses * -(-forward.heads // plan.ulysses) * FP32
        passed += (plan.ring - 1) * software.merge_passes * answers
    return chip.copy_s(passed, tensor_bytes=tensor) + (plan.ring - 1) * software.hop_s


def _travel(
    sent: Traffic, plan: ParallelPlan, speeds: Speeds, software: Software, attention: float, talking: int
) -> tuple[float, float]:
    """(seconds that the device waits, seconds that hide under its attention) in one layer."""
    if speeds.wires is None:
        return 0.0, 0.0
    exposed = hidden = 0.0
    if sent.num_exchanges:
        speed = speeds.wires.speed("exchange", plan.ulysses, 1, talking)
        exposed += speed.seconds(sent.exchange_bytes) + software.calls_in * speed.start_s
    around = plan.exchange, plan.ulysses, talking
    if sent.num_gathers:
        speed = speeds.wires.speed("gather", *around)
        exposed += speed.seconds(sent.gather_bytes) + (sent.num_gathers - 1) * speed.start_s
    if sent.num_hops:
        hop = speeds.wires.speed("hop", *around).seconds(sent.hop_bytes / sent.num_hops)
        covered = min(hop, software.overlap * attention / plan.ring) if speeds.is_async else 0.0
        exposed += sent.num_hops * (hop - covered)
        hidden += sent.num_hops * covered
    return exposed, hidden


def _launches(sent: Traffic, plan: ParallelPlan, software: Software) -> float:
    if software.is_captured and plan.weights == 1:
        return REPLAY_LAUNCHES
    return (
        software.launches
        + software.sharded_launches * (plan.sequence > 1)
        + software.exchange_launches * (plan.ulysses > 1)
        + software.gather_launches * sent.num_gathers
        + software.hop_launches * sent.num_hops
    )


def _weights(forward: Forward, plan: ParallelPlan, speeds: Speeds, layer_s: float, talking: int) -> tuple[float, float]:
    """(seconds that a block's weights travel, those of them that hide under the block before)."""
    if plan.weights == 1 or speeds.wires is None:
        return 0.0, 0.0
    speed = speeds.wires.speed("gather", plan.weights, 1, talking)
    seconds = speed.seconds(gathered_weights(forward.block_bytes, plan.weights))
    return seconds, min(seconds, layer_s) if speeds.is_async else 0.0


def _predictions(forward: Forward, plan: ParallelPlan, speeds: Speeds, talking: int) -> float:
    """Once a step."""
    if plan.cfg == 1 or speeds.wires is None:
        return 0.0
    speed = speeds.wires.speed("gather", plan.cfg, plan.sequence, talking)
    return speed.seconds(predictions(forward.latent_bytes, plan.cfg))


def gathered_weights(block_bytes: int, degree: int) -> float:
    """What a rank sends of a block's weights that `degree` ranks share (FSDP; Zhao et al., 2023, arXiv:2304.11277)."""
    return (degree - 1) * block_bytes / degree if degree > 1 else 0.0


def predictions(latent_bytes: int, branches: int) -> float:
    """What a rank sends once a step of its branch's prediction."""
    return latent_bytes * (branches - 1)


# ---- What one forward of a transformer is asked, in the numbers that its time follows from.

ITEMSIZE = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclass(frozen=True, kw_only=True)
class Forward:
    """One branch of guidance, one step."""

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

    @property
    def tokens(self) -> int:
        return self.image + self.text

    @property
    def itemsize(self) -> int:
        return ITEMSIZE[self.dtype]

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


@lru_cache(maxsize=1024)
def sent_in_call(forward: Forward, plan: ParallelPlan) -> Traffic:
    """What the first rank of a sequence, whose share is the largest, sends in one attention call."""
    count, is_sharded = plan.sequence, forward.is_text_sharded(plan)
    if count == 1:
        return Traffic()
    lengths = [("text", forward.text, is_sharded), ("image", forward.image, True)]
    streams = tuple(
        Stream(name, length, shares_of(length, count) if shares else None) for name, length, shares in lengths if length
    )
    shape = Shape(
        batch=forward.batch,
        heads=forward.heads,
        kv_heads=forward.kv_heads,
        head_dim=forward.head_dim,
        itemsize=forward.itemsize,
    )
    return traffic_of(Layout(streams, count), planned_mesh(plan, 0), shape=shape)
