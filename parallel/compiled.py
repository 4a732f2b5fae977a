"""Compiling the blocks of a sharded transformer: their forwards, each in one graph.

The hooks around a block stay outside. They cut its arguments by lengths that change from picture to picture, and FSDP's
gather its weights; neither belongs in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


def compile_blocks(blocks: Sequence[nn.Module], options: dict[str, Any]) -> list[Callable[[], None]]:
    """`torch.compile` with these options on the forward of each; what is given back undoes it, one block each."""
    return [_compile(block, options) for block in blocks]


def _compile(block: Any, options: dict[str, Any]) -> Callable[[], None]:
    before = vars(block).get("forward")  # a cache or an offloader may have put its own there
    block.forward = torch.compile(block.forward, **options)

    def remove() -> None:
        if before is None:
            del block.forward
        else:
            block.forward = before

    return remove


def check_uncompiled(module: nn.Module, title: str) -> None:
    """Refuse a transformer that was compiled as a whole: collectives and the session have no place in its graph."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        raise ValueError(
            f"this {title} was compiled as a whole by its compile(), and collectives have no place in a graph; "
            "load it anew, shard it, and call compile() of the handle, which compiles its blocks"
        )
