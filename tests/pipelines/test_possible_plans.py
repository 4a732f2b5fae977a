"""The plans that are worth a thought, and why one that was written cannot be."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.forecast.plans import auto_plan, plans_for, why_not
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Engine, Lora, Model

BOBBIN = describe_model("builtin:bobbin", device="cpu", is_here=False)
LORA = Lora(path="/a", sha256="", adapter="")


def texts(num_devices: int, *, is_guided: bool = True) -> list[str]:
    return [str(plan) for plan in plans_for(BOBBIN, num_devices, is_guided=is_guided)]


def test_guidance_and_ulysses_come_first_and_weights_are_whole_or_shared() -> None:
    assert texts(2)[:4] == ["cfg=2", "cfg=2,weights=2", "ulysses=2", "ulysses=2,weights=2"]
    assert texts(2, is_guided=False)[0] == "ulysses=2"
    four = texts(4)
    assert {"cfg=2,ulysses=2", "cfg=2,ulysses=2,weights=4", "ulysses=2,ring=2", "allgather=4,weights=4"} <= set(four)
    assert {"cfg=2,layers=2", "layers=2,ulysses=2", "layers=4"} <= set(four)
    assert len(four) == len(set(four))


@pytest.mark.parametrize("num_devices", [1, 2, 3, 4, 5, 6, 8, 16])
@pytest.mark.parametrize("is_guided", [True, False])
def test_every_plan_takes_all_devices_and_the_rules_choice_is_among_them(num_devices: int, is_guided: bool) -> None:
    plans = plans_for(BOBBIN, num_devices, is_guided=is_guided)
    assert {plan.num_ranks for plan in plans} == {num_devices}
    assert auto_plan(BOBBIN, num_devices, is_guided=is_guided)[0] in plans


@pytest.mark.parametrize("engine", ["eager", "inductor"])
def test_a_plan_that_the_model_takes_is_no_problem(engine: Engine) -> None:
    model = dataclasses.replace(BOBBIN, engine=engine)
    assert {why_not(plan, model) for plan in plans_for(model, 8, is_guided=True)} == {""}


@pytest.mark.parametrize(
    ("plan", "model", "words"),
    [
        ("ulysses=2,weights=2", dataclasses.replace(BOBBIN, quantization="int8"), "has quantization int8; use weights"),
        ("cfg=2,weights=2", dataclasses.replace(BOBBIN, loras=(LORA,)), "has LoRAs; use weights=1"),
        ("weights=2,ring=2", dataclasses.replace(BOBBIN, source="/a.safetensors@/b"), "has a single-file checkpoint"),
    ],
)
def test_weights_that_cannot_be_shared_say_why(plan: str, model: Model, words: str) -> None:
    assert words in why_not(ParallelPlan.parse(plan), model)
    assert why_not(dataclasses.replace(ParallelPlan.parse(plan), weights=1), model) == ""


def test_text_that_is_not_in_the_joint_sequence_cannot_be_sharded(tiny: Callable[[str], Path]) -> None:
    wan = describe_model(str(tiny("wan")), device="cpu", is_here=False)
    words = "WanTransformer3DModel has no text stream that could be sharded or replicated; leave text out"
    assert words in why_not(ParallelPlan.parse("ulysses=2,text=sharded"), wan)
    assert why_not(ParallelPlan.parse("ulysses=2,text=replicated"), BOBBIN) == ""


def test_a_class_without_a_split_plan_takes_guidance_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    words = "there is no split plan for FluxTransformer2DModel; use one device, or cfg=2 for a model with guidance"
    for plan in ("ring=2", "cfg=2,weights=2"):
        assert words in why_not(ParallelPlan.parse(plan), BOBBIN)
    assert why_not(ParallelPlan(cfg=2), BOBBIN) == ""
