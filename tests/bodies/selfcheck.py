"""What a rank does to test the self-check: right runs, and errors that are planted in sharded ones."""

import contextlib
import dataclasses
import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from bodies.requests import request_of
from latentloom.parallel.attention.rows import take
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding import session as sessions
from latentloom.parallel.sharding.fingerprint import tensors_in
from latentloom.parallel.sharding.operator import Asked
from latentloom.parallel.sharding.session import Session
from latentloom.parallel.sharding.split_plan import Along, SplitPlan
from latentloom.pipelines import stages
from latentloom.pipelines.components.quantizing import quantize_loaded
from latentloom.pipelines.components.resting import Resting
from latentloom.pipelines.components.store import store
from latentloom.pipelines.fusing import modulation
from latentloom.pipelines.selfcheck import first_use, passes
from latentloom.pipelines.selfcheck.passes import Parts, answers, recorded, self_check
from latentloom.pipelines.spreading.transformer import leave_padding_out, shard, split_plan_of
from support.cells import model_of
from support.told import Told
from zoo.cases import CASES, Case

DTYPES = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# What a pipeline leaves in fp32, or in whole numbers, whatever the transformer's dtype.
KEPT = ("ids", "rotary", "rope", "timestep", "mask", "guidance", "freqs")
LATENTS = ("hidden_states", "x", "hidden_state", "sample")


def checked(
    rank: int,
    variant: str,
    case: str | Case,
    plan: str,
    dtype: str,
    plant: str = "",
    backend: str = "",
    rests: bool = False,
) -> dict[str, Any]:
    """Collective: the verdict of a variant, by a plan of all ranks, with an error planted or none; where `backend` is
    one of torch.compile, with blocks that are compiled by it. Of dtype fp8 weights are, and the rest is bf16. What
    rests has no block on its device, but brings each."""
    model, inputs = built(variant, case, dtype)
    parsed = ParallelPlan.parse(plan)
    mesh = mesh_for(parsed)
    split = PLANS[plant](split_plan_of(model)) if plant in PLANS else None

    @contextlib.contextmanager
    def sharded() -> Iterator[Parts]:
        handle = shard(model, parsed, mesh, split=split)
        try:
            if backend:
                handle.compile(backend=backend)
            yield {"transformer": model}
        finally:
            handle.remove()

    @contextlib.contextmanager
    def whole() -> Iterator[Parts]:
        undo = leave_padding_out(model)
        yield {"transformer": model}
        undo()

    before = {name: (id(each), _plain(each).clone()) for name, each in model.state_dict(keep_vars=True).items()}
    resting = Resting(model, "transformer", "cpu") if rests else None
    with PLANTS[plant](model, rank) if plant in PLANTS else contextlib.nullcontext():
        if resting is not None:
            resting.begin(0.0)
        began = time.perf_counter()
        verdict = self_check(lambda parts: two_steps(parts, inputs), mesh=mesh, sharded=sharded, whole=whole)
        seconds = time.perf_counter() - began
    if resting is not None:
        assert resting.num_resident == 0 and resting.blocks
        resting.end()
    after = model.state_dict(keep_vars=True)
    is_same = all(id(after[name]) == it and torch.equal(_plain(after[name]), old) for name, (it, old) in before.items())
    hooks = sum(len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules())
    return {**dataclasses.asdict(verdict), "is_unchanged": is_same and not hooks, "seconds": seconds}


def built(variant: str, case: str | Case, dtype: str) -> tuple[nn.Module, dict[str, Any]]:
    model, inputs = model_of(variant, CASES[case] if isinstance(case, str) else case)
    model.requires_grad_(False).to(DTYPES[dtype])
    if dtype == "fp8":
        quantize_loaded(model, "fp8", device="cpu")
    return model, {
        name: value if any(word in name for word in KEPT) else _cast(value, dtype) for name, value in inputs.items()
    }


def failing(rank: int, variant: str) -> dict[str, Any]:
    """Collective: the verdict where the second rank fails in its first pass."""

    @contextlib.contextmanager
    def no_room(model: nn.Module, rank: int) -> Iterator[None]:
        def refuse(*_: Any) -> None:
            raise ValueError("no room")

        with patch.object(passes, "_mark", refuse) if rank == 1 else contextlib.nullcontext():
            yield

    with patch.dict(PLANTS, {"no room": no_room}):
        return checked(rank, variant, "both_odd", "ulysses=2", "bf16", "no room")


def two_steps(parts: Parts, inputs: Mapping[str, Any]) -> None:
    """The same call twice, with other latents: what a cache of the step before gets wrong shows in the second."""
    name = next((name for name in LATENTS if name in inputs), "") or next(n for n, v in inputs.items() if _floats(v))
    for step in range(2):
        change = functools.partial(_moved, step)
        given = {each: list(value) if isinstance(value, list) else value for each, value in inputs.items()}
        parts["transformer"](**{**given, name: _mapped(inputs[name], change)}, return_dict=False)


def _moved(step: int, x: Tensor) -> Tensor:
    return x + step * 0.5 * torch.randn(x.shape, generator=torch.Generator().manual_seed(step)).to(x.dtype)


def walked(rank: int, variant: str) -> tuple[bool, bool]:
    """Of a variant in bf16: whether block by block in fp32 it gives the bits of an fp32 copy, and is as it was."""
    model, inputs = built(variant, dataclasses.replace(CASES["both_odd"], layers=3), "bf16")
    twin, _ = built(variant, dataclasses.replace(CASES["both_odd"], layers=3), "bf16")
    before = {name: each.clone() for name, each in model.state_dict().items()}
    calls, _ = recorded({"transformer": model}, lambda parts: two_steps(parts, inputs))
    got = answers({"transformer": model}, calls, is_exact=True)
    want = answers({"transformer": twin.float()}, calls, is_exact=True)
    same = all(torch.equal(a, b) for a, b in zip(tensors_in(got), tensors_in(want), strict=True))
    return same, all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def _plain(weight: Tensor) -> Tensor:
    return weight.dequantize() if hasattr(weight, "__tensor_flatten__") else weight.detach()


def _cast(value: Any, dtype: str) -> Any:
    return _mapped(value, lambda x: x.to(DTYPES[dtype]) if x.ndim > 1 else x)


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(each, change) for each in value)
    return change(value) if isinstance(value, Tensor) and value.is_floating_point() else value


def _floats(value: Any) -> bool:
    return any(each.is_floating_point() for each in tensors_in(value))


# ---- Errors of the kinds that have been shipped: (transformer, rank) -> a context within which they happen


def wrong_mask(model: nn.Module, rank: int) -> Any:
    real = sessions.global_mask
    return patch.object(sessions, "global_mask", lambda mask, **more: real(mask, **more).roll(1, -1))


def unmasked_padding(model: nn.Module, rank: int) -> Any:
    real = Session.attend
    return patch.object(Session, "attend", lambda self, asked, kind: real(self, asked._replace(attn_mask=None), kind))


def stale_cache(model: nn.Module, rank: int) -> Any:
    real, kept = Session.attend, dict[Any, Any]()

    def attend(self: Any, asked: Asked, kind: int) -> Tensor:
        key, k = (id(self), self.num_calls), asked.key
        old = kept.get(key)
        kept[key] = k.clone(), asked.value.clone()
        if old is not None and rank == 1 and old[0].shape == k.shape and old[0].dtype == k.dtype:
            asked = asked._replace(key=old[0], value=old[1])
        return real(self, asked, kind)

    return patch.object(Session, "attend", attend)


def mixed_groups(model: nn.Module, rank: int) -> Any:
    """What is gathered is in another group's order."""
    real = Session.gather

    def gather(self: Any, x: Tensor, dim: int, *streams: str) -> Tensor:
        whole, layout = real(self, x, dim, *streams), self.layout(streams)
        parts = [take(whole, dim, layout.positions(each)) for each in range(layout.num_ranks)]
        return torch.cat([parts[1], parts[0], *parts[2:]], dim)

    return patch.object(Session, "gather", gather)


@contextlib.contextmanager
def lost_lora(model: nn.Module, rank: int) -> Iterator[None]:
    """A LoRA of rank 2 and usual strength is on all ranks but one, in a block of the middle."""
    layers = [
        each
        for name, each in model.named_modules()
        if isinstance(each, nn.Linear)
        and each.in_features > 1
        and name.endswith(("to_q", "to_v", "qkv", "to_qkv", "q"))
    ]
    layer: Any = layers[len(layers) // 2]
    draw = torch.Generator().manual_seed(3)
    change = (
        0.02 * torch.randn(layer.out_features, 2, generator=draw) @ torch.randn(2, layer.in_features, generator=draw)
    )
    before = layer.weight.detach().clone()
    if rank != 1:
        layer.weight += change.to(before.dtype)
    yield
    layer.weight.copy_(before)


def cut_wrongly(which: tuple[str, ...], start_of: Callable[[int, int], int]) -> Any:
    """What has these words in its name is cut at `start_of` the rank and its number of tokens."""
    real = Session.cut

    def cut(self: Any, x: Tensor, spec: Along, *, what: str) -> Tensor:
        found = real(self, x, spec, what=what)
        if found is x or not any(word in what for word in which):
            return found
        layout, ranges = self.layout(spec.streams), []
        for stream, begin in zip(layout.streams, layout.starts(), strict=True):
            a, b = stream.held(self.rank)
            start = begin + min(start_of(self.rank, b - a), stream.length - (b - a))
            ranges.append((start, start + b - a))
        return take(x, spec.dim, ranges)

    return patch.object(Session, "cut", cut)


ROPES, TIMES = ("rotary", "rope", "freqs", "temporal_pos"), ("timestep", "temb")


def local_rotary(model: nn.Module, rank: int) -> Any:
    return cut_wrongly(ROPES, lambda rank, size: rank * size)


def frame_times(model: nn.Module, rank: int) -> Any:
    return cut_wrongly(TIMES, lambda rank, size: 0)


def swapped_streams(split: SplitPlan) -> SplitPlan:
    """Tensors along two streams are taken for the other order; where there are none, the joint sequence is."""
    found = False

    def swapped(spec: Any) -> Any:
        nonlocal found
        if not isinstance(spec, Along) or len(spec.streams) < 2:
            return spec
        found = True
        return dataclasses.replace(spec, streams=spec.streams[::-1])

    inputs = {path: {name: swapped(spec) for name, spec in each.items()} for path, each in split.inputs.items()}
    return dataclasses.replace(split, inputs=inputs) if found else dataclasses.replace(split, order=split.order[::-1])


PLANTS: dict[str, Callable[[nn.Module, int], Any]] = {
    "wrong mask": wrong_mask,
    "unmasked padding": unmasked_padding,
    "stale cache": stale_cache,
    "group mix-up": mixed_groups,
    "LoRA lost on one rank": lost_lora,
    "rotary by local length": local_rotary,
    "time per frame": frame_times,
}
PLANS = {"streams swapped": swapped_streams}


# ---- At a model's first use by a plan


def compared(rank: int, model: Mapping[str, Any], folder: str) -> list[tuple[int, int]]:
    """Collective: of a check and the run behind it, how often each counted its inputs' size and compared them."""
    compare, seen = sessions.check_same, list[int]()

    def check_same(given: Mapping[str, Any], *groups: Any, **more: Any) -> None:
        seen.append(given["hidden_states"].numel())
        compare(given, *groups, **more)

    with patch.object(sessions, "check_same", check_same):
        denoised(rank, model, folder, ["ulysses=2,weights=2"], options={"steps": 4, "frames": 13})
    return sorted(Counter(seen).items())


@contextlib.contextmanager
def turned_on(folder: str, most_share: float, value: str) -> Iterator[None]:
    """Checks are made that take at most this share of a run, and are kept in the folder."""
    known = {first_use.VARIABLE: value, "XDG_CACHE_HOME": folder}
    with patch.dict(os.environ, known), patch.object(first_use, "MOST_SHARE", most_share):
        yield


def denoised(
    rank: int,
    model: Mapping[str, Any],
    folder: str,
    plans: Sequence[str],
    plant: str = "",
    options: Mapping[str, Any] = {},  # of the request; the most that a check may take; a rank that is told to make none
) -> list[tuple[float, list[str], int, str]]:
    """Collective, of one plan after the other: how far a denoise is from one device, what is known of the plan, how
    often it was checked, and the error."""
    own = {"width": 192, "height": 128, **options}
    most_share, value = own.pop("most_share", 1e9), "0" if own.pop("off_at", -1) == rank else ""
    devices = ("cpu",) if own.pop("modulates", False) else modulation.DEVICES
    request = request_of(model, **own)
    wanted, found = stages.denoise(request).tensor, list[tuple[float, list[str], int, str]]()
    first_use._known.clear()  # as in a new process
    for plan in plans:
        told, got, error = Told(), wanted, ""
        with (
            turned_on(folder, most_share, value),
            patch.object(modulation, "DEVICES", devices),
            PLANTS[plant](nn.Module(), rank) if plant else contextlib.nullcontext(),
        ):
            try:
                got = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}, told).tensor
            except ValueError as problem:
                error = f"{type(problem).__name__}: {problem}"
        entries = store()._entries
        copies = [key for key, entry in entries.items() if entry.share and (*key[:-1], None) in entries]
        assert "weights" not in plan or not copies, "of what ranks share none keeps a copy"
        num_checks = sum("checking" in phase for phase in told.phases)
        found.append((float((got - wanted).abs().max()), told.known, num_checks, error))
    return found
