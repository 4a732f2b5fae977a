"""Ranks on the CPU that take it for a GPU with kernels to choose from: a stand-in for CUDA's start."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from latentloom.parallel.attention import choice

# A variable that names a folder: there stand what was tried, a line each, and what is wrong with a kernel.
FOLDER = "TOY_GPU"
BF16, FP16 = torch.bfloat16, torch.float16


def note(what: str) -> None:
    with Path(os.environ[FOLDER], "tried").open("a") as file:
        file.write(f"{what}\n")


def fault(name: str, device: torch.device, dtype: torch.dtype) -> str:
    note(f"{name} {dtype}")
    wrong = Path(os.environ[FOLDER], name)
    if wrong.exists() and wrong.read_text() == "kills":
        wrong.unlink()
        os._exit(3)
    return wrong.read_text() if wrong.exists() else ""


def prefer(device: torch.device, *, is_sound: bool | None = None) -> bool:
    if is_sound is None:
        note("masks")
        time.sleep(Path(os.environ[FOLDER], "slow").exists())
    return choice.chosen(device, BF16).kernel.name == "cudnn"


def attends(request: Mapping[str, Any], progress: Any, seat: Any) -> list[str]:
    """What attends in this rank in two number formats, one of which nobody has met before."""
    return [choice.chosen(torch.device("cpu"), dtype).kernel.name for dtype in (BF16, FP16)]


if FOLDER in os.environ:
    choice.kind_of = lambda device: "a toy GPU"
    choice.candidates = lambda device, dtype: ("cudnn", "sdpa", "math")
    choice.fault, choice.prefer = fault, prefer
