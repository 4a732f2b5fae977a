"""torch.compile for a transformer: its repeated blocks, each compiled once for all."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import Any


def check_compiler(device: str) -> None:
    """Raises `ValueError` when torch.compile's default backend cannot work on `device` here."""
    kind = device.partition(":")[0]
    if kind == "cpu" and sys.platform != "win32" and not any(map(shutil.which, ("c++", "g++", "clang++"))):
        raise ValueError("compiled needs a C++ compiler on a CPU and none was found; install g++, or turn compiled off")
    if kind == "cuda" and importlib.util.find_spec("triton") is None:
        raise ValueError("compiled needs Triton on CUDA and it was not found; install triton, or turn compiled off")


def compile_transformer(transformer: Any, *, device: str) -> None:
    """Compile in place. The first steps with a new picture size take longer."""
    check_compiler(device)
    if getattr(transformer, "_repeated_blocks", None):
        transformer.compile_repeated_blocks(dynamic=None)
    else:
        transformer.compile(dynamic=None)
