"""What attention and linear layers cost on one GPU, and whether every attention kernel computes what it should."""

# B batch, H heads, K key heads, S queries, T keys, D head width

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.gpu.measuring import SKIPPED, Bench, head, reason, row, took
from latentloom.parallel.attention import choice
from latentloom.parallel.attention.kernels import KERNELS
from latentloom.parallel.attention.local import attend_plain, attend_with_lse
from latentloom.parallel.attention.strategy import Kernel

WIDTHS = (16, 40, 64, 72, 80, 96, 100, 128, 160, 192, 256)
SIZES = ((1, 1, 6), (77, 333, 6), (130, 259, 2))  # queries, keys, key heads; there are 6 heads
# The most that a kernel may differ from fp64 for values of variance 1.
ERROR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
# Forgotten after a section that had others stand in for torch's flash kernel: the next trial has the right one do.
TRIALS = (choice.choose, choice.chosen, choice.fault)


@dataclass(frozen=True)
class Case:
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None


def kernels(bench: Bench) -> bool:
    """Every kernel that works here against fp64; False if one that passed its trial answers wrong."""
    head("kernel", "dtype", "calls", "answers off", "log-sum-exp off", "")
    good = True
    dtypes = (torch.bfloat16, torch.float16, torch.float32) if bench.is_gpu else (torch.float32,)
    for dtype in dtypes:
        name_of_dtype = str(dtype).removeprefix("torch.")
        for name, kernel in KERNELS.items():
            if (name == "cpu_flash") == bench.is_gpu:
                continue
            if why := choice.fault(name, bench.device, dtype):
                row(name, name_of_dtype, 0, "", "", f"left out: {why}")
                continue
            good = _examined(kernel, bench, dtype) and good
            _stand_down(kernel)
        row("auto", name_of_dtype, "", "", "", f"chooses {choice.chosen(bench.device, dtype)}")
    for cache in TRIALS:
        cache.cache_clear()
    return good


def _examined(kernel: Kernel, bench: Bench, dtype: torch.dtype) -> bool:
    most = max(ERROR[dtype], kernel.error if kernel.name == "sage" else 0.0)
    calls, off, lse_off, failed = 0, 0.0, 0.0, ""
    for case in _cases(bench, dtype):
        calls += 2
        wanted, lse = _formula(case)
        given = {"mask": case.mask, "scale": None, "kernel": kernel}
        try:
            plain = attend_plain(case.q, case.k, case.v, **given)
            out, own = attend_with_lse(case.q, case.k, case.v, **given)
        except RuntimeError as error:
            failed = failed or f"fails at {tuple(case.q.shape)} x {tuple(case.k.shape)}: {reason(error)}"
            continue
        off = max(off, _apart(plain, wanted), _apart(out, wanted))
        lse_off = max(lse_off, _apart(own, lse))
    good = not failed and off <= most and lse_off <= most
    said = "all right" if good else failed or f"WRONG, at most {most:g} is right"
    row(kernel.name, str(dtype).removeprefix("torch."), calls, f"{off:.1e}", f"{lse_off:.1e}", said)
    return good


def _cases(bench: Bench, dtype: torch.dtype) -> Iterator[Case]:
    """Keys and values lie as they travel (T B 2K D), queries as models have them (B S H D)."""
    draw = torch.Generator(bench.device).manual_seed(0)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, device=bench.device, generator=draw).to(dtype)

    for width in WIDTHS[:: 4 if bench.is_tiny else 1]:
        for queries, keys, key_heads in SIZES:
            q = noise(2, queries, 6, width).transpose(1, 2)
            k, v = noise(keys, 2, 2 * key_heads, width).permute(1, 2, 0, 3).split([key_heads, key_heads], 1)
            padding = torch.arange(keys, device=bench.device).view(1, 1, 1, keys) < max(1, keys - 3)
            holes = torch.arange(keys, device=bench.device).remainder(3).ne(1).expand(2, 1, queries, keys)
            for mask in (None, padding, holes):
                yield Case(q, k, v, mask)


def _formula(case: Case) -> tuple[Tensor, Tensor]:
    """Attention and its log-sum-exp, fp64."""
    share = case.q.shape[1] // case.k.shape[1]
    q, k, v = case.q.double(), *(x.double().repeat_interleave(share, 1) for x in (case.k, case.v))
    scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5  # B H S T
    if case.mask is not None:
        scores = scores.masked_fill(~case.mask, -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def _apart(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted).abs().max().nan_to_num(torch.inf))


def _stand_down(kernel: Kernel) -> None:
    """Torch's own flash kernel again, for those that are examined after it."""
    if kernel.stand_in:
        from torch.nn import attention

        attention.restore_flash_attention_impl()


def attention(bench: Bench) -> bool:
    """Milliseconds of each kernel at the shapes of a rank; a masked call against one whose masked keys are left out."""
    shapes = [(2, 256)] if bench.is_tiny else [(24, 4608), (3, 4608), (24, 16896), (3, 16896), (5, 75600), (3, 119056)]
    names = [name for name in KERNELS if (name == "cpu_flash") != bench.is_gpu and name not in ("math", "sage")]
    head("heads x tokens", *names, *(f"{name}, lse" for name in names), "masked", "left out", "fastest", "TFLOP/s")
    for heads, tokens in shapes:
        q, k, v = (
            torch.randn(1, tokens, heads, 128, device=bench.device, dtype=bench.dtype).transpose(1, 2) for _ in range(3)
        )
        found = {name: _ways(KERNELS[name], q, k, v, bench) for name in names}
        ways = [cell for way in range(2) for cell in (each[way] for each in found.values())]
        ms, fastest = min((each[0], name) for name, each in found.items() if isinstance(each[0], float))
        speed = 4 * tokens**2 * heads * 128 / ms / 1e9
        row(f"{heads} x {tokens}", *ways, *_padded(q, k, v, bench), fastest, f"{speed:.1f}")
    print(
        f"\nauto chooses {choice.chosen(bench.device, bench.dtype)}; masked, left out: the last 200 keys, by its kernel"
    )
    for cache in TRIALS:
        cache.cache_clear()
    return True


def _ways(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, bench: Bench) -> list[float | str]:
    """Milliseconds without and with log-sum-exp, or why there are none."""

    def plain() -> None:
        attend_plain(q, k, v, mask=None, scale=None, kernel=kernel)

    def with_lse() -> None:
        attend_with_lse(q, k, v, mask=None, scale=None, kernel=kernel)

    if why := choice.fault(kernel.name, bench.device, bench.dtype):
        return [why.replace("|", "/"), ""]
    cells: list[float | str] = []
    with choice._standing_in(kernel.stand_in):
        for way in (plain, with_lse):
            try:
                cells.append(took(way, bench, runs=5).ms)
            except RuntimeError as error:
                cells.append(reason(error))
    _stand_down(kernel)
    return cells


def _padded(q: Tensor, k: Tensor, v: Tensor, bench: Bench) -> list[float]:
    """Milliseconds where the last 200 keys are masked, and where they are left out."""
    kernel = choice.chosen(bench.device, bench.dtype).kernel
    keys = k.shape[2]
    kept = keys - min(200, keys // 2)
    mask = (torch.arange(keys, device=bench.device) < kept).view(1, 1, 1, keys)
    short = [x[:, :, :kept] for x in (k, v)]

    def masked() -> None:
        attend_plain(q, k, v, mask=mask, scale=None, kernel=kernel)

    def left_out() -> None:
        attend_plain(q, *short, mask=None, scale=None, kernel=kernel)

    with choice._standing_in(kernel.stand_in):
        found = [took(way, bench, runs=5).ms for way in (masked, left_out)]
    _stand_down(kernel)
    return found


def linear(bench: Bench) -> bool:
    """A linear layer in bf16, with fp8 weights that are cast at each call, and in fp8 with rows scaled as they come."""
    if not bench.is_gpu or torch.cuda.get_device_capability(bench.device) < (8, 9):
        print(f"linear: {SKIPPED} that computes in fp8 (compute capability 8.9 or higher)")
        return True
    fp8, most = torch.float8_e4m3fn, 448.0
    head("tokens x in x out", "bf16 ms", "fp8 weights ms", "fp8 ms", "fp8 and its cast ms")
    for tokens in (64,) if bench.is_tiny else (4608, 1152, 576):
        for width, out in ((3072, 9216), (3072, 12288), (12288, 3072), (15360, 3072)):
            x = torch.randn(tokens, width, device=bench.device, dtype=torch.bfloat16)
            w = torch.randn(out, width, device=bench.device, dtype=torch.bfloat16)
            scales = w.abs().amax(1, keepdim=True).float() / most
            w8 = (w / scales).to(fp8)

            def cast(x: Tensor = x) -> tuple[Tensor, Tensor]:
                own = x.abs().amax(1, keepdim=True).float() / most
                return (x / own).to(fp8), own

            def multiply(
                x8: Tensor, own: Tensor, w8: Tensor = w8, scales: Tensor = scales, dtype: torch.dtype = torch.bfloat16
            ) -> Tensor:
                return torch._scaled_mm(x8, w8.t(), scale_a=own, scale_b=scales.t(), out_dtype=dtype)

            ready = cast()
            ways = (
                lambda x=x, w=w: F.linear(x, w),
                lambda x=x, w8=w8, scales=scales: F.linear(x, w8.to(x.dtype) * scales.to(x.dtype)),
                lambda multiply=multiply, ready=ready: multiply(*ready),
                lambda multiply=multiply, cast=cast: multiply(*cast()),
            )
            row(f"{tokens} x {width} x {out}", *(f"{took(way, bench).ms:.3f}" for way in ways))
    return True
