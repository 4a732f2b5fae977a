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


def check_uncompiled(module: nn.Module, blocks: Sequence[nn.Module], title: str) -> None:
    if any(getattr(each, "_compiled_call_impl", None) is not None for each in (module, *blocks)):
        raise ValueError(
            f"this {title} was compiled before it was sharded, and its graphs would take in the hooks of sharding; "
            "shard it first, then call compile() of the handle or its own compile_repeated_blocks()"
        )


class Forwards:
    """The forwards of a sharded transformer's blocks, compiled when somebody asks, as they were after `restore`.

    Until then `compile` of a block compiles its forward only, also when diffusers' `compile_repeated_blocks` calls it.
    `compile` of the whole transformer is refused.
    """

    def __init__(self, module: nn.Module, blocks: Sequence[nn.Module], title: str) -> None:
        self.title, self.blocks = title, tuple(blocks)
        self._before: dict[nn.Module, Any] = {}
        self._diverted: tuple[Any, ...] = (module, *blocks)
        for block in self.blocks:
            vars(block)["compile"] = functools.partial(self.compile, (block,))
        vars(module)["compile"] = self._refuse

    def compile(self, blocks: Sequence[nn.Module] | None = None, **options: Any) -> None:
        """`torch.compile` on the forward of these blocks, or of all; in one graph each unless told otherwise."""
        for block in self.blocks if blocks is None else blocks:
            if block in self._before:
                raise ValueError(f"blocks of this {self.title} are compiled already; compile them once")
            self._before[block] = vars(block).get("forward")  # a cache or an offloader may have put its own there
            vars(block)["forward"] = _compiled(block.forward, {"fullgraph": True, **options})

    def restore(self) -> None:
        """Everything as it was."""
        for block, forward in self._before.items():
            if forward is None:
                del vars(block)["forward"]
            else:
                vars(block)["forward"] = forward
        self._before.clear()
        for each in self._diverted:
            vars(each).pop("compile", None)

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise ValueError(
            f"this {self.title} is sharded and cannot be compiled as a whole, because collectives have no place in a "
            "graph; call compile() of its handle, which compiles its blocks"
        )


def _compiled(forward: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    compiled = torch.compile(forward, **options)

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})

    return call


def _plain(value: Any) -> Any:
    """A tensor's numbers as no view, at the start of their memory, with the usual strides even in dims of size 1.

    A part cut off a longer sequence is none of that. Nothing depends on it in a batch of one, but a graph is made for
    what it met, and one more for the next block, which meets tensors of their own.
    """
    if type(value) is not Tensor or value.requires_grad or not value.numel() or not value.is_contiguous():
        return value
    if value.storage_offset():
        return value.clone(memory_format=torch.contiguous_format)
    usual = tuple(math.prod(value.shape[dim + 1 :]) for dim in range(value.ndim))
    if value.stride() == usual and value._base is None:
        return value
    return value.new_empty(0).set_(value.untyped_storage(), 0, value.shape, usual)
