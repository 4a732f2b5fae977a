"""Compiling the blocks of a transformer: their forwards, each in a graph that all blocks of its kind share.

The hooks around a block stay outside. They cut its arguments by lengths that change from picture to picture, and FSDP's
gather its weights; neither belongs in a graph. A kind of block gets two graphs: one for the lengths that it meets
first, and a twin for all others. Which of them a forward takes is decided by the lengths of the whole streams, so that
all ranks take the same one and round alike.
"""

from __future__ import annotations

import functools
import inspect
import math
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .fingerprint import tensors_in
from .graphs.turns import in_turn

MOST_GRAPHS = 64
"""Of one kind of block, for all LoRAs, dtypes and so on that a process meets; torch's own 8 are soon used up, and then
blocks run uncompiled without a word."""
CAPTURING = ("reduce-overhead", "max-autotune")
"""Modes that put whole graphs into CUDA graphs."""

_first: weakref.WeakKeyDictionary[type[nn.Module], dict[Hashable, Hashable]] = weakref.WeakKeyDictionary()
"""The lengths that each kind of block met first in this process, sharded and not, by dtype and width."""


def check_uncompiled(module: nn.Module, blocks: Sequence[nn.Module], title: str) -> None:
    if any(getattr(each, "_compiled_call_impl", None) is not None for each in (module, *blocks)):
        raise ValueError(
            f"this {title} was compiled before it was sharded, and its graphs would take in the hooks of sharding; "
            "shard it first, then call compile() of the handle or its own compile_repeated_blocks()"
        )


def check_options(options: Mapping[str, Any], title: str) -> None:
    """ValueError for what would capture a sharded block's exchanges in a CUDA graph, and play them back to nobody."""
    given = options.get("options") or {}
    captures = (
        (f"mode {options.get('mode')!r}", options.get("mode") in CAPTURING),
        ("option 'triton.cudagraphs'", bool(given.get("triton.cudagraphs"))),
        ("backend 'cudagraphs'", options.get("backend") == "cudagraphs"),
    )
    if found := [what for what, is_asked in captures if is_asked]:
        raise ValueError(
            f"this {title} is sharded and cannot be compiled with {found[0]}, which captures CUDA graphs: they would "
            "leave out what ranks send each other; use the mode 'default' or 'max-autotune-no-cudagraphs'"
        )


class Forwards:
    """The forwards of a transformer's blocks, compiled when somebody asks, as they were after `restore`.

    `streams` tells the lengths that the forward under way has as a whole, where ranks hold parts of them.
    """

    def __init__(
        self, blocks: Sequence[nn.Module], title: str, *, streams: Callable[[], Hashable] = lambda: None
    ) -> None:
        self.title, self.blocks = title, tuple(blocks)
        self._streams = streams
        self._before: dict[nn.Module, Any] = {}

    @property
    def are_compiled(self) -> bool:
        return bool(self._before)

    def compile(self, blocks: Sequence[nn.Module] | None = None, **options: Any) -> None:
        """`torch.compile` on the forward of these blocks, or of all; in one graph each unless told otherwise."""
        options = {"fullgraph": True, **options}
        if "recompile_limit" in inspect.signature(torch.compile).parameters:
            options.setdefault("recompile_limit", MOST_GRAPHS)
        if options.get("backend") in (None, "inductor") and not options.keys() & {"mode", "options"}:
            options["backend"] = in_turn
        for block in self.blocks if blocks is None else blocks:
            if block in self._before:
                raise ValueError(f"blocks of this {self.title} are compiled already; compile them once")
            self._before[block] = vars(block).get("forward")  # a cache or an offloader may have put its own there
            vars(block)["forward"] = self._compiled(type(block), block.forward, options)

    def restore(self) -> None:
        """Everything as it was."""
        for block, forward in self._before.items():
            if forward is None:
                del vars(block)["forward"]
            else:
                vars(block)["forward"] = forward
        self._before.clear()

    def _compiled(
        self, kind: type[nn.Module], forward: Callable[..., Any], options: dict[str, Any]
    ) -> Callable[..., Any]:
        compiled = torch.compile(forward, **options)
        is_automatic = options.get("dynamic") is None

        @functools.wraps(forward)
        def call(*args: Any, **kwargs: Any) -> Any:
            args = tuple(map(_plain, args))
            kwargs = {name: _plain(value) for name, value in kwargs.items()}
            if is_automatic:
                given = list(tensors_in((args, kwargs)))
                if not _meets_first(kind, self._streams(), given):
                    for x in given:
                        _free_lengths(x)
            return compiled(*args, **kwargs)

        return call


def divert(module: nn.Module, forwards: Forwards) -> Callable[[], None]:
    """Until what it gives is called, `compile` of a block compiles its forward only, also when diffusers'
    `compile_repeated_blocks` calls it; `compile` of the whole transformer is refused."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError(
            f"this {forwards.title} is sharded and cannot be compiled as a whole, because collectives have no place "
            "in a graph; call compile() of its handle, which compiles its blocks"
        )

    def compile_one(block: nn.Module, **options: Any) -> None:
        check_options(options, forwards.title)
        forwards.compile((block,), **options)

    for block in forwards.blocks:
        vars(block)["compile"] = functools.partial(compile_one, block)
    vars(module)["compile"] = refuse

    def undo() -> None:
        for each in (module, *forwards.blocks):
            vars(each).pop("compile", None)

    return undo


def _meets_first(kind: type[nn.Module], streams: Hashable, given: Sequence[Tensor]) -> bool:
    """Whether these are the lengths for which blocks of this kind have a graph without any symbol."""
    lengths = (streams, *(x.shape for x in given))
    sort = (streams is not None, *((given[0].dtype, given[0].shape[-1:]) if given else ()))
    return _first.setdefault(kind, {}).setdefault(sort, lengths) == lengths


def _free_lengths(x: Tensor) -> None:
    """Let a graph for this tensor be one for any number of tokens: they run along any dim but the last, of a mask along
    that too. What is no such dim is found to be fixed as the graph is made."""
    is_mask = x.dtype == torch.bool or (x.ndim > 1 and x.shape[-2] == 1)
    if dims := list(range(x.ndim if is_mask else x.ndim - 1)):
        torch._dynamo.maybe_mark_dynamic(x, dims)


def _plain(value: Any) -> Any:
    """A tensor's numbers as no view, at the start of their memory, with the usual strides even in dims of size 1.

    A part cut off a longer sequence is none of that. Nothing depends on it in a batch of one, but a graph is made for
    what it met, and one more for the next block, which meets tensors of their own.
    """
    if type(value) is not Tensor or value.requires_grad or not value.numel() or not value.is_contiguous():
        return value
    if value.is_conj() or value.is_neg():  # its memory holds other numbers
        return value.resolve_conj().resolve_neg()
    if value.storage_offset():
        return value.clone(memory_format=torch.contiguous_format)
    usual = tuple(math.prod(value.shape[dim + 1 :]) for dim in range(value.ndim))
    if value.stride() == usual and value._base is None:
        return value
    return value.new_empty(0).set_(value.untyped_storage(), 0, value.shape, usual)
