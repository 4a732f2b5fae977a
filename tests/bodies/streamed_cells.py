"""What a rank does for one cell of the streaming matrix: a variant, a shape, a plan and what goes with it, streamed and
resident.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from latentloom.parallel import process_groups
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh, gatherers, planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.streaming import movers
from latentloom.parallel.streaming.pinned import Pinned
from latentloom.parallel.streaming.streamed import Streamed
from latentloom.pipelines.components import resting as resting_module
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.spreading.transformer import shard
from support.cells import apart, mesh_for, model_of, outputs
from zoo.cases import CASES

KINDS = ("none", "half", "lora", "int8", "error", "gathered", "compiled")


class _Planted(Exception):
    pass


def cell(rank: int, variant: str, case: str, plan: str, kind: str) -> dict[str, Any] | None:
    """How far streamed is from resident under the same plan, on this rank, and from one process; None on ranks that the
    plan does not take."""
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    gathers = kind == "gathered" and parsed.sequence > 1
    if gathers:
        mesh = _with_votes(mesh, parsed)
    if mesh is None:
        return None
    model, inputs = model_of(variant, CASES[case])
    model.requires_grad_(False)
    whole = (
        outputs(model, copy.deepcopy(inputs)) if kind in ("none", "half", "error", "gathered") and rank == 0 else None
    )
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
        most = {"half": count // 2, "gathered": count // 3 + rank}.get(kind, 0)  # as if each had other room
        with (
            _poisoned(),
            patch.object(resting, "_most_resident", lambda room: most),
            _lying_alike(resting, gathers),
            shares_are_sooner(True),
        ):
            resting.begin(1e12, mesh if gathers else None)
            try:
                if kind in ("error", "gathered"):
                    _break_each(model, inputs, resting)
                got = [outputs(model, copy.deepcopy(inputs)) for _ in range(2)][1]
                if gathers:
                    got = _once_more(model, inputs, resting, mesh)
                    _check_gathered(resting, mesh, count // 3)
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
def shares_are_sooner(is_so: bool) -> Iterator[None]:
    """On this rank, whatever it finds."""
    real = movers.is_sooner

    def told(*given: Any) -> bool:
        assert isinstance(real(*given), bool)
        return is_so

    with patch.object(resting_module, "is_sooner", told):
        yield


def _with_votes(mesh: Mesh | None, plan: ParallelPlan) -> Mesh | None:
    """Collective, all ranks: with groups for votes and for what is gathered."""
    every = range(plan.num_ranks)
    voters = process_groups.group_of(every, process_groups.Use.VOTES)
    gatherers(mesh or planned_mesh(plan, 0))
    return None if mesh is None else dataclasses.replace(mesh, voters=voters)


@contextlib.contextmanager
def _lying_alike(resting: Resting, is_so: bool) -> Iterator[None]:
    """In the same order on all ranks, as what is pinned for a GPU does."""
    if not is_so:
        yield
        return
    nothing = SimpleNamespace(cudaHostRegister=lambda *_: 0, cudaHostUnregister=lambda *_: 0)
    pinned = Pinned(resting.blocks, without=resting._without, cudart=nothing)
    resting._settle()
    yield
    pinned.free()


def _once_more(model: nn.Module, inputs: dict[str, Any], resting: Resting, mesh: Mesh) -> list[Tensor]:
    """As another denoise does: all go on; but where one alone had to end, all begin anew."""
    before = resting._streamed
    resting.begin(1e12, mesh)
    assert resting._streamed is before
    outputs(model, copy.deepcopy(inputs))
    resting._judged = None
    with shares_are_sooner(mesh.rank == 0):  # not so on all
        resting.begin(1e12, mesh)
    assert resting._mesh is None and resting._streamed is not before
    outputs(model, copy.deepcopy(inputs))
    resting._judged = None
    resting.begin(1e12, mesh)
    outputs(model, copy.deepcopy(inputs))
    if mesh.rank == 1:
        resting.end()
    before = resting._streamed
    resting.begin(1e12, mesh)
    assert resting._streamed is not before
    return outputs(model, copy.deepcopy(inputs))


def _check_gathered(resting: Resting, mesh: Mesh, num_resident: int) -> None:
    streamed: Any = resting._streamed
    assert resting._mesh is mesh and resting.num_resident == num_resident, "the fewest of all ranks"
    if streamed._mover is not None:
        for slot in range(len(streamed._slots)):
            streamed._mover.wait(slot)
        sent, size = streamed._mover._group.count, mesh[Axis.SEQUENCE].size
        assert sent.calls == streamed.num_brought > 0
        assert sent.sent_bytes >= streamed.num_brought * min(resting.sizes) * (size - 1) // size


@contextlib.contextmanager
def _poisoned() -> Iterator[None]:
    """Who reads a weight at rest, where it is not brought, reads NaN, as it would meet another device on a GPU."""
    real = Streamed.__init__

    def poisoned(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        self._kept = self._at_rest
        self._at_rest = [[(leaf, _nothing(rest)) for leaf, rest in views] for views in self._at_rest]
        for index in self._next:
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
