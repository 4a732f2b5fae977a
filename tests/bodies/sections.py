"""What ranks do in tests of a transformer whose blocks are dealt out over sections (`layers`)."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from diffusers import FirstBlockCacheConfig
from torch import Tensor

from bodies.meshes import by_plan, group_mesh
from bodies.requests import request_of
from bodies.spreading import distance, made, run
from latentloom.parallel.group import Axis
from latentloom.parallel.mesh import Mesh, mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.sections.dealing import rooms_among
from latentloom.parallel.sharding.sections.waiting import finished
from latentloom.parallel.sharding.weights import own_bytes
from latentloom.pipelines import stages
from latentloom.pipelines.components.loading import load_sharded
from latentloom.pipelines.components.store import store
from latentloom.pipelines.spreading.pipeline import denoisers_of
from latentloom.pipelines.spreading.transformer import shard
from support.cells import apart, model_of, outputs
from zoo.cases import CASES

CALLS = (0, 5, 7)  # seeds of what is added to the inputs, nothing for the first


def fresh(inputs: dict[str, Any], seed: int) -> dict[str, Any]:
    """The inputs with other numbers in what is predicted for, and with lists of their own."""
    generator = torch.Generator().manual_seed(seed)

    def changed(name: str, value: Any) -> Any:
        is_numbers = isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 2
        if not seed or not is_numbers or "mask" in name or "rotary" in name:
            return list(value) if isinstance(value, list) else value
        return value + 0.3 * torch.randn(value.shape, generator=generator)

    return {name: changed(name, value) for name, value in inputs.items()}


@by_plan
def cell(rank: int, variant: str, case: str, mesh: Mesh, blocks: int = 2) -> dict[str, Any]:
    """Three calls with other inputs, by sections and whole."""
    model, inputs = model_of(variant, dataclasses.replace(CASES[case], layers=blocks))
    wholes = [outputs(model, fresh(inputs, seed)) for seed in CALLS]
    handle = shard(model, mesh.plan, mesh)
    sent = []
    try:
        founds = []
        for seed in CALLS:
            before = mesh[Axis.LAYERS].count.sent_bytes
            founds.append(finished(outputs(model, fresh(inputs, seed))))
            sent.append(mesh[Axis.LAYERS].count.sent_bytes - before)
    finally:
        handle.remove()
    again = outputs(model, fresh(inputs, CALLS[-1]))
    return {
        "difference": max(apart(found, whole) for found, whole in zip(founds, wholes, strict=True)),
        "largest": max(float(x.abs().max()) for whole in wholes for x in whole),
        "is_restored": apart(again, wholes[-1]) == 0,
        "sent": sent,
    }


# ---- how long sections idle, by counted calls: a block takes 1, a message nothing


class Log:
    """What one rank does, in order: `("ran", 0)`, `("sent", to)`, `("came", source)`."""

    def __init__(self, handle: Any) -> None:
        self.events: list[tuple[str, int]] = []
        sections = handle.sections
        mail, send, received = sections._mail, sections._mail.send, sections._mail.received

        def sent(x: Tensor, to: int) -> None:
            self.events.append(("sent", to))
            send(x, to)

        def came(message: Any) -> Tensor:
            if message.value is None:  # those before it are taken out of its way
                before = next(i for i, each in enumerate(mail.coming[message.source]) if each is message)
                self.events += [("came", message.source)] * (before + 1)
            return received(message)

        mail.send, mail.received = sent, came
        for block in sections.dealt.own:
            block.register_forward_hook(lambda *_: self.events.append(("ran", 0)), prepend=True)

    def share(self, mesh: Mesh) -> float:
        """Collective: which part of the time all sections together have idled."""
        logs: list[Any] = [None] * mesh.plan.layers
        dist.all_gather_object(logs, self.events, group=mesh[Axis.LAYERS].process_group)
        num_ran = sum(kind == "ran" for each in logs for kind, _ in each)
        return 1 - num_ran / (len(logs) * max(clocks(logs)))


def clocks(logs: list[list[tuple[str, int]]]) -> list[int]:
    """When each rank ends."""
    at, now = [0] * len(logs), [0] * len(logs)
    flying: dict[tuple[int, int], list[int]] = {}
    while any(at[rank] < len(log) for rank, log in enumerate(logs)):
        moved = False
        for rank, log in enumerate(logs):
            while at[rank] < len(log):
                kind, other = log[at[rank]]
                if kind == "came":
                    if not flying.get((other, rank)):
                        break
                    now[rank] = max(now[rank], flying[other, rank].pop(0))
                elif kind == "sent":
                    flying.setdefault((rank, other), []).append(now[rank])
                else:
                    now[rank] += 1
                at[rank] += 1
                moved = True
        assert moved, "a rank waits for what nobody sends"
    return now


def idle(rank: int, variant: str, blocks: int, count: int, runs: int, steps: int, meet: bool) -> dict[str, Any]:
    """Which part of the time the sections idle, what the form says, and whether the results have the same bits."""
    mesh = group_mesh(f"layers={count}")
    if mesh is None:
        return {}
    model, inputs = model_of(variant, dataclasses.replace(CASES["odd_image"], layers=blocks))
    name = next(each for each in inputs if "hidden_states" in each)
    values = [fresh(inputs, seed + 1) for seed in range(runs)]
    wholes = [dict(each) for each in values]
    for _ in range(steps):
        outs = [outputs(model, each)[0] for each in wholes]
        for each, out in zip(wholes, outs, strict=True):
            each[name] = each[name] + 0.1 * (sum(outs) / runs if meet else out)
    handle = shard(model, mesh.plan, mesh)
    outputs(model, values[0])  # the first of its kind is not counted
    log, waiting = Log(handle), [None] * runs
    for _ in range(steps):
        if meet:
            outs = [finished(each) for each in [outputs(model, value)[0] for value in values]]
            for value in values:
                value[name] = value[name] + 0.1 * (sum(outs) / runs)
            continue
        for number, value in enumerate(values):
            if waiting[number] is not None:  # the step before is only needed now
                value[name] = value[name] + 0.1 * finished(waiting[number])
            waiting[number] = outputs(model, value)[0]
    for value, out in zip(values, waiting, strict=True):
        if out is not None:
            value[name] = value[name] + 0.1 * finished(out)
    handle.remove()
    independent = 1 - runs * steps / ((steps - 1) * max(runs, count) + runs + count - 1)
    return {
        "idle": log.share(mesh),
        "form": (count - 1) / (runs + count - 1) if meet else independent,
        "same": all(torch.equal(value[name], whole[name]) for value, whole in zip(values, wholes, strict=True)),
    }


# ---- loaded in shares, and whole denoises


@by_plan
def loaded(rank: int, variant: str, mesh: Mesh, folder: str) -> dict[str, Any]:
    """A transformer of which each rank reads its section, against the whole one."""
    model, inputs = model_of(variant, dataclasses.replace(CASES["both_odd"], layers=4))
    if rank == 0:
        model.save_pretrained(folder)
    dist.barrier(group=mesh[Axis.LAYERS].process_group)
    transformer, handle = load_sharded(Path(folder), mesh.plan, mesh, dtype="fp32")
    founds = [finished(outputs(transformer, fresh(inputs, seed))) for seed in CALLS]
    wholes = [outputs(model, fresh(inputs, seed)) for seed in CALLS]
    return {
        "difference": max(apart(found, whole) for found, whole in zip(founds, wholes, strict=True)),
        "share": own_bytes(transformer) / own_bytes(model),
        "elsewhere": sorted(handle.sections.dealt.elsewhere) if handle.sections else [],
        "told": _told(handle.remove),
    }


def rooms(rank: int, plan: str) -> list[int]:
    return rooms_among(100 + rank, mesh_for(ParallelPlan.parse(plan)))


def denoised(rank: int, model: dict[str, Any], plan: str, steps: int) -> dict[str, Any]:
    """A guided denoise by the plan and by this rank alone, and how long its sections idle once its calls are known."""
    store().clear()
    request = request_of(model, guidance=3.0, steps=steps)
    whole = stages.denoise(request).tensor
    spread = {**request, "plan": ParallelPlan.parse(plan)}
    first = stages.denoise(spread).tensor
    shares = [
        entry.share for entry in store()._entries.values() if entry.share and entry.share[0].plan == spread["plan"]
    ]
    (mesh, handle), *_ = [each for each in shares if each]
    log = Log(handle)
    again = stages.denoise(spread).tensor
    found = {
        "same": torch.equal(whole, first) and torch.equal(whole, again),
        "difference": max(float((whole - each).abs().max()) for each in (first, again)),
        "largest": float(whole.abs().max()),
        "idle": log.share(mesh),
    }
    store().clear()
    return found


@by_plan
def whole_pipeline(rank: int, name: str, mesh: Mesh) -> float:
    """How far two runs of a pipeline of diffusers' own, with its transformers over sections, are from one alone."""
    tiny, pipe = made(name)
    with torch.no_grad():
        whole = run(pipe, tiny)
        handles = [shard(part, mesh.plan, mesh) for part in denoisers_of(pipe).values()]
        difference = max(distance(run(pipe, tiny), whole) for _ in range(2))
    for handle in handles:
        handle.remove()
    return float(difference)


# ---- what goes wrong


def _told(run: Callable[[], Any]) -> str:
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


class Failing:
    """A forward that raises, or ends its process."""

    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def __call__(self, *_: Any, **__: Any) -> Any:
        if self.dies:
            os._exit(1)
        raise RuntimeError("this rank has no memory left")


@contextlib.contextmanager
def failing(module: Any, *, dies: bool = False) -> Iterator[None]:
    vars(module)["forward"] = Failing(dies)
    try:
        yield
    finally:
        del vars(module)["forward"]


@by_plan
def one_fails(rank: int, mesh: Mesh, where: str, at: int) -> list[str]:
    """What ranks are told where one fails in its first call, in a block or outside of them; then calls go on."""
    model, inputs = model_of("wan", dataclasses.replace(CASES["both_odd"], layers=4))
    whole = outputs(model, inputs)
    handle = shard(model, mesh.plan, mesh)
    module = handle.sections.dealt.own[0] if where == "block" else model.condition_embedder
    with failing(module) if rank == at else contextlib.nullcontext():
        told = [_told(lambda: outputs(model, inputs))]
    for _ in range(2):
        told.append(_told(lambda: finished(outputs(model, inputs))))
    told.append(f"{apart(finished(outputs(model, inputs)), whole)}")
    handle.remove()
    return told


@by_plan
def one_dies(rank: int, mesh: Mesh) -> None:
    """The second rank ends in its second call."""
    model, inputs = model_of("wan", dataclasses.replace(CASES["both_odd"], layers=4))
    handle = shard(model, mesh.plan, mesh)
    finished(outputs(model, inputs))
    with failing(handle.sections.dealt.own[0], dies=True) if rank == 1 else contextlib.nullcontext():
        finished(outputs(model, inputs))


@by_plan
def refused(rank: int, mesh: Mesh, variant: str, what: str) -> str:
    """What is refused, and by which words."""
    model, inputs = model_of(variant, dataclasses.replace(CASES["both_odd"], layers=4))
    if what == "step cache":
        model.enable_cache(FirstBlockCacheConfig())
        return _told(lambda: shard(model, mesh.plan, mesh))
    if what == "gradients":
        model.requires_grad_(True)
    handle = _told(lambda: shard(model, mesh.plan, mesh)) if what == "load" else shard(model, mesh.plan, mesh)
    if isinstance(handle, str):
        return handle
    try:
        if what == "late step cache":
            model.enable_cache(FirstBlockCacheConfig())
        if what == "other inputs":
            name = next(each for each in inputs if "hidden_states" in each)
            inputs = {**inputs, name: inputs[name] + rank}
        if what == "last's inputs" and rank == mesh.plan.num_ranks - 1:
            inputs = {each: x + 1 if torch.is_tensor(x) and x.is_floating_point() else x for each, x in inputs.items()}
        run = model if what == "gradients" else None
        return _told(lambda: run(**inputs) if run else outputs(model, inputs))
    finally:
        handle.remove()


@by_plan
def other_shapes(rank: int, variant: str, mesh: Mesh, cases: list[str]) -> list[float]:
    """Calls of several sizes and masks, one after the other and again: how far each is from the whole one."""
    model, _ = model_of(variant, CASES["even"])
    given: list[Mapping[str, Any]] = [model_of(variant, CASES[each])[1] for each in cases]
    wholes = [outputs(model, dict(each)) for each in given]
    handle = shard(model, mesh.plan, mesh)
    found = [
        apart(finished(outputs(model, dict(each))), whole)
        for _ in range(2)
        for each, whole in zip(given, wholes, strict=True)
    ]
    handle.remove()
    return found


@by_plan
def looked_at_late(rank: int, mesh: Mesh) -> list[Any]:
    """What a pipeline does with a result that waits, in inference mode: a long chain, in place, into views and plain
    tensors, and a look by Python."""
    model, inputs = model_of("wan", dataclasses.replace(CASES["both_odd"], layers=4))
    handle = shard(model, mesh.plan, mesh)

    def pipeline(x: Tensor) -> list[Any]:
        beside = x + 1  # follows from what is written into below
        y = x * 1
        for _ in range(3000):
            y = y + 0.001
        total = float(y.sum())
        plain = torch.zeros(x.shape)
        plain += x
        x[:, :1].mul_(2)
        x.add_(y)
        return [total, x, beside, plain, bool((x > 0).any()), x.numpy().sum().item()]

    with torch.inference_mode():
        outputs(model, inputs)
        got = pipeline(outputs(model, inputs)[0])
        handle.remove()
        want = pipeline(outputs(model, inputs)[0])
    return [
        torch.equal(*map(finished, pair)) if isinstance(pair[0], Tensor) else pair[0] == pair[1]
        for pair in zip(got, want, strict=True)
    ]


@by_plan
def compiled(rank: int, variant: str, mesh: Mesh) -> list[float]:
    """Own blocks in graphs, which compute as eager blocks do."""
    model, inputs = model_of(variant, dataclasses.replace(CASES["both_odd"], layers=4))
    wholes = [outputs(model, fresh(inputs, seed)) for seed in CALLS]
    handle = shard(model, mesh.plan, mesh)
    handle.compile(backend="eager")
    found = [
        apart(finished(outputs(model, fresh(inputs, seed))), whole) for seed, whole in zip(CALLS, wholes, strict=True)
    ]
    handle.remove()
    return found
