"""Components filled tensor by tensor on an accelerator: the same weights as the library gives, no copy on the host."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from latentloom.pipelines.components import building
from latentloom.pipelines.components.loading import component_class, load_component, shells, torch_dtype
from latentloom.pipelines.models.component_files import inspect_component, inspect_model
from latentloom.pipelines.models.folder import read_index
from latentloom.pipelines.values import Dtype
from support.alive import Alive
from support.by_hand import cells

FAMILIES = ("flux", "sd3", "qwen_image", "wan", "wan22_i2v", "wan_i2v")
ACCELERATOR = "meta"  # stands in for one: moving there is free, and nothing of it is on the host


def models(folder: Path, library: str) -> list[Any]:
    files = inspect_model(folder).components.values()
    return [each for each in files if each.kind == "model" and each.library == library]


def tensors(component: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict([*component.named_parameters(), *component.named_buffers()])


@pytest.mark.parametrize(
    ("family", "dtype"),
    cells(
        FAMILIES,
        ("bf16", "fp32", "fp16"),
        here=[*((family, "bf16") for family in FAMILIES), ("flux", "fp32"), ("wan_i2v", "fp16")],
    ),
)
def test_tensors_one_by_one_are_what_diffusers_reads(tiny: Callable[[str], Path], family: str, dtype: Dtype) -> None:
    for files in models(tiny(family), "diffusers"):
        expected = tensors(load_component(files, dtype=dtype))
        got = building.load(component_class(files), files, dtype=torch_dtype(dtype), device="cpu")
        found = tensors(got)
        assert {name: x.dtype for name, x in found.items()} == {name: x.dtype for name, x in expected.items()}
        assert all(torch.equal(x, expected[name]) for name, x in found.items())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("library", ["diffusers", "transformers"])
def test_on_an_accelerator_tensors_have_the_dtypes_they_have_here(
    tiny: Callable[[str], Path], family: str, library: str
) -> None:
    for files in models(tiny(family), library):
        here = tensors(load_component(files, dtype="bf16"))
        there = tensors(load_component(files, dtype="bf16", device=ACCELERATOR))
        assert {name: x.dtype for name, x in there.items()} == {name: x.dtype for name, x in here.items()}
        assert {x.device.type for x in there.values()} == {ACCELERATOR}


def test_the_host_holds_no_cast_copy_of_what_goes_to_an_accelerator(tiny: Callable[[str], Path]) -> None:
    files = inspect_model(tiny("flux")).components["transformer"]
    with Alive() as on_host:
        sizes = [x.nbytes for x in load_component(files, dtype="bf16").parameters()]
    whole, largest = sum(sizes), max(sizes)
    with Alive() as live:
        load_component(files, dtype="bf16", device=ACCELERATOR)
    assert on_host.most >= whole, "the count sees a cast on the host"
    assert live.most <= 2 * largest, "the constructor makes one at a time"


def test_names_that_diffusers_converts_are_left_to_it(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    files = inspect_model(tiny("flux")).components["vae"]
    old = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}
    weights = load_file(files.weights[0].path)
    folder = tmp_path / "model" / "vae"
    load_component(files, dtype="fp32").save_pretrained(folder)
    for ours, theirs in old.items():
        weights = {name.replace(ours, theirs): tensor for name, tensor in weights.items()}
    save_file(weights, folder / files.weights[0].path.name)
    renamed = inspect_component(folder.parent, "vae", library="diffusers", class_name=files.class_name, roots=None)
    assert building.load(component_class(renamed), renamed, dtype=torch.bfloat16, device="cpu") is None
    loaded = load_component(renamed, dtype="bf16", device=ACCELERATOR)
    assert {(x.device.type, x.dtype) for x in loaded.parameters()} == {(ACCELERATOR, torch.bfloat16)}


def test_a_shell_is_made_once_while_the_files_stay_the_same(tiny: Callable[[str], Path]) -> None:
    folder = tiny("flux")
    first, again, changed = (
        shells(folder, read_index(folder), (), dtype=torch.float32, fingerprint=each)["vae"] for each in ("a", "a", "b")
    )
    assert first is again and changed is not first and first.config["latent_channels"] == 16
