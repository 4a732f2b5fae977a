"""Tensors that are not there yet: they remember what was done to them, for one to be made when it is asked for.

diffusers' converters turn a file in its makers' names into one in diffusers' names, as a dict of all its tensors: they
rename, cut and join. Given these in place of tensors, they do so without one weight being read, cast or unpacked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

Make = Callable[[str], Tensor]
"""`make(name)`: the tensor of that name in the file, unpacked, in the dtype and on the device that are asked for."""


class Deferred(Tensor):
    """A tensor of the file, or what one operation makes of others; it has a shape and no numbers."""

    _name: str
    """Of a tensor of the file; "" for what is made of others."""
    _made_by: tuple[Any, tuple[Any, ...], dict[str, Any], int | None]
    """The operation, its arguments, and which of its results this is, where it has several."""

    @staticmethod
    def __new__(cls: type[Deferred], shape: Iterable[int], dtype: torch.dtype) -> Deferred:
        make = Tensor._make_wrapper_subclass
        return make(cls, tuple(shape), dtype=dtype, device=torch.device("cpu"))

    def __init__(self, shape: Iterable[int], dtype: torch.dtype) -> None:
        self._name = ""

    @classmethod
    def of_file(cls, name: str, shape: Iterable[int], dtype: torch.dtype) -> Deferred:
        found = cls(shape, dtype)
        found._name = name
        return found

    def __repr__(self, **_: Any) -> str:
        return f"Deferred({self._name or self._made_by[0]}, {tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # pyrefly: ignore[bad-override]
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            raise NotImplementedError(f"{func} writes into a tensor that is not read yet")
        like = func(*_emptied(args), **_emptied(kwargs))
        if isinstance(like, Tensor):
            return _recorded(like, func, args, kwargs, None)
        return type(like)(_recorded(each, func, args, kwargs, index) for index, each in enumerate(like))


def _emptied(arguments: Any) -> Any:
    return tree_map_only(Deferred, lambda each: torch.empty(each.shape, dtype=each.dtype, device="meta"), arguments)


def _recorded(like: Tensor, func: Any, args: Any, kwargs: Any, index: int | None) -> Deferred:
    found = Deferred(like.shape, like.dtype)
    found._made_by = (func, args, kwargs, index)
    return found


class DeferredMaker:
    """Makes deferred tensors. One of the file that is cut into several is read once, and kept till the last is made."""

    def __init__(self, wanted: Mapping[str, Tensor]) -> None:
        self._wanted = wanted
        self._uses = Counter(name for each in wanted.values() for name in _sources(each))
        self._kept: dict[str, Tensor] = {}

    def make(self, name: str, make: Make) -> Tensor:
        """The tensor of that name among those that are wanted."""
        return self._made(self._wanted[name], make)

    def _made(self, tensor: Tensor, make: Make) -> Tensor:
        if not isinstance(tensor, Deferred):
            return tensor
        if tensor._name:
            return self._of_file(tensor._name, make)
        func, args, kwargs, index = tensor._made_by
        args, kwargs = tree_map_only(Deferred, lambda each: self._made(each, make), (args, kwargs))
        found = func(*args, **{name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")})
        return found if index is None else found[index]

    def _of_file(self, name: str, make: Make) -> Tensor:
        found = self._kept.pop(name, None)
        found = make(name) if found is None else found
        self._uses[name] -= 1
        if self._uses[name] > 0:
            self._kept[name] = found
        return found


def _sources(tensor: Tensor) -> list[str]:
    """The tensors of the file that it is made of, each as often as it is used."""
    if not isinstance(tensor, Deferred):
        return []
    if tensor._name:
        return [tensor._name]
    return [name for each in tree_leaves(tensor._made_by[1:3]) for name in _sources(each)]
