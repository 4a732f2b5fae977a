"""What this machine's ranks measure of it, in seconds: a matrix product, attention calls, what is done number by
number, a convolution, a launch, and what they send each other, on one device, two, and so on.

Nothing else should work meanwhile: whoever calls `measure` sees to that.
"""

# N flat elements, S tokens, H heads, D head width

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..progress import SILENT, Progress
from ..ranks.seat import Seat
from .limits import Limits
from .pool import Pool
from .trial import Deadline

if TYPE_CHECKING:
    from torch import Tensor

    from ..group import Group

REPEATS, REPEATS_ALONE = 5, 11
REPEATS_AMID = (10, 6, 2)
"""Of each of the sizes: what is large takes long, and hardly notices who wakes up late."""
SIZES = {"cpu": (64 << 10, 1 << 20, 8 << 20), "cuda": (256 << 10, 4 << 20, 64 << 20)}
"""Bytes that each rank sends."""
PRODUCTS = {"cpu": (512, 192, 768), "cuda": (4096, 4096, 4096)}
"""Rows, inner size and columns; on a CPU those of the built-in model, the one that is computed there."""
ATTENTIONS = {"cpu": ((128, 8, 24), (1024, 8, 24)), "cuda": ((4096, 24, 128),)}
"""S, H, D."""
TOKENS = {"cpu": ((128, 192), (2048, 192)), "cuda": ((16384, 4096),)}
"""Rows and columns of what is done number by number; on a CPU once in its caches, and once not."""
PASSES = {"cpu": 40, "cuda": 12}
"""Times that it is read or written: on a CPU as often as the cost model counts it in an eager block."""
CONVOLUTIONS = {"cpu": (32, 256), "cuda": (128, 1024)}
"""Channels, and pixels each way, of one of a decoder's last levels."""
HEAD = 24
NUM_LAUNCHES = 50


def measure(devices: Sequence[str], *, timeout_s: float = 100.0, asker: Progress = SILENT) -> dict[int, Any]:
    """{number of ranks at work: what each of them measured}. Starts a rank on each device, and ends them again.

    Raises `RankFailed` or ValueError, and `Cancelled` where `asker` does.
    """
    with Pool(devices, limits=Limits(start_s=timeout_s, work_s=timeout_s)) as pool:
        words = f"ranks measured nothing in {timeout_s:g} s"
        progress = Deadline(timeout_s, close=pool.close, words=words, asker=asker)
        function = ".parallel.pool.measuring:on_rank"
        return {
            count: pool.call_every(function, {"kinds": groups_of(count)}, progress, num_ranks=count)
            for count in _counts(len(devices))
        }


def groups_of(count: int) -> list[list[int]]:
    """[ulysses, exchange]: the plans whose groups are the kinds that there are."""
    return [[degree, count // degree] for degree in range(1, count + 1) if count % degree == 0] if count > 1 else []


def _counts(num_devices: int) -> list[int]:
    powers = [1 << power for power in range(num_devices.bit_length())]
    return sorted({*powers, num_devices})


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: what this rank measures while all others do the same.

    Seconds are the median of a few, as a step's are; of what travels between GPUs the least.
    """
    import torch

    from ..group import Axis
    from ..mesh import mesh_for
    from ..plan import ParallelPlan

    device = torch.device(seat.device)
    samples = []
    with torch.inference_mode():
        alone = _alone(device)
        for ulysses, exchange in request["kinds"]:
            mesh = mesh_for(ParallelPlan(ulysses=ulysses, allgather=exchange))
            for axis, stride in ((Axis.ULYSSES, 1), (Axis.EXCHANGE, ulysses)):
                group = mesh[axis]
                known = {(each["degree"], each["stride"]) for each in samples}
                if group.size > 1 and (group.size, stride) not in known:
                    samples += _links(group, stride, device)
    return {**alone, "samples": samples}


def _alone(device: Any) -> dict[str, Any]:
    import torch
    import torch.nn.functional as F

    from ..attention.choice import choose

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

    def number_by_number(rows: int, columns: int) -> dict[str, Any]:
        x = torch.randn(rows, columns, device=device)
        work = (lambda: _as_a_block(x)) if device.type == "cpu" else (lambda: _as_few_kernels(x))
        passed = PASSES[device.type] * x.nbytes
        return {"tensor_bytes": x.nbytes, "passed_bytes": passed, "seconds": _typical(work, device)}

    kernel, little = choose(device, dtype), torch.zeros(64, device=device)
    return {
        "single": product(torch.float32),
        "half": product(dtype) if is_gpu else None,
        "attentions": [attention(*shape) for shape in ATTENTIONS[device.type]],
        "passes": [number_by_number(*shape) for shape in TOKENS[device.type]],
        "convolution": _convolution(device, dtype),
        "launch_s": _launch(lambda: little.add_(1.0), device),
    }


def _as_few_kernels(x: Tensor) -> Tensor:
    """As the norms, activations and modulations of a block do."""
    import torch.nn.functional as F

    y = F.layer_norm(x, x.shape[1:])  # 2 passes, as the next and the last
    y = F.gelu(y, approximate="tanh")
    y = x * y  # 3 passes, as the next
    y = x + y
    return y.clone()


def _as_a_block(x: Tensor) -> Tensor:
    """All that an eager block does to its tokens beside products and attention, in the proportions that it has there:
    on a CPU activations and rotations take much longer than a pass over memory.
    """
    import torch
    import torch.nn.functional as F

    y = F.layer_norm(x, x.shape[1:]) * x[:1] + x[:1]
    q, k = (_rotated(F.rms_norm(y.unflatten(1, (-1, HEAD)), (HEAD,))) for _ in range(2))  # S H D
    joined = [torch.cat([part[:1], part[1:]]) for part in (q, k, y)]  # text and image
    x = x + x[:1] * joined[2].clone()
    y = F.layer_norm(x, x.shape[1:]) * x[:1] + x[:1]
    y = F.gelu(torch.cat([y] * 4, 1), approximate="tanh")
    return x + x[:1] * y[:, : x.shape[1]]


def _rotated(x: Tensor) -> Tensor:
    import torch

    real, imaginary = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([-imaginary, real], -1).flatten(-2)
    return x * x[:1] + turned * x[:1]


def _convolution(device: Any, dtype: Any) -> dict[str, Any]:
    """With the norm and the activation before it, as in a decoder."""
    import torch
    import torch.nn.functional as F

    channels, side = CONVOLUTIONS[device.type]
    x = torch.randn(1, channels, side, side, device=device, dtype=dtype)  # B C H W
    weights = torch.randn(channels, channels, 3, 3, device=device, dtype=dtype)

    def level() -> Tensor:
        return F.conv2d(F.silu(F.group_norm(x, 8)), weights, padding=1)

    seconds = _least(level, device)  # a heap that has not held such tensors yet asks the system for each
    return {"channels": channels, "side": side, "seconds": seconds}


def _links(group: Group, stride: int, device: Any) -> list[dict[str, Any]]:
    """Collective: exchange, gather and hop, each of three sizes.

    On a CPU between pieces of work, as in a run: there ranks wait for the slower one, and for threads that must wake up
    on busy cores, which takes many times as long as to send what is small.
    """
    import torch

    x = torch.randn(TOKENS["cpu"][0], device=device)
    found = []
    for operation, make in (("exchange", _exchange), ("gather", _gather), ("hop", _hop)):
        for num_bytes, repeats in zip(SIZES[device.type], REPEATS_AMID, strict=True):
            sent, call = make(group, num_bytes, device)
            seconds = _amid(call, lambda: _as_a_block(x), repeats) if device.type == "cpu" else _least(call, device)
            sample = {"operation": operation, "degree": group.size, "stride": stride}
            found.append({**sample, "sent_bytes": sent, "seconds": seconds})
    return found


def _amid(call: Callable[[], Any], work: Callable[[], Any], repeats: int) -> float:
    """Mean seconds that a call takes between pieces of work."""
    call()
    took = 0.0
    for _ in range(repeats):
        work()
        start = time.perf_counter()
        call()
        took += time.perf_counter() - start
    return took / repeats


def _exchange(group: Group, num_bytes: int, device: Any) -> tuple[int, Callable[[], Any]]:
    """What ulysses does: two pieces for each other member, of the text and of the image."""
    import torch

    from ..collectives import exchange_into, start_exchange

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


def _gather(group: Group, num_bytes: int, device: Any) -> tuple[int, Callable[[], Any]]:
    import torch

    from ..collectives import gather_into

    piece = num_bytes // 4 // (group.size - 1)
    block, out = (torch.ones(piece * times, device=device) for times in (1, group.size))  # N
    return 4 * piece * (group.size - 1), lambda: gather_into(out, block, group=group, is_async=False)


def _hop(group: Group, num_bytes: int, device: Any) -> tuple[int, Callable[[], Any]]:
    import torch

    from ..collectives import start_hop

    block = torch.ones(num_bytes // 4, device=device)  # N
    return block.nbytes, lambda: start_hop(block, size_in=block.numel(), group=group)()


def _least(call: Callable[[], Any], device: Any) -> float:
    """Seconds of a call on the device, the first one left out."""
    return min(_times(call, device, REPEATS))


def _typical(call: Callable[[], Any], device: Any) -> float:
    return statistics.median(_times(call, device, REPEATS_ALONE))


def _times(call: Callable[[], Any], device: Any, repeats: int) -> list[float]:
    """Seconds on the device, of all calls but the first."""
    times = []
    for _ in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - start)
    return times[1:]


def _launch(call: Callable[[], Any], device: Any) -> float:
    """Seconds that the host takes to ask for one small kernel; on a CPU, to run it."""
    times = []
    for _ in range(REPEATS_ALONE):
        _wait(device)
        start = time.perf_counter()
        for _ in range(NUM_LAUNCHES):
            call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / NUM_LAUNCHES


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
