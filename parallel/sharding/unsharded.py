"""Leaving padding out of a transformer that is on one device whole: hooks on it alone, none on its blocks.

As with a session, a `TorchFunctionMode` sees the attention calls of each forward, in its thread only. It is put on
where the forward is given a mask that it knows, so that graphs of blocks see it whatever the texts.
"""

# B batch, H heads, S queries, T keys, D head width

import contextlib
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention.rows import take
from ..layout import Layout, Stream
from . import operator
from .padding import KeptKeys, Texts, kept_among, without
from .split_plan import Padding

Remove = Callable[[], None]


class Unsharded(operator.Intercepting):
    """One forward of a transformer of which padding is left out."""

    is_throughout = True

    def __init__(self, kept: Sequence[KeptKeys]) -> None:
        super().__init__()
        self.kept = kept

    def leave(self) -> None:
        operator.leave(self)
        self.take_off()

    def _intercepted(self, asked: operator.Asked) -> Tensor:
        if asked.attn_mask is None or asked.is_causal or asked.dropout_p:
            return asked.as_it_is()
        if torch.compiler.is_compiling():  # no graph may hold what a text is long
            return asked.by_operator(0)
        return self.attend(asked, 0)

    def attend(self, asked: operator.Asked, kind: int) -> Tensor:
        """Attention with a mask, without what it hides of a text; B H S D to B H S D."""
        q, k, v, mask, _, causal, scale, _ = asked
        num_keys = k.shape[2]
        # A mask that tells queries apart hides more than padding; one that was merely expanded over them does not.
        is_padding = mask is not None and mask.ndim == 4 and (mask.shape[2] == 1 or mask.stride(2) == 0)
        found = (kept_among(self.kept, num_keys, is_joint=is_joint) for is_joint in (False, True))
        kept = next((each for each in found if each is not None), None) if is_padding else None
        if kept is not None and mask is not None:
            stream = Stream("joint", num_keys, None)
            ranges = Layout((stream,), 1, kept.left_out(num_keys)).asked()
            k, v = without(k, ranges), without(v, ranges)
            mask = take(mask, 3, ranges) if kept.hides and mask.shape[3] > 1 else mask if kept.hides else None
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=k.shape[1] != q.shape[1]
        )


def leave_out(module: nn.Module, paddings: Sequence[Padding]) -> Remove:
    """Leave padding out of a transformer's forwards until what this gives is called.

    Several threads may use it meanwhile, each with texts of its own. Nothing is done where it is sharded too.
    """
    names = list(inspect.signature(type(module).forward).parameters)[1:]
    texts, at_work = Texts(paddings), _AtWork()

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        at_work.leave()  # Ctrl-C ends a forward without its always-called hooks
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if texts.are_given(given) and operator.at_work() is None:
            at_work.enter(Unsharded(texts.kept_in(given)))

    def after(_: nn.Module, args: Any, output: Any) -> None:
        at_work.leave()

    undo = contextlib.ExitStack()
    undo.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
    undo.enter_context(module.register_forward_hook(after, always_call=True))
    undo.callback(at_work.leave)
    return undo.close


class _AtWork(threading.local):
    """The forward under way in a thread, if padding is left out of it."""

    mode: Unsharded | None = None

    def enter(self, mode: Unsharded) -> None:
        self.mode = mode
        mode.__enter__()
        operator.enter(mode)

    def leave(self) -> None:
        mode, self.mode = self.mode, None
        if mode is not None:
            mode.leave()
