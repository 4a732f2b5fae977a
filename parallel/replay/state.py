"""What of a module a CUDA graph depends on beside the tensors that it is called with: read anew for each call.

A graph runs no Python and holds addresses: another scale of a LoRA, an adapter that is off, another processor or hook,
layers that were joined, dropout turned on, a weight put elsewhere are nothing that it could see. Values within a weight
may change, as they lie where they lay.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from operator import is_not
from typing import Any

from torch import Tensor, nn

HUNG = ("forward", "processor", "_diffusers_hook", "_compiled_call_impl")
"""What others may put on a module, or exchange; known by itself, so that it has to be kept as long as its mark."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
SETTINGS = ("training", "scaling", "merged_adapters", "_active_adapter", "_disable_adapters", "fused_projections")
"""A module's own, and those of peft's layers and of diffusers' attention."""
PLAIN = (type(None), bool, int, float, str)
WHOLE = (Tensor, nn.Parameter)


class State:
    """Of a module and all in it, read in some hundred microseconds: the places to look at are found beforehand."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._find()

    def mark(self) -> Hashable:
        """Equal as long as it is as it was, and whoever keeps the mark keeps what is `held` too."""
        parents, names, children = self._below
        if any(map(is_not, map(dict.get, parents, names), children)) or self._num_below != sum(map(len, self._inner)):
            self._find()
        settings = [_frozen(held.get(name)) for held, name in self._settings]
        settings += [_plain(held.get("processor")) for held in self._processed]
        return (
            *(id(held.get(name)) for held in self._modules for name in HUNG),
            *((place, id(hook)) for place, hooks in enumerate(self._hooks) if hooks for hook in hooks.values()),
            *settings,
            *map(_place, self._weights()),
        )

    def held(self) -> Sequence[object]:
        """What the mark knows by its id or its place."""
        hung = [found for held in self._modules for name in HUNG if (found := held.get(name)) is not None]
        return [*hung, *(hook for hooks in self._hooks for hook in hooks.values()), *self._weights()]

    def _weights(self) -> Iterator[Tensor | None]:
        return (x for group in self._groups for x in group.values())

    def _find(self) -> None:
        modules = list(self._module.modules())
        below = [(each._modules, name, child) for each in modules for name, child in each._modules.items()]
        self._below: tuple[Any, ...] = tuple(zip(*below, strict=True)) or ((), (), ())
        self._inner = [each._modules for each in modules]
        self._num_below = len(below)
        self._modules = [vars(each) for each in modules]
        self._hooks = [getattr(each, name) for each in modules for name in HOOKS]
        self._settings = [(held, name) for held in self._modules for name in SETTINGS if name in held]
        self._processed = [held for held in self._modules if "processor" in held]
        self._groups = [group for each in modules for group in (each._parameters, each._buffers) if group]


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, list | tuple | set):
        return tuple(map(_frozen, value))
    if isinstance(value, Tensor):
        return _place(value)
    return value if isinstance(value, PLAIN) else id(value)


def _plain(processor: object) -> Hashable:
    """What of a processor is plain, such as the scale of an IP-adapter."""
    return tuple((name, _frozen(value)) for name, value in getattr(processor, "__dict__", {}).items())


def _place(x: Tensor | None) -> Hashable:
    """Where a weight lies; of one in small, where its parts do."""
    if x is None:
        return None
    if type(x) in WHOLE or not hasattr(x, "__tensor_flatten__"):
        return x.data_ptr()
    return tuple(_place(getattr(x, name)) for name in x.__tensor_flatten__()[0])
