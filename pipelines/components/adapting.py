"""Compiling a transformer in place, by torch.compile."""

from __future__ import annotations

from typing import Any

from ..models.checks import check_compiler


def compile_transformer(transformer: Any, *, device: str) -> None:
    """Compile in place. The first steps with a new picture size take longer."""
    check_compiler(device)
    if getattr(transformer, "_repeated_blocks", None):
        transformer.compile_repeated_blocks(dynamic=None)
    else:
        transformer.compile(dynamic=None)
