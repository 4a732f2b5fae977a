"""What a denoise would do on a machine: each plan that there is with time and memory, the one to take, and why.

One value is asked for everything: what `auto` takes, what is told before a run and on the page, what
`latentloom plan` answers, and how many ranks decode together.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..components.memory import USABLE_SHARE
from ..costs.chips import GIB, Software, software_of
from ..costs.machine import Machine
from ..costs.run import Run, duration, predict, volume
from ..costs.step import Demand
from ..families import FAMILIES
from ..values import Latents, Model, Quantization
from .asked import demand_of
from .choice import (
    IDLE_GAIN,
    Fit,
    Mend,
    best,
    compiled_hint,
    is_captured,
    lacking,
    may_compile,
    mends_of,
    pick,
    plainness,
    possible,
    replicas_of,
    ring_hint,
    spelt,
    text_encoders,
)
from .known import Spot, core_chip, machine_at
from .memory import Work, whole_bytes, work_of
from .plans import Wanted, auto_plan, why_whole

NUM_REJECTED = 3
QUANTIZATIONS: tuple[Quantization, ...] = ("int8", "int4")


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What follows from a model, what is asked of it and a machine. Whatever takes time is made when it is asked for,
    once.
    """

    model: Model
    wanted: Wanted
    machine: Machine
    work: Work
    demand: Demand
    software: Software
    num_runs: int = 1
    groups: int = 0  # so many equal groups of the devices work side by side; 0 are as many as end `num_runs` soonest

    @property
    def canvas(self) -> Latents:
        return self.work.canvas

    @property
    def rule(self) -> ParallelPlan:
        """The plan that `auto` takes by its rule, without a prediction."""
        num_devices = self.machine.num_devices // max(1, self.groups)
        return auto_plan(self.model, num_devices, is_guided=self.wanted.is_guided)[0]

    @property
    def room(self) -> int:
        """Bytes of each device that can be used, as `Work.needs` takes them; on a CPU those of a rank, 0 without a
        limit.
        """
        machine = self.machine
        return int(USABLE_SHARE * (machine.limit_bytes if machine.kind == "cpu" else machine.memory_bytes))

    @cached_property
    def found(self) -> list[Run]:
        """Every plan for every count of devices, what does not fit included, in no order. Reads config files only."""
        there = self.machine.num_devices
        return [
            self.by(plan, replicas=replicas)
            for plan in possible(self.model, there // max(1, self.groups), is_guided=self.wanted.is_guided)
            if plan.layers <= (1 if self.wanted.has_step_cache else self.work.most_sections)
            for replicas in ([self.groups] if self.groups else replicas_of(there // plan.num_ranks, self.num_runs))
        ]

    @cached_property
    def chosen(self) -> Run | None:
        """The plan to take; None where nothing fits."""
        return pick(self.found, self.rule, self.machine)

    @property
    def closest(self) -> Run:
        """What lacks least."""
        # Of the plans that auto may take: what nobody would be given is no help to whoever lacks memory.
        alike = [each for each in self.found if not each.rounds_differently]
        return min(alike, key=lambda each: (each.lacking_bytes, each.all_s))

    @property
    def taken(self) -> Run:
        return self.chosen or self.closest

    @cached_property
    def why(self) -> str:
        """Why this plan, in plain words; "" where none fits."""
        chosen, there = self.chosen, self.machine.num_devices
        if chosen is None:
            return ""
        plan, sent, idle = chosen.plan, chosen.step.sent_bytes, there - chosen.num_devices
        told = [
            why_whole(Path(self.model.folder)),
            chosen.replicas > 1
            and worded("{} groups work on separate runs, since those wait for nobody", chosen.replicas),
            plan.cfg > 1 and "each branch of guidance has a group of its own, and predictions travel between them",
            plan.ulysses > 1 and worded("{} devices trade tokens for heads of attention", plan.ulysses),
            plan.allgather > 1 and worded("{} devices gather keys and values at once", plan.allgather),
            plan.ring > 1
            and worded("keys and values go round {} devices while these attend, which rounds differently", plan.ring),
            plan.weights > 1
            and worded("{} devices hold the weights between them, {}", plan.weights, _why_shared(self, chosen)),
            plan.layers > 1
            and worded("{} devices hold some of the blocks each, {}", plan.layers, _why_shared(self, chosen)),
            chosen.decoders > 1
            and self.work.by_tiles
            and worded("{} devices decode, each some of the tiles", chosen.decoders),
            chosen.decoders > 1
            and not self.work.by_tiles
            and worded("{} devices decode, each some rows, because one has no room for all", chosen.decoders),
            streaming(chosen, self.machine),
            sent and worded("each device sends {} a step", volume(sent)),
            idle and worded("{} of {} devices stay idle{}", idle, there, _why_idle(self, chosen)),
        ]
        return "; ".join(each for each in told if isinstance(each, str) and each) or "it is the only device"

    @cached_property
    def rejected(self) -> list[tuple[Run, str]]:
        return [] if self.chosen is None else rejected(self, self.chosen)

    @cached_property
    def mends(self) -> list[Mend]:
        """What to change so that a plan fits, the cheapest first; none where one does."""
        if self.chosen is not None:
            return []
        quantizations = QUANTIZATIONS[: 2 if self.machine.kind == "cuda" else 1]
        return mends_of(self.model, self.canvas, self._fit, quantizations=quantizations)

    @cached_property
    def hint(self) -> str:
        """What would make it faster, and rounds differently; "" where rates are assumed."""
        if self.machine.is_assumed:
            return ""
        hints = [ring_hint(self.found, self.chosen)]
        if self.chosen is not None and may_compile(self.model, self.wanted, self.machine):
            swift = software_of(is_compiled=True, is_captured=self.software.is_captured)
            compiled = dataclasses.replace(self, software=swift).found
            hints.append(compiled_hint(compiled, self.chosen, self.num_runs))
        return "; ".join(filter(None, hints))

    def by(self, plan: ParallelPlan, *, replicas: int = 1) -> Run:
        """By this plan; by tiles of a decode unless that has less room, by rows where one rank has none for all."""
        whole, shared = self._by(plan, replicas, 1), self.work.decoders(plan)
        if shared == 1 or not (whole.lacking_bytes or self.work.by_tiles):
            return whole
        together = self._by(plan, replicas, shared)
        if self.work.by_tiles:
            return together if together.lacking_bytes <= whole.lacking_bytes else whole
        return together if together.lacking_bytes < whole.lacking_bytes else whole

    def _by(self, plan: ParallelPlan, replicas: int, decoders: int) -> Run:
        demand, work, machine, room = self.demand, self.work, self.machine, self.room
        num_devices, asked = machine.num_devices // replicas, {"num_runs": self.num_runs, "replicas": replicas}
        encoders, texts, turns_s = text_encoders(work, demand, plan, machine, room=room, replicas=replicas)
        needs = work.needs(plan, num_devices=num_devices, decoders=decoders, encoders=encoders, room=room)
        return dataclasses.replace(
            predict(
                demand,
                plan,
                machine,
                self.software,
                decoders=decoders,
                encoders=encoders,
                streamed_bytes=work.streamed_bytes(plan, room),
                streamed_text_bytes=texts,
                section=work.sections(plan, room)[1] if plan.layers > 1 else 1.0,
                encoder=core_chip(machine.num_devices) if self.model.text_encoder == "cpu" else None,
                **asked,
            ),
            num_bytes=max(need.num_bytes for need in needs),
            lacking_bytes=lacking(needs * replicas, machine),
            turns_s=turns_s,
        )

    def memory_for(self, run: Run, *, streams: bool) -> int:
        """The least memory of each device, or limit of each rank on a CPU, by which the run's plan fits: with blocks
        that come from the host one by one, or with none that do.
        """
        room, there = int(streams), self.machine.num_devices // run.replicas
        while True:
            needs = self.work.needs(run.plan, num_devices=there, decoders=run.decoders, room=room)
            needed = max(need.own_bytes if streams else need.num_bytes for need in needs)
            if not streams or needed <= room:
                return math.ceil(needed / USABLE_SHARE)
            room = needed  # with more of it what is small is there whole, so that all the rest needs more

    def _fit(self, changed: Model, size: Latents) -> Fit | None:
        """How another model or size fits by the best of its plans."""
        chosen = best(forecast(changed, self.wanted.of_size(size), self.machine).found)
        return (chosen.num_bytes, spelt(chosen)) if chosen else None


def forecast(model: Model, wanted: Wanted, machine: Machine, *, num_runs: int = 1, groups: int = 0) -> Forecast:
    """Reads configs and headers. Raises `ValueError` for files that cannot be read, a size that cannot be made, and a
    model whose time cannot be predicted.
    """
    own = wanted.settled(model)
    text_length, num_references = own.text_length, own.num_references
    work = work_of(model, canvas=own.canvas(model), text_length=text_length, num_references=num_references)
    demand = demand_of(
        model,
        work,
        steps=own.steps,
        branches=2 if wanted.is_guided else 1,
        text_length=text_length,
        weight_bytes=whole_bytes(model, idle=FAMILIES[model.family].idle(looks=num_references > 0)),
    )
    software = software_of(
        is_compiled=model.is_compiled,
        is_captured=is_captured(model, machine, steps=demand.steps, has_step_cache=wanted.has_step_cache),
        sends_pieces=machine.kind == "cpu",
    )
    asked = {"model": model, "wanted": wanted, "machine": machine, "num_runs": num_runs, "groups": groups}
    return Forecast(**asked, work=work, demand=demand, software=software)


def forecast_at(model: Model, wanted: Wanted, spot: Spot, groups: int) -> Forecast:
    """What each of so many groups of devices of this machine would do, side by side; errors as of `forecast`. Made
    once for each denoise, whoever asks.
    """
    return _kept(model, wanted.settled(model), spot, groups)


@lru_cache(maxsize=256)
def _kept(model: Model, wanted: Wanted, spot: Spot, groups: int) -> Forecast:
    return forecast(model, wanted, machine_at(spot), groups=groups)


def _why_shared(answer: Forecast, chosen: Run) -> str:
    whole = dataclasses.replace(chosen.plan, weights=1, layers=1)
    alike = next((each for each in answer.found if each.plan == whole and each.replicas == chosen.replicas), None)
    has_room = alike is not None and not (alike.lacking_bytes or alike.streamed_bytes)
    return "at no loss of time" if has_room else "because none has room for all"


def streaming(run: Run, machine: Machine) -> str:
    """What of the transformer's weights comes from the host's memory, how fast, and whether a step waits for it; "" for
    none, and without seconds where rates are assumed.
    """
    if not run.streamed_bytes:
        return ""
    sent, limit = volume(run.streamed_bytes), "for which it waits" if run.is_link_bound else "less than it computes"
    if run.is_from_disk:
        limit = "since the host has no memory for them, and they are read from the disk"
    if not machine.is_timed:
        return worded("{} of each step's weights come from host memory", sent)
    rate, took = volume(run.streamed_bytes / run.streaming_s), duration(run.streaming_s)
    return worded(
        "{} of each step's weights come from host memory at {}/s, which takes {} a step, {}", sent, rate, took, limit
    )


def _why_idle(answer: Forecast, chosen: Run) -> str:
    fitting = [each for each in answer.found if not (each.lacking_bytes or each.rounds_differently)]
    more = [each for each in fitting if each.num_devices > chosen.num_devices]
    if not more:
        return ""
    other = min(more, key=lambda each: each.all_s)
    gain, named = 1 - other.all_s / chosen.all_s, worded("{} on {}", spelt(other), other.num_devices)
    if gain <= 0:
        return worded(", because every plan for more takes longer, {} by {:.0%}", named, -gain)
    return worded(
        ", because {}, the fastest plan for more, saves {:.0%}, and {:.0%} is asked for", named, gain, IDLE_GAIN
    )


def of_each_kind(answer: Forecast) -> list[Run]:
    """The fastest first; of those that differ in text or weights alone the chosen one, or which fits or lacks least."""
    found: dict[tuple[int, ...], Run] = {}
    for each in sorted(answer.found, key=lambda each: (each != answer.chosen, each.lacking_bytes, each.all_s)):
        found.setdefault(_kind(each), each)
    alone = (each for each in answer.found if found[_kind(each)] is each)
    return sorted(alone, key=lambda each: (each.all_s, each.num_bytes))


def rejected(answer: Forecast, chosen: Run) -> list[tuple[Run, str]]:
    """The fastest of other kinds; one that does not fit leads where it would be faster."""
    ordered = sorted(answer.found, key=lambda each: (each.all_s, *plainness(each.plan)))
    first = next((each for each in ordered if each.lacking_bytes and each.all_s < chosen.all_s), None)
    found = {} if first is None else {_kind(first): first}
    for each in ordered:
        if not each.lacking_bytes and _kind(each) != _kind(chosen):
            found.setdefault(_kind(each), each)
    is_timed = answer.machine.is_timed
    return [(each, _why_not(chosen, each, is_timed=is_timed)) for each in list(found.values())[:NUM_REJECTED]]


def _kind(run: Run) -> tuple[int, ...]:
    plan = run.plan
    return plan.cfg, plan.layers, plan.ulysses, plan.ring, plan.allgather, run.replicas


def _why_not(chosen: Run, other: Run, *, is_timed: bool) -> str:
    if other.lacking_bytes:
        return worded("but does not fit: {:.1f} GiB more are needed", other.lacking_bytes / GIB)
    change = other.all_s / chosen.all_s - 1
    if change >= 0.005 and not is_timed:
        return worded("{:.0%} slower, by what is assumed of such machines", change)
    if change >= 0.005:
        # What of a step takes so much longer.
        part = max(PARTS, key=lambda each: getattr(other.step, each) - getattr(chosen.step, each))
        took, was = (duration(getattr(run.step, part)) for run in (other, chosen))
        longer = worded(PARTS[part], took=took, was=was, sent=volume(other.step.sent_bytes))
        return worded("{:.0%} slower: {}", change, longer)
    if change <= -0.005 and other.rounds_differently:
        return worded("{:.0%} faster, but it rounds differently", -change)
    if change <= -0.005 and other.num_devices > chosen.num_devices:
        return worded("{:.0%} faster with {} devices; {:.0%} is asked for", -change, other.num_devices, IDLE_GAIN)
    if change <= -0.01:
        return worded("{:.0%} faster by this prediction alone", -change)
    return worded("as fast, with {:.1f} GiB on a device", other.num_bytes / GIB)


PARTS = {
    "linear": "matrix products take {took} a step, not {was}, with more on each device",
    "attention": "attention takes {took} a step, not {was}, with more on each device",
    "memory": "packing and merging take {took} a step, not {was}",
    "exposed": "each device waits {took} a step for what travels ({sent}), not {was}",
    "weights": "each device waits {took} a step for weights, not {was}",
    "idle": "each device waits {took} a step for blocks of others, not {was}",
    "waiting": "the host asks for more kernels, and devices wait {took} a step for it, not {was}",
}
