"""The models page's content: found models, what they can be split by, where they fit, and what is loaded."""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.machine.now import DeviceNow
from latentloom.pipelines.components.memory import Held
from latentloom.ui.contract.shown import LoadedPart, ModelsView
from latentloom.ui.settings import Settings
from latentloom.ui.views import installed as models_module
from latentloom.ui.views.installed import models_view
from latentloom.ui.views.newest import Latest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A CPU, no hub cache, nothing loaded, nothing remembered."""
    cpu = DeviceNow(name="cpu", title="a CPU", total_bytes=64 << 30, used_bytes=1 << 30, load=0.1)
    monkeypatch.setattr(models_module, "devices_now", lambda: [cpu])
    monkeypatch.setattr(models_module, "_TABLE", Latest())
    monkeypatch.setattr("latentloom.pipelines.models.installed.hub_cache", lambda: tmp_path / "no_hub")
    yield


@pytest.fixture
def folder(tmp_path: Path, tiny: Callable[[str], Path]) -> Path:
    """A folder of models with a tiny Wan in it."""
    shutil.copytree(tiny("wan"), tmp_path / "models" / "wan")
    return tmp_path / "models"


def settings(tmp_path: Path, *folders: Path) -> Settings:
    return Settings(output_dir=tmp_path / "out", data_dir=tmp_path / "data", models_dirs=folders)


def by_name(view: ModelsView) -> dict[str, Any]:
    return {Path(model.name).name: model for model in view.models}


def test_every_model_tells_what_it_is_and_where_it_fits(folder: Path, tmp_path: Path) -> None:
    view = models_view(settings(tmp_path, folder))
    models = by_name(view)
    assert set(models) == {"builtin:bobbin", "wan"}
    wan = models["wan"]
    assert (wan.family, wan.problem, wan.split_problem) == ("wan", "", "")
    assert wan.num_bytes > 0 and wan.location == str(folder / "wan")
    assert wan.strategies == ("cfg", "layers", "ulysses", "ring", "allgather", "weights")
    assert "text" in models["builtin:bobbin"].strategies
    assert {plan.num_ranks for plan in wan.plans} >= {1, 2}
    assert all(plan.fits and plan.bytes_per_device > 0 for plan in wan.plans)
    assert view.devices[0].name == "cpu" and view.loaded == []


def test_every_model_tells_its_parts_and_how_much_they_read(folder: Path, tmp_path: Path) -> None:
    models = by_name(models_view(settings(tmp_path, folder)))
    bobbin = {part.name: part for part in models["builtin:bobbin"].parts}
    assert list(bobbin) == ["transformer", "text_encoder", "text_encoder_2", "vae"]
    assert bobbin["transformer"].class_name == "FluxTransformer2DModel"
    assert bobbin["transformer"].tokens is None and bobbin["vae"].tokens is None
    assert (bobbin["text_encoder"].tokens, bobbin["text_encoder_2"].tokens) == (77, 40)
    assert all(part.num_bytes > 0 and part.num_parameters > 0 and part.dtypes for part in bobbin.values())
    assert models["wan"].parts[0].name == "transformer"


def test_every_model_tells_what_quantized_weights_would_need(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.nodes.preview.table.quantizations_of", lambda model: ["int8"])
    row = by_name(models_view(settings(tmp_path, folder)))["builtin:bobbin"]
    [less] = row.quantized
    assert less.quantization == "int8"
    known = {(plan.plan, plan.devices): plan.bytes_per_device for plan in row.plans}
    assert known.keys() == {(plan.plan, plan.devices) for plan in less.plans}
    alone = less.plans[0]
    assert alone.bytes_per_device < known[alone.plan, alone.devices]


def test_a_model_that_cannot_be_used_says_why_and_has_no_plans(folder: Path, tmp_path: Path) -> None:
    (folder / "wan" / "vae" / "config.json").write_text("[]")
    wan = by_name(models_view(settings(tmp_path, folder)))["wan"]
    assert "vae" in wan.problem and wan.family == "unsupported"
    assert (wan.plans, wan.strategies) == ((), ())


def test_a_transformer_that_cannot_be_split_says_why(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    wan = by_name(models_view(settings(tmp_path, folder)))["wan"]
    assert wan.strategies == ("cfg",)
    assert wan.split_problem == "there is no split plan for WanTransformer3DModel"
    assert {plan.plan for plan in wan.plans if plan.fits} == {"ulysses=1", "cfg=2"}


def test_a_new_model_is_seen_when_asked_to_look_again(
    folder: Path, tmp_path: Path, tiny: Callable[[str], Path]
) -> None:
    given = settings(tmp_path, folder)
    models_view(given)
    shutil.copytree(tiny("sd3"), folder / "sd3")
    assert "sd3" not in by_name(models_view(given))
    assert "sd3" in by_name(models_view(given, refresh=True))


def test_many_who_ask_to_look_again_at_once_cost_two_looks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def rows(folders: Any, machine: Any) -> list[Any]:
        looks.append(time.sleep(0.1) or 0.0)
        return []

    monkeypatch.setattr(models_module, "model_rows", rows)
    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(models_view, settings(tmp_path, folder), refresh=True) for _ in range(8)]:
            each.result()
    assert len(looks) <= 2


def test_what_is_loaded_has_the_models_name(tmp_path: Path) -> None:
    location = by_name(models_view(settings(tmp_path)))["builtin:bobbin"].location
    held = [
        Held(folder=location, component="vae", device="cuda:1", num_bytes=7),
        Held(folder="/gone", component="transformer", device="cpu", num_bytes=8),
    ]
    assert models_view(settings(tmp_path), loaded=held).loaded == [
        LoadedPart(name="builtin:bobbin", component="vae", device="cuda:1", bytes=7),
        LoadedPart(name="/gone", component="transformer", device="cpu", bytes=8),
    ]


def test_a_folder_of_models_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; check the path"):
        models_view(settings(tmp_path, tmp_path / "nothing"))
