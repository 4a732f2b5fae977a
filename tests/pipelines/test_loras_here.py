"""Which LoRAs are here, what their headers tell, and which fit a model; what they tell is anybody's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.parallel.recent import Recent
from latentloom.pipelines.models import regular_file
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.loras import installed
from latentloom.pipelines.models.loras.installed import (
    LONGEST_TEXT,
    LONGEST_WORD,
    MOST_WORDS,
    LoraFacts,
    fit_of,
    installed_loras,
    lora_facts,
)
from latentloom.pipelines.models.loras.lora_file import layers_of
from latentloom.pipelines.models.regular_file import Unchanged
from latentloom.pipelines.values import Model
from support.hollow_models import write_header
from support.lora_files import write_pair

KOHYA = "lora_unet_double_blocks_0_img_attn_proj"


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_FACTS", Unchanged())
    monkeypatch.setattr(installed, "_VERDICTS", Recent(installed.MOST_VERDICTS))


@pytest.fixture
def bobbin() -> Model:
    return describe_model("builtin:bobbin", device="cpu")


def told(path: Path, **changes: Any) -> LoraFacts:
    found = lora_facts(write_pair(path, **changes), beside={each.name for each in path.parent.iterdir()})
    assert found is not None
    return found


def test_a_lora_tells_its_rank_its_model_and_its_words(tmp_path: Path) -> None:
    tags = {"10_cup": {"a photo": 3, "blue glaze": 9}, "2_more": {"a photo": 4, "rare": 1}}
    metadata = {
        "modelspec.architecture": "flux-1-dev/lora",
        "modelspec.title": "Glaze",
        "modelspec.author": "Ann",
        "modelspec.license": "Apache-2.0",
        "modelspec.trigger_phrase": "glz cup, Blue Glaze",
        "ss_tag_frequency": json.dumps(tags),
    }
    found = told(tmp_path / "glaze.safetensors", rank=8, metadata=metadata)
    assert (found.rank, found.title, found.author, found.licence) == (8, "Glaze", "Ann", "Apache-2.0")
    assert (found.made_for, found.families) == ("flux-1-dev/lora", ("flux", "flux_kontext"))
    assert found.triggers == ("glz cup", "Blue Glaze", "a photo", "rare")
    assert found.problem == "" and found.picture is None and found.num_bytes > 0


def test_the_notes_and_the_picture_beside_a_lora_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "glaze.json").write_text(json.dumps({"activation text": "glz", "sd version": "SDXL"}))
    (tmp_path / "glaze.preview.png").touch()
    (tmp_path / "other.png").touch()
    found = told(tmp_path / "glaze.safetensors")
    assert (found.triggers, found.made_for, found.families) == (("glz",), "SDXL", ())
    assert found.picture == tmp_path / "glaze.preview.png"


@pytest.mark.parametrize("notes", ["[1]", "{", '{"activation text": ["glz"], "sd version": 3}', "[" * 5000])
def test_notes_that_are_none_tell_nothing(tmp_path: Path, notes: str) -> None:
    (tmp_path / "glaze.json").write_text(notes)
    found = told(tmp_path / "glaze.safetensors")
    assert (found.triggers, found.made_for, found.families) == ((), "", None)


def test_notes_that_are_a_pipe_or_endless_are_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "glaze.json")
    (tmp_path / "cup.json").write_text(json.dumps({"activation text": "x" * installed.MOST_NOTE_BYTES}))
    assert told(tmp_path / "glaze.safetensors").triggers == ()
    assert told(tmp_path / "cup.safetensors").triggers == ()


@pytest.mark.parametrize(
    "metadata",
    [
        {"modelspec.title": "a\x00b\x1b[31m\r\nc\u202egnp.exe\u200b", "modelspec.trigger_phrase": "\u0000,\t, ,,"},
        {"modelspec.title": "<img src=x onerror=alert(1)>" * 400, "modelspec.author": "y" * 100_000},
        {"modelspec.trigger_phrase": ",".join(f"word {n}" for n in range(10_000)) + "," + "z" * 5000},
        {"ss_tag_frequency": "[" * 100_000},
        {"ss_tag_frequency": '{"a": {"b": {"c": 1}, "d": "9", "e": -1, "f": true, "g": 1e999}, "h": 3, "i": [1]}'},
        {"ss_tag_frequency": json.dumps({"a": {f"tag {n}": n for n in range(5000)}})},
        {"ss_tag_frequency": " " * (installed.MOST_TAG_BYTES + 1)},
        {"ss_base_model_version": "\u202e" * 300, "modelspec.architecture": "{{7*7}}"},
    ],
)
def test_hostile_metadata_is_short_plain_text_or_nothing(tmp_path: Path, metadata: dict[str, str]) -> None:
    found = told(tmp_path / "bad.safetensors", metadata=metadata)
    texts = (found.title, found.author, found.licence, found.made_for)
    assert all(len(text) <= LONGEST_TEXT and (text.isprintable() or not text) for text in texts)
    assert len(found.triggers) <= MOST_WORDS
    assert all(0 < len(word) <= LONGEST_WORD and word.isprintable() for word in found.triggers)


def test_what_is_no_lora_or_damaged_is_not_listed_and_a_refused_one_says_why(tmp_path: Path) -> None:
    write_header(tmp_path / "model.safetensors", {"double_blocks.0.weight": (4, 4)})
    write_pair(tmp_path / "typed.safetensors", metadata={"modelspec.title": 7})
    (tmp_path / "cut.safetensors").write_bytes(write_pair(tmp_path / "whole.safetensors").read_bytes()[:-9])
    half = {"a.lora_A.weight": (4, 8)}
    write_header(tmp_path / "half.safetensors", half)
    found = {lora.path.stem: lora for lora in installed_loras([tmp_path]).loras}
    assert found.keys() == {"whole", "half"}
    assert "its other half is missing" in found["half"].problem


def test_a_folder_is_searched_without_its_models_parts_and_what_links_out_of_it(tmp_path: Path) -> None:
    models, outside = tmp_path / "models", tmp_path / "outside"
    write_pair(models / "loras" / "style" / "b.safetensors")
    write_pair(models / "a.safetensors")
    write_pair(models / ".cache" / "hidden.safetensors")
    write_pair(models / "sd" / "transformer" / "part.safetensors")
    write_pair(models / "sd" / "beside.safetensors")
    (models / "sd" / "model_index.json").write_text("{}")
    write_pair(outside / "secret.safetensors")
    (models / "link.safetensors").symlink_to(outside / "secret.safetensors")
    (models / "folder").symlink_to(outside)
    (models / "round").symlink_to(models)
    (models / "a.json").symlink_to(outside / "secret.json")
    (outside / "secret.json").write_text('{"activation text": "secret"}')
    found = installed_loras([models, tmp_path / "gone"], roots=[models])
    names = {lora.path.relative_to(models).as_posix() for lora in found.loras}
    assert {name for name in names if not name.startswith("round")} == {
        "a.safetensors",
        "loras/style/b.safetensors",
        "sd/beside.safetensors",
    }
    assert found.is_whole and all(lora.triggers == () for lora in found.loras)


def test_a_second_look_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(path: Path, **more: Any) -> LoraFacts | None:
        read.append(path.stem)
        return lora_facts(path, **more)

    monkeypatch.setattr(installed, "lora_facts", counted)
    monkeypatch.setattr(regular_file, "SETTLED_NS", -(2**62))
    write_pair(tmp_path / "a.safetensors")
    write_header(tmp_path / "model.safetensors", {"weight": (4, 4)})
    assert installed_loras([tmp_path]).loras == installed_loras([tmp_path]).loras
    assert read == ["a", "model"]
    (tmp_path / "a.json").write_text('{"activation text": "new"}')
    assert installed_loras([tmp_path]).loras[0].triggers == ("new",)
    assert read == ["a", "model", "a"]


def test_a_look_ends_and_says_that_it_did_not_see_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        write_pair(tmp_path / f"{name}.safetensors")
    assert installed_loras([tmp_path], reading_s=0.0) == installed.InstalledLoras(loras=(), may_grow=True)
    monkeypatch.setattr(installed, "MOST_LORAS", 2)
    cut = installed_loras([tmp_path])
    assert [lora.path.stem for lora in cut.loras] == ["a", "b"] and not cut.is_whole


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({}, "fits", ""),
        ({"shape": (64, 64)}, "other", "one of 64 x 64, and the model's is 192 x 192"),
        ({"layer": "transformer.joint.0"}, "other", "'joint.0' and the like, which the model has not"),
        ({"layer": KOHYA}, "unknown", ""),
        ({"layer": KOHYA, "metadata": {"ss_base_model_version": "flux1"}}, "likely", ""),
        ({"layer": KOHYA, "metadata": {"modelspec.architecture": "Flux.2-dev"}}, "other", "made for Flux.2-dev"),
        ({"layer": KOHYA, "metadata": {"modelspec.architecture": "something new"}}, "unknown", ""),
        ({"layer": "lora_unet_joint_blocks_0_x_block"}, "other", "it was made for Stable Diffusion 3"),
        ({"metadata": {"modelspec.architecture": "stable-diffusion-xl-v1-base/lora"}}, "fits", ""),
        ({"shape": (0, 192)}, "other", "is empty; get the file again"),
    ],
)
def test_what_fits_is_told_by_layers_else_by_what_it_says_of_itself(
    tmp_path: Path, bobbin: Model, changes: dict[str, Any], verdict: str, why: str
) -> None:
    found = fit_of(told(tmp_path / "one.safetensors", **changes), bobbin, layers_of(bobbin))
    assert found.verdict == verdict
    assert why in found.why and bool(found.why) == bool(why)


def test_loras_of_the_same_layers_are_compared_once(
    tmp_path: Path, bobbin: Model, tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def counted(*given: Any) -> str | None:
        compared.append(given[1].family)
        return ""

    monkeypatch.setattr(installed, "what_differs", counted)
    alike = [told(tmp_path / f"{rank}.safetensors", rank=rank) for rank in (2, 4, 8)]
    other = told(tmp_path / "wide.safetensors", shape=(8, 8))
    for lora in (*alike, other):
        fit_of(lora, bobbin, {})
    fit_of(alike[0], describe_model(str(tiny("sd3")), device="cpu"), {})
    assert compared == ["flux", "flux", "sd3"]
