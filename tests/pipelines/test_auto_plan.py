import inspect
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from diffusers import ConfigMixin, models

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.forecast.plans import auto_plan, check_plan
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.facts import heads_of
from latentloom.pipelines.split_plans import SPLIT_PLANS
from latentloom.pipelines.values import Model

COUNTS = range(1, 9)


@pytest.fixture
def with_transformer(tmp_path: Path) -> Callable[..., Model]:
    """`with_transformer(class_name, **config)`: bobbin with another class and other settings of its transformer."""
    bobbin = describe_model("builtin:bobbin", device="cpu")

    def make(class_name: str = "FluxTransformer2DModel", **config: Any) -> Model:
        shutil.copytree(bobbin.folder, tmp_path, dirs_exist_ok=True)
        _change(tmp_path / "model_index.json", transformer=["diffusers", class_name])
        _change(tmp_path / "transformer" / "config.json", **config)
        return Model(source=str(tmp_path), folder=str(tmp_path), family="flux")

    return make


@pytest.mark.parametrize("num_devices", COUNTS)
@pytest.mark.parametrize("is_guided", [True, False])
@pytest.mark.parametrize("family", ["bobbin", "flux", "sd3", "qwen_image", "wan", "wan22_i2v"])
def test_auto_uses_every_device_of_every_family(
    family: str, num_devices: int, is_guided: bool, tiny: Callable[[str], Path]
) -> None:
    model = describe_model("builtin:bobbin" if family == "bobbin" else str(tiny(family)), device="cpu")
    plan, why = auto_plan(model, num_devices, is_guided=is_guided)
    assert ParallelPlan.parse(str(plan)) == plan
    assert plan.num_ranks == num_devices
    assert plan.cfg == (2 if is_guided and num_devices % 2 == 0 else 1)
    assert num_devices == 1 or str(plan) in why


@pytest.mark.parametrize(
    ("heads", "num_devices", "is_guided", "expected"),
    [
        (24, 8, False, "ulysses=8"),
        (24, 8, True, "cfg=2,ulysses=4"),
        (24, 3, True, "ulysses=3"),
        (24, 5, False, "allgather=5"),
        (6, 8, False, "ulysses=2,allgather=4"),
        (7, 4, True, "cfg=2,allgather=2"),
        (30, 8, True, "cfg=2,ulysses=2,allgather=2"),
    ],
)
def test_guidance_comes_first_then_ulysses_then_allgather(
    heads: int, num_devices: int, is_guided: bool, expected: str, with_transformer: Callable[..., Model]
) -> None:
    plan, why = auto_plan(with_transformer(num_attention_heads=heads), num_devices, is_guided=is_guided)
    assert str(plan) == expected
    assert ("guidance" in why) == is_guided
    assert (f"{heads} heads" in why) == (plan.ulysses > 1 or plan.allgather > 1)


@pytest.mark.parametrize(
    ("class_name", "reason"),
    [
        ("RFD4ProteinaTransformer", "RFD4ProteinaTransformer cannot be split, because it designs proteins"),
        ("NewTransformer3DModel", "there is no split plan for NewTransformer3DModel"),
    ],
)
def test_a_class_that_cannot_be_split_is_named_and_only_its_guidance_is(
    class_name: str, reason: str, with_transformer: Callable[..., Model]
) -> None:
    model = with_transformer(class_name)
    for is_guided, expected in ((True, ParallelPlan(cfg=2)), (False, ParallelPlan())):
        for num_devices in COUNTS[1:]:
            plan, why = auto_plan(model, num_devices, is_guided=is_guided)
            assert plan == expected
            assert reason in why and f"of {num_devices} devices" in why


def test_a_config_that_its_class_refuses_runs_whole(with_transformer: Callable[..., Model]) -> None:
    model = with_transformer("Transformer2DModel", attention_type="gated")
    plan, why = auto_plan(model, 4, is_guided=False)
    assert plan == ParallelPlan()
    assert "grounded attention mixes tokens of boxes in" in why


def test_a_key_that_an_old_config_lacks_refuses_nothing(with_transformer: Callable[..., Model]) -> None:
    plan, _ = auto_plan(with_transformer("Transformer2DModel", num_attention_heads=16), 4, is_guided=False)
    assert plan == ParallelPlan(ulysses=4)


@pytest.mark.parametrize("name", sorted(SPLIT_PLANS))
def test_the_heads_of_every_class_are_found_in_its_config(name: str) -> None:
    config = json.loads(json.dumps(_defaults(name)))
    assert heads_of(config) > 1
    for reason, is_refused in SPLIT_PLANS[name].refused:
        assert not is_refused(type("Config", (), config)), reason


def test_heads_that_differ_are_split_by_what_divides_all() -> None:
    assert heads_of({"num_attention_heads": 32, "audio_num_attention_heads": 24}) == 8
    assert heads_of({}) == heads_of({"num_attention_heads": None, "num_heads": "4"}) == 1


def test_a_plan_for_another_number_of_devices_is_refused() -> None:
    check_plan(ParallelPlan.parse("cfg=2,ulysses=2"), 4)
    with pytest.raises(ValueError, match=r"cfg=2,ulysses=4 uses 8 ranks, but 4 devices were given; use plan auto"):
        check_plan(ParallelPlan.parse("cfg=2,ulysses=4"), 4)
    with pytest.raises(ValueError, match=r"2 ranks, but 1 device was given; .* or give 2 devices"):
        check_plan(ParallelPlan(ring=2), 1)
    with pytest.raises(ValueError, match="plan auto: 0 devices were given"):
        auto_plan(describe_model("builtin:bobbin", device="cpu"), 0, is_guided=False)


def _defaults(name: str) -> dict[str, Any]:
    """What the class writes into its config where nothing is set."""
    kind: type[ConfigMixin] = getattr(models.transformers, name, None) or getattr(models, name)
    return {key: value.default for key, value in inspect.signature(kind.__init__).parameters.items() if key != "self"}


def _change(path: Path, **entries: Any) -> None:
    path.chmod(0o644)
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
