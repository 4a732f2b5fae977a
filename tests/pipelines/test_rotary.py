"""Positions turned in one launch: the bits of the plain formula, or the plain formula."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from diffusers.models.embeddings import apply_rotary_emb
from torch import Tensor

from bodies.modulation import built
from latentloom.parallel.sharding.captured import Captured
from latentloom.pipelines.fusing import rotary
from latentloom.pipelines.fusing.rotary import OneLaunch, fuse_rotary, turned
from support.cells import outputs
from support.tapes import Tapes

KERNEL = "latentloom.pipelines.fusing.rotary_kernel"


class StandIn:
    """Does what the kernel does, by torch, and counts its launches; adds `off`."""

    def __init__(self, off: float = 0.0) -> None:
        self.off, self.num_launches = off, 0

    def __getitem__(self, grid: tuple[int, int]) -> Callable[..., None]:
        def launch(*given: Any, BLOCK: int, enable_fp_fusion: bool) -> None:
            q_text, q_image, k_text, k_image, cos, sin, q_out, k_out, num_text, num_tokens, width, _ = given
            assert grid == (len(q_image) * num_tokens, 2) and width <= BLOCK and not enable_fp_fusion
            self.num_launches += 1
            for text, image, out in ((q_text, q_image, q_out), (k_text, k_image, k_out)):
                whole = torch.cat([text, image], 1) if num_text else image
                out.copy_(apply_rotary_emb(whole, (cos, sin), sequence_dim=1) + self.off)

        return launch


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotary, "_faults", {})
    monkeypatch.setattr(rotary, "find_spec", lambda name: name)


@pytest.fixture
def standing_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StandIn]:
    def put(off: float = 0.0) -> StandIn:
        module: Any = ModuleType(KERNEL)
        module.turn = StandIn(off)
        monkeypatch.setitem(sys.modules, KERNEL, module)
        return module.turn

    return put


def parts(*lengths: int, dtype: torch.dtype = torch.float32, heads: int = 3) -> tuple[list[Tensor], list[Tensor], Any]:
    """q, k in parts of these lengths, for a batch of two, and angles."""
    draw = torch.Generator().manual_seed(1)
    q, k = ([torch.randn(2, n, heads, 8, generator=draw).to(dtype) for n in lengths] for _ in range(2))
    angles = torch.randn(sum(lengths), 4, generator=draw).repeat_interleave(2, 1)
    return q, k, (angles.cos(), angles.sin())


def test_flux_has_its_bits_by_fewer_launches(standing_in: Callable[..., StandIn]) -> None:
    model, inputs = built("flux")
    wanted = outputs(model, inputs)
    kernel, undo = standing_in(), fuse_rotary(model)
    assert all(map(torch.equal, outputs(model, inputs), wanted))
    assert kernel.num_launches == 2 + 2, "once for each kind of block to compare, then for the other block of the kind"
    assert all(map(torch.equal, outputs(model, inputs), wanted))
    assert kernel.num_launches == 4 + 4
    undo()
    assert OneLaunch not in {type(each) for each in model.attn_processors.values()}


def test_a_captured_step_has_the_kernel(standing_in: Callable[..., StandIn]) -> None:
    model, inputs = built("flux")
    wanted = outputs(model, inputs)
    kernel, undo, tapes = standing_in(), fuse_rotary(model), Tapes()
    replayed = Captured(model, recorder=tapes)
    for _ in range(4):
        assert all(map(torch.equal, outputs(model, inputs), wanted))
    replayed.restore()
    undo()
    assert tapes.made and kernel.num_launches > 4


@pytest.mark.parametrize("off", [1e-6, float("nan")])
def test_a_kernel_whose_bits_differ_is_told_and_left(
    off: float, standing_in: Callable[..., StandIn], caplog: pytest.LogCaptureFixture
) -> None:
    kernel = standing_in(off)
    q, k, angles = parts(2, 5)
    for _ in range(3):
        for x, y in zip(turned(q, k, *angles), rotary._plain(q, k, *angles), strict=True):
            assert torch.equal(x, y)
    assert kernel.num_launches == 1
    assert caplog.text.count("the kernel's bits differ") == 1


def test_a_kernel_that_fails_is_told_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, KERNEL, None)
    q, k, angles = parts(5)
    for _ in range(2):
        assert torch.equal(turned(q, k, *angles)[0], rotary._plain(q, k, *angles)[0])
    assert caplog.text.count("positions are turned by the plain formula for (2, 5, 3, 8)") == 1


def test_numbers_that_lie_otherwise_are_left_to_the_plain_formula(standing_in: Callable[..., StandIn]) -> None:
    kernel = standing_in()
    q, k, (cos, sin) = parts(5)
    strided = q[0].transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(turned([strided], k, cos, sin)[0], rotary._plain(q, k, cos, sin)[0])
    turned(q, k, cos.double(), sin.double())
    assert kernel.num_launches == 0


def test_only_flux_s_own_processors_are_replaced(standing_in: Callable[..., StandIn]) -> None:
    standing_in()
    model, inputs = built("flux_adapter")
    kinds = [type(each) for each in model.attn_processors.values()]
    wanted, undo = outputs(model, inputs), fuse_rotary(model)
    now = [type(each) for each in model.attn_processors.values()]
    assert {a.__name__ for a, b in zip(kinds, now, strict=True) if a is b} == {"FluxIPAdapterAttnProcessor"}
    assert all(map(torch.equal, outputs(model, inputs), wanted))
    model.fuse_qkv_projections()
    assert all(torch.allclose(x, y, atol=1e-5) for x, y in zip(outputs(model, inputs), wanted, strict=True))
    undo()
    assert [type(each) for each in model.attn_processors.values()] == kinds


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.undo()
    pytest.importorskip("triton", reason="Triton is not in constraints.txt: 285 MB for what its interpreter runs here")
    monkeypatch.setattr(rotary, "_faults", {})
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.delitem(sys.modules, KERNEL, raising=False)
    yield
    sys.modules.pop(KERNEL, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("lengths", "heads"), [((3, 6), 3), ((9,), 4), ((1, 1), 1)])
def test_the_kernel_has_the_bits_of_the_plain_formula(
    interpreted: None, lengths: tuple[int, ...], heads: int, dtype: torch.dtype
) -> None:
    q, k, angles = parts(*lengths, dtype=dtype, heads=heads)
    wanted = rotary._plain(q, k, *angles)
    assert all(map(torch.equal, turned(q, k, *angles), wanted))
    assert list(rotary._faults.values()) == [""]
    assert all(map(torch.equal, turned(q, k, *angles), wanted))


def test_the_kernel_is_right_in_bf16(interpreted: None) -> None:
    """The interpreter, unlike a GPU, does not round bf16 to the nearest: hence no bits here."""
    q, k, angles = parts(3, 6, dtype=torch.bfloat16)
    for x, y in zip(rotary._by_kernel(q, k, *angles), rotary._plain(q, k, *angles), strict=True):
        torch.testing.assert_close(x, y, rtol=2**-7, atol=1e-6)
