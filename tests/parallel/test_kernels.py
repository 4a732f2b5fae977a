"""The attention kernels: what each is given, which one an architecture gets, and that one that fails is left out."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from latentloom.parallel.attention import choice, kernels
from latentloom.parallel.attention.kernels import KERNELS
from latentloom.parallel.attention.local import attend_plain, attend_with_lse
from latentloom.parallel.attention.strategy import Kernel

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
BF16, FP32 = torch.bfloat16, torch.float32
ALL = frozenset(KERNELS)
FLASH, CUDNN = "_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention"
EFFICIENT = "_scaled_dot_product_efficient_attention"


pytestmark = pytest.mark.usefixtures("untried")


class Seen(TorchDispatchMode):
    """The attention operators that were called, and that each was given what it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        if name in (FLASH, CUDNN, EFFICIENT):
            self.names.append(name)
            assert all(x.stride(-1) == 1 and x.is_cuda for x in args[:3])
            bias = args[3] if name in (CUDNN, EFFICIENT) else None
            if bias is not None:
                assert bias.shape == (*args[0].shape[:3], args[1].shape[2])
                assert all(stride * bias.element_size() % 16 == 0 for stride in bias.stride()[:3])
        return func(*args, **(kwargs or {}))


def library(name: str, function: str, attend: Callable[..., Any]) -> ModuleType:
    module = ModuleType(name)
    setattr(module, function, attend)
    return module


def flash_attn(q: Tensor, k: Tensor, v: Tensor, *, softmax_scale: float | None, return_attn_probs: bool = False) -> Any:
    """As the package takes them: B S H D, fewer key heads allowed; lse is B H S."""
    assert q.shape[2] % k.shape[2] == 0 and k.shape == v.shape and q.stride(-1) == k.stride(-1) == 1
    lse = q.new_empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)
    return (torch.empty_like(q), lse, None) if return_attn_probs else torch.empty_like(q)


def sage(
    q: Tensor, k: Tensor, v: Tensor, *, tensor_layout: str, sm_scale: float | None, return_lse: bool = False
) -> Any:
    assert tensor_layout == "HND" and k.shape == v.shape
    return (torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)) if return_lse else torch.empty_like(q)


LSE_BY = {"sdpa": FLASH, "flash3": FLASH, "flash4": FLASH, "cudnn": CUDNN, "efficient": EFFICIENT}


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "cpu_flash"])
def test_a_kernel_is_given_what_it_takes_and_its_answers_are_read_right(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flash_attn", library("flash_attn", "flash_attn_func", flash_attn))
    monkeypatch.setitem(sys.modules, "sageattention", library("sageattention", "sageattn", sage))
    monkeypatch.setattr(kernels, "_fits_cudnn", lambda q, k, v: True)
    with FakeTensorMode():
        q = torch.empty(2, 101, 4, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        k, v = torch.empty(2, 2, 77, 2, 64, device="cuda", dtype=torch.bfloat16).transpose(2, 3)
        padded = torch.empty(2, 1, 1, 77, device="cuda", dtype=torch.bool)
        for mask in (None, padded, padded.expand(2, 1, 101, 77).to(torch.bfloat16)):
            assert attend_plain(q, k, v, mask=mask, scale=None, kernel=KERNELS[name]).shape == q.shape
            with Seen() as seen:
                out, lse = attend_with_lse(q, k, v, mask=mask, scale=0.1, kernel=KERNELS[name])
            format_of = torch.float32 if name == "math" else q.dtype  # its own
            assert (out.shape, out.dtype, lse.shape, lse.dtype) == (q.shape, format_of, q.shape[:3], torch.float32)
            if name != "math":
                wanted = LSE_BY.get(name) if mask is None else EFFICIENT
                assert seen.names == ([wanted] if wanted else [])


def test_what_flash_kernels_do_not_take_goes_to_the_memory_efficient_one() -> None:
    with FakeTensorMode():
        for width, dtype in ((512, torch.bfloat16), (100, torch.bfloat16), (64, torch.float32)):
            q = torch.empty(1, 2, 8, width, device="cuda", dtype=dtype)
            with Seen() as seen:
                attend_with_lse(q, q, q, mask=None, scale=None, kernel=KERNELS["sdpa"])
            assert seen.names == [EFFICIENT]


class OnCuda(TorchDispatchMode):
    """CUDA's attention operators by the formula, on the CPU, for what CUDA's own take: any other is an error."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition("::")[2].partition(".")[0]
        if name not in (FLASH, CUDNN, EFFICIENT):
            return func(*args, **(kwargs or {}))
        q, k, v = args[:3]
        mask = args[3] if name == EFFICIENT else None
        share = q.shape[1] // k.shape[1]
        assert (share == 1 or name == CUDNN) and v.shape[:3] == k.shape[:3]
        for x in (q, k, v, mask):
            assert x is None or _are_rows_aligned(x), f"{name}: rows of {x.shape}, {x.stride()} begin anywhere"
        assert name == EFFICIENT or (q.dtype in kernels.HALF and q.shape[3] == v.shape[3] <= kernels.WIDEST)
        k, v = (x.repeat_interleave(share, 1) for x in (k, v))
        out, lse = kernels._math_lse(q, k, v, mask, (kwargs or {}).get("scale"))
        lse = lse.unsqueeze(3) if name == CUDNN else torch.nn.functional.pad(lse, (0, -lse.shape[2] % 32))
        rest = [0 if "Tensor" not in str(each.type) else q.new_empty(0) for each in func._schema.returns[2:]]
        return out.to(q.dtype), lse, *rest


def _are_rows_aligned(x: Tensor) -> bool:
    """As CUDA's kernels read them, 16 bytes at a time; a stride of 0 repeats a row."""
    starts = [x.storage_offset(), *(stride for size, stride in zip(x.shape, x.stride()[:3], strict=False) if size > 1)]
    return x.stride(3) == 1 and all(start * x.element_size() % 16 == 0 for start in starts)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("name", ["sdpa", "cudnn", "efficient"])
def test_cudas_kernels_are_given_rows_as_they_take_them_for_all_widths(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_fits_cudnn", lambda q, k, v: q.dtype in kernels.HALF and q.shape[3] % 8 == 0)
    with OnCuda():
        for width in (16, 20, 40, 50, 72, 100, 101, 128, 256):
            for sizes in ((1, 1, 6), (77, 133, 6), (30, 59, 2)):
                equals_plain_attention(KERNELS[name], CPU, dtype, width, *sizes)


GPU = pytest.param(CUDA, marks=pytest.mark.gpu)
ERROR = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.mark.parametrize("device", [CPU, GPU])
def test_every_kernel_that_is_here_equals_plain_attention_for_all_widths_lengths_and_masks(
    device: torch.device,
) -> None:
    names = ("cpu_flash", "math") if device.type == "cpu" else sorted(ALL - {"cpu_flash", "sage"})
    for dtype in (FP32,) if device.type == "cpu" else ERROR:
        for name in (name for name in names if not choice.fault(name, device, dtype)):
            for width in (16, 40, 72, 100, 128, 192, 256):
                for sizes in ((1, 1, 6), (77, 333, 6), (130, 259, 2)):
                    equals_plain_attention(KERNELS[name], device, dtype, width, *sizes)


def equals_plain_attention(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, width: int, queries: int, keys: int, num_heads: int
) -> None:
    q = torch.randn(2, queries, 6, width).to(device, dtype).transpose(1, 2)
    packed = torch.randn(keys, 2, 2 * num_heads, width).to(device, dtype)  # S B 2K D, as it travels
    k, v = packed.permute(1, 2, 0, 3).split([num_heads, num_heads], 1)
    for mask in (None, torch.arange(keys, device=device).remainder(3).ne(1).view(1, 1, 1, keys)):
        wanted, lse = choice._attention_by_scores(q, k, v, mask)
        out = attend_plain(q, k, v, mask=mask, scale=None, kernel=kernel)
        choice._compare("answers", out, wanted, ERROR[dtype])
        out, own = attend_with_lse(q, k, v, mask=mask, scale=None, kernel=kernel)
        choice._compare("answers", out, wanted, ERROR[dtype])
        choice._compare("log-sum-exp", own, lse, ERROR[dtype])


@pytest.mark.parametrize(
    ("capability", "dtype", "works", "expected"),
    [
        ((9, 0), BF16, ALL, "flash3"),
        ((9, 0), BF16, ALL - {"flash3"}, "cudnn"),
        ((9, 0), BF16, ALL - {"flash3", "cudnn"}, "flash_attn"),
        ((9, 0), FP32, ALL, "sdpa"),
        ((10, 0), BF16, ALL, "cudnn"),
        ((12, 0), BF16, ALL, "cudnn"),
        ((12, 0), BF16, {"sdpa"}, "sdpa"),
        ((8, 0), BF16, ALL, "flash_attn"),
        ((8, 9), BF16, ALL - {"flash_attn"}, "sdpa"),
        ((8, 6), BF16, {"efficient"}, "efficient"),
        ((7, 5), torch.float16, ALL, "efficient"),
        ((7, 5), BF16, frozenset(), "math"),
        ((13, 0), BF16, ALL, "sdpa"),
    ],
)
def test_an_architecture_gets_the_fastest_kernel_that_works(
    capability: tuple[int, int],
    dtype: torch.dtype,
    works: frozenset[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(choice, "fault", lambda name, device, dtype: "" if name in works else "it does not work")
    found = choice.chosen(CUDA, dtype)
    assert found.kernel.name == expected and choice.choose(CUDA, dtype) is found.kernel
    assert set(found.left_out.values()) <= {"it does not work"} and not set(found.left_out) & set(works)


def test_a_broken_flash_attn_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn/__init__.py").write_text(
        "raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(choice, "candidates", lambda device, dtype: ("flash4", "flash_attn", "math"))
    found = choice.chosen(CPU, BF16)
    assert found.kernel.name == "math" and "undefined symbol" in found.left_out["flash4"]
    assert found.left_out["flash_attn"] == "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3"
    assert "bfloat16: math (left out: flash4" in caplog.text
    with pytest.raises(ValueError, match=r"flash_attn does not work on cuda:0: .*; mend it, or choose auto"):
        choice.choose(CUDA, BF16, "flash_attn")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda out, lse: (out, lse * 1.4427), "its log-sum-exp differ from plain attention by"),
        (lambda out, lse: (out * torch.nan, lse), "its answers with log-sum-exp differ from plain attention by nan"),
        (lambda out, lse: (out, lse[..., None]), "its log-sum-exp have shape"),
    ],
)
def test_a_kernel_that_answers_wrong_is_left_out(
    wrong: Callable[[Tensor, Tensor], Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = KERNELS["math"]
    broken = replace(right, name="broken", with_lse=lambda *given: wrong(*right.with_lse(*given)))
    monkeypatch.setitem(KERNELS, "broken", broken)
    assert choice.fault("math", CPU, BF16) == choice.fault("cpu_flash", CPU, FP32) == ""
    assert choice.fault("broken", CPU, FP32).startswith(reason)
    assert choice.fault("cudnn", CPU, BF16) == "torch does not let it attend here"  # another kernel would answer for it


def test_a_kernel_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = choice.choose(CPU, FP32)
    monkeypatch.setattr(choice, "chosen", None)
    assert choice.choose(CPU, FP32) is kernel is KERNELS["cpu_flash"]


def test_what_stands_in_for_torchs_flash_kernel_stays_only_if_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle:
        def remove(self) -> None:
            pass

    nn.attention.register_flash_attention_impl("OURS", register_fn=Handle)
    ours = replace(KERNELS["math"], name="ours", stand_in="OURS")
    monkeypatch.setitem(KERNELS, "ours", ours)
    monkeypatch.setitem(KERNELS, "flash3", replace(ours, stand_in="FA3"))
    monkeypatch.setitem(KERNELS, "broken", replace(ours, with_lse=lambda *given: ours.plain(*given)))
    try:
        assert choice.fault("broken", CPU, FP32) and nn.attention.current_flash_attention_impl() is None
        assert "flash_attn_interface" in choice.fault("flash3", CPU, FP32)  # torch looks for what is not installed
        assert choice.fault("ours", CPU, FP32) == "" and nn.attention.current_flash_attention_impl() == "OURS"
        assert choice.fault("flash3", CPU, FP32) != ""
        choice.fault.cache_clear()
        assert "OURS stands in" in choice.fault("flash3", CPU, FP32)
    finally:
        nn.attention.restore_flash_attention_impl(_raise_warn=False)


@pytest.mark.parametrize("is_sound", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_a_rank_believes_another_that_torch_may_choose_cudnn_too(
    is_sound: bool, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none told it, it compares its masked answers."""
    before, dead = torch._C._get_sdp_priority_order(), torch.tensor([0.0, torch.nan])
    answers = [dead, dead if is_sound else torch.zeros(2)]
    monkeypatch.setattr(choice, "choose", lambda device, dtype: KERNELS["cudnn"])
    monkeypatch.setattr(choice, "_masked_answers", lambda device: answers.pop())
    try:
        assert choice.prefer(CUDA, is_sound=is_sound if told else None) == is_sound
        first = torch._C._get_sdp_priority_order()[0]
        assert (first == int(nn.attention.SDPBackend.CUDNN_ATTENTION)) == is_sound
        assert len(answers) == 2 * told
    finally:
        choice._order.close()
    assert torch._C._get_sdp_priority_order() == before
