"""What a step costs one rank of several, eager, compiled and as a CUDA graph, and beside another picture's decode."""

import collections
import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from bench.gpu.measuring import Bench, head, num_launched, num_syncs, reason, row, took
from bench.shadow_rank import SUBJECTS, Shadow, forward, inputs, made, twin_of
from latentloom.parallel.sharding.captured import Captured
from latentloom.parallel.sharding.shard import shard
from latentloom.pipelines.spreading.transformer import split_plan_of

# Of the largest number of an eager step, the most that a compiled one may differ from it.
APART = {torch.float32: 1e-4, torch.bfloat16: 5e-2}
NUM_BESIDE = 11  # steps beside decodes, of which the first does not count


def step(bench: Bench, models: list[str], plans: list[str]) -> bool:
    """One step on one device, and as rank 0 of each plan sees it, with nothing on a wire: eager, compiled, captured.

    False if a way fails, or gives something else than the eager one.
    """
    good = True
    for name in models:
        subject = SUBJECTS[name]
        model = made(subject, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
        given = inputs(subject, model, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
        print(f"\n{name}\n")
        head("plan", "way", "host ms", "ms", "kernels and copies", "syncs", "off eager by", "graphs, seconds to make")
        alone: Any = twin_of(model)
        good = _ways("one device", alone, given, bench, alone.compile_repeated_blocks) and good
        for plan in plans:
            with shadowed(model, plan) as compile_blocks:
                good = _ways(plan, model, given, bench, compile_blocks) and good
    return good


@contextlib.contextmanager
def shadowed(model: nn.Module, plan: str) -> Iterator[Callable[..., None]]:
    """The model as rank 0 of a plan has it; gives what compiles its blocks."""
    with Shadow() as shadow:
        handle = shard(model, split_plan_of(model), shadow.mesh(plan))
        try:
            yield handle.compile
        finally:
            handle.remove()


def _ways(
    plan: str, model: nn.Module, given: dict[str, Any], bench: Bench, compile_blocks: Callable[..., None]
) -> bool:
    def one_step() -> Tensor:
        return forward(model, given)

    one_step()  # the shadow's noise is as long as it gets
    wanted = one_step().clone()
    _tell(plan, "eager", one_step, bench)
    good = _captured(plan, "eager, captured", model, one_step, bench, wanted)
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    start = time.perf_counter()
    try:
        compile_blocks(**({} if bench.is_gpu else {"backend": "aot_eager"}))
        one_step()
        off = _off(one_step(), wanted)
    except Exception as error:  # torch raises classes of its own of whatever its compilers raise
        row(plan, "compiled", *6 * ("",), reason(error))
        return False
    made_of = f"{counters['stats']['unique_graphs']}, {time.perf_counter() - start:.0f} s"
    good = _tell(plan, "compiled", one_step, bench, off=off, made_of=made_of) and good
    return _captured(plan, "compiled, captured", model, one_step, bench, wanted) and good


def _captured(
    plan: str, way: str, model: nn.Module, one_step: Callable[[], Tensor], bench: Bench, wanted: Tensor
) -> bool:
    """A whole step as one CUDA graph, as `graphs` on of Load Model has it."""
    if not bench.is_gpu:
        return True
    graphs = Captured(model)
    try:
        for _ in range(3):
            out = one_step()
        if graphs.reasons:
            row(plan, way, *5 * ("",), graphs.reasons[0])
            return False
        return _tell(plan, way, one_step, bench, off=_off(out, wanted))
    finally:
        graphs.restore()


def _tell(plan: str, way: str, action: Callable[[], Any], bench: Bench, *, off: float = 0.0, made_of: str = "") -> bool:
    time_of = took(action, bench, runs=5)
    counts = num_launched(action, bench), num_syncs(action, bench)
    row(plan, way, time_of.host_ms, time_of.ms, *counts, f"{off:.1e}", made_of)
    return off <= APART[bench.dtype]


def _off(found: Tensor, wanted: Tensor) -> float:
    return float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max())


def lanes(bench: Bench) -> bool:
    """Steps of one picture while another is decoded, over and over: on one stream, on two, and steps before decodes."""
    subject = SUBJECTS["flux-1024"]
    model = made(subject, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
    given = inputs(subject, model, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)
    decode = _decoder(bench)

    def one_step() -> None:
        forward(model, given)

    alone, decode_alone = took(one_step, bench, runs=5), took(decode, bench, runs=5)
    head("streams", "ms a step", "ms a decode")
    row("nothing beside", alone.ms, decode_alone.ms)
    row("one stream", *_beside(one_step, decode, bench))
    if bench.is_gpu:
        row("two streams", *_beside(one_step, decode, bench, streams=(0, 0)))
        row("two streams, steps first", *_beside(one_step, decode, bench, streams=(-1, 0)))
    return True


def _beside(
    one_step: Callable[[], None], decode: Callable[[], None], bench: Bench, *, streams: tuple[int, int] | None = None
) -> tuple[float, float]:
    """Milliseconds of a step and of a decode at the same time; `streams` are the priorities of theirs, if any."""
    own = [None, None] if streams is None else [torch.cuda.Stream(priority=each) for each in streams]
    stop, counts = threading.Event(), collections.Counter[str]()

    def wait() -> None:
        if bench.is_gpu:
            torch.cuda.current_stream().synchronize()

    def decoding() -> None:
        with torch.cuda.stream(own[1]):
            while not stop.is_set():
                decode()
                wait()
                counts["decodes"] += 1

    thread = threading.Thread(target=decoding)
    start = time.perf_counter()
    thread.start()
    try:
        with torch.cuda.stream(own[0]):
            times = []
            for _ in range(NUM_BESIDE):
                begin = time.perf_counter()
                one_step()
                wait()  # for its own stream: the decodes on another go on
                times.append(1000 * (time.perf_counter() - begin))
    finally:
        stop.set()
        thread.join()
    return statistics.median(times[1:]), 1000 * (time.perf_counter() - start) / max(1, counts["decodes"])


def _decoder(bench: Bench) -> Callable[[], None]:
    """Decodes a picture of 1024 x 1024 by a VAE of FLUX's size, random."""
    import diffusers

    widths, side = ((32, 32), 8) if bench.is_tiny else ((128, 256, 512, 512), 128)
    vae: Any = diffusers.AutoencoderKL(
        block_out_channels=widths,
        down_block_types=("DownEncoderBlock2D",) * len(widths),
        up_block_types=("UpDecoderBlock2D",) * len(widths),
        layers_per_block=2,
        latent_channels=16,
    )
    vae = vae.to(bench.device, bench.dtype).eval()
    latents = torch.randn(1, 16, side, side, device=bench.device, dtype=bench.dtype)

    def decode() -> None:
        with torch.no_grad():
            vae.decode(latents, return_dict=False)

    return decode
