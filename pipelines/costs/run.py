"""A whole run: text, steps, decoding, and what loading takes before the first."""

from dataclasses import dataclass

from ...parallel.plan import ParallelPlan
from .chips import Software
from .machine import Machine
from .step import Forward, Speeds, Step, gathered_weights, step, times

OUTSIDE_LAUNCHES = 60  # a step's launches outside of the layers: embeddings, the last projection, the solver
# What a stage takes in Python before and after its work: to check, to fetch what is kept, to wire what travels. About
# twenty milliseconds on a server's processor of 2023, as runs of the built-in model took
# (`tests/bench/predicted_runs.py`).
STAGE_LAUNCHES = 5000
# Of a convolution or a normalisation over rows of several ranks: the interception in Python, a copy of each edge, the
# exchange, and the convolution of the edges by themselves; an assumption, as few have been measured.
EDGE_LAUNCHES = 30
ENCODER_LAUNCHES = 160  # of a text encoder's layer: half as many as a block of a transformer has (`software.py`)
ENCODER_WIDTH = 4096


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a run asks beside its plan."""

    forward: Forward
    steps: int
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


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run by a plan with warm ranks, in seconds, and what it holds of each device, where somebody has said so."""

    plan: ParallelPlan
    replicas: int = 1  # groups that do the like side by side
    # Ranks that decode together, each some rows, which rounds differently: only where one alone has no room.
    decoders: int = 1
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

    @property
    def num_devices(self) -> int:
        return self.plan.num_ranks * self.replicas

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
        if self.plan.num_ranks == 1 or self.decoders > 1:
            return self.seconds
        return self.steps_s + self.around_s + max(self.text_s, self.decode_s)

    @property
    def all_s(self) -> float:
        """Of all runs that were asked for, by so many replicas."""
        return self.seconds + (-(-self.num_runs // self.replicas) - 1) * self.next_s


def predict(
    job: Job,
    plan: ParallelPlan,
    machine: Machine,
    software: Software,
    *,
    replicas: int = 1,
    decoders: int = 1,
    num_runs: int = 1,
) -> Run:
    """Its seconds, while `replicas` groups do the like."""
    busy = min(plan.num_ranks * replicas, machine.num_devices)
    speeds, factors = machine.speeds(busy), machine.factors
    one = times(step(job.forward, plan, speeds, software, talking=busy), factors.step)
    outside = OUTSIDE_LAUNCHES * speeds.launch_s * factors.step
    # What one rank of a group does alone has the rates of one while the others wait: on a CPU all cores are its own.
    alone = machine.speeds(replicas)  # one rank of each group; whatever the plan, so that it speaks for none
    around = STAGE_LAUNCHES * alone.launch_s
    return Run(
        plan=plan,
        replicas=replicas,
        decoders=decoders,
        num_runs=num_runs,
        step=one,
        steps=job.steps,
        text_s=(around + _encoding(job, alone)) * factors.text,
        steps_s=job.steps * (one.seconds + outside),
        around_s=around,
        decode_s=(around + _decoding(job, speeds if decoders > 1 else alone, decoders, busy)) * factors.decode,
        load_s=_loading(job, plan, machine),
    )


def _encoding(job: Job, speeds: Speeds) -> float:
    """Two for each weight and token, as in a transformer; on one rank, which takes the longer of device and host."""
    rows, dtype = job.encode_tokens, job.forward.dtype
    device = speeds.chip.gemm_s(job.encode_flops, rows=rows, width=ENCODER_WIDTH, dtype=dtype)
    host = job.encode_layers * ENCODER_LAUNCHES * speeds.launch_s
    return max(device, host) if speeds.is_async else device + host


def _decoding(job: Job, speeds: Speeds, decoders: int, talking: int) -> float:
    """On one rank, or by rows on several, which trade the rows at their edges and gather the pixels once."""
    chip = speeds.chip
    whole = job.decode_flops / (chip.flops(job.forward.dtype) * chip.gemm_share * chip.convolution_share)
    if decoders == 1 or speeds.wires is None:
        return whole / decoders
    hop, gather = (speeds.wires.speed(operation, decoders, 1, talking) for operation in ("hop", "gather"))
    host = job.decode_exchanges * EDGE_LAUNCHES * speeds.launch_s
    trading = job.decode_exchanges * hop.start_s + job.decode_edge_bytes / hop.bytes_per_s
    return whole / decoders + host + trading + gather.seconds(gathered_weights(int(job.pixel_bytes), decoders))


def turns_s(job: Job, plan: ParallelPlan, machine: Machine, *, encoder_bytes: int) -> float:
    """What a new prompt adds where text encoders and transformer have no room beside each other on the first device:
    each goes up anew, out of files that memory keeps (`components/store.py`); a share of weights stays. On a CPU the
    files are mapped, and nothing moves.
    """
    if machine.kind == "cpu":
        return 0.0
    again = job.transformer_bytes if plan.weights == 1 else 0
    return (encoder_bytes + again) / machine.upload_bytes_per_s


def _loading(job: Job, plan: ParallelPlan, machine: Machine) -> float:
    """Files are read once, into memory that all ranks map; each rank's share goes up to its device meanwhile."""
    read = job.load_bytes / machine.disk_bytes_per_s
    if machine.kind == "cpu":
        return read
    whole, shared = job.load_bytes - job.transformer_bytes, job.transformer_bytes / plan.weights
    return max(read, (whole + shared) / machine.upload_bytes_per_s)
