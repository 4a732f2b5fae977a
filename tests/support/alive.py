"""Bytes of tensors that are alive while something runs: what operators make, for as long as anybody holds it."""

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """Within, `most` is the largest sum of bytes so far, and `largest` that of one tensor.

    The memory of `but` is not counted, nor are views of that or of what was there before.
    """

    def __init__(self, but: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.now = self.most = self.largest = 0
        self._known = {each.untyped_storage()._cdata for each in but}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for each in tree_leaves(made):
            if type(each) is Tensor and not each.is_meta and each.untyped_storage()._cdata not in given:
                self._see(each.untyped_storage())
        return made

    def _see(self, storage: Any) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._known:
            return
        self._known.add(place)
        self.now += size
        self.most, self.largest = max(self.most, self.now), max(self.largest, size)
        weakref.finalize(storage, self._gone, place, size)

    def _gone(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
