"""A machine that is not our cost model: what a step would take there, layer by layer, and what measuring would tell.

The truth of `simulated_sweep.py`. It adds what the closed forms of `pipelines/costs` leave out: a serial part of every
step, the gap of each launch, the eager cost of a ring's hops, rates that fall off for small work and small messages,
ranks that wait for the slowest, and interference of what travels with what computes. Each constant of a machine is
drawn within 30 % of the one written here, by a seed. `measure` is all that a planner may know of it: one product, one
attention, one copy, one launch, and exchange, gather and hop at three sizes in every kind of group.

Written, and its constants fixed, before the planner was, but for the kernels of a layer and their passes over memory,
which the first GPU showed (`first_light.py`); what it says of sweeps came after the planner's part of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

SPREAD = 0.3  # how far each constant may be from what is written here
PLAIN = ("name", "memory_bytes", "num_units", "joined", "switched")  # what is drawn for no machine
HALF = 2
SIZES = (64 << 10, 4 << 20, 64 << 20)  # bytes that each rank sends while its links are measured


@dataclass(frozen=True, kw_only=True)
class Box:
    """One machine's true constants."""

    name: str
    memory_bytes: int
    num_units: int
    joined: str  # by a "switch" that is none's limit, by a "tree" of switches, or by the "host", whose memory all share
    gemm_flops: float  # what large products reach. The next one likewise.
    attention_flops: float
    memory_rate: float
    link_rate: float  # what one rank sends to one other while nobody else does
    # What all send together at most, where `joined` is "host"; beyond 4 ranks on a tree of switches too.
    host_rate: float
    exchange_fall: float  # how much of the rate an all-to-all loses with each doubling of its ranks
    collective_s: float
    hop_s: float
    # what no measurement of single operations tells
    gap_s: float  # between two kernels on the device
    eager_hop_s: float  # what a ring loses at each hop: start, one stream's wait for another, the merge's launches
    serial_s: float  # of each step, on every rank: embeddings, the solver, the guider
    launch_s: float  # of one kernel, on the host
    # Rows of a product at which half of its rate is lost to small tiles and waves. The next one likewise, of keys.
    small_rows: float
    small_keys: float
    small_message: float  # bytes at which half of a link's rate is lost
    straggling: float  # how much longer the slowest rank takes than the mean, for each doubling of the ranks
    tax: float  # how much longer attention takes while blocks travel


@dataclass(frozen=True, kw_only=True)
class Load:
    """One branch's forward, and how many a step has."""

    name: str
    image: int
    text: int
    heads: int
    head_dim: int
    layers: int
    width: int
    weights: float  # that each token passes
    weight_bytes: float
    other_bytes: float
    branches: int
    latent_bytes: float = 1e6


@dataclass(frozen=True, kw_only=True)
class Way:
    """A plan as the simulator knows it, and whether the transformer is compiled."""

    cfg: int = 1
    ulysses: int = 1
    ring: int = 1
    gather: int = 1
    weights: int = 1
    replicated_text: bool = False
    is_compiled: bool = True

    @property
    def sequence(self) -> int:
        return self.ulysses * self.ring * self.gather

    @property
    def ranks(self) -> int:
        return self.cfg * self.sequence


@dataclass(frozen=True)
class Told:
    """What a measurement says: seconds for bytes sent."""

    sent_bytes: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """One count of ranks, all at work."""

    # Rows, inner size, columns, seconds. The next: queries (and keys), heads, head size, seconds; bytes, seconds.
    gemm: tuple[int, int, int, float]
    attention: tuple[int, int, int, float]
    copy: tuple[float, float]
    launch_s: float
    wires: Mapping[tuple[str, int, int], tuple[Told, ...]]  # by operation, degree and stride


def drawn(box: Box, seed: int) -> Box:
    """The box with each of its constants within 30 %."""
    seeded = random.Random(f"{box.name} {seed}")
    names = [field.name for field in fields(Box) if field.name not in PLAIN]
    return replace(box, **{name: getattr(box, name) * seeded.uniform(1 - SPREAD, 1 + SPREAD) for name in names})


# ---- what single operations take


def gemm_s(box: Box, rows: float, inner: float, columns: float) -> float:
    waves = math.ceil(rows / 128) * math.ceil(columns / 256) / box.num_units
    whole = math.ceil(waves) / waves if waves > 1 else 1.0
    return 2 * rows * inner * columns / box.gemm_flops * (1 + box.small_rows / rows) * (1 + (whole - 1) / 2)


def attention_s(box: Box, queries: float, keys: float, heads: float, head_dim: float) -> float:
    tiles = math.ceil(queries / 128) * heads / box.num_units
    whole = min(math.ceil(tiles) / tiles, 2.0)
    flops = 4 * queries * keys * heads * head_dim
    return flops / box.attention_flops * (1 + box.small_keys / keys) * (1 + (whole - 1) / 2)


def link_s(box: Box, operation: str, sent: float, *, degree: int, stride: int, ranks: int) -> float:
    """One rank of a group sends so much, while all groups of the box do."""
    if degree == 1:
        return 0.0
    rate = box.link_rate
    if box.joined == "host":
        rate = min(rate, box.host_rate / ranks)
    elif box.joined == "tree" and (stride >= 4 or degree > 4):
        rate = min(rate, box.host_rate / 2)
    message = sent / (degree - 1) if operation == "exchange" else sent
    if operation == "exchange":
        rate *= 1 - box.exchange_fall * math.log2(degree)
    start = box.hop_s if operation == "hop" else box.collective_s + box.hop_s * 0.3 * (degree - 2)
    return start + sent / rate * (1 + box.small_message / max(message, 1.0))


def measure(box: Box, ranks: int) -> Measurements:
    """What ranks that measure would tell."""
    wires = {
        (operation, degree, stride): tuple(
            Told(size, link_s(box, operation, size, degree=degree, stride=stride, ranks=ranks)) for size in SIZES
        )
        for operation in ("exchange", "gather", "hop")
        for degree in (2, 4, 8)
        for stride in (1, 2, 4)
        if degree * stride <= ranks
    }
    return Measurements(
        gemm=(4096, 4096, 4096, gemm_s(box, 4096, 4096, 4096)),
        attention=(4096, 24, 128, attention_s(box, 4096, 4096, 24, 128)),
        copy=(2.0 * (256 << 20), 2 * (256 << 20) / box.memory_rate),
        launch_s=box.launch_s,
        wires=wires,
    )


# ---- a step


def step_s(box: Box, load: Load, way: Way) -> float:
    """Host, device and link of the slowest rank, layer after layer."""
    host = device = 0.0
    gathering = weights_there = _gather_s(box, load, way)
    layer = _Layer.of(box, load, way)
    for _ in range(load.layers):
        host += layer.launches * box.launch_s * (1.0 if way.is_compiled else 7.0)  # a module of Python around each
        start = max(device, weights_there)
        device = max(start + layer.device_s, host)
        weights_there = start + gathering  # the next one's travel meanwhile
    forwards = load.branches / way.cfg
    crossing = link_s(box, "gather", load.latent_bytes, degree=way.cfg, stride=way.sequence, ranks=way.ranks)
    waiting = 1 + box.straggling * math.log2(way.ranks)
    return device * forwards * waiting + crossing + box.serial_s


@dataclass(frozen=True)
class _Layer:
    device_s: float
    launches: float

    @classmethod
    def of(cls, box: Box, load: Load, way: Way) -> _Layer:
        text = load.text if way.replicated_text else load.text / way.sequence
        rows, tokens = load.image / way.sequence + text, load.image + load.text
        kernels = 27 if way.is_compiled else 56
        passes = 10 if way.is_compiled else 75
        inner = load.weights / load.layers / (load.width * 4)
        seconds = gemm_s(box, rows, inner, load.width * 4)
        seconds += passes * rows * load.width * HALF / box.memory_rate
        heads = math.ceil(load.heads / way.ulysses)
        kernels += 9 * (way.ulysses > 1)
        if way.ulysses > 1:
            travels = load.image if way.replicated_text else tokens
            share = travels / way.sequence * load.heads * load.head_dim * HALF * (way.ulysses - 1) / way.ulysses
            group = {"degree": way.ulysses, "stride": 1, "ranks": way.ranks}
            back = share + (load.text * heads * load.head_dim * HALF * (way.ulysses - 1)) * way.replicated_text
            seconds += link_s(box, "exchange", 3 * share, **group) + link_s(box, "exchange", back, **group)
            seconds += 2.2 * 4 * tokens / way.sequence * load.heads * load.head_dim * HALF / box.memory_rate
        queries = tokens / (way.ring * way.gather)
        block = (
            2 * (load.image if way.replicated_text else tokens) / (way.ring * way.gather) * heads * load.head_dim * HALF
        )
        around = {"degree": way.ring * way.gather, "stride": way.ulysses, "ranks": way.ranks}
        if way.ring > 1:
            part = attention_s(box, queries, tokens / way.ring, heads, load.head_dim)
            hop = link_s(box, "hop", block, **around)
            merge = 5 * queries * heads * load.head_dim * 4 / box.memory_rate
            eager = box.eager_hop_s * (1.0 if way.is_compiled else 1.2)
            seconds += part + (way.ring - 1) * (max(part * (1 + box.tax), hop) + merge + eager)
            kernels += 7 * way.ring
        else:
            seconds += attention_s(box, queries, tokens, heads, load.head_dim)
        if way.gather > 1:
            seconds += link_s(box, "gather", block * (way.gather - 1), **around)
            seconds += 2 * block * way.gather / box.memory_rate
            kernels += 8
        if way.replicated_text and way.ring * way.gather > 1:
            answers = load.text * heads * load.head_dim * HALF
            seconds += link_s(box, "gather", answers, **around)
            kernels += 6
        return cls(seconds + kernels * box.gap_s, kernels)


def _gather_s(box: Box, load: Load, way: Way) -> float:
    """Of one layer's weights, which way.weights ranks share."""
    if way.weights == 1:
        return 0.0
    sent = load.weight_bytes / load.layers * (way.weights - 1) / way.weights
    return link_s(box, "gather", sent, degree=way.weights, stride=1, ranks=way.ranks)


# ---- a sweep

# Of the encoders of a prompt, and of a decoder for each pixel: Stable Diffusion's takes 2.5 TFLOP for 512 x 512.
TEXT_FLOPS, PIXEL_FLOPS, PIXELS_A_TOKEN = 10e12, 9.5e6, 256
# What a decode by rows waits at each of so many convolutions and normalisations, with Python around each.
EDGE_S, NORMS = 90e-6, 60
BESIDE = 0.15  # how much longer what two streams of a device do takes than one after the other


def text_s(box: Box) -> float:
    return TEXT_FLOPS / box.gemm_flops * 1.3 + 400 * box.launch_s


def decode_s(box: Box, load: Load, ranks: int) -> float:
    """On one rank, or by rows on several, which wait for each other and for their neighbours' rows."""
    pixels = load.image * PIXELS_A_TOKEN
    alone = pixels * PIXEL_FLOPS / (box.gemm_flops * 0.55)
    if ranks == 1:
        return alone
    moved = link_s(box, "gather", 3 * HALF * pixels * (ranks - 1) / ranks, degree=ranks, stride=1, ranks=ranks)
    return alone / ranks * (1 + box.straggling * math.log2(ranks)) + NORMS * (EDGE_S + box.hop_s) + moved


def sweep_s(box: Box, load: Load, way: Way, *, steps: int, runs: int, groups: int, decoders: int) -> float:
    """Groups take a run each until none is left. A group's first rank encodes the next text and its last decodes the
    picture before while its ranks do steps; all wait for the slower of the two, or for both where it is one rank.
    """
    crowded = replace(box, host_rate=box.host_rate / groups)  # which all groups share
    stepping = steps * step_s(crowded, load, way)
    first, last = text_s(box), decode_s(box, load, decoders)
    beside = first + last if way.ranks == 1 or decoders > 1 else (1 + BESIDE) * max(first, last)
    return first + stepping + last + (math.ceil(runs / groups) - 1) * (stepping + beside)


def need_bytes(load: Load, way: Way) -> float:
    """The most that a rank holds."""
    shared = load.weight_bytes / way.weights + (2 * load.weight_bytes / load.layers if way.weights > 1 else 0)
    text = load.text if way.replicated_text else load.text / way.sequence
    alive = 13 * (load.image / way.sequence + text) * load.width * HALF
    held = (load.image + load.text) * load.heads / way.ulysses * load.head_dim * HALF
    held *= 4 if way.gather > 1 else 6 / way.ring if way.ring > 1 else 0
    return max(shared + alive + held, load.other_bytes) + 1.2e9


COMMON = {
    "gap_s": 2e-6,
    "eager_hop_s": 0.11e-3,
    "serial_s": 3e-3,
    "launch_s": 5e-6,
    "small_rows": 60.0,
    "small_keys": 150.0,
    "small_message": 0.3e6,
    "straggling": 0.01,
    "tax": 0.05,
}


def _box(
    name: str,
    gib: float,
    units: int,
    joined: str,
    rates: tuple[int, int, int, int],
    waits: tuple[int, int],
    **more: float,
) -> Box:
    """`rates`: products and attention in TFLOP/s, memory and link in GB/s; `waits`: a collective and a hop, in us."""
    gemm, attention, memory, link = rates
    return Box(
        name=name,
        memory_bytes=int(gib * 2**30),
        num_units=units,
        joined=joined,
        gemm_flops=gemm * 1e12,
        attention_flops=attention * 1e12,
        memory_rate=memory * 1e9,
        link_rate=link * 1e9,
        collective_s=waits[0] / 1e6,
        hop_s=waits[1] / 1e6,
        **{**COMMON, "host_rate": 1e12, "exchange_fall": 0.05, **more},
    )


# The machines of the reference's predictions, and an A100.
BOXES = (
    _box("H200", 139.7, 132, "switch", (670, 590, 4400, 360), (18, 10)),
    _box("H100", 79.1, 132, "switch", (650, 570, 3100, 360), (18, 10)),
    _box("A100", 79.1, 108, "switch", (250, 190, 1800, 234), (20, 12)),
    _box("L40S", 44.4, 142, "tree", (200, 165, 800, 24), (30, 20), host_rate=36e9, exchange_fall=0.15),
    _box("4090", 23.5, 128, "host", (145, 132, 950, 14), (45, 35), host_rate=48e9),
    _box("5090", 31.3, 170, "host", (178, 163, 1600, 26), (45, 35), host_rate=90e9),
)
FLUX = {"text": 512, "heads": 24, "head_dim": 128, "layers": 57, "width": 3072, "weights": 6.46e9, "branches": 1}
LOADS = (
    Load(name="FLUX.1 1024", image=4096, weight_bytes=23.8e9, other_bytes=9.9e9, **FLUX),
    Load(name="FLUX.1 2048", image=16384, weight_bytes=23.8e9, other_bytes=9.9e9, **FLUX),
    Load(name="FLUX.1 4096", image=65536, weight_bytes=23.8e9, other_bytes=9.9e9, **FLUX),
    Load(
        name="Qwen-Image 1328",
        **{"image": 6889, "text": 256, "heads": 24, "head_dim": 128, "layers": 60, "width": 3072},
        **{"weights": 6.79e9, "weight_bytes": 40.8e9, "other_bytes": 16.6e9, "branches": 2},
    ),
    Load(
        name="Wan2.2 720p 81 frames",
        **{"image": 75600, "text": 0, "heads": 40, "head_dim": 128, "layers": 40, "width": 5120},
        **{"weights": 11.95e9, "weight_bytes": 56.2e9, "other_bytes": 11.4e9, "branches": 2, "latent_bytes": 2e7},
    ),
    Load(
        name="HunyuanVideo 720p 129 frames",
        **{"image": 118800, "text": 256, "heads": 24, "head_dim": 128, "layers": 60, "width": 3072},
        **{"weights": 6.8e9, "weight_bytes": 25.6e9, "other_bytes": 17e9, "branches": 1, "latent_bytes": 3e7},
    ),
)
