"""What torchao takes beside a weight that it quantizes, some rows at a time and as a whole, and the bits of both."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bench.gpu.measuring import SKIPPED, Bench, head, reason, row
from support.alive import Alive

WAYS = ("int8", "fp8", "fp8_dynamic", "int4")
ON_GPU = ("fp8_dynamic", "int4")
MB = 1_000_000


def quant(bench: Bench) -> bool:
    """False if the bits of rows are not those of the whole weight."""
    rows, width = (6144, 1024) if bench.is_tiny else (12288, 3072)
    print(f"a weight of {rows} x {width} in bf16, {2 * rows * width / MB:.1f} MB; MB beside it and what is kept:\n")
    head("way", "by rows", "as a whole", "ms by rows", "ms as a whole", "kept MB", "bits")
    good = True
    for way in WAYS:
        if way in ON_GPU and not bench.is_gpu:
            row(way, *5 * ("",), SKIPPED)
            continue
        try:
            good = _compared(way, nn.Linear(width, rows, bias=False), bench) and good
        except Exception as error:  # torchao raises ImportError, AssertionError and more for what a device lacks
            row(way, *5 * ("",), reason(error))
            good = False
    return good


def _compared(way: Any, layer: nn.Linear, bench: Bench) -> bool:
    from torchao.quantization import quantize_

    from latentloom.pipelines.components import quantizing

    layer = layer.to(bench.device, torch.bfloat16).requires_grad_(False)
    weight, config = layer.weight.data, quantizing._config(way)
    found = []
    for each in (config, config.config):
        layer.weight = nn.Parameter(weight, requires_grad=False)
        quantize_(layer, each)  # a first time costs more
        layer.weight = nn.Parameter(weight, requires_grad=False)
        peak, seconds = _peak(lambda each=each: quantize_(layer, each), layer, bench)
        parts = [getattr(layer.weight, name) for name in layer.weight.__tensor_flatten__()[0]]
        found.append((peak - sum(part.nbytes for part in parts), 1000 * seconds, parts))
    (by_rows, ms, parts), (whole, whole_ms, wanted) = found
    is_same = all(map(_same_bits, parts, wanted))
    kept = sum(part.nbytes for part in parts) / MB
    row(way, by_rows / MB, whole / MB, ms, whole_ms, kept, "the same" if is_same else "DIFFERENT")
    return is_same


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.view(torch.uint8), other.contiguous().view(torch.uint8))


def _peak(action: Callable[[], Any], layer: nn.Module, bench: Bench) -> tuple[float, float]:
    """The most bytes beside the layer, and seconds."""
    start = time.perf_counter()
    if not bench.is_gpu:
        with Alive(but=layer.parameters()) as alive:
            action()
        return alive.most, time.perf_counter() - start
    bench.wait()
    torch.cuda.reset_peak_memory_stats(bench.device)
    before = torch.cuda.memory_allocated(bench.device)
    action()
    bench.wait()
    return torch.cuda.max_memory_allocated(bench.device) - before, time.perf_counter() - start
