"""Run Pipeline's weights: those of a single file in the place of the folder's, LoRAs on top, and damaged ones."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from latentloom.nodes import run_pipeline
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.failures import NotFinite
from latentloom.pipelines.models.source import BUILTINS
from latentloom.pipelines.whole import called
from latentloom.pipelines.whole.assembled import load_pipeline
from latentloom.pipelines.whole.called import Whole
from support.lora_files import write_lora
from support.prepared import check

SMALL: dict[str, Any] = {"prompt": "a red star", "height": 96, "width": 96, "num_inference_steps": 1}
WEIGHTS = BUILTINS["bobbin"] / "transformer" / "diffusion_pytorch_model.safetensors"


def problems_of(source: str, **inputs: Any) -> list[str]:
    node = {"type": "LoomRunPipeline", "version": 1, "inputs": {"source": source, "prompt": "a", **inputs}}
    graph = graph_from_plain({"format": 1, "name": "whole", "nodes": {"whole": node}})
    return [each.message for each in check(graph, SPECS, workspace=Workspace())]


def test_the_transformer_of_a_single_file_takes_the_place_of_the_folder_s(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_file({name: weight.float() * 0.9 for name, weight in load_file(WEIGHTS).items()}, file)
    pipe = load_pipeline("builtin:bobbin", dtype="fp32")
    pipe.set_progress_bar_config(disable=True)
    with torch.no_grad():
        for weight in pipe.transformer.parameters():
            weight.copy_(weight * 0.9)
    wanted = pipe(**SMALL, generator=torch.Generator().manual_seed(3), output_type="np").images
    assert problems_of(f"{file}@builtin:bobbin") == []
    image, *_ = run_pipeline(f"{file}@builtin:bobbin", seed=3, **SMALL)
    torch.testing.assert_close(image.pixels, torch.from_numpy(wanted), atol=1e-5, rtol=0)


def test_a_single_file_that_cannot_stand_for_the_transformer_is_refused(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    file = tmp_path / "t.safetensors"
    save_file({"w": torch.ones(1)}, file)
    (told,) = problems_of(f"{file}@{tiny('wan22')}")
    assert "is one transformer, but its base has 2, and its name does not say which" in told
    for source, words in (
        (f"{file}@{tiny('wan22')}", "its base has 2"),
        (f"{file}@builtin:bobbin", "component transf"),
    ):
        with pytest.raises(ValueError, match=words):
            run_pipeline(source, **SMALL, **({"pipeline": "WanPipeline"} if "wan" in source else {}))


@pytest.fixture(scope="module")
def bobbin() -> Any:
    pipe = load_pipeline("builtin:bobbin", dtype="fp32")
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture(scope="module")
def files(bobbin: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """LoRAs for the transformer, for it and the text encoder, and one of NaN."""
    folder = tmp_path_factory.mktemp("loras")
    style = write_lora(folder / "style.safetensors", bobbin.transformer, prefix="transformer", layers=("to_q", "ff"))
    text = write_lora(folder / "text.safetensors", bobbin.text_encoder, prefix="text_encoder", layers=("q_proj",))
    weights = load_file(style)
    save_file(load_file(text) | weights, folder / "both.safetensors")
    save_file({name: weight * float("nan") for name, weight in weights.items()}, folder / "nan.safetensors")
    return {name: folder / f"{name}.safetensors" for name in ("style", "both", "nan")}


@pytest.mark.filterwarnings("ignore:Already found a .peft_config")  # of the stock pipeline
def test_loras_are_on_the_pipeline_for_the_calls_that_name_them(bobbin: Any, files: dict[str, Path]) -> None:
    def painted(**more: Any) -> torch.Tensor:
        return run_pipeline("builtin:bobbin", seed=3, **SMALL, **more)[0].pixels

    plain = painted()
    names = [str(files["style"]), str(files["both"])]
    adapted = painted(loras=names, lora_scales=[0.5, -0.8])
    for name, file in zip(("style", "both"), names, strict=True):
        bobbin.load_lora_weights(file, adapter_name=name)
    bobbin.set_adapters(["style", "both"], [0.5, -0.8])
    wanted = bobbin(**SMALL, generator=torch.Generator().manual_seed(3), output_type="np").images
    bobbin.unload_lora_weights()
    torch.testing.assert_close(adapted, torch.from_numpy(wanted), atol=1e-5, rtol=0)
    assert (adapted - plain).abs().max() > 1e-3
    ((kept, _),) = called._kept.values()
    painted(loras=names[:1])
    assert called._kept and next(iter(called._kept.values()))[0] is kept  # nothing is loaded again
    torch.testing.assert_close(painted(), plain, atol=1e-5, rtol=0)
    keys = {key for part in (kept.transformer, kept.text_encoder) for key in part.state_dict()}
    assert keys == {key for part in (bobbin.transformer, bobbin.text_encoder) for key in part.state_dict()}


def test_a_class_without_a_lora_loader_has_no_such_sockets(files: dict[str, Path]) -> None:
    given = {"pipeline": "PixArtSigmaPipeline", "loras": [str(files["style"])]}
    misfit, told = problems_of("builtin:bobbin", **given)
    assert "PixArtSigmaPipeline has no input 'loras'" in told and "PixArtSigmaPipeline takes a" in misfit
    with pytest.raises(ValueError, match="PixArtSigmaPipeline takes no LoRAs; leave loras out"):
        run_pipeline("builtin:bobbin", **given, prompt="a")
    assert problems_of("builtin:bobbin", loras=[str(files["style"])], lora_scales=[0.5]) == []
    (told,) = problems_of("builtin:bobbin", loras=["a.safetensors"], lora_scales=[11.0])
    assert "it takes -10 to 10" in told


@pytest.mark.parametrize(
    ("loras", "words"),
    [
        ({"loras": "style.safetensors"}, "loras is 'style.safetensors'; it takes a list"),
        ({"loras": ["no.safetensors"]}, "loras 'no.safetensors' does not exist"),
        ({"loras": ["/etc/passwd"]}, "lies outside the allowed folders"),
        (
            {"loras": ["style.safetensors"], "lora_scales": [1.0, 2.0]},
            "loras are 1 and lora_scales 2; give one for each, or none",
        ),
        ({"loras": ["other.safetensors"]}, "has nothing for this model"),
        ({"loras": ["weights.safetensors"]}, "is no LoRA"),
        ({"loras": ["pickle.bin"]}, "is a pickle"),
    ],
)
def test_loras_that_do_not_fit_are_one_sentence(files: dict[str, Path], loras: dict[str, Any], words: str) -> None:
    folder = files["style"].parent
    save_file(
        {"unet.x.lora_A.weight": torch.ones(2, 4), "unet.x.lora_B.weight": torch.ones(4, 2)},
        folder / "other.safetensors",
    )
    save_file({"weight": torch.ones(2)}, folder / "weights.safetensors")
    (folder / "pickle.bin").touch()
    with pytest.raises(ValueError, match=words):
        run_pipeline("builtin:bobbin", **SMALL, **loras, workspace=Workspace(roots=(folder,)))


def test_a_result_that_is_no_number_is_told_with_what_is_to_blame(files: dict[str, Path]) -> None:
    with pytest.raises(
        NotFinite, match=r"of what FluxPipeline made \(images\) are .*; the LoRA \S*nan.safetensors holds"
    ):
        run_pipeline("builtin:bobbin", **SMALL, loras=[str(files["nan"])])
    run_pipeline("builtin:bobbin", **SMALL)
    ((pipe, _),) = called._kept.values()
    weight = pipe.vae.decoder.conv_out.bias
    kept = weight.detach().clone()
    weight.data = kept * float("nan")
    with pytest.raises(NotFinite, match=r"vae of builtin:bobbin holds such values itself \(decoder.conv_out.bias\)"):
        run_pipeline("builtin:bobbin", **SMALL)
    weight.data = kept


@pytest.mark.parametrize(
    ("made", "part"),
    [
        ({"frames": np.full((1, 2, 2, 2, 3), np.inf, "float32"), "audio": None}, "frames"),
        ({"frames": [np.ones(2)], "audio": torch.tensor([1.0, float("nan")])}, "audio"),
        ({"images": [[np.ones(2), np.full(2, np.nan)]]}, "images 1"),
    ],
)
def test_frames_and_sounds_are_looked_at_too(made: dict[str, Any], part: str) -> None:
    pipe = SimpleNamespace(components={})
    with pytest.raises(NotFinite, match=rf"\({part}\) .* numbers beyond bf16 do this"):
        called._check_answer(pipe, Whole(source="mine", dtype="bf16", device="cpu"), made)
