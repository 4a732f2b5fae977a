"""What this machine's ranks measure of it, in seconds: a matrix product, attention calls, what is done number by
number, a convolution, a launch, and what they send each other, on one device, two, and so on.

The ranks' side of `trial.py`: what they are asked for there, by name.
"""

# N flat elements, S tokens, H heads, D head width

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention.choice import choose, chosen
from ..collectives import add, exchange_into, gather_into, start_exchange, start_hop
from ..group import Axis, Group
from ..mesh import mesh_for
from ..plan import ParallelPlan
from ..process_groups import at_work
from ..progress import Progress
from ..ranks.seat import Seat

REPEATS, REPEATS_ALONE = 5, 11
ROUNDS, ROUNDS_OF = 24, (1, 2, 6)  # in which of the rounds each of the sizes has its turn, among pieces of work
SIZES = {"cpu": (64 << 10, 1 << 20, 8 << 20), "cuda": (256 << 10, 4 << 20, 64 << 20)}  # bytes that each rank sends
# Rows, inner size and columns; on a CPU those of the built-in model, the one that is computed there.
PRODUCTS = {"cpu": (512, 192, 768), "cuda": (4096, 4096, 4096)}
ATTENTIONS = {"cpu": ((128, 8, 24), (1024, 8, 24)), "cuda": ((4096, 24, 128),)}  # s, H, D
# Rows and columns of what is done number by number; on a CPU once in its caches, and once not.
TOKENS = {"cpu": ((128, 192), (2048, 192)), "cuda": ((16384, 4096),)}
# Times that it is read or written: on a CPU as often as the cost model counts it in an eager block.
PASSES = {"cpu": 40, "cuda": 12}
# Channels, and pixels each way, of one of a decoder's last levels.
CONVOLUTIONS = {"cpu": (32, 256), "cuda": (128, 1024)}
HEAD = 24
NUM_LAUNCHES = 50
STEADY_S = 0.15
NUM_OPERATIONS = 53  # of `_as_a_block`; a test counts them


def meet(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: the sum of every rank's number, counted from 1, by way of the device; and what attends there."""
    own = torch.tensor([float(seat.rank + 1)], device=seat.device)
    total = add(own, group=Group(range(seat.num_ranks), seat.rank, at_work()))
    dtype = torch.float32 if own.is_cpu else torch.bfloat16
    return {"total": float(total), "kernel": str(chosen(own.device, dtype))}


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: what this rank measures while all others do the same.

    Seconds are the median of a few, as a step's are, on a CPU their mean; of what travels between GPUs the least.
    """
    device = torch.device(seat.device)
    samples = []
    with torch.inference_mode():
        alone = _alone(device)
        for ulysses, exchange in request["kinds"]:
            mesh = mesh_for(ParallelPlan.exact(ulysses=ulysses, exchange=exchange))
            for axis, stride in ((Axis.ULYSSES, 1), (Axis.EXCHANGE, ulysses)):
                group = mesh[axis]
                known = {(each["degree"], each["stride"]) for each in samples}
                if group.size > 1 and (group.size, stride) not in known:
                    samples += _links(group, stride, device)
    return {**alone, "samples": samples}


def _alone(device: torch.device) -> dict[str, Any]:
    is_gpu = device.type == "cuda"
    rows, inner, columns = PRODUCTS[device.type]
    dtype = torch.bfloat16 if is_gpu else torch.float32

    def product(kind: torch.dtype) -> dict[str, Any]:
        one, two = (torch.randn(shape, device=device, dtype=kind) for shape in ((rows, inner), (columns, inner)))
        seconds = _typical(lambda: F.linear(one, two), device)
        return {"rows": rows, "inner": inner, "columns": columns, "seconds": seconds}

    def attention(tokens: int, heads: int, width: int) -> dict[str, Any]:
        q, k, v = (torch.randn(1, heads, tokens, width, device=device, dtype=dtype) for _ in range(3))  # B H S D
        seconds = _typical(lambda: kernel.plain(q, k, v, None, None), device)
        return {"tokens": tokens, "heads": heads, "head_dim": width, "seconds": seconds}

    kernel = choose(device, dtype)
    launch_s, passes = _launches_and_passes(device)
    return {
        "single": product(torch.float32),
        "half": product(dtype) if is_gpu else None,
        "attentions": [attention(*shape) for shape in ATTENTIONS[device.type]],
        "passes": passes,
        "convolution": _convolution(device, dtype),
        "launch_s": launch_s,
    }


def _launches_and_passes(device: torch.device) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of one launch, and what is done number by number, at two sizes on a CPU."""
    shapes = [torch.randn(shape, device=device) for shape in TOKENS[device.type]]
    if device.type == "cpu":
        # There a launch is what an operation on a single row takes: each waits for the one before, and for what Python
        # does meanwhile, which no share of the tokens makes less. It is left out of the passes, which a share does.
        row = shapes[0][:1].clone()
        bare = _typical(lambda: _as_a_block(row), device)
        launch_s, around, work = bare / NUM_OPERATIONS, bare, _as_a_block
    else:
        little = torch.zeros(64, device=device)
        launch_s, around, work = _launch(lambda: little.add_(1.0), device), 0.0, _as_few_kernels

    def passing(x: Tensor) -> dict[str, Any]:
        seconds = _typical(lambda: work(x), device)
        passed = PASSES[device.type] * x.nbytes
        return {"tensor_bytes": x.nbytes, "passed_bytes": passed, "seconds": max(seconds - around, 0.1 * seconds)}

    return launch_s, [passing(x) for x in shapes]


def _block(device: torch.device) -> Callable[[], Any]:
    """What a rank on a CPU does between two exchanges: products of four to one, as in a feed-forward, and the rest."""
    rows, width = TOKENS["cpu"][0]
    x = torch.randn(rows, width, device=device)
    weights = [torch.randn(width * 4, width, device=device) for _ in range(3)]

    def work() -> None:
        y = _as_a_block(x)
        for weight in weights:
            y = F.linear(F.linear(y, weight), weight.T)

    return work


def _as_few_kernels(x: Tensor) -> Tensor:
    """As the norms, activations and modulations of a block do."""
    y = F.layer_norm(x, x.shape[1:])  # 2 passes, as the next and the last
    y = F.gelu(y, approximate="tanh")
    y = x * y  # 3 passes, as the next
    y = x + y
    return y.clone()


def _as_a_block(x: Tensor) -> Tensor:
    """All that an eager block does to its tokens beside products and attention, in the proportions that it has there:
    on a CPU activations and rotations take much longer than a pass over memory."""
    y = F.layer_norm(x, x.shape[1:]) * x[:1] + x[:1]
    q, k = (_rotated(F.rms_norm(y.unflatten(1, (-1, HEAD)), (HEAD,))) for _ in range(2))  # S H D
    joined = [torch.cat([part[:1], part[1:]]) for part in (q, k, y)]  # text and image
    x = x + x[:1] * joined[2].clone()
    y = F.layer_norm(x, x.shape[1:]) * x[:1] + x[:1]
    y = F.gelu(torch.cat([y] * 4, 1), approximate="tanh")
    return x + x[:1] * y[:, : x.shape[1]]


def _rotated(x: Tensor) -> Tensor:
    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], -1).flatten(-2)
    return x * x[:1] + turned * x[:1]


def _convolution(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """With the norm and the activation before it, as in a decoder."""
    channels, side = CONVOLUTIONS[device.type]
    x = torch.randn(1, channels, side, side, device=device, dtype=dtype)  # B C H W
    weights = torch.randn(channels, channels, 3, 3, device=device, dtype=dtype)

    def level() -> Tensor:
        return F.conv2d(F.silu(F.group_norm(x, 8)), weights, padding=1)

    return {"channels": channels, "side": side, "seconds": _typical(level, device)}


def _links(group: Group, stride: int, device: torch.device) -> list[dict[str, Any]]:
    """Collective: exchange, gather and hop, each of three sizes."""
    calls, kinds = [], []
    for operation, make in (("exchange", _exchange), ("gather", _gather), ("hop", _hop)):
        for num_bytes in SIZES[device.type]:
            sent, call = make(group, num_bytes, device)
            calls.append(call)
            kinds.append({"operation": operation, "degree": group.size, "stride": stride, "sent_bytes": sent})
    # On a CPU between pieces of work, as in a run: there ranks wait for the slower one, and for threads that must wake
    # up on busy cores, which takes many times as long as to send what is small.
    is_gpu = device.type == "cuda"
    seconds = [min(_times(call, device, REPEATS)) for call in calls] if is_gpu else _amid(calls, _block(device))
    return [{**kind, "seconds": each} for kind, each in zip(kinds, seconds, strict=True)]


def _amid(calls: Sequence[Callable[[], Any]], work: Callable[[], Any]) -> list[float]:
    """Mean seconds that each call takes between pieces of work."""
    # They take turns, as the machine's pace may change, and the large ones, which hardly notice who wakes up late, not
    # in each round.
    took: list[list[float]] = [[] for _ in calls]
    for round in range(ROUNDS + 1):
        for number, call in enumerate(calls):
            if round % ROUNDS_OF[number % len(ROUNDS_OF)]:
                continue
            work()
            start = time.perf_counter()
            call()
            took[number].append(time.perf_counter() - start)
    return [statistics.mean(times[1:]) for times in took]


def _exchange(group: Group, num_bytes: int, device: torch.device) -> tuple[int, Callable[[], Any]]:
    """What ulysses does: two pieces for each other member, of the text and of the image."""
    piece = num_bytes // 4 // (group.size - 1)
    sent, received = (torch.ones(piece * group.size, device=device) for _ in range(2))  # N
    sizes = [piece] * group.size
    if group.packs:
        call = lambda: exchange_into(received, sent, sizes=sizes, sizes_out=sizes, group=group)  # noqa: E731
        return 4 * piece * (group.size - 1), call
    others = [member != group.index for member in range(group.size)]
    halves = lambda flat: [list(part.tensor_split(2)) for part in flat.split(piece)]  # noqa: E731
    sends = [parts if is_other else [] for parts, is_other in zip(halves(sent), others, strict=True)]
    receives = [parts if is_other else [] for parts, is_other in zip(halves(received), others, strict=True)]
    return 4 * piece * (group.size - 1), lambda: start_exchange(sends, receives, group=group)()


def _gather(group: Group, num_bytes: int, device: torch.device) -> tuple[int, Callable[[], Any]]:
    """What allgather does, by pieces too: of the text and of the image, each where it belongs."""
    piece = num_bytes // 4 // (group.size - 1)
    block, out = (torch.ones(piece * times, device=device) for times in (1, group.size))  # N
    num_sent = 4 * piece * (group.size - 1)
    if group.packs:
        return num_sent, lambda: gather_into(out, block, group=group, is_async=False)
    held = [list(part.tensor_split(2)) for part in out.split(piece)]
    return num_sent, lambda: start_exchange([held[group.index]] * group.size, held, group=group)()


def _hop(group: Group, num_bytes: int, device: torch.device) -> tuple[int, Callable[[], Any]]:
    block = torch.ones(num_bytes // 4, device=device)  # N
    return block.nbytes, lambda: start_hop(block, size_in=block.numel(), group=group)()


def _typical(call: Callable[[], Any], device: torch.device) -> float:
    """The median; on a CPU the mean of as many calls as fill `STEADY_S`, the first third left out."""
    if device.type != "cpu":
        return statistics.median(_times(call, device, REPEATS_ALONE))
    # A core that was idle is slower, or faster, than one that works as long as a run does. What others take of it
    # counts as it does in a step: a call is either spared or held up, and the median would be that of the spared ones.
    times = _times(call, device, REPEATS_ALONE, least_s=STEADY_S)
    return statistics.mean(times[len(times) // 3 :])


def _times(call: Callable[[], Any], device: torch.device, repeats: int, *, least_s: float = 0.0) -> list[float]:
    """Seconds on the device, of all calls but the first: so many, and for so long."""
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) <= repeats or time.perf_counter() < begin + least_s:
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - start)
    return times[1:]


def _launch(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds that the host takes to ask for one small kernel."""
    times = []
    for _ in range(REPEATS_ALONE):
        _wait(device)
        start = time.perf_counter()
        for _ in range(NUM_LAUNCHES):
            call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / NUM_LAUNCHES


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
