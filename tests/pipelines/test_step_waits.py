"""In no step after the first the host waits for the device: told by a GPU that is none.

All families, solvers and pictures: `tests/bench/step_syncs.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers import FluxTransformer2DModel
from torch import Tensor

from latentloom.pipelines import stages
from latentloom.pipelines.values import to_plain
from support.fake_gpu import GPU, OnGpu, fake_gpu
from support.step_waits import denoised, later

Request = Callable[..., dict[str, Any]]


@pytest.fixture
def request_of(model: Any, canvas: Any) -> Request:
    """Three guided steps of a tiny model, as its stage takes them."""

    def made(family: str, **options: Any) -> dict[str, Any]:
        text = {"model": model(family), "prompt": "a red circle", "negative_prompt": "blue", "text_length": 64}
        return {
            "model": model(family),
            "conditioning": to_plain(stages.encode_text(text)),
            "latents": canvas(family, **({"frames": 5} if family == "wan" else {})),
            "seed": 5,
            "steps": 3,
            "guidance": 4.0,
            **options,
        }

    return made


@pytest.mark.parametrize("family", ["flux", "qwen_image", "sd3", "wan"])
def test_no_later_step_waits_for_the_device_and_it_makes_what_a_cpu_makes(family: str, request_of: Request) -> None:
    request = request_of(family)
    waits, made = denoised(request)
    assert len(waits) == 3 and later(waits) == {}
    assert sum(waits[0].values()), "the conditioning has to get there once"
    wanted = stages.denoise(request).tensor
    assert made.tensor is not None and wanted is not None and torch.equal(made.tensor, wanted)


@pytest.mark.parametrize(
    ("family", "plan"),
    [
        *(("wan", "ulysses=2"), ("flux", "ring=2"), ("flux", "cfg=2")),
        *(pytest.param(*cell, marks=pytest.mark.by_hand) for cell in (("flux", "ulysses=2"), ("wan", "ring=2"))),
        pytest.param("wan", "cfg=2", marks=pytest.mark.by_hand),
    ],
)
def test_no_later_step_of_a_plan_waits_for_the_device(family: str, plan: str, request_of: Request) -> None:
    waits, _ = denoised(request_of(family), plan)
    assert len(waits) == 3 and later(waits) == {}


@pytest.mark.parametrize("solver", ["heun", "unipc"])
def test_no_solver_waits_for_the_device_and_its_numbers_stay_the_same(solver: str, request_of: Request) -> None:
    request = request_of("flux", guidance=1.0, sampling={"scheduler": solver})
    waits, made = denoised(request)
    assert later(waits) == {}
    wanted = stages.denoise(request).tensor
    assert made.tensor is not None and wanted is not None and torch.equal(made.tensor, wanted)


def test_a_wait_that_is_put_into_a_step_is_counted(request_of: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    own = FluxTransformer2DModel.forward

    def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        assert hidden_states.sum().item() == hidden_states.sum().item()
        return own(self, hidden_states, *args, **kwargs)

    monkeypatch.setattr(FluxTransformer2DModel, "forward", forward)
    ((what, place),) = (waits := later(denoised(request_of("flux"))[0]))
    assert what == "item" and place.startswith("pipelines/families/flux_denoiser.py:")
    assert waits[what, place] == 2 * 2 * 2, "of two steps, in both branches"


WAITING: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: float(x[0]),
    "copy to the host": lambda x: x.cpu(),
    "copy from the host": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "nonzero": lambda x: x.nonzero(),
    "masked_select": lambda x: torch.masked_select(x, x > 0),
    "index by a mask": lambda x: x[x > 0],
    "index by a list of the host": lambda x: x[[0, 1]],
    "index by a tensor of the host": lambda x: x[torch.tensor([0, 1])],
    "_unique2": lambda x: x.unique(),
    "equal": lambda x: torch.equal(x, x),
    "repeat_interleave": lambda x: x.repeat_interleave(torch.ones_like(x, dtype=torch.int64)),
    "_linalg_check_errors": lambda x: torch.linalg.solve(x.diag(), x),
    "synchronize": lambda x: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("what", WAITING)
def test_what_makes_the_host_wait_is_seen(what: str) -> None:
    with fake_gpu() as gpu:
        x = OnGpu(torch.arange(1.0, 4))
        WAITING[what](x)
        assert [seen for seen, _ in gpu.waits] == [what]


def test_what_leaves_the_host_alone_is_not() -> None:
    with fake_gpu() as gpu:
        x = torch.arange(3.0, device=GPU)
        y = torch.where(x > 1, x * torch.tensor(2.0), 0.0).masked_fill(x > 1, 0.0)[:2].repeat_interleave(2)
        y += torch.ones(4).to(GPU, non_blocking=True)
        assert y.device == GPU and y.shape == (4,) and not gpu.waits
