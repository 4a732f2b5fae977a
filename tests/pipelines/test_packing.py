"""Which single files are read, and how: published packings, what is refused by name, and hostile GGUF headers."""

import json
import random
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from latentloom.parallel.staging import moving
from latentloom.pipelines.components.building import _reading
from latentloom.pipelines.components.store import ComponentStore
from latentloom.pipelines.forecast.weights import weights_of
from latentloom.pipelines.models.component_files import inspect_model
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.models.gguf_file import read_gguf_file
from latentloom.pipelines.models.packing import Packing, check_unpacked, put_together, read_checkpoint, read_packing
from latentloom.pipelines.models.tensor_file import TensorEntry, TensorFile
from support.damage import damage_gguf
from support.packed_files import comfy_settings, gguf, makers_name, write_gguf, write_torchao

E4M3 = torch.float8_e4m3fn
ONE = torch.tensor(0.03125)
WEIGHTS = "diffusion_pytorch_model.safetensors"


def packing_of(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> dict[str, Packing]:
    held = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(held, path / "one.safetensors", metadata=metadata)
    return read_packing(read_checkpoint(path / "one.safetensors"))


ROTATED = {"convrot": True, "convrot_groupsize": 64}


@pytest.mark.parametrize(
    ("said", "metadata"),
    [
        ({"a.comfy_quant": comfy_settings(format="int8_tensorwise", **ROTATED)}, {}),
        ({"a.comfy_quant": comfy_settings(format="int8_tensorwise", params=ROTATED)}, {}),
        ({}, {"layers": {"a": {"format": "int8_tensorwise", **ROTATED}}}),
    ],
)
def test_a_rotation_is_told_beside_the_weight_or_in_the_metadata(
    tmp_path: Path, said: dict[str, Tensor], metadata: dict[str, Any]
) -> None:
    tensors = {"a.weight": torch.zeros(4, 128, dtype=torch.int8), "a.weight_scale": torch.ones(4, 1), **said}
    told = {"_quantization_metadata": json.dumps(metadata)} if metadata else None
    found = packing_of(tmp_path, {**tensors, "a.bias": torch.zeros(4)}, told)
    assert found["a.weight"] == Packing(kind="int8", scale="a.weight_scale", rotation=64)
    assert found.keys() == {"a.weight", "a.bias"} and found["a.bias"].kind == "plain"


def test_the_transformer_of_a_file_of_a_whole_model_is_meant(tmp_path: Path) -> None:
    said = {"model.diffusion_model.a.weight": torch.zeros(2, 2), "vae.b.weight": torch.zeros(2, dtype=torch.uint8)}
    assert packing_of(tmp_path, said).keys() == {"model.diffusion_model.a.weight"}


FP8, INT8 = torch.zeros(4, 8, dtype=E4M3), torch.zeros(4, 8, dtype=torch.int8)
SCALED = {"a.weight": INT8, "a.weight_scale": ONE}


def said(**settings: Any) -> dict[str, Tensor]:
    """An int8 weight with its scale, and what ComfyUI says of it."""
    return {**SCALED, "a.comfy_quant": comfy_settings(**{"format": "int8_tensorwise", **settings})}


ROTATED_FP8 = comfy_settings(format="float8_e4m3fn", convrot=True, convrot_groupsize=4)
REFUSED: list[tuple[dict[str, Tensor], str]] = [
    ({"a.weight": INT8}, r"a\.weight is int8 and lacks its scale \(a\.weight_scale\)"),
    ({"a.weight": FP8, "scaled_fp8": torch.zeros(2, dtype=E4M3)}, r"a\.weight lacks its scale"),
    ({"a.weight": FP8, "a.scale_weight": ONE, "b.weight": FP8}, r"b\.weight lacks its scale, which others"),
    ({"a.weight": FP8, "a.comfy_quant": comfy_settings(format="float8_e4m3fn")}, r"a\.weight lacks its scale"),
    ({"a.weight": FP8, "a.weight_scale": torch.ones(3)}, r"a\.weight_scale is F32 of shape \(3,\)"),
    ({"a.weight": FP8, "a.weight_scale": INT8[:, :1]}, r"a\.weight_scale is I8"),
    ({"a.weight": FP8, "a.weight_scale": ONE, "a.scale_weight": ONE}, r"a\.scale_weight is one scale of two"),
    ({"a.weight": FP8, "a.weight_scale_inv": ONE}, r"a\.weight_scale_inv is a scale or the like"),
    ({**SCALED, "a.weight_zero_point": ONE}, r"a\.weight_zero_point is a scale"),
    ({**SCALED, "a.pre_quant_scale": torch.ones(8)}, r"a\.pre_quant_scale is a scale"),
    ({**SCALED, "a.hadamard": torch.ones(8)}, r"a\.hadamard is a scale"),
    ({**SCALED, "a.weight": torch.zeros(4, 8)}, r"a\.weight_scale is a scale"),
    ({**SCALED, "a.weight": torch.zeros(4, 4, dtype=torch.uint8)}, r"a\.weight is of U8, which is not"),
    ({"a.qweight": torch.zeros(4, 4, dtype=torch.int32)}, r"a\.qweight is of I32, which is not known"),
    (said(format="nvfp4"), "as 'nvfp4' in I8"),
    (said(quip=1), r"a says 'quip' of its packing"),
    (said(convrot=True), r"a\.weight is rotated by 256, which does not divide"),
    (said(convrot="false"), r"a\.weight says 'false' of its rotation"),
    (said(params="x"), r"a says 'params x' of its packing"),
    ({**SCALED, "a.comfy_quant": torch.zeros(4, dtype=torch.uint8)}, "a.comfy_quant of"),
    ({"a.weight": FP8, "a.weight_scale": ONE, "a.comfy_quant": ROTATED_FP8}, r"a\.weight is fp8 and rotated"),
    ({"a.weight": FP8, "a.scale": ONE}, r"a\.scale lies beside a packed weight"),
    ({"a.weight": FP8, "a.weight.scale": ONE}, r"a\.weight\.scale lies beside a packed weight"),
    ({**SCALED, "a.s_u": torch.ones(4)}, r"a\.s_u lies beside a packed weight"),
    ({"a\n\x1b[1m.weight": INT8}, r"a\?\?\[1m\.weight is int8"),
    ({**SCALED, "a.comfy_quant": torch.zeros(5000, dtype=torch.uint8)}, "short JSON"),
]


@pytest.mark.parametrize(("tensors", "words"), REFUSED)
def test_what_is_not_known_is_refused_by_its_name(tmp_path: Path, tensors: dict[str, Tensor], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        packing_of(tmp_path, tensors)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("said", [{"layers": {"net.a": ROTATED}}, {"layers": [ROTATED]}, {"a": ROTATED}])
def test_metadata_that_fits_no_weight_is_refused(tmp_path: Path, said: dict[str, Any]) -> None:
    """ConvRot that is told under another name must not be overlooked."""
    tensors = {"a.weight": torch.zeros(4, 64, dtype=torch.int8), "a.weight_scale": torch.ones(4, 1)}
    with pytest.raises(ValueError, match=r"tells how net\.a is packed, which the file has not|names no layers"):
        packing_of(tmp_path, tensors, {"_quantization_metadata": json.dumps(said)})


def test_metadata_of_another_component_is_none_of_the_transformers(tmp_path: Path) -> None:
    tensors = {"model.diffusion_model.a.weight": torch.zeros(2, 2), "clip.b.weight": torch.zeros(2, 2)}
    told = {"_quantization_metadata": json.dumps({"layers": {"clip.b": {"format": "nvfp4", "strange": 1}}})}
    assert packing_of(tmp_path, tensors, told)["model.diffusion_model.a.weight"].kind == "plain"


def test_many_weights_of_plain_fp8_take_no_time(tmp_path: Path) -> None:
    tensors = {f"b{index}.weight": torch.zeros(1, dtype=E4M3) for index in range(5000)}
    save_file(tensors, tmp_path / "many.safetensors")
    file = read_checkpoint(tmp_path / "many.safetensors")
    started = time.process_time()
    assert len(read_packing(file)) == 5000
    assert time.process_time() - started < 1, "each looked at all others once"


def test_a_folder_with_weights_that_mean_something_else_is_refused(tmp_path: Path) -> None:
    save_file({"a.weight": FP8}, tmp_path / "plain.safetensors")
    plain = read_checkpoint(tmp_path / "plain.safetensors")
    check_unpacked([plain])
    save_file({"a.weight": FP8, "a.weight_scale": ONE}, tmp_path / "scaled.safetensors")
    with pytest.raises(ValueError, match=r"is quantized \(a\.weight_scale\); such weights are read from a single file"):
        check_unpacked([read_checkpoint(tmp_path / "scaled.safetensors")])
    save_file({"a.weight_scale": ONE}, tmp_path / "scale.safetensors")
    with pytest.raises(ValueError, match=r"scale\.safetensors is quantized \(a\.weight_scale\)"):
        check_unpacked([plain, read_checkpoint(tmp_path / "scale.safetensors")])


def packed(weights: dict[str, Tensor], way: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(what the file holds, what it stands for by the publisher's formula) of a transformer's weights."""
    holds, means = {}, dict(weights)
    for name, tensor in weights.items():
        layer = name.removesuffix(".weight")
        if tensor.ndim != 2 or layer == name or tensor.shape[1] % 16 or way == "plain":
            holds[name] = tensor
        elif way == "fp8":
            holds[name] = tensor.to(E4M3)
            means[name] = holds[name].to(tensor.dtype)
        elif way == "scaled fp8":
            holds |= {
                name: (tensor / ONE).to(E4M3),
                f"{layer}.scale_weight": ONE.clone(),
                f"{layer}.scale_input": ONE + 1,
            }
            means[name] = holds[name].to(tensor.dtype) * ONE
        else:
            scale = tensor.abs().amax(1, keepdim=True) / 127
            holds |= {name: (tensor / scale).round().to(torch.int8), f"{layer}.weight_scale": scale}
            holds[f"{layer}.comfy_quant"] = comfy_settings(format="int8_tensorwise")
            means[name] = holds[name].float() * scale
    return holds | ({"scaled_fp8": torch.zeros(2, dtype=E4M3)} if way == "scaled fp8" else {}), means


@pytest.mark.parametrize("way", ["plain", "fp8", "scaled fp8", "int8"])
def test_a_published_file_gives_the_transformer_to_the_bit(
    tiny: Callable[[str], Path], tmp_path: Path, way: str
) -> None:
    """In ComfyUI's names of a Wan, behind its prefix where it is packed."""
    weights = load_file(tiny("wan") / "transformer" / WEIGHTS)
    holds, means = packed(weights, way)
    prefix = "" if way == "plain" else "model.diffusion_model."
    renamed = {prefix + makers_name(name): tensor for name, tensor in holds.items()}
    save_file(renamed, tmp_path / "one.safetensors")
    model = describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('wan')}", device="cpu")
    state = ComponentStore().load(model, ("transformer",))["transformer"].state_dict()
    assert state.keys() == means.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in means.items())
    assert all(torch.equal(state[name], tensor) for name, tensor in weights.items()) == (way == "plain")


@pytest.mark.parametrize("dtype", [torch.int8, E4M3])
def test_a_folder_that_torchao_quantized_gives_the_transformer_to_the_bit(
    tiny: Callable[[str], Path], tmp_path: Path, dtype: torch.dtype
) -> None:
    folder = shutil.copytree(tiny("flux"), tmp_path / "flux")
    means = write_torchao(folder / "transformer", load_file(folder / "transformer" / WEIGHTS), dtype=dtype)
    model = describe_model(str(folder), device="cpu")
    files = inspect_model(folder).components["transformer"]
    assert files.is_packed and files.num_parameters == sum(tensor.numel() for tensor in means.values())
    state = ComponentStore().load(model, ("transformer",))["transformer"].state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in means.items())
    name = "context_embedder.weight"
    with _reading(files, dict.fromkeys(means, torch.float32), moving(torch.device("cpu"))) as read:
        assert torch.equal(read(name, slice(3, 5)), means[name][3:5]), "a rank's share of it"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"_type": "Int4Tensor"}, "as Int4Tensor of qdata, scale, zero_point, which is not read here"),
        ({"_tensor_data_names": ["qdata", "scale", "act_pre_scale"]}, "of qdata, scale, act_pre_scale, which is not"),
        ({"_type": "Float8Tensor"}, r"has no numbers \(a\._weight_qdata\)"),
    ],
)
def test_what_torchao_packed_otherwise_is_refused_by_its_name(change: dict[str, Any], words: str) -> None:
    said = {"_type": "Int8Tensor", "_tensor_data_names": ["qdata", "scale", "zero_point"], **change}
    entries = {
        "a._weight_qdata": TensorEntry("I8", (4, 8)),
        "a._weight_scale": TensorEntry("F32", (4, 1)),
        "a._weight_zero_point": TensorEntry("I8", (4, 1)),
    }

    def file(**other: TensorEntry) -> TensorFile:
        return TensorFile(Path("x/y"), b"", 0, (0, 0, 0), entries | other, {"a.weight": json.dumps(said)})

    with pytest.raises(ValueError, match=words):
        put_together([file()])
    said = {**said, "_type": "Int8Tensor", "_tensor_data_names": ["qdata", "scale"]}
    with pytest.raises(ValueError, match=r"a\._weight_scale is \(4, 2\), where one number or 4 are right"):
        put_together([file(**{"a._weight_scale": TensorEntry("F32", (4, 2))})])


def test_two_experts_come_from_two_files(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder, means = tiny("wan22"), {}
    for name, word in (("transformer", "high"), ("transformer_2", "low")):
        holds, means[name] = packed(load_file(folder / name / WEIGHTS), "fp8")
        save_file(holds, tmp_path / f"wan_{word}_noise.safetensors")
    model = describe_model(f"{tmp_path / 'wan_low_noise.safetensors'}@{folder}", device="cpu")
    parts = ComponentStore().load(model, tuple(means))
    for name, wanted in means.items():
        state = parts[name].state_dict()
        assert all(torch.equal(state[each], tensor) for each, tensor in wanted.items())
    by_the_other = describe_model(f"{tmp_path / 'wan_high_noise.safetensors'}@{folder}", device="cpu")
    assert by_the_other.fingerprint == model.fingerprint
    (tmp_path / "wan_high_noise.safetensors").rename(tmp_path / "kept")
    (tmp_path / "wan_low_noise.safetensors").rename(tmp_path / "wan_high_noise.safetensors")
    (tmp_path / "kept").rename(tmp_path / "wan_low_noise.safetensors")
    for word in ("high", "low"):
        exchanged = describe_model(f"{tmp_path / f'wan_{word}_noise.safetensors'}@{folder}", device="cpu")
        assert exchanged.fingerprint != model.fingerprint, "the store would give each expert for the other"


def test_a_scale_that_is_no_number_is_refused(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    holds, _ = packed(load_file(tiny("wan") / "transformer" / WEIGHTS), "scaled fp8")
    name = next(name for name in holds if name.endswith(".scale_weight"))
    save_file({**holds, name: torch.tensor(float("nan"))}, tmp_path / "one.safetensors")
    model = describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('wan')}", device="cpu")
    with pytest.raises(ValueError, match=rf"scale {name} is no number"):
        ComponentStore().load(model, ("transformer",))


def test_only_the_transformer_of_a_single_file_is_counted(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    """A text encoder in the same file is neither mapped nor unpacked."""
    weights = {f"model.diffusion_model.{k}": v for k, v in load_file(tiny("flux") / "transformer" / WEIGHTS).items()}
    save_file({**weights, "clip.a.weight": torch.zeros(1000, 1000)}, tmp_path / "one.safetensors")
    found = weights_of(describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('flux')}", device="cpu"))["transformer"]
    assert found.shared_bytes == found.num_bytes and found.loading_bytes == 0
    save_file({name: value.to(E4M3) for name, value in weights.items()}, tmp_path / "one.safetensors")
    found = weights_of(describe_model(f"{tmp_path / 'one.safetensors'}@{tiny('flux')}", device="cpu"))["transformer"]
    assert found.shared_bytes == 0 and found.loading_bytes == 8 * max(each.numel() for each in weights.values())


def test_a_gguf_file_gives_the_transformer(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    weights = load_file(tiny("flux") / "transformer" / WEIGHTS)
    path = write_gguf(tmp_path / "one.gguf", weights)
    model = describe_model(f"{path}@{tiny('flux')}", device="cpu")
    state = ComponentStore().load(model, ("transformer",))["transformer"].state_dict()
    kinds = {entry.dtype for entry in read_gguf_file(path).tensors.values()}
    assert kinds == {"F32", "Q8_0"}
    for name, tensor in weights.items():
        assert torch.allclose(state[name], tensor, atol=float(tensor.abs().max()) / 120)


def test_a_convolution_of_a_gguf_file_has_its_original_shape(tmp_path: Path) -> None:
    content = torch.arange(24.0).numpy().tobytes()
    entries = {"comfy.gguf.orig_shape.conv.weight": [2, 3, 2, 2]}
    (tmp_path / "one.gguf").write_bytes(gguf({"conv.weight": ("F32", (6, 4), content)}, entries=entries))
    assert read_gguf_file(tmp_path / "one.gguf").tensors["conv.weight"].shape == (2, 3, 2, 2)


def long_list(count: int) -> bytes:
    whole = gguf({"a": ("F32", (1,), bytes(4))}, entries={"list": [0]})
    place = whole.index(struct.pack("<IIQ", 9, 5, 1)) + 4
    return whole[:place] + struct.pack("<IQ", 8, count) + bytes(64)


def of_other_numbers() -> bytes:
    whole = gguf({"a": ("F32", (2,), bytes(8))}, entries={"comfy.gguf.orig_shape.a": [2]})
    return whole.replace(struct.pack("<IQi", 5, 1, 2), struct.pack("<IQf", 6, 1, 2.0))


def of_another_type() -> bytes:
    whole = gguf({"a.weight": ("Q8_0", (1, 32), bytes(34))})
    place = whole.index(struct.pack("<QQ", 32, 1)) + 16
    return whole[:place] + struct.pack("<I", 16) + whole[place + 4 :]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (long_list(1_000_001), r"has lists of [\d,]+ texts"),
        (long_list(1 << 40), r"has lists of [\d,]+ texts"),
        (of_other_numbers(), r"was of shape \(2\.0,\)"),
        (of_another_type(), r"'a\.weight' as IQ2_XXS, which is not read here; get it as Q8_0, Q6_K"),
    ],
    ids=["lists of texts, bounded together", "an endless list", "an original shape of other numbers", "another type"],
)
def test_a_gguf_file_that_is_not_read_says_why(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "one.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_gguf_file(tmp_path / "one.gguf")


def small_gguf() -> bytes:
    tensors: dict[str, Any] = {
        "a.weight": ("Q8_0", (2, 64), bytes(136)),
        "b.weight": ("Q4_K", (1, 256), bytes(144)),
        "a.bias": ("F32", (2,), bytes(8)),
    }
    return gguf(tensors, entries={"general.alignment": 32, "comfy.gguf.orig_shape.a.bias": [2]})


def test_a_damaged_gguf_file_is_one_sentence_or_read_whole(tmp_path: Path) -> None:
    (tmp_path / "whole.gguf").write_bytes(small_gguf())
    assert len(read_gguf_file(tmp_path / "whole.gguf").tensors) == 3
    refused, path = 0, tmp_path / "damaged.gguf"
    for seed in range(30):
        what, content = damage_gguf(small_gguf(), random.Random(seed))
        path.write_bytes(content)
        try:
            found = read_gguf_file(path)
        except ValueError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error), what
        else:
            assert all(each.start < len(content) and each.numel < 8 * len(content) for each in found.tensors.values())
    assert refused > 20
