"""Which split plan a class gets: by its module and name, or by the name alone where that tells which is meant."""

from typing import Any

import pytest
from diffusers import FluxTransformer2DModel
from torch import nn

from latentloom import split_plan
from latentloom.pipelines import doors
from latentloom.pipelines.split_plans import SPLIT_PLANS, plan_named, plan_of_class
from latentloom.pipelines.spreading.transformer import split_plan_of

MINE, THEIRS = (split_plan.SplitPlan(blocks=(each,), inputs={}, outputs={}) for each in ("mine", "theirs"))


def class_of(module: str, name: str, *bases: type) -> Any:
    return type(name, bases or (nn.Module,), {"__module__": module})


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, plan in (("mine.models.Flux", MINE), ("theirs.Flux", THEIRS), ("theirs.Alone", THEIRS), ("Plain", MINE)):
        monkeypatch.setitem(SPLIT_PLANS, key, plan)


@pytest.mark.usefixtures("added")
def test_a_class_is_known_by_its_module_and_name() -> None:
    assert plan_of_class(class_of("mine.models", "Flux")) is MINE
    assert split_plan_of(class_of("theirs", "Flux")()) is THEIRS
    assert plan_of_class(class_of("torch.fsdp", "FSDPFlux", class_of("theirs", "Flux"))) is THEIRS
    assert plan_of_class(class_of("anywhere", "Plain")) is plan_named("Plain") is MINE
    with pytest.raises(ValueError, match=r"no split plan for Flux of other, but for mine.models.Flux and theirs.Flux;"):
        plan_of_class(class_of("other", "Flux"))


@pytest.mark.usefixtures("added")
def test_a_name_alone_will_do_where_one_module_has_it() -> None:
    assert plan_named("Alone") is THEIRS
    with pytest.raises(ValueError, match=r"no split plan for Flux; it may be mine.models.Flux or theirs.Flux; run it"):
        plan_named("Flux")


def test_a_class_of_the_name_of_one_of_diffusers_is_not_split_by_our_plan() -> None:
    ours = SPLIT_PLANS["FluxTransformer2DModel"]
    assert plan_of_class(FluxTransformer2DModel) is ours
    assert plan_of_class(class_of("mine", "FluxTransformer2DModel", FluxTransformer2DModel)) is ours
    with pytest.raises(ValueError, match=r"is for the class of diffusers, and this one is of comfy.ldm.flux; run it"):
        plan_of_class(class_of("comfy.ldm.flux", "FluxTransformer2DModel"))


def test_the_door_takes_a_class_of_ours_by_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "comfy.ldm.qwen_image.model.QwenImageTransformer2DModel"
    monkeypatch.setitem(SPLIT_PLANS, key, MINE)  # taken out again afterwards
    SPLIT_PLANS.pop(key)
    door = doors.Door(title="t", package="p", source="p", version="1", load=lambda: {key: THEIRS})
    assert doors.enter(door, doors.ADDED_BY["split_plans"])
    assert plan_of_class(class_of("comfy.ldm.qwen_image.model", "QwenImageTransformer2DModel")) is THEIRS
    assert plan_named("QwenImageTransformer2DModel") is not THEIRS
    assert not doors.enter(door, doors.ADDED_BY["split_plans"])  # it is taken by now
