import dataclasses
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from latentloom.pipelines.models import describe
from latentloom.pipelines.models.describe import (
    add_lora,
    card_of,
    describe_model,
    pick_device,
    pick_dtype,
    why_not_compiled,
)
from latentloom.pipelines.models.source import checkpoints_of
from latentloom.pipelines.values import Model, Place, from_plain, to_plain


@pytest.fixture
def lora_file(tmp_path: Path) -> Path:
    weights = {f"transformer.x.lora_{side}.weight": torch.ones(1, 1) for side in "AB"}
    save_file(weights, tmp_path / "my style-2.safetensors")
    return tmp_path / "my style-2.safetensors"


def test_the_built_in_model_is_described_without_reading_weights() -> None:
    model = describe_model("builtin:bobbin", device="cpu")
    assert (model.source, model.family, model.device, model.dtype) == ("builtin:bobbin", "flux", "cpu", "fp32")
    assert card_of(model).text_length < 512
    assert from_plain(Model, to_plain(model)) == model and hash(model)


@pytest.mark.parametrize(("device", "dtype"), [("cpu", "fp32"), ("cuda:1", "bf16"), ("mps", "bf16")])
def test_auto_dtype_follows_the_device(device: str, dtype: str) -> None:
    assert pick_dtype("auto", device=device) == dtype


def test_fp16_on_a_cpu_is_allowed_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="latentloom"):
        assert pick_dtype("fp16", device="cpu") == "fp16"
    assert "8 times slower" in caplog.text


def test_auto_takes_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("auto") == "cuda" and pick_device("cuda:1") == "cuda:1"
    with pytest.raises(ValueError, match="cuda:2 is not on this machine; it has cpu, cuda:0, cuda:1"):
        pick_device("cuda:2")


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"device": "gpu"}, "choose auto, cpu, cuda"),
        ({"dtype": "fp8"}, "choose one of auto, fp32"),
        ({"quantization": "int2"}, "choose one of none, int8"),
        (
            {"device": "cpu", "graphs": "on"},
            "graphs is on, which needs a GPU of CUDA or ROCm, and the device is cpu; choose graphs auto",
        ),
        ({"engine": "turbo"}, "choose one of eager, inductor, tensorrt"),
    ],
)
def test_an_unknown_choice_lists_the_choices(choice: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        describe_model("builtin:bobbin", **choice)


def test_quantization_without_torchao_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'latentloom\[quant\]'"):
        describe_model("builtin:bobbin", quantization="int8")


def test_loras_keep_their_order_and_get_names_of_their_own(lora_file: Path) -> None:
    model = describe_model("builtin:bobbin", device="cpu")
    twice = add_lora(add_lora(model, str(lora_file), 0.5), str(lora_file), -1)
    assert [(lora.adapter, lora.scale) for lora in twice.loras] == [("my_style_2", 0.5), ("my_style_2_2", -1.0)]
    assert twice.loras[0].sha256 == twice.loras[1].sha256 and len(twice.loras[0].sha256) == 64
    assert dataclasses.replace(twice, loras=()) == model


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e6])
def test_an_impossible_scale_is_refused(lora_file: Path, scale: float) -> None:
    with pytest.raises(ValueError, match="LoRA scale is"):
        add_lora(describe_model("builtin:bobbin"), str(lora_file), scale)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "give a .safetensors file"),
        ("a.pt", "pickle"),
        ("nowhere.safetensors", "does not exist"),
        ("/", "not a file"),
    ],
)
def test_a_path_that_is_no_lora_file_is_refused(path: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        add_lora(describe_model("builtin:bobbin"), path)


def test_a_lora_outside_the_roots_is_refused(lora_file: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(ValueError, match="outside the allowed folders"):
        add_lora(describe_model("builtin:bobbin"), str(lora_file), roots=[tmp_path / "root"])
    assert add_lora(describe_model("builtin:bobbin"), lora_file.name, roots=[tmp_path]).loras


def test_a_lora_that_is_gone_before_it_is_read_whole_says_so(lora_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "sha256_of", lambda file: file.with_name("gone").read_bytes())
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory\); copy it again"):
        add_lora(describe_model("builtin:bobbin"), str(lora_file))


def test_a_plan_says_why_it_cannot_have_a_model_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    for change, why in (
        ({"engine": "inductor"}, "Load Model says engine inductor"),
        ({"family": ""}, "a pipeline that is run whole is left as it is"),
        ({}, "engine inductor needs a C++ compiler on a CPU and none was found"),
        ({"place": Place(cluster="10.0.0.1:6379")}, ""),  # nobody has looked at its machines yet
    ):
        model = dataclasses.replace(describe_model("builtin:bobbin", device="cpu"), **change)
        assert why_not_compiled(model, has_step_cache=False).partition(";")[0] == why


def test_a_whole_model_is_no_lora(tiny: Callable[[str], Path]) -> None:
    weights = tiny("flux") / "vae" / "diffusion_pytorch_model.safetensors"
    with pytest.raises(ValueError, match="is no LoRA"):
        add_lora(describe_model("builtin:bobbin"), str(weights))


def test_a_single_file_has_a_fingerprint_of_its_own(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    file = tmp_path / "t.safetensors"
    save_file({"w": torch.ones(1)}, file)
    base, model = describe_model(str(tiny("flux"))), describe_model(f"{file}@{tiny('flux')}")
    assert model.folder == base.folder and model.fingerprint != base.fingerprint
    assert model.source == f"{file}@{tiny('flux')}"


def test_a_file_that_does_not_say_which_of_two_experts_it_is_is_refused(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    for name, words in (
        ("t.safetensors", r"its base has 2, and its name does not say which \(high_noise or low_noise\)"),
        ("wan_high_noise.safetensors", r"put the other, wan_low_noise\.safetensors, beside it"),
    ):
        save_file({"w": torch.ones(1)}, tmp_path / name)
        with pytest.raises(ValueError, match=words):
            describe_model(f"{tmp_path / name}@{tiny('wan22')}")


@pytest.mark.parametrize(
    ("high", "low"),
    [
        ("wan_High-Noise.safetensors", "wan_Low-Noise.safetensors"),
        ("HighNoise/x_HighNoise.gguf", "LowNoise/x_LowNoise.gguf"),
    ],
)
def test_the_other_expert_lies_beside_the_one_that_is_named(tmp_path: Path, high: str, low: str) -> None:
    for name in (high, low):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    wanted = {"transformer": tmp_path / high, "transformer_2": tmp_path / low}
    for named in wanted.values():
        assert checkpoints_of(named, ("transformer", "transformer_2", "vae")) == wanted


@pytest.mark.parametrize(
    ("name", "part"),
    [("h3_ref2va_int8", "transformer_ref"), ("H3-Ref", "transformer_ref"), ("prefixed", "transformer")],
)
def test_a_file_for_reference_pictures_is_known_by_its_name(name: str, part: str) -> None:
    file = Path(f"{name}.safetensors")
    assert checkpoints_of(file, ("transformer", "transformer_ref", "vae")) == {part: file}
    assert checkpoints_of(file, ("transformer", "vae")) == {"transformer": file}


def test_a_model_whose_files_stay_is_not_read_again(
    tiny: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "model"
    shutil.copytree(tiny("flux"), copy)
    monkeypatch.setattr("latentloom.pipelines.models.regular_file.SETTLED_NS", -(10**18))
    first = describe_model(str(copy), device="cpu").fingerprint
    with monkeypatch.context() as patch:
        patch.setattr(
            "latentloom.pipelines.models.component_files.content_mark", lambda *given: pytest.fail("a file was read")
        )
        assert describe_model(str(copy), device="cpu").fingerprint == first
    config = copy / "scheduler" / "scheduler_config.json"
    config.write_text(config.read_text() + "\n")
    changed = describe_model(str(copy), device="cpu").fingerprint
    (copy / "transformer" / "words.txt").write_text("")
    assert len({first, changed, describe_model(str(copy), device="cpu").fingerprint}) == 3
