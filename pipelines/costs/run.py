"""A whole run: text, steps, decoding, and what loading takes before the first; and seconds and bytes as people read
them.
"""

from dataclasses import dataclass, replace

from ...parallel.plan import ParallelPlan
from .chips import Chip, Software
from .machine import Machine
from .step import Demand, Step, gathered_weights, step

OUTSIDE_LAUNCHES = 60  # a step's launches outside of the layers: embeddings, the last projection, the solver
# What a stage takes in Python before and after its work: to check, to fetch what is kept, to wire what travels. About
# twenty milliseconds on a server's processor of 2023, as runs of the built-in model took
# (`tests/bench/predicted_runs.py`).
STAGE_LAUNCHES = 5000
# Of a convolution or a normalisation over rows of several ranks: the interception in Python, a copy of each edge, the
# exchange, and the convolution of the edges by themselves; an assumption, as few have been measured.
EDGE_LAUNCHES = 30
ENCODER_LAUNCHES = 160  # of a text encoder's layer: half as many as a block of a transformer has (`chips.py`)
ENCODER_WIDTH = 4096


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run by a plan with warm ranks, in seconds, and what it holds of each device, where somebody has said so."""

    plan: ParallelPlan
    replicas: int = 1  # groups that do the like side by side
    # Ranks that decode together, each some rows, which rounds differently: only where one alone has no room.
    decoders: int = 1
    encoders: int = 1  # ranks that hold text encoders between them, and all encode
    num_runs: int = 1  # so many were asked for, of all groups
    step: Step
    steps: int
    text_s: float
    steps_s: float
    around_s: float  # what the denoise takes beside its steps
    decode_s: float
    load_s: float  # before the first run
    # What a new prompt adds, where text encoders have no room beside the transformer on the first device; it is told,
    # and chooses no plan, since nobody knows how often the prompt will change.
    turns_s: float = 0.0
    num_bytes: int = 0  # on the device that holds most
    lacking_bytes: int = 0  # what does not fit there
    # Of a device whose blocks of weights come from the host's memory: what comes in a step, and how long that takes.
    streamed_bytes: int = 0
    streaming_s: float = 0.0
    is_from_disk: bool = False  # since the host's memory has no room for them

    @property
    def num_devices(self) -> int:
        return self.plan.num_ranks * self.replicas

    @property
    def is_link_bound(self) -> bool:
        """Whether weights from the host's memory take longer to come than a step takes to compute."""
        return self.streaming_s > self.step.seconds - self.step.weights

    @property
    def rounds_differently(self) -> bool:
        return self.plan.ring > 1

    @property
    def seconds(self) -> float:
        return self.text_s + self.steps_s + self.around_s + self.decode_s

    @property
    def next_s(self) -> float:
        """What one more run adds for the same ranks. Its text is encoded on the first and the picture of the one before
        decoded on the last, beside steps; whatever a rank does beside them keeps all others waiting as long.
        """
        if self.plan.num_ranks == 1 or self.decoders > 1 or self.encoders > 1:
            return self.seconds
        return self.steps_s + self.around_s + max(self.text_s, self.decode_s)

    @property
    def all_s(self) -> float:
        """Of all runs that were asked for, by so many replicas."""
        return self.seconds + (-(-self.num_runs // self.replicas) - 1) * self.next_s


def predict(
    demand: Demand,
    plan: ParallelPlan,
    machine: Machine,
    software: Software,
    *,
    replicas: int = 1,
    decoders: int = 1,
    encoders: int = 1,
    num_runs: int = 1,
    # weights that come from the host's memory to each device in a forward, and for a text to whoever encodes
    streamed_bytes: int = 0,
    streamed_text_bytes: int = 0,
    section: float = 1.0,  # which part of a forward the slowest section of blocks does
    encoder: Chip | None = None,  # what computes texts, where that is no device of the machine
) -> Run:
    """Its seconds, while `replicas` groups do the like."""
    busy = min(plan.num_ranks * replicas, machine.num_devices)
    chip, factors = machine.chip(busy), machine.factors
    forwards, streaming_s = demand.branches / plan.cfg, 0.0
    if streamed_bytes:  # which a graph of a whole step cannot wait for
        software = replace(software, is_captured=False)
    one = step(demand, plan, chip, software, talking=busy, section=section)
    if streamed_bytes:
        # Each block comes while the one before computes, but for a forward's first. Seen on one H200: FLUX whole takes
        # 173.5 ms a step; of its 23.7 GB in 57 blocks all from the host 433 ms (428 to copy them), half of them 227.
        rate = machine.streaming(busy, num_bytes=demand.transformer_bytes, sharing=plan.sequence)
        streaming_s = forwards * streamed_bytes / rate * factors.step
        waiting = max(0.0, forwards * streamed_bytes / rate - one.seconds) + forwards * demand.block_bytes / rate
        one = replace(one, weights=one.weights + waiting)
    if factors.step != 1:  # it takes so many times as long, and sends what it sends
        seconds = {name: value * factors.step for name, value in vars(one).items() if name != "sent_bytes"}
        one = replace(one, **seconds)
    outside = OUTSIDE_LAUNCHES * chip.launch_s * factors.step
    # What one rank of a group does alone has the rates of one while the others wait: on a CPU all cores are its own.
    alone = machine.chip(replicas)  # one rank of each group; whatever the plan, so that it speaks for none
    around = STAGE_LAUNCHES * alone.launch_s
    text_s = _encoding(demand, encoder or alone)
    if streamed_text_bytes:
        rest_bytes = demand.load_bytes - demand.transformer_bytes
        if encoders > 1:
            rate = machine.gathering(busy, sharing=encoders)
        else:
            rate = machine.streaming(replicas, num_bytes=rest_bytes)
        text_s = max(text_s, demand.num_texts * streamed_text_bytes / rate)
    # Files are read once, into memory that all ranks map; each rank's share goes up to its device meanwhile.
    load_s = demand.load_bytes / machine.disk_bytes_per_s
    if machine.kind != "cpu":
        whole, shared = demand.load_bytes - demand.transformer_bytes, demand.transformer_bytes / plan.num_shares
        load_s = max(load_s, (whole + shared) / machine.upload_bytes_per_s)
    return Run(
        plan=plan,
        replicas=replicas,
        decoders=decoders,
        encoders=encoders,
        num_runs=num_runs,
        step=one,
        steps=demand.steps,
        text_s=(around + text_s) * factors.text,
        steps_s=demand.steps * (one.seconds + outside),
        around_s=around,
        decode_s=(around + _decoding(demand, chip if decoders > 1 else alone, decoders, busy)) * factors.decode,
        load_s=load_s,
        streamed_bytes=int(forwards * streamed_bytes),
        streaming_s=streaming_s,
        is_from_disk=streamed_bytes > 0 and not machine.has_host_room(demand.transformer_bytes),
    )


def _encoding(demand: Demand, chip: Chip) -> float:
    """Two for each weight and token, as in a transformer; on one rank, which takes the longer of device and host."""
    rows, dtype = demand.encode_tokens, demand.dtype
    device = chip.gemm_s(demand.encode_flops, rows=rows, width=ENCODER_WIDTH, dtype=dtype)
    host = demand.encode_layers * ENCODER_LAUNCHES * chip.launch_s
    return max(device, host) if chip.is_async else device + host


def _decoding(demand: Demand, chip: Chip, decoders: int, talking: int) -> float:
    """On one rank, or by rows on several, which trade the rows at their edges and gather the pixels once."""
    whole = demand.decode_flops / (chip.flops(demand.dtype) * chip.gemm_share * chip.convolution_share)
    if decoders == 1 or chip.wires is None:
        return whole / decoders
    start_s, bytes_per_s = chip.wires.speed("hop", decoders, 1, talking)
    host = demand.decode_exchanges * EDGE_LAUNCHES * chip.launch_s
    trading = demand.decode_exchanges * start_s + demand.decode_edge_bytes / bytes_per_s
    gathered = gathered_weights(int(demand.pixel_bytes), decoders)
    return whole / decoders + host + trading + chip.wires.seconds("gather", decoders, 1, talking, gathered)


# ---- Seconds and bytes as people read them, with three digits.


def duration(seconds: float) -> str:
    for limit, unit, name in ((1e-3, 1e-6, "us"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min")):
        if seconds < 0.9995 * limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 3600:.3g} h"


def volume(num_bytes: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if num_bytes >= 0.9995 * unit:
            return f"{num_bytes / unit:.3g} {name}"
    return f"{num_bytes / 1e3:.3g} KB"
