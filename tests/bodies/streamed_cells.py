"""What a rank does for one cell of the streaming matrix: a variant, a shape, a plan and what goes with it, streamed and
resident.
"""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.streaming.streamed import Streamed
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.spreading.transformer import shard
from support.cells import apart, mesh_for, model_of, outputs
from zoo.cases import CASES

KINDS = ("none", "half", "lora", "int8", "error", "compiled")


class _Planted(Exception):
    pass


def cell(rank: int, variant: str, case: str, plan: str, kind: str) -> dict[str, Any] | None:
    """How far streamed is from resident under the same plan, on this rank, and from one process; None on ranks that the
    plan does not take."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    if mesh is None:
        return None
    model, inputs = model_of(variant, CASES[case])
    model.requires_grad_(False)
    whole = outputs(model, copy.deepcopy(inputs)) if kind in ("none", "half", "error") and rank == 0 else None
    if kind == "lora":
        _add_lora(model)
    if kind == "int8":
        _quantize(model)
    handle = shard(model, parsed, mesh) if parsed.num_ranks > 1 else None
    try:
        if kind == "compiled":
            _compile(model, handle)
        resident = [outputs(model, copy.deepcopy(inputs)) for _ in range(2)][1]
        resting = Resting(model, "transformer", "cpu")
        count = len(resting.blocks)
        with _poisoned(), patch.object(resting, "_most_resident", lambda room: count // 2 * (kind == "half")):
            resting.begin(1e12)
            try:
                if kind == "error":
                    _break_each(model, inputs, resting)
                got = [outputs(model, copy.deepcopy(inputs)) for _ in range(2)][1]
            finally:
                resting.end()
        after = outputs(model, copy.deepcopy(inputs))
    finally:
        if handle is not None:
            handle.remove()
    found = {"bits": all(map(torch.equal, got, resident)) and all(map(torch.equal, after, resident)), "blocks": count}
    if whole is not None:
        found |= {"difference": apart(got, whole), "largest": max(float(each.abs().max()) for each in whole)}
    return found


@contextlib.contextmanager
def _poisoned() -> Iterator[None]:
    """Who reads a weight at rest, where it is not brought, reads NaN, as it would meet another device on a GPU."""
    real = Streamed.__init__

    def poisoned(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self._kept = self._at_rest
        self._at_rest = [[(leaf, _nothing(rest)) for leaf, rest in views] for views in self._at_rest]
        for index in self._before:
            for leaf, nothing in self._at_rest[index]:
                leaf.point(nothing)

    end = Streamed.end

    def healed(self: Any) -> None:
        self._at_rest = self._kept
        end(self)

    with patch.object(Streamed, "__init__", poisoned), patch.object(Streamed, "end", healed):
        yield


def _nothing(rest: Tensor) -> Tensor:
    return torch.full_like(rest, float("nan")) if rest.is_floating_point() else torch.zeros_like(rest)


def _add_lora(model: nn.Module) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    names = [name for name, each in model.named_modules() if isinstance(each, nn.Linear)]
    chosen = [name for name in names if name.rpartition(".")[2] in ("to_q", "to_v", "qkv", "proj_mlp")] or names[::3]
    torch.manual_seed(7)
    inject_adapter_in_model(LoraConfig(r=2, target_modules=chosen, init_lora_weights=False), model)
    model.requires_grad_(False)


def _quantize(model: nn.Module) -> None:
    from latentloom.pipelines.components.quantizing import quantize_loaded

    quantize_loaded(model, "int8", device="cpu")


def _compile(model: nn.Module, handle: Any) -> None:
    options: dict[str, Any] = {"fullgraph": False, "backend": "aot_eager"}
    if handle is not None:
        handle.compile(**options)
        return
    from latentloom.parallel.sharding.compiled import Forwards

    repeated = getattr(model, "_repeated_blocks", None) or ()
    blocks = [each for each in model.modules() if type(each).__name__ in repeated]
    Forwards(model, blocks or [model], type(model).__name__).compile(**options)


def _break_each(model: nn.Module, inputs: dict[str, Any], resting: Resting) -> None:
    """Each block fails once, on all ranks alike."""
    for block in resting.blocks:

        def fail(*_: Any) -> None:
            raise _Planted

        hook = block.register_forward_pre_hook(fail)
        with contextlib.suppress(_Planted):
            outputs(model, copy.deepcopy(inputs))
        hook.remove()
