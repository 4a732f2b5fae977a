"""A block's forward as it is traced: a mode of its own answers the attention calls, by what was learned of them.

The mode is entered inside what is compiled. Torch traces it, and nothing of it is left when the graph runs: a mode that
is entered around a graph sees each of its calls, in Python, some sixty a block.

Torch keeps the graphs of a function with its code object, and tells them apart by guards, some hundred a block, most of
them on the block's modules. Those are left out here, for whoever compiles asks `watched.Watched` once a forward
instead. So each key of such a graph needs a code object of its own: by that of another key a graph would be found that
fits nothing but the shapes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import reset_code
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

Way = Literal["plain", "opaque"]
"""How an attention call goes in a graph: as torch's own operator, or as the one that asks the session at work."""


@dataclass(frozen=True)
class Call:
    """One attention call of a block, as it was met in a forward that was not compiled."""

    kind: int
    way: Way


class Traced(TorchFunctionMode):
    """Answers the calls of a block one after the other; of one that nobody learned anything, as `Unsharded` does."""

    def __init__(self, calls: Sequence[Call] | None) -> None:
        super().__init__()
        self.calls, self.num_calls = calls, 0

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            return self._answer(*args, **(kwargs or {}))
        if func is Tensor.unflatten:  # its body calls super(), which torch.compile cannot trace under a mode
            func = torch.unflatten
        return func(*args, **(kwargs or {}))

    def _answer(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if self.calls is None:
            call = Call(0, "plain" if attn_mask is None or is_causal or dropout_p else "opaque")
        else:
            assert self.num_calls < len(self.calls), "a block makes the calls that were learned"
            call = self.calls[self.num_calls]
            self.num_calls += 1
        if call.way == "opaque":
            return torch.ops.latentloom.attend(query, key, value, attn_mask, scale, is_causal, call.kind)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def traced(
    kind: type[nn.Module], calls: Sequence[Call] | None, *, is_seen: bool, name: str, options: Mapping[str, Any]
) -> Callable[..., Any]:
    """The forward of a kind of block, compiled: `run(block, *args, **kwargs)`, with attention answered if it `is_seen`.

    It is right for whatever has one state, and makes the calls that were learned.
    """
    forward = kind.forward

    def seen(the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        mode = Traced(calls)
        with mode:
            out = forward(the_block, *args, **kwargs)
        assert calls is None or mode.num_calls == len(calls), "a block makes the calls that were learned"
        return tree_map_only(Tensor, _plain, out)

    def unseen(the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return tree_map_only(Tensor, _plain, forward(the_block, *args, **kwargs))

    inner = seen if is_seen else unseen
    code = inner.__code__.replace(co_name=name)
    own = types.FunctionType(code, inner.__globals__, name, None, inner.__closure__)
    # torch.compile takes what filters guards out of the options that it is given: each call needs its own
    given = {**options, "options": {**(options.get("options") or {}), "guard_filter_fn": _needed}}
    compiled = torch.compile(own, **given)
    compiled._latentloom_code = code  # pyright: ignore[reportFunctionMemberAccess]
    return compiled


def free(compiled: Callable[..., Any]) -> None:
    """Let go of the graphs that torch keeps of it."""
    reset_code(compiled._latentloom_code)  # pyright: ignore[reportFunctionMemberAccess]


def _plain(x: Tensor) -> Tensor:
    """No view, as the next block's graph was made for; where it is the end of a kernel anyway it costs nothing."""
    return x.clone(memory_format=torch.contiguous_format)


def _needed(entries: Sequence[Any]) -> list[bool]:
    """All guards on what a block is given, and of those on the block itself, and on what is global, none."""
    return [
        entry.guard_type == "SHAPE_ENV"
        or ("the_block" not in entry.name and not entry.is_global and not isinstance(entry.value, nn.Parameter))
        for entry in entries
    ]
