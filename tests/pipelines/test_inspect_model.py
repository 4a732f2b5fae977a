import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latentloom.pipelines.families import FAMILIES
from latentloom.pipelines.forecast.plans import transformers
from latentloom.pipelines.models import tensor_file
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import card_of, describe_model
from latentloom.pipelines.models.facts import family_size_multiple, read_card
from latentloom.pipelines.models.folder import find_family, read_config
from latentloom.pipelines.models.tensor_file import read_tensor_file
from latentloom.pipelines.pools import preloads


@pytest.fixture
def copy(tiny: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny FLUX that a test may change; files are hard links until rewritten by `change`."""
    return shutil.copytree(tiny("flux"), tmp_path / "copy", copy_function=os.link)


def change(path: Path, **values: Any) -> None:
    plain = json.loads(path.read_text()) | values
    path.unlink()
    path.write_text(json.dumps(plain))


@pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image", "wan", "wan_i2v", "wan22", "wan22_i2v"])
def test_every_tiny_model_is_whole(tiny: Callable[[str], Path], family: str) -> None:
    files = inspect_model(tiny(family), roots=[])
    assert files.family.name == family.partition("22")[0].partition("_i2v")[0]
    assert files.components["transformer"].num_parameters > 50_000


def test_a_family_tells_what_it_makes_of_what() -> None:
    told = {name: FAMILIES[name].does for name in ("flux", "minimax_h3", "qwen_image_edit", "qwen_image_21")}
    assert told == {
        "flux": "text to picture, picture to picture, inpainting",
        "minimax_h3": "text to video with sound, first frame to video with sound, "
        "up to 9 reference pictures to video with sound",
        "qwen_image_edit": "edits of one picture",
        "qwen_image_21": "text to picture, edits of up to 10 pictures",
    }


def test_an_unknown_pipeline_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"'FluxPipelin' is not supported; the nearest is FluxPipeline\. Supported: "):
        find_family("FluxPipelin")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"vae": ["my_vae", "MyVae"]}, "would run code of the model's own"),
        ({"vae": ["diffusers", "os.system"]}, "names no class"),
        ({"vae": ["diffusers", 3]}, "component vae names no class"),
        ({"vae": ["diffusers"]}, r"not \[library, class\]"),
        ({"../vae": ["diffusers", "AutoencoderKL"]}, r"not \[library, class\]"),
        ({"vae": {"a": 1}}, r"'vae' is \{'a': 1\}, not \[library, class\]"),
        ({"vae": [8, 16]}, r"'vae' is \[8, 16\], not \[library, class\]"),
        ({"_class_name": ["pipeline", "MyPipeline"]}, "code of the model's own"),
        ({"_class_name": 3}, "does not name its pipeline"),
        ({"vae": [None, None]}, "lacks vae"),
    ],
)
def test_a_model_index_that_asks_for_more_is_refused(copy: Path, values: dict[str, Any], words: str) -> None:
    change(copy / "model_index.json", **values)
    with pytest.raises(ValueError, match=words):
        inspect_model(copy)


@pytest.mark.parametrize(
    "value",
    [0.5, 3, True, None, "cosine", [1, 2, 3], [0.9, 0.1], [], ["a", "b", "c"], ["en", "de"], [[1], [2]], {"a": 1}],
)
def test_plain_values_in_a_model_index_are_the_pipelines_own(copy: Path, value: Any) -> None:
    """Krea 2 keeps `text_encoder_select_layers` there, Qwen-Image 2.1 Turbo `sample_sigmas`."""
    change(copy / "model_index.json", text_encoder_select_layers=value, transformer_size=value)
    files = inspect_model(copy)
    assert files.index["text_encoder_select_layers"] == value
    assert "text_encoder_select_layers" not in files.components
    assert list(transformers(copy)) == ["transformer"]
    assert all("select" not in name for name in preloads(describe_model(str(copy), device="cpu")))


def as_modular(folder: Path, pipeline: str, **places: str) -> None:
    """Give it the index that diffusers writes for a modular pipeline; `places` of components are other repositories."""
    plain = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").unlink()
    index = {"_class_name": pipeline, "_blocks_class_name": "SomeBlocks"}
    for name, entry in plain.items():
        if isinstance(entry, list) and isinstance(entry[0], str):
            place = places.get(name, "org/name")
            index[name] = [None, None, {"pretrained_model_name_or_path": place, "subfolder": name, "type_hint": entry}]
    (folder / "modular_model_index.json").write_text(json.dumps(index))


def test_a_modular_model_is_read_where_its_components_lie_beside_the_index(tiny: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("krea_2_turbo"), tmp_path / "krea"))
    before = inspect_model(folder)
    as_modular(folder, "Krea2TurboModularPipeline")
    after = inspect_model(folder)
    assert after.components == before.components
    assert after.fingerprint != before.fingerprint
    described = describe_model(str(folder), device="cpu")
    assert (described.family, card_of(described).name) == ("krea_2", "Krea 2 Turbo")


def test_a_modular_model_of_several_repositories_is_refused_by_name(tiny: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("krea_2_turbo"), tmp_path / "krea"))
    as_modular(folder, "Krea2TurboModularPipeline", vae="other/vae")
    shutil.rmtree(folder / "vae")
    with pytest.raises(ValueError, match=r"component 'vae' comes from other/vae, .*; copy it to vae beside the index"):
        inspect_model(folder)


def test_what_no_stage_loads_of_a_modular_model_may_lie_elsewhere(tiny: Any, tmp_path: Path) -> None:
    """FLUX.3 names the language model that rewrites prompts; its noise levels are the blocks'."""
    folder = Path(shutil.copytree(tiny("flux_3"), tmp_path / "flux"))
    place = {"pretrained_model_name_or_path": "other/writer", "subfolder": "", "type_hint": ["transformers", "Writer"]}
    change(folder / "modular_model_index.json", prompt_upsampler=[None, None, place])
    assert set(inspect_model(folder).components) == {"tokenizer", "text_encoder", "transformer", "vae"}


def test_code_in_a_modular_index_is_refused(tiny: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("krea_2_turbo"), tmp_path / "krea"))
    as_modular(folder, "Krea2TurboModularPipeline")
    change(folder / "modular_model_index.json", auto_map={"Blocks": "blocks--Blocks"})
    with pytest.raises(ValueError, match=r"names code of its own \(auto_map\), which is refused"):
        inspect_model(folder)


@pytest.mark.parametrize(
    ("file", "values", "words"),
    [
        ("transformer/config.json", {"auto_map": {"AutoModel": "x.Y"}}, "names code of its own"),
        ("tokenizer/tokenizer_config.json", {"auto_map": {"AutoTokenizer": "x.Y"}}, "names code of its own"),
        ("text_encoder/config.json", {"nested": [{"auto_map": {"A": "b"}}]}, "names code of its own"),
        ("text_encoder/config.json", {"transformers_weights": "../x.safetensors"}, "names weights elsewhere"),
        ("transformer/config.json", {"quantization_config": {"quant_method": "x"}}, "already quantized"),
        ("tokenizer/tokenizer_config.json", {"vocab_file": "/etc/passwd"}, "points at a file elsewhere"),
        ("text_encoder/config.json", {"_attn_implementation": "org/kernel"}, r"kernels, 'org/kernel', .*_attn_impl"),
        (
            "text_encoder/config.json",
            {"attn_implementation": {"": "sdpa", "text_config": "o/k"}},
            "names kernels, 'o/k'",
        ),
        ("text_encoder/config.json", {"text_config": {"_attn_implementation_internal": "o/k@1:f"}}, "names kernels"),
        ("text_encoder/config.json", {"experts_implementation": "sonicmoe"}, "names kernels"),
        ("text_encoder/config.json", {"a": [{"use_kernels": True}]}, "asks for kernels"),
        ("text_encoder/config.json", {"kernel_config": {"RMSNorm": "o/k:RMSNorm"}}, "names kernels"),
        ("text_encoder/config.json", {"trust_remote_code": True}, "asks that code of its own be run"),
        ("text_encoder/config.json", {"configuration_files": ["config.4.0.0.json"]}, "names another config"),
        ("text_encoder/config.json", {"backbone": "org/name"}, "names a model elsewhere"),
        ("tokenizer/tokenizer_config.json", {"gguf_file": "x.gguf"}, "names weights elsewhere"),
        ("tokenizer/tokenizer_config.json", {"vocab": "x.json"}, r"points at a file elsewhere \(vocab\)"),
        ("tokenizer/tokenizer_config.json", {"sp_model_kwargs": {"model_file": "x"}}, "names a vocabulary elsewhere"),
        ("tokenizer/tokenizer_config.json", {"init_inputs": ["/etc/passwd"]}, "arguments without their names"),
        ("tokenizer/tokenizer_config.json", {"fast_tokenizer_files": ["tokenizer.1.json"]}, "another vocabulary"),
        ("transformer/config.json", {"num_layers": 10**7}, "out of range"),
        ("text_encoder/config.json", {"num_hidden_layers": 5000}, "out of range"),
        ("transformer/config.json", {"axes_dims_rope": [1] * 5000}, "out of range"),
        ("scheduler/scheduler_config.json", {"num_train_timesteps": 10**12}, "out of range"),
    ],
)
def test_a_config_that_asks_for_code_or_the_impossible_is_refused(
    copy: Path, file: str, values: dict[str, Any], words: str
) -> None:
    change(copy / file, **values)
    with pytest.raises(ValueError, match=words):
        inspect_model(copy)


def test_pickle_weights_are_refused_in_one_sentence(copy: Path) -> None:
    (copy / "vae" / "diffusion_pytorch_model.safetensors").rename(copy / "vae" / "diffusion_pytorch_model.bin")
    with pytest.raises(ValueError, match=r"component vae: .* only pickle weights"):
        inspect_model(copy)


def test_an_adapter_in_place_of_a_model_is_refused(copy: Path) -> None:
    """transformers would load the base model that it names, from anywhere."""
    (copy / "text_encoder" / "adapter_config.json").write_text('{"base_model_name_or_path": "elsewhere"}')
    with pytest.raises(ValueError, match="holds an adapter"):
        inspect_model(copy)


def test_every_shard_must_be_there(copy: Path) -> None:
    whole = copy / "transformer" / "diffusion_pytorch_model.safetensors"
    names = list(read_tensor_file(whole).tensors)
    shard = copy / "transformer" / "diffusion_pytorch_model-00001-of-00002.safetensors"
    whole.rename(shard)
    index = copy / "transformer" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, shard.name)}))
    assert len(inspect_model(copy).components["transformer"].weights) == 1
    index.write_text(json.dumps({"weight_map": {names[0]: "diffusion_pytorch_model-00002-of-00002.safetensors"}}))
    with pytest.raises(ValueError, match=r"shard .*00002-of-00002.* is not in"):
        inspect_model(copy)
    index.write_text(json.dumps({"weight_map": {"another.weight": shard.name}}))
    with pytest.raises(ValueError, match=r"lacks 'another\.weight'"):
        inspect_model(copy)
    index.write_text(json.dumps({"weight_map": {names[0]: "../vae/diffusion_pytorch_model.safetensors"}}))
    with pytest.raises(ValueError, match="is not in"):
        inspect_model(copy)


def test_links_out_of_the_model_need_an_allowed_folder(copy: Path, tmp_path: Path) -> None:
    file = copy / "vae" / "config.json"
    shutil.copy(file, tmp_path / "config.json")
    file.unlink()
    file.symlink_to(tmp_path / "config.json")
    assert inspect_model(copy).family.name == "flux"
    assert inspect_model(copy, roots=[tmp_path]).family.name == "flux"
    with pytest.raises(ValueError, match="outside the allowed folders"):
        inspect_model(copy, roots=[copy])


def test_a_fingerprint_follows_configs(copy: Path) -> None:
    before = inspect_model(copy).fingerprint
    assert inspect_model(copy).fingerprint == before
    change(copy / "scheduler" / "scheduler_config.json", shift=7.0)
    assert inspect_model(copy).fingerprint != before


def test_weights_changed_in_place_change_the_fingerprint_though_size_and_time_stay(copy: Path) -> None:
    file, before = copy / "vae" / "diffusion_pytorch_model.safetensors", inspect_model(copy).fingerprint
    status, content = file.stat(), bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert inspect_model(copy).fingerprint != before


def test_large_weights_are_told_apart_by_header_and_stamps(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_file, "MAX_HASHED_BYTES", 0)
    monkeypatch.setattr(tensor_file, "sha256_of", None)
    before = inspect_model(copy).fingerprint
    assert inspect_model(copy).fingerprint == before
    file = copy / "vae" / "diffusion_pytorch_model.safetensors"
    os.utime(file, ns=(1, file.stat().st_mtime_ns))  # as after a change with the time put back: only ctime tells
    assert inspect_model(copy).fingerprint != before


def test_a_layer_needs_a_tensor(copy: Path) -> None:
    num_tensors = len(inspect_model(copy).components["transformer"].weights[0].tensors)
    change(copy / "transformer" / "config.json", num_layers=num_tensors)
    inspect_model(copy)
    change(copy / "transformer" / "config.json", num_layers=num_tensors + 1)
    with pytest.raises(ValueError, match=rf"num_layers = {num_tensors + 1}, which is out of range; copy"):
        inspect_model(copy)


@pytest.mark.parametrize("channels", [None, 4, [], [8] * 4096])
def test_a_config_without_what_sizes_come_from_is_one_sentence(copy: Path, channels: Any) -> None:
    change(copy / "vae" / "config.json", block_out_channels=channels)
    with pytest.raises(ValueError, match=r"component vae of .*: its config .*; copy the model again"):
        family_size_multiple(copy, find_family("FluxPipeline"))


def test_a_config_that_lacks_an_entry_is_named_with_it(copy: Path) -> None:
    file = copy / "vae" / "config.json"
    plain = json.loads(file.read_text())
    del plain["block_out_channels"]
    file.unlink()
    file.write_text(json.dumps(plain))
    with pytest.raises(ValueError, match=r"component vae of .*: its config lacks 'block_out_channels'; copy"):
        family_size_multiple(copy, find_family("FluxPipeline"))


@pytest.mark.parametrize("patch", [2, [1, 0, 2], "a"])
def test_a_patch_size_of_another_kind_is_one_sentence(tiny: Callable[[str], Path], tmp_path: Path, patch: Any) -> None:
    folder = Path(shutil.copytree(tiny("wan"), tmp_path / "copy", copy_function=os.link))
    change(folder / "transformer" / "config.json", patch_size=patch)
    with pytest.raises(ValueError, match=r"component \w+ of .*: its config has a wrong value .*; copy the model again"):
        family_size_multiple(folder, inspect_model(folder).family)


def test_a_layer_count_that_is_text_is_refused_before_the_card_compares_it(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny("sd3"), tmp_path / "copy", copy_function=os.link))
    change(folder / "transformer" / "config.json", num_layers="38", dual_attention_layers=[])
    with pytest.raises(ValueError, match="num_layers = 38, which is out of range"):
        inspect_model(folder)
    with pytest.raises(ValueError, match=r"component transformer of .*: its config has a wrong value"):
        read_card(folder, find_family("StableDiffusion3Pipeline"))


def test_the_config_of_an_absent_component_is_empty(copy: Path) -> None:
    assert read_config(copy, "transformer")["num_attention_heads"] == 4
    assert read_config(copy, "image_encoder") == {}


def test_a_card_overrides_the_familys_defaults(copy: Path) -> None:
    family = find_family("FluxPipeline")
    before = read_card(copy, family)
    (copy / "latentloom.json").write_text('{"format": 1, "name": "mine", "defaults": {"steps": 3, "guidance": 2}}')
    card = read_card(copy, family)
    assert (card.name, card.steps, card.guidance, card.width) == ("mine", 3, 2.0, before.width)


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"format": 2}, "update latentloom"),
        ({"family": "wan"}, "the model is 'flux'"),
        ({"defaults": 3}, "not an object"),
        ({"defaults": {"steps": 0}}, "whole number from 1 to 1000"),
        ({"defaults": {"steps": True}}, "whole number from 1 to 1000"),
        ({"defaults": {"guidance": "high"}}, "a number from 0 to 100"),
        ({"defaults": {"widht": 64}}, "did you mean width"),
        ({"name": "x" * 300}, "a text of at most 200"),
        ({"defaults": {"guidance": float("nan")}}, "NaN is not a number that JSON has"),
    ],
)
def test_a_bad_card_is_one_sentence(copy: Path, card: dict[str, Any], words: str) -> None:
    (copy / "latentloom.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match=words):
        read_card(copy, find_family("FluxPipeline"))


def test_an_index_of_more_than_100_000_tensors_is_refused(copy: Path) -> None:
    shard = "diffusion_pytorch_model-00001-of-00001.safetensors"
    (copy / "vae" / "diffusion_pytorch_model.safetensors").rename(copy / "vae" / shard)
    index = copy / "vae" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {str(number): shard for number in range(130_000)}}))
    with pytest.raises(ValueError, match=r"index\.json describes more than 100,000 tensors"):
        inspect_model(copy)
