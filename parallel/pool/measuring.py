"""What this machine's ranks measure of it, in seconds: a matrix product, an attention call, what is done number by
number, a launch, and what they send each other, on one device, two, and so on.

Nothing else should work meanwhile: whoever calls `measure` sees to that.
"""

# N flat elements, S tokens, H heads, D head width

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..progress import Progress
from ..ranks.seat import Seat
from .limits import Limits
from .pool import Pool
from .trial import Deadline

if TYPE_CHECKING:
    from ..group import Group

REPEATS, REPEATS_ALONE = 5, 15
SIZES = {"cpu": (64 << 10, 1 << 20, 8 << 20), "cuda": (256 << 10, 4 << 20, 64 << 20)}
"""Bytes that each rank sends."""
PRODUCTS = {"cpu": (512, 192, 768), "cuda": (4096, 4096, 4096)}
"""Rows, inner size and columns; on a CPU those of the built-in model, the one that is computed there."""
ATTENTIONS = {"cpu": (512, 8, 24), "cuda": (4096, 24, 128)}
"""S, H, D."""
TOKENS = {"cpu": (512, 768), "cuda": (16384, 4096)}
"""Rows and columns of what is done number by number."""
PASSES = 12
"""Times that it is read or written."""
NUM_LAUNCHES = 50


def measure(devices: Sequence[str], *, timeout_s: float = 100.0) -> dict[int, Any]:
    """{number of ranks at work: what each of them measured}. Starts a rank on each device, and ends them again.

    Raises `RankFailed` or ValueError.
    """
    with Pool(devices, limits=Limits(start_s=timeout_s, work_s=timeout_s)) as pool:
        progress = Deadline(timeout_s, close=pool.close, words=f"ranks measured nothing in {timeout_s:g} s")
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

    Seconds are the least of a few: what else works here would disturb.
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
    (rows, inner, columns), (tokens, heads, width) = PRODUCTS[device.type], ATTENTIONS[device.type]
    dtype = torch.bfloat16 if is_gpu else torch.float32

    def product(kind: torch.dtype) -> dict[str, Any]:
        one, two = (torch.randn(shape, device=device, dtype=kind) for shape in ((rows, inner), (columns, inner)))
        seconds = _least(lambda: F.linear(one, two), device)
        return {"rows": rows, "inner": inner, "columns": columns, "seconds": seconds}

    q, k, v = (torch.randn(1, heads, tokens, width, device=device, dtype=dtype) for _ in range(3))  # B H S D
    x, little = torch.randn(TOKENS[device.type], device=device), torch.zeros(64, device=device)  # S N

    def by_number() -> None:
        """As the norms, activations and modulations of a block do."""
        y = F.layer_norm(x, x.shape[1:])  # 2 passes, as the next and the last
        y = F.gelu(y, approximate="tanh")
        y = x * y  # 3 passes, as the next
        y = x + y
        y.clone()

    kernel = choose(device, dtype)
    attention = _least(lambda: kernel.plain(q, k, v, None, None), device)
    return {
        "single": product(torch.float32),
        "half": product(dtype) if is_gpu else None,
        "attention": {"tokens": tokens, "heads": heads, "head_dim": width, "seconds": attention},
        "passed_bytes": PASSES * x.nbytes,
        "pass_s": _least(by_number, device),
        "launch_s": _launch(lambda: little.add_(1.0), device),
    }


def _links(group: Group, stride: int, device: Any) -> list[dict[str, Any]]:
    """Collective: exchange, gather and hop, each of three sizes."""
    found = []
    for operation, make in (("exchange", _exchange), ("gather", _gather), ("hop", _hop)):
        for num_bytes in SIZES[device.type]:
            sent, call = make(group, num_bytes, device)
            seconds = _least(call, device, REPEATS)
            sample = {"operation": operation, "degree": group.size, "stride": stride}
            found.append({**sample, "sent_bytes": sent, "seconds": seconds})
    return found


def _exchange(group: Group, num_bytes: int, device: Any) -> tuple[int, Callable[[], Any]]:
    """What ulysses does: a piece for each other member."""
    import torch

    from ..collectives import exchange_into, start_exchange

    piece = num_bytes // 4 // (group.size - 1)
    sent, received = (torch.ones(piece * group.size, device=device) for _ in range(2))  # N
    sizes = [piece] * group.size
    if group.packs:
        call = lambda: exchange_into(received, sent, sizes=sizes, sizes_out=sizes, group=group)  # noqa: E731
        return 4 * piece * (group.size - 1), call
    others = [member != group.index for member in range(group.size)]
    sends = [[part] if is_other else [] for part, is_other in zip(sent.split(piece), others, strict=True)]
    receives = [[part] if is_other else [] for part, is_other in zip(received.split(piece), others, strict=True)]
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


def _least(call: Callable[[], Any], device: Any, repeats: int = REPEATS_ALONE) -> float:
    """Seconds of a call on the device, the first one left out."""
    times = []
    for _ in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def _launch(call: Callable[[], Any], device: Any) -> float:
    """Seconds that the host takes to ask for one small kernel; on a CPU, to run it."""
    times = []
    for _ in range(REPEATS_ALONE):
        _wait(device)
        start = time.perf_counter()
        for _ in range(NUM_LAUNCHES):
            call()
        times.append(time.perf_counter() - start)
    return min(times) / NUM_LAUNCHES


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
