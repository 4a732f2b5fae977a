"""A default dtype for one thread: what torch would make, and nothing seen by other threads."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from latentloom.pipelines.components import building
from latentloom.pipelines.components.building import DefaultDtype, kept_to_this_thread
from latentloom.pipelines.components.loading import component_class, load_component
from latentloom.pipelines.models.component_files import inspect_model

MAKERS: dict[str, Callable[[], Any]] = {
    "zeros": lambda: torch.zeros(3),
    "of numbers": lambda: torch.tensor([1.3, 2.7]),
    "of whole numbers": lambda: torch.tensor([1, 2]),
    "a range": lambda: torch.arange(0, 1, 0.3),
    "a quotient": lambda: torch.arange(7) / 3,
    "a power": lambda: 1.0 / 1e4 ** (torch.arange(0, 8, 2) / 8),
    "asked for": lambda: torch.ones(2, dtype=torch.float32),
    "cast": lambda: torch.arange(3).float() / 7,
    "from numpy": lambda: torch.from_numpy(np.ones(2, np.float32)) / 3,
    "weights": lambda: torch.nn.Linear(3, 2).weight.detach() * 0,
    "stacked": lambda: torch.stack([torch.arange(3), torch.arange(3)]) * 0.5,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_tensors_are_what_torch_makes_under_that_default(make: Callable[[], Any], process_dtype: Any) -> None:
    process_dtype(torch.bfloat16)
    torch.manual_seed(0)
    expected = make()
    process_dtype(torch.float32)
    torch.manual_seed(0)
    with DefaultDtype(torch.bfloat16):
        got = make()
    assert got.dtype == expected.dtype and torch.equal(got, expected)


def test_another_thread_and_what_follows_keep_theirs() -> None:
    seen: list[torch.dtype] = []
    with kept_to_this_thread():
        torch.set_default_dtype(torch.bfloat16)
        here = torch.zeros(1).dtype, torch.get_default_dtype()
        there = threading.Thread(target=lambda: seen.extend((torch.zeros(1).dtype, torch.get_default_dtype())))
        there.start()
        there.join()
    assert here == (torch.bfloat16, torch.bfloat16) and seen == [torch.float32, torch.float32]
    assert torch.zeros(1).dtype == torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("family", ["flux", "sd3", "qwen_image", "wan_i2v"])
def test_loading_in_another_dtype_never_changes_the_process(
    tiny: Callable[[str], Path], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [each for each in inspect_model(tiny(family)).components.values() if each.kind == "model"]
    options = {"dtype": torch.bfloat16, "local_files_only": True}
    stock = [component_class(each).from_pretrained(str(each.folder), **options) for each in files]
    changes: list[Any] = []
    monkeypatch.setattr(torch, "set_default_dtype", changes.append)
    for each, expected in zip(files, stock, strict=True):
        got = tensors(load_component(each, dtype="bf16"))
        assert {name: x.dtype for name, x in got.items()} == {name: x.dtype for name, x in tensors(expected).items()}
        assert all(torch.equal(x, got[name]) for name, x in tensors(expected).items())
        if each.library == "diffusers":
            building.build(component_class(each), each.folder, dtype=torch.bfloat16)
    assert changes == []


def tensors(component: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict([*component.named_parameters(), *component.named_buffers()])


@pytest.fixture
def process_dtype() -> Any:
    """Sets the process's default dtype until the test ends."""
    yield torch.set_default_dtype
    torch.set_default_dtype(torch.float32)
