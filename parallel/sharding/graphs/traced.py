"""A block's forward as it is traced: a mode of its own answers the attention calls, by what was learned of them.

A mode that is entered around a graph sees each of its calls, in Python, some sixty a block. This one is traced with the
block. What else the graph depends on, torch would ask by guards each time; here `watched.Watched` is asked instead.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._dynamo.eval_frame import reset_code
from torch.utils._pytree import tree_map_only

from ..operator import Intercepting
from .wires import AttentionCall, exchanged


class Traced(Intercepting):
    """Answers the calls of a block one after the other; of one that nobody learned anything, as `Unsharded` does."""

    def __init__(self, calls: Sequence[AttentionCall] | None, fixed: Sequence[Any], given: Sequence[Any]) -> None:
        super().__init__()
        self.calls, self.num_calls = calls, 0
        self.fixed, self.given = fixed, given  # of the wires of these calls

    def _intercepted(
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
            kind, way = 0, "plain" if attn_mask is None or is_causal or dropout_p else "opaque"
        else:
            at, self.num_calls = self.num_calls, self.num_calls + 1
            assert at < len(self.calls), "a block makes the calls that were learned"
            call = self.calls[at]
            kind, way = call.kind, call.way
            if way not in ("plain", "opaque"):
                assert attn_mask is None and not is_causal and not dropout_p, "it was learned without a mask"
                fixed, given = self.fixed[at], self.given[at]
                return exchanged(call, query, key, value, scale=scale, fixed=fixed, given=given)
        if way == "opaque":
            return torch.ops.latentloom.attend(query, key, value, attn_mask, scale, is_causal, kind)
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def traced(
    kind: type[nn.Module],
    calls: Sequence[AttentionCall] | None,
    fixed: Sequence[Any],
    *,
    is_seen: bool,
    name: str,
    options: Mapping[str, Any],
) -> Callable[..., Any]:
    """The forward of a kind of block, compiled: `run(given, block, *args, **kwargs)`, with attention answered if it
    `is_seen`; `fixed` and `given` are those of the wires of its calls.

    It is right for whatever has one state, and makes the calls that were learned.
    """
    forward = kind.forward

    def seen(the_given: Sequence[Any], the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        mode = Traced(calls, fixed, the_given)
        with mode:  # entered inside of what is compiled: nothing of it is left when the graph runs
            out = forward(the_block, *args, **kwargs)
        assert calls is None or mode.num_calls == len(calls), "a block makes the calls that were learned"
        return tree_map_only(Tensor, copied, out)

    def unseen(_: Sequence[Any], the_block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return tree_map_only(Tensor, copied, forward(the_block, *args, **kwargs))

    inner = seen if is_seen else unseen
    # Torch keeps graphs with a code object: by that of another key one would be found that fits nothing but the shapes.
    code = inner.__code__.replace(co_name=name)
    own = types.FunctionType(code, inner.__globals__, name, None, inner.__closure__)
    # Torch.compile takes what filters guards out of the options that it is given: each call needs its own.
    given: dict[str, Any] = {**options, "options": {**(options.get("options") or {}), "guard_filter_fn": _needed}}
    compiled = torch.compile(own, **given)
    vars(compiled)["_latentloom_code"] = code
    return compiled


def free(compiled: Callable[..., Any]) -> None:
    """Let go of the graphs that torch keeps of it."""
    reset_code(vars(compiled)["_latentloom_code"])


def copied(x: Tensor) -> Tensor:
    # No view, as the next block's graph was made for. Where it is the end of a kernel anyway it costs nothing.
    return x.clone(memory_format=torch.contiguous_format)


def _needed(entries: Sequence[Any]) -> list[bool]:
    """Which guards a graph keeps: all on what a block is given, and of those on its wires the ones on tensors."""
    # None on the block itself, or on what is global: some hundred a block, for which `watched.Watched` is asked once a
    # forward. SHAPE_ENV is what torch knows of symbols, the sizes of a graph for any lengths.
    return [entry.guard_type == "SHAPE_ENV" or _is_needed(entry) for entry in entries]


def _is_needed(entry: Any) -> bool:
    if "the_block" in entry.name or entry.is_global:
        return False
    return "the_given" not in entry.name or entry.guard_type == "TENSOR_MATCH"
