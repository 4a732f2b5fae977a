"""Models that are run with a safety checker: refused where its package or files are not here, never without it but
where that is the owner's to choose, and never with a network."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import constants

from latentloom.__main__ import main
from latentloom.nodes import decode_video, empty_latents, encode_text
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.pipelines import guarded
from latentloom.pipelines.signatures.table import class_names, signature_of
from latentloom.pipelines.values import Model, from_plain
from latentloom.pipelines.whole import assembled
from latentloom.pipelines.whole.called import asked
from support.checkout import ROOT
from support.prepared import check

VARIABLE = "LATENTLOOM_SAFETY_CHECKER"
GUARDED = [name for name in class_names() if signature_of(name).guard]


class Cosmos2TextToImagePipeline:
    """Stands for diffusers' class: what it is made with, and whether the hub could be asked then."""

    _optional_components = ("safety_checker",)

    def __init__(self, safety_checker: Any = None, enable_safety_checker: bool = True) -> None:
        self.safety_checker, self.is_guarded, self.was_offline = safety_checker, enable_safety_checker, is_offline()

    def __call__(self) -> dict[str, bool]:
        return {"offline": is_offline()}


def is_offline() -> bool:
    return bool(constants.HF_HUB_OFFLINE)


@pytest.fixture(autouse=True)
def as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has left the checker out."""
    monkeypatch.delenv(VARIABLE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a stranger who would rather have no safety checker."""
    index = {
        "_class_name": "Cosmos2TextToImagePipeline",
        "safety_checker": ["transformers", "CLIPTextModel"],
        "enable_safety_checker": False,
    }
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if package and files were here."""
    monkeypatch.setattr(guarded, "why_no_guard", lambda signature: "")
    monkeypatch.setattr(assembled, "why_no_guard", lambda signature: "")


@pytest.mark.parametrize("pipeline", [*GUARDED, "auto"])
def test_without_the_checker_a_workflow_is_refused_at_check(pipeline: str, folder: Path) -> None:
    inputs = {"source": str(folder), "pipeline": pipeline}
    node = {"type": "LoomRunPipeline", "version": 1, "inputs": inputs}
    graph = graph_from_plain({"format": 1, "name": "whole", "nodes": {"whole": node}})
    told = [each.message for each in check(graph, SPECS, workspace=Workspace())]
    wanted = "runs only with its safety checker, and not here are the package cosmos_guardrail, the files of nvidia/"
    assert any(wanted in each and "`pip install cosmos_guardrail`" in each for each in told), told
    assert len(GUARDED) == 7


def test_it_is_made_and_runs_without_a_network_and_never_without_its_checker(
    folder: Path, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembled, "pipeline_class", lambda name: Cosmos2TextToImagePipeline)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    made: Any = assembled.load_pipeline(str(folder), dtype="fp32")
    assert (made.safety_checker, made.is_guarded, made.was_offline) == (None, True, True)
    assert asked(made, {}) == {"offline": True}
    assert not is_offline()


def test_a_text_of_an_index_that_diffusers_takes_for_a_pattern_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class HunyuanDiTPAGPipeline:
        _optional_components = ()

        def __init__(self, pag_applied_layers: Any = "blocks.1") -> None:
            self.layers = pag_applied_layers

    monkeypatch.setattr(assembled, "pipeline_class", lambda name: HunyuanDiTPAGPipeline)

    def load(layers: Any) -> Any:
        index = {"_class_name": "HunyuanDiTPAGPipeline", "pag_applied_layers": layers}
        (folder / "model_index.json").write_text(json.dumps(index))
        return assembled.load_pipeline(str(folder), dtype="fp32")

    assert load(["blocks.1"]).layers == ["blocks.1"]
    with pytest.raises(ValueError, match=r"pag_applied_layers .* is not taken"):
        load(["([a-z_0-9.]+)+!"])


# ---- Cosmos 3, whose licence asks for no checker


class CosmosSafetyChecker:
    """Stands for the package's: refuses by a word or by a red video, and hides the upper left corner of bright ones."""

    was_offline = False

    def __init__(self) -> None:
        type(self).was_offline = is_offline()
        self.places: list[str] = []

    def to(self, place: str) -> None:
        self.places.append(place)

    def check_text_safety(self, prompt: str) -> bool:
        return "forbidden" not in prompt

    def check_video_safety(self, frames: Any) -> Any:
        if (frames[..., 0] > frames[..., 1]).all():
            return None
        frames[frames.mean(axis=(1, 2, 3)) > 128, 0, 0] = 0
        return frames


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Iterator[CosmosSafetyChecker]:
    """As if package and files were here."""
    monkeypatch.setattr(guarded, "find_snapshot", lambda source: Path())
    monkeypatch.setattr(guarded.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, guarded.PACKAGE, SimpleNamespace(CosmosSafetyChecker=CosmosSafetyChecker))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    guarded._made.cache_clear()
    yield guarded._made()
    guarded._made.cache_clear()


@pytest.fixture
def cosmos(model: Any) -> Model:
    return from_plain(Model, model("cosmos_3"))


def test_without_its_package_cosmos_3_is_refused_until_the_owner_leaves_the_checker_out(
    cosmos: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=rf"not here are the package cosmos_guardrail, .*{VARIABLE}=0 if this machine"):
        encode_text(cosmos, "a")
    painted = dataclasses.replace(
        empty_latents(cosmos, width=80, height=48, frames=1), tensor=torch.zeros(1, 16, 1, 6, 10)
    )
    with pytest.raises(ValueError, match="runs only with its safety checker"):
        decode_video(cosmos, painted)
    monkeypatch.setenv(VARIABLE, "0")
    assert encode_text(cosmos, "forbidden").prompt == "forbidden"
    assert decode_video(cosmos, painted).pixels.shape == (1, 1, 48, 80, 3)
    assert [name for name in GUARDED if not guarded.why_no_guard(signature_of(name))] == ["Cosmos3OmniPipeline"]
    assert guarded.without_guard("Cosmos3OmniPipeline", {"enable_safety_checker": True}) == {
        "enable_safety_checker": False
    }
    assert guarded.without_guard("Cosmos2TextToImagePipeline", {"enable_safety_checker": False}) == {}


def test_a_check_tells_what_is_missing_before_a_run(tiny: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "workflows" / "cosmos_3" / "cosmos_3_text_to_video.json"
    assert main(["check", str(file), "--set", f"source={tiny('cosmos_3')}"]) == 2
    told = capsys.readouterr().out
    for place in ("encode_text.model", "decode.model"):
        assert f"{place}: Cosmos3OmniPipeline runs only with its safety checker, and not here are the package" in told


def test_what_the_checker_refuses_is_one_sentence_and_what_it_leaves_keeps_its_bits(
    cosmos: Model, checker: CosmosSafetyChecker
) -> None:
    assert CosmosSafetyChecker.was_offline and not is_offline()
    with pytest.raises(ValueError, match=r"the safety checker of .* refuses this prompt; write another"):
        encode_text(cosmos, "something forbidden")
    assert encode_text(cosmos, "a").prompt == "a" and checker.places == ["cpu"] * 4
    clips = torch.rand(2, 3, 8, 8, 3, generator=torch.Generator().manual_seed(0)) * 0.4
    clips[1, 2] += 0.6  # one bright frame
    seen = guarded.checked(cosmos, clips.clone())
    assert seen[1, 2, 0, 0].sum() == 0 and not torch.equal(seen[1, 2], clips[1, 2])
    assert torch.equal(seen[0], clips[0]) and torch.equal(seen[1, :2], clips[1, :2])
    as_bytes = (clips * 255).byte()
    assert guarded.checked(cosmos, as_bytes.clone())[1, 2, 0, 0].sum() == 0
    red = torch.zeros(1, 1, 8, 8, 3)
    red[..., 0] = 1
    with pytest.raises(ValueError, match="refuses this video"):
        guarded.checked(cosmos, red)
