import dataclasses
import json
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

from latentloom.pipelines.components.lora import _one_sentence
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.models.describe import add_lora, describe_model
from latentloom.pipelines.values import Lora, Model, to_plain
from latentloom.pipelines.whole.assembled import load_pipeline
from support.lora_files import write_lora

ENDLESS = "([a-z_0-9.]+)+!"  # a regular expression that takes longer than a life to fail on the name of a layer
WEIGHTS = "diffusion_pytorch_model.safetensors"


def adapted(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    return {name: part for name, part in module.named_modules() if hasattr(part, "lora_A")}


def outputs(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What each adapted layer makes of noise."""
    generator = torch.Generator().manual_seed(1)
    return {
        name: part(torch.randn(3, part.in_features, generator=generator))  # type: ignore[operator]
        for name, part in adapted(module).items()
    }


def same(ours: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == expected.keys() and all(torch.equal(ours[name], each) for name, each in expected.items())


def stock_with(flux: Model, file: Path, scale: float = 1.0) -> Any:
    """diffusers' own pipeline with a LoRA on it."""
    stock: Any = diffusers.FluxPipeline.from_pretrained(flux.folder, dtype=torch.float32, local_files_only=True)
    stock.load_lora_weights(str(file), adapter_name="one")
    stock.set_adapters(["one"], [scale])
    return stock


def transformer_of(model: Model, components: ComponentStore | None = None) -> Any:
    return (components or ComponentStore()).load(model, ("transformer",))["transformer"]


def test_a_lora_of_nan_ends_the_denoise_and_is_named(
    flux: Model, style: Path, tmp_path: Path, canvas: Any, paint: Any
) -> None:
    weights = load_file(style)
    first = next(name for name in weights if "lora_B" in name)
    save_file({**weights, first: weights[first] * float("nan")}, tmp_path / "bad.safetensors")
    damaged = to_plain(add_lora(flux, str(tmp_path / "bad.safetensors"), 1.0))
    with pytest.raises(ValueError, match=r"not finite numbers .*; the LoRA \S*bad.safetensors holds such values"):
        paint(damaged, canvas("flux"))


@pytest.fixture
def flux(tiny: Callable[[str], Path]) -> Model:
    return describe_model(str(tiny("flux")), device="cpu")


@pytest.fixture
def style(flux: Model, tmp_path: Path) -> Path:
    return write_lora(tmp_path / "style.safetensors", transformer_of(flux), prefix="transformer", layers=("to_q", "ff"))


@pytest.fixture
def subject(flux: Model, tmp_path: Path) -> Path:
    path = tmp_path / "subject.safetensors"
    return write_lora(path, transformer_of(flux), prefix="transformer", layers=("to_q", "to_v"), seed=5)


@pytest.mark.parametrize(
    "family",
    [
        *("flux", "sd3", "qwen_image", "wan22"),
        *(pytest.param(each, marks=pytest.mark.by_hand) for each in ("qwen_image_edit_plus", "wan", "wan_i2v")),
    ],
)
def test_two_scaled_loras_equal_the_stock_pipeline(tiny: Callable[[str], Path], tmp_path: Path, family: str) -> None:
    model = describe_model(str(tiny(family)), device="cpu")
    stock: Any = load_pipeline(str(tiny(family)), dtype="fp32")
    for number, layers in enumerate((("to_q", "to_v"), ("to_q", "ff", "img_mlp"))):
        file = write_lora(
            tmp_path / f"l{number}.safetensors", stock.transformer, prefix="transformer", layers=layers, seed=number
        )
        model = add_lora(model, str(file), (0.7, -0.4)[number])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Already found a `peft_config`")
        for lora in model.loras:
            stock.load_lora_weights(lora.path, adapter_name=lora.adapter)
    stock.set_adapters(["l0", "l1"], [0.7, -0.4])
    ours = outputs(transformer_of(model))
    assert same(ours, outputs(stock.transformer)) and len(ours) > 1


def test_a_file_with_alphas_in_kohya_names_equals_the_stock_pipeline(flux: Model, tmp_path: Path) -> None:
    weights = {}
    for name in ("img_attn_proj", "txt_mlp_0"):
        layer = f"lora_unet_double_blocks_0_{name}"
        weights[f"{layer}.lora_down.weight"] = torch.randn(2, 64)
        weights[f"{layer}.lora_up.weight"] = torch.randn(256 if "mlp" in name else 64, 2)
        weights[f"{layer}.alpha"] = torch.tensor(1.0)
    save_file(weights, tmp_path / "kohya.safetensors")
    ours = outputs(transformer_of(add_lora(flux, str(tmp_path / "kohya.safetensors"), 0.5)))
    stock = stock_with(flux, tmp_path / "kohya.safetensors", 0.5)
    assert same(ours, outputs(stock.transformer)) and len(ours) == 2


def test_the_same_transformer_serves_models_that_differ_in_loras(flux: Model, style: Path, subject: Path) -> None:
    components = ComponentStore()
    plain = transformer_of(flux, components)
    before = {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    one = transformer_of(add_lora(flux, str(style)), components)
    expected = outputs(transformer_of(add_lora(flux, str(subject), 0.5)))
    ours = outputs(transformer_of(add_lora(flux, str(subject), 0.5), components))
    assert same(ours, expected)
    again = transformer_of(flux, components)
    assert plain is one is again and not adapted(again)
    assert all(torch.equal(tensor, before[name]) for name, tensor in again.state_dict().items())


def test_another_scale_reads_no_file_again(flux: Model, style: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    components = ComponentStore()
    model = add_lora(flux, str(style), 1.0)
    transformer_of(model, components)
    louder = dataclasses.replace(model, loras=(dataclasses.replace(model.loras[0], scale=2.0),))
    expected = outputs(transformer_of(louder))
    monkeypatch.setattr(diffusers.FluxPipeline, "lora_state_dict", None)
    assert same(outputs(transformer_of(louder, components)), expected)


def test_the_same_name_with_other_content_is_read_again(flux: Model, style: Path, subject: Path) -> None:
    components = ComponentStore()
    transformer_of(add_lora(flux, str(style)), components)
    subject.replace(style)
    model = add_lora(flux, str(style))
    assert same(outputs(transformer_of(model, components)), outputs(transformer_of(model)))


def test_a_lora_for_another_model_is_refused(
    flux: Model, style: Path, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    wan = describe_model(str(tiny("wan")), device="cpu")
    file = write_lora(tmp_path / "w.safetensors", transformer_of(wan), prefix="transformer", layers=("to_q",))
    components = ComponentStore()
    transformer_of(flux, components)
    for store in (components, ComponentStore()):  # fitted to a kept transformer, and to a new one
        with pytest.raises(ValueError, match=r"does not fit this model .*use one made for it"):
            transformer_of(add_lora(flux, str(file)), store)
    assert not adapted(transformer_of(flux, components))


def test_a_lora_that_names_no_part_of_the_model_is_refused(flux: Model, tmp_path: Path) -> None:
    """diffusers loads zero layers and says nothing."""
    weights = {f"unet.x.lora_{side}.weight": torch.ones(2, 2) for side in "AB"}
    save_file(weights, tmp_path / "sd15.safetensors")
    with pytest.raises(ValueError, match=r"has nothing for this model \(it names unet\.x"):
        transformer_of(add_lora(flux, str(tmp_path / "sd15.safetensors")))


def test_wrong_shapes_are_one_sentence(flux: Model, style: Path, tmp_path: Path) -> None:
    weights = {name: torch.cat([w, w], dim=1) if "lora_A" in name else w for name, w in load_file(style).items()}
    save_file(weights, tmp_path / "wide.safetensors")
    with pytest.raises(ValueError, match=r"LoRA \S*wide.safetensors has other sizes than this model"):
        transformer_of(add_lora(flux, str(tmp_path / "wide.safetensors")))


def test_a_partly_matching_lora_is_told(flux: Model, style: Path, caplog: pytest.LogCaptureFixture) -> None:
    weights = load_file(style)
    weights |= {f"transformer.transformer_blocks.9.attn.to_q.lora_{s}.weight": torch.ones(2, 2) for s in "AB"}
    save_file(weights, style)
    with caplog.at_level(logging.WARNING, logger="latentloom"):
        transformer_of(add_lora(flux, str(style)))
    assert "layers of transformer match the model" in caplog.text


def test_a_file_that_changed_since_it_was_chosen_is_refused(flux: Model, style: Path, subject: Path) -> None:
    model = add_lora(flux, str(style))
    subject.replace(style)
    with pytest.raises(ValueError, match="has changed since it was chosen"):
        transformer_of(model)
    style.unlink()
    with pytest.raises(ValueError, match=r"cannot be read \(No such file or directory\); load it again"):
        transformer_of(model)


def test_text_encoder_parts_go_to_clip(flux: Model, tmp_path: Path, style: Path) -> None:
    encoder = ComponentStore().load(flux, ("text_encoder",))["text_encoder"]
    file = write_lora(tmp_path / "te.safetensors", encoder, prefix="text_encoder", layers=("q_proj",))
    both = load_file(file) | load_file(style)
    save_file(both, file)
    stock = stock_with(flux, file, 0.6)
    parts = ComponentStore().load(add_lora(flux, str(file), 0.6), ("text_encoder", "text_encoder_2", "transformer"))
    for name, count in (("text_encoder", 2), ("text_encoder_2", 0)):
        ours = outputs(parts[name])
        assert same(ours, outputs(getattr(stock, name))) and len(ours) == count
    assert adapted(parts["transformer"])


def test_a_text_encoder_is_loaded_again_for_other_loras(flux: Model, tmp_path: Path) -> None:
    components = ComponentStore()
    encoder = components.load(flux, ("text_encoder",))["text_encoder"]
    file = write_lora(tmp_path / "te.safetensors", encoder, prefix="text_encoder", layers=("q_proj",))
    assert adapted(components.load(add_lora(flux, str(file)), ("text_encoder",))["text_encoder"])
    assert not adapted(components.load(flux, ("text_encoder",))["text_encoder"])


@pytest.mark.parametrize(("name", "experts"), [("a", (4, 4)), ("x_high_noise", (4, 0)), ("LowNoise", (0, 4))])
def test_wan_experts_take_the_files_meant_for_them(
    tiny: Callable[[str], Path], tmp_path: Path, name: str, experts: tuple[int, int]
) -> None:
    model = describe_model(str(tiny("wan22")), device="cpu")
    file = write_lora(
        tmp_path / f"{name}.safetensors",
        transformer_of(model),
        prefix="transformer",
        layers=("attn1.to_q", "attn2.to_q"),
    )
    parts = ComponentStore().load(add_lora(model, str(file)), ("transformer", "transformer_2"))
    assert (len(adapted(parts["transformer"])), len(adapted(parts["transformer_2"]))) == experts


def test_bf16_transformers_take_fp32_loras(flux: Model, style: Path) -> None:
    part = transformer_of(add_lora(dataclasses.replace(flux, dtype="bf16"), str(style)))
    layer: Any = next(iter(adapted(part).values()))
    assert layer(torch.randn(2, layer.in_features).bfloat16()).dtype == torch.bfloat16


def with_settings(file: Path, **settings: Any) -> Path:
    """The file with what diffusers and peft keep about a LoRA in its metadata."""
    plain = {f"transformer.{key}": value for key, value in settings.items()}
    save_file(load_file(file), file, metadata={"lora_adapter_metadata": json.dumps(plain)})
    return file


def test_what_a_lora_says_of_itself_equals_the_stock_pipeline(flux: Model, style: Path) -> None:
    names = {"base_model_name_or_path": "org/name", "megatron_config": None, "megatron_core": "megatron.core"}
    layers = sorted({name.removeprefix("transformer.").partition(".lora_")[0] for name in load_file(style)})
    with_settings(style, r=2, lora_alpha=6, use_rslora=True, target_modules=layers, init_lora_weights=True, **names)
    ours = outputs(transformer_of(add_lora(flux, str(style))))
    assert same(ours, outputs(stock_with(flux, style).transformer)) and len(ours) > 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"r": 10**9}, r"asks for transformer\.r = 1000000000, but its tensors have ranks up to 2"),
        ({"r": "2"}, r"asks for transformer\.r = 2, but"),
        ({"r": 2, "rank_pattern": {"to_q": 10**9}}, r"transformer\.rank_pattern = .* ranks up to 2"),
        ({"megatron_config": {"a": 1}, "megatron_core": "evil"}, r"names a package to import \(megatron_config\)"),
        ({"auto_mapping": {"base_model_class": "Evil"}}, "names code of its own"),
        ({"corda_config": {"cache_file": "/tmp/x"}}, "names files of its own"),
        ({"init_lora_weights": "pissa"}, "changes the model's own weights"),
        ({"layer_replication": [[0, 2]]}, "changes the model's layers"),
        ({"runtime_config": {"auto_map": {"A": "b"}}}, "names code of its own"),
        *(
            ({"r": 2, name: value}, rf"gives {name} a pattern, '\(\[a-z_0-9\.\]\+\)\+!', which could take for ever")
            for name, value in (
                ("target_modules", ENDLESS),
                ("exclude_modules", ENDLESS),
                ("modules_to_save", ["proj_out", ENDLESS]),
                ("layers_pattern", [ENDLESS]),
                ("rank_pattern", {"^to_q": 2, ENDLESS: 2}),
                ("alpha_pattern", {ENDLESS: 2}),
            )
        ),
    ],
)
def test_a_lora_that_asks_for_more_than_its_tensors_is_refused(
    flux: Model, style: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        add_lora(flux, str(with_settings(style, **settings)))


@pytest.mark.parametrize("settings", [{"target_modules": "all-linear"}, {"rank_pattern": {"^a.0.to_q$": 2}}])
def test_names_of_layers_are_no_patterns_that_are_refused(flux: Model, style: Path, settings: dict[str, Any]) -> None:
    add_lora(flux, str(with_settings(style, r=2, **settings)))


def test_the_name_of_a_tensor_is_no_pattern_either(flux: Model, style: Path) -> None:
    """Where a file tells no settings, diffusers makes rank_pattern from the names of its tensors."""
    bad = {f"transformer.{ENDLESS}.lora_{half}.weight": torch.ones(3, 3) for half in "AB"}
    save_file({**bad, **load_file(style)}, style)
    with pytest.raises(ValueError, match=r"'transformer\.\(\[a-z.* is no name of a layer; get the file again"):
        add_lora(flux, str(style))


@pytest.mark.parametrize(("halves", "rank"), [(("w2_a", "w2_b"), 3), (("w1_a", "w1_b"), 3), ((), 10**6)])
def test_a_lokr_has_the_ranks_of_its_halves_and_a_whole_one_any(
    flux: Model, tmp_path: Path, halves: tuple[str, ...], rank: int
) -> None:
    layer = "transformer.transformer_blocks.0.attn.to_q.lokr_"
    shapes = dict(zip(halves, [(16, 2), (2, 16)], strict=False)) or {"w1": (4, 4), "w2": (16, 16)}
    save_file({layer + part: torch.ones(shape) for part, shape in shapes.items()}, tmp_path / "x.safetensors")
    if not halves:
        add_lora(flux, str(with_settings(tmp_path / "x.safetensors", r=rank)))
        return
    add_lora(flux, str(with_settings(tmp_path / "x.safetensors", r=2)))
    with pytest.raises(ValueError, match=r"asks for transformer\.r = 3, but its tensors have ranks up to 2"):
        add_lora(flux, str(with_settings(tmp_path / "x.safetensors", r=rank)))


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((2, 64), (64, 3), "its other half has"),
        ((2, 64), (0, 10**9), r"its other half has \(0, 1000000000\)"),
        ((2, 64), None, "its other half is missing"),
        (None, (1, 10**6), "its other half is missing"),
    ],
)
def test_a_lora_whose_halves_do_not_match_is_refused(
    flux: Model, tmp_path: Path, a: tuple[int, ...] | None, b: tuple[int, ...] | None, words: str
) -> None:
    """Its missing half would be made of noise, and as large as the rank says."""
    shapes = {"lora_A": a, "lora_B": b}
    layer = "transformer.transformer_blocks.0.attn.to_q"
    weights = {f"{layer}.{half}.weight": torch.ones(shape) for half, shape in shapes.items() if shape}
    save_file(weights, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=words):
        add_lora(flux, str(tmp_path / "x.safetensors"))


def test_a_file_that_diffusers_only_asserts_away_is_refused_in_words() -> None:
    lora = Lora(path="odd.safetensors", sha256="", adapter="odd")
    words = r"^LoRA odd.safetensors does not fit this model \(its layers are called or shaped otherwise\); use one made"
    with pytest.raises(ValueError, match=words), _one_sentence(lora):
        raise AssertionError


def test_a_lora_of_anima_changes_what_joins_its_text_encoders_too(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    model, path = describe_model(str(tiny("anima")), device="cpu"), tmp_path / "both.safetensors"
    parts = ComponentStore().load(model, ("transformer", "text_conditioner"))
    weights = {}
    for name, module in parts.items():
        part = write_lora(tmp_path / name, module, prefix=name, layers=("to_q", "q_proj"))
        weights |= load_file(part)
    save_file(weights, path)
    stock: Any = load_pipeline(str(tiny("anima")), dtype="fp32")
    stock.load_lora_weights(str(path), adapter_name="both")
    components = ComponentStore()
    ours = components.load(add_lora(model, str(path)), tuple(parts))
    for name in parts:
        found = outputs(ours[name])
        assert same(found, outputs(getattr(stock, name))) and len(found) > 1
    assert not any(map(adapted, components.load(model, tuple(parts)).values()))
