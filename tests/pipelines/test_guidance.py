"""True guidance: how often the transformer is asked, and what is made of its answers."""

import math
from typing import Any

import pytest
import torch

from latentloom.pipelines.denoising.guidance import check, guider, is_guided
from latentloom.pipelines.values import Model, Sampling, from_plain, to_plain


def num_calls(model: Any, canvas: Any, paint: Any, **request: Any) -> int:
    from latentloom.pipelines.components.store import store

    transformer, calls = store().load(from_plain(Model, model), ["transformer"])["transformer"], []
    hook = transformer.register_forward_pre_hook(lambda *_: calls.append(1))
    paint(model, canvas, **request)
    hook.remove()
    return len(calls)


@pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image", "wan"])
@pytest.mark.parametrize(
    "guidance, sampling, expected",
    [
        (1.0, Sampling(), 4),
        (0.5, Sampling(), 4),
        (3.0, Sampling(), 8),
        (3.0, Sampling(guidance_stop=0.5), 6),
        (3.0, Sampling(guidance_start=0.25), 7),
        (3.0, Sampling(guidance_start=0.5, guidance_stop=0.5), 4),
        (3.0, Sampling(scheduler="heun"), 14),
        (3.0, Sampling(scheduler="heun", guidance_stop=0.5), 11),
        (3.0, Sampling(sigmas=(1.0, 0.5)), 4),
    ],
)
def test_the_transformer_is_asked_once_a_branch_and_turn(
    family: str, guidance: float, sampling: Sampling, expected: int, model: Any, canvas: Any, paint: Any
) -> None:
    request = {"guidance": guidance, "sampling": to_plain(sampling), "steps": 4}
    blank = canvas(family, frames=5 if family == "wan" else 1)
    assert num_calls(model(family), blank, paint, **request) == expected


def test_the_formula_is_that_of_the_stock_pipelines() -> None:
    guide = guider(3.0, Sampling())
    guide.set_state(0, 4, None)
    with_prompt, against = torch.randn(2, 5), torch.randn(2, 5)
    assert torch.equal(guide.forward(with_prompt, against).pred, against + 3.0 * (with_prompt - against))


def test_rescaling_takes_back_contrast() -> None:
    guide = guider(9.0, Sampling(guidance_rescale=1.0))
    guide.set_state(0, 4, None)
    with_prompt, against = torch.randn(1, 100), torch.randn(1, 100)
    assert guide.forward(with_prompt, against).pred.std() == pytest.approx(with_prompt.std().item(), rel=1e-4)


def test_guidance_of_one_or_less_is_off() -> None:
    assert [is_guided(g) for g in (0.0, 1.0, 1.01, 7.0)] == [False, False, True, True]
    assert guider(1.0, Sampling()).num_conditions == 1


@pytest.mark.parametrize(
    "sampling, sentence",
    [
        (Sampling(guidance_start=0.8, guidance_stop=0.2), "guidance from 0.8 to 0.2"),
        (Sampling(guidance_start=1.0), "start below 1"),
        (Sampling(guidance_stop=1.5), "fractions of the steps"),
        (Sampling(guidance_start=math.nan), "guidance from nan"),
        (Sampling(guidance_rescale=2.0), "guidance rescale 2"),
        (Sampling(guidance_rescale=math.nan), "guidance rescale nan"),
    ],
)
def test_bad_fractions_are_refused(sampling: Sampling, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check(sampling)
