"""What ranks do in tests of a transformer whose blocks are dealt out over sections (`layers`)."""

import dataclasses
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from latentloom.parallel.group import Axis
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding.sections.waiting import finished
from latentloom.pipelines.spreading.transformer import shard
from support.cells import apart, mesh_for, model_of, outputs
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


def cell(rank: int, variant: str, case: str, plan: str, blocks: int = 2) -> dict[str, Any] | None:
    """Three calls with other inputs, by sections and whole."""
    mesh = mesh_for(ParallelPlan.parse(plan))
    if mesh is None:
        return None
    model, inputs = model_of(variant, dataclasses.replace(CASES[case], layers=blocks))
    wholes = [outputs(model, fresh(inputs, seed)) for seed in CALLS]
    handle = shard(model, plan, mesh)
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

        def came(source: int, number: int) -> Tensor:
            due = next(i for i, each in enumerate(mail._due[source]) if each.number == number)
            self.events += [("came", source)] * (due + 1)  # those before it are taken out of its way
            return received(source, number)

        mail.send, mail.received = sent, came
        for block in sections.dealt.own:
            block.register_forward_hook(lambda *_: self.events.append(("ran", 0)), prepend=True)


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
    mesh = mesh_for(ParallelPlan(layers=count))
    assert mesh is not None
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
    logs: list[Any] = [None] * count
    dist.all_gather_object(logs, log.events, group=mesh[Axis.LAYERS].process_group)
    num_ran = sum(kind == "ran" for each in logs for kind, _ in each)
    share = 1 - num_ran / (count * max(clocks(logs)))
    independent = 1 - runs * steps / ((steps - 1) * max(runs, count) + runs + count - 1)
    return {
        "idle": share,
        "form": (count - 1) / (runs + count - 1) if meet else independent,
        "same": all(torch.equal(value[name], whole[name]) for value, whole in zip(values, wholes, strict=True)),
    }
