"""Compiling the blocks of a sharded transformer: their forwards, each in one graph.

The hooks around a block stay outside. They cut its arguments by lengths that change from picture to picture, and FSDP's
gather its weights; neither belongs in a graph.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def compile_blocks(blocks: Sequence[nn.Module], options: dict[str, Any]) -> list[Callable[[], None]]:
    """`torch.compile` with these options on the forward of each; what is given back undoes it, one block each."""
    return [_compile(block, options) for block in blocks]


def _compile(block: Any, options: dict[str, Any]) -> Callable[[], None]:
    before = vars(block).get("forward")  # a cache or an offloader may have put its own there
    compiled = torch.compile(block.forward, **options)

    @functools.wraps(block.forward)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return compiled(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})

    block.forward = forward

    def remove() -> None:
        if before is None:
            del block.forward
        else:
            block.forward = before

    return remove


def _plain(value: Any) -> Any:
    """A tensor with the usual strides, if only those of dims of size 1 are others.

    A part cut off a longer sequence keeps the strides of the whole. Nothing depends on them in a batch of one, but a
    graph is made for the strides that it met, and another for others.
    """
    if not isinstance(value, Tensor) or not value.is_contiguous():
        return value
    usual = [math.prod(value.shape[dim + 1 :]) for dim in range(value.ndim)]
    return value if list(value.stride()) == usual or not value.numel() else value.as_strided(value.shape, usual)


def check_uncompiled(module: nn.Module, title: str) -> None:
    """Refuse a transformer that was compiled as a whole: collectives and the session have no place in its graph."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        raise ValueError(
            f"this {title} was compiled as a whole by its compile(), and collectives have no place in a graph; "
            "load it anew, shard it, and call compile() of the handle, which compiles its blocks"
        )
