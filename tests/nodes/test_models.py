"""Load Model and Load LoRA: what a cache compares names the content and the place."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.steps.models import lora_fingerprint, model_fingerprint


def test_a_copy_of_a_model_has_another_fingerprint(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    copy = shutil.copytree(tiny("flux"), tmp_path / "copy", copy_function=os.link)
    options: dict[str, Any] = {"revision": "", "dtype": "auto", "device": "cpu", "quantization": "none"}
    first, second = (model_fingerprint({"source": str(f), **options}, Workspace()) for f in (tiny("flux"), copy))
    assert first != second and first.split()[0] == second.split()[0]


def test_a_copy_of_a_lora_has_another_fingerprint(tmp_path: Path) -> None:
    marks = []
    for name in ("a", "b"):
        save_file({"x.lora_A.weight": torch.zeros(1)}, tmp_path / f"{name}.safetensors")
        marks.append(lora_fingerprint({"path": str(tmp_path / f"{name}.safetensors")}, Workspace()))
    assert marks[0] != marks[1] and marks[0].split()[0] == marks[1].split()[0]
