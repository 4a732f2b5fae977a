"""A model's plan for a machine: all that there are, with time and memory, the one to take, and why not the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..costs.machine import Machine
from ..costs.run import Job
from ..costs.software import Software, software_of
from ..costs.step import Step
from ..costs.units import duration, volume
from ..models.describe import card_of
from ..needs.memory import Work, whole_bytes, work_of
from ..needs.remedies import Fit, Remedy, remedies
from ..values import Latents, Model, Quantization
from .asked import job_of
from .choice import IDLE_GAIN, Candidate, best, candidates, plainness, spelt
from .compiling import compiled_hint, is_captured, may_compile, ring_hint
from .plans import auto_plan, why_whole
from .terms import Wanted

GIB = 1 << 30
NUM_REJECTED = 3
QUANTIZATIONS: tuple[Quantization, ...] = ("int8", "int4")


Pick = Callable[[Sequence[Candidate], ParallelPlan], Candidate | None]
"""Of all candidates and the rule's plan the one to take; None where none fits."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """`chosen` is None where nothing fits; `closest` then lacks least."""

    model: Model
    title: str
    canvas: Latents
    machine: Machine
    job: Job
    encoder_bytes: int
    """Weights of the text encoders."""
    num_runs: int
    found: Sequence[Candidate]
    chosen: Candidate | None
    closest: Candidate
    rule: str
    """The plan that `auto` takes by its rule, without a prediction."""
    why: str
    rejected: Sequence[tuple[Candidate, str]]
    remedies: Sequence[Remedy] = ()
    """What to change so that a plan fits, the cheapest first."""
    hint: str = ""
    """What would make it faster, and rounds differently."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What all plans of a run are predicted from."""

    work: Work
    job: Job
    software: Software


def basis_of(model: Model, wanted: Wanted, machine: Machine) -> Basis:
    """Raises `ValueError` for files that cannot be read, a size that cannot be made, and a model whose time cannot be
    predicted.
    """
    canvas = wanted.canvas(model)
    card = card_of(model)
    text_length = wanted.text_length or card.text_length
    work = work_of(model, canvas=canvas, text_length=text_length, num_references=wanted.num_references)
    job = job_of(
        model,
        work,
        steps=wanted.steps or card.steps,
        branches=2 if wanted.is_guided else 1,
        text_length=text_length,
        weight_bytes=whole_bytes(model),
    )
    software = software_of(
        is_compiled=model.is_compiled,
        is_captured=is_captured(model, machine, steps=job.steps, has_step_cache=wanted.has_step_cache),
        sends_pieces=machine.kind == "cpu",
    )
    return Basis(work=work, job=job, software=software)


def planned(
    model: Model, wanted: Wanted, machine: Machine, *, num_runs: int = 1, groups: int = 0, pick: Pick | None = None
) -> Planned:
    """The best plan and why; errors as of `basis_of`. With `groups`, for each of so many that work side by side. `pick`
    chooses otherwise, and wants no hints.
    """
    basis, canvas, is_guided = basis_of(model, wanted, machine), wanted.canvas(model), wanted.is_guided
    work, job, software = basis.work, basis.job, basis.software
    found = candidates(model, work, job, machine, software, is_guided=is_guided, num_runs=num_runs, groups=groups)
    rule = auto_plan(model, machine.num_devices // max(1, groups), is_guided=is_guided)[0]
    chosen = pick(found, rule) if pick else best(found)
    alike = [each for each in found if not each.rounds_differently]
    closest = min(alike, key=lambda each: (each.lacking_bytes, each.seconds))
    answer = Planned(
        model=model,
        title=card_of(model).name or model.source,
        canvas=canvas,
        machine=machine,
        job=job,
        encoder_bytes=work.encoder_bytes,
        num_runs=num_runs,
        found=found,
        chosen=chosen,
        closest=closest,
        rule=str(rule),
        why="",
        rejected=(),
    )
    if pick:
        return answer
    hints = [] if machine.is_assumed else [ring_hint(found, chosen)]
    if chosen is None:
        return dataclasses.replace(answer, remedies=_remedies(model, wanted, machine), hint="".join(hints))
    if not machine.is_assumed and may_compile(model, wanted, machine):
        swift = software_of(is_compiled=True, is_captured=software.is_captured)
        compiled = candidates(model, work, job, machine, swift, is_guided=is_guided, num_runs=num_runs, groups=groups)
        hints.append(compiled_hint(compiled, chosen, num_runs))
    hint = "; ".join(filter(None, hints))
    return dataclasses.replace(answer, why=reasons(answer, chosen), rejected=rejected(answer, chosen), hint=hint)


def _remedies(model: Model, wanted: Wanted, machine: Machine) -> list[Remedy]:
    """By the best plan of each."""

    def ask(changed: Model, size: Latents) -> Fit | None:
        shape = {"width": size.width, "height": size.height, "frames": size.frames, "batch": size.batch}
        basis = basis_of(changed, dataclasses.replace(wanted, **shape), machine)
        found = candidates(changed, basis.work, basis.job, machine, basis.software, is_guided=wanted.is_guided)
        chosen = best(found)
        return Fit(num_bytes=chosen.num_bytes, plan=spelt(chosen)) if chosen else None

    return remedies(model, wanted.canvas(model), ask, quantizations=QUANTIZATIONS[: 2 if machine.kind == "cuda" else 1])


def reasons(answer: Planned, chosen: Candidate) -> str:
    """Why this plan, in plain words."""
    plan, told = chosen.plan, []
    if whole := why_whole(Path(answer.model.folder)):
        told.append(whole)
    if chosen.replicas > 1:
        told.append(worded("{} groups work on separate runs, since those wait for nobody", chosen.replicas))
    if plan.cfg > 1:
        told.append("each branch of guidance has a group of its own, and predictions travel between them")
    if plan.ulysses > 1:
        told.append(worded("{} devices trade tokens for heads of attention", plan.ulysses))
    if plan.allgather > 1:
        told.append(worded("{} devices gather keys and values at once", plan.allgather))
    if plan.ring > 1:
        told.append(
            worded("keys and values go round {} devices while these attend, which rounds differently", plan.ring)
        )
    if plan.weights > 1:
        told.append(worded("{} devices hold the weights between them, {}", plan.weights, _why_shared(answer, chosen)))
    if chosen.decoders > 1:
        told.append(worded("{} devices decode, each some rows, because one has no room for all", chosen.decoders))
    if sent := chosen.run.step.sent_bytes:
        told.append(worded("each device sends {} a step", volume(sent)))
    if idle := answer.machine.num_devices - chosen.num_devices:
        told.append(worded("{} of {} devices stay idle{}", idle, answer.machine.num_devices, _why_idle(answer, chosen)))
    if not told:
        told.append("it is the only device")
    return "; ".join(told)


def _why_shared(answer: Planned, chosen: Candidate) -> str:
    whole = dataclasses.replace(chosen.plan, weights=1)
    alike = next((each for each in answer.found if each.plan == whole and each.replicas == chosen.replicas), None)
    return "because none has room for all" if alike is None or alike.lacking_bytes else "at no loss of time"


def _why_idle(answer: Planned, chosen: Candidate) -> str:
    fitting = [each for each in answer.found if not (each.lacking_bytes or each.rounds_differently)]
    more = [each for each in fitting if each.num_devices > chosen.num_devices]
    if not more:
        return ""
    other = min(more, key=lambda each: each.seconds)
    gain = 1 - other.seconds / chosen.seconds
    if gain <= 0:
        return worded(", because every plan for more takes longer, {} by {:.0%}", _spelt_with(other), -gain)
    return worded(
        ", because {}, the fastest plan for more, saves {:.0%}, and {:.0%} is asked for",
        _spelt_with(other),
        gain,
        IDLE_GAIN,
    )


def _spelt_with(candidate: Candidate) -> str:
    return worded("{} on {}", spelt(candidate), candidate.num_devices)


def of_each_kind(answer: Planned) -> list[Candidate]:
    """The fastest first, and of those that differ in text or weights alone the best that fits, or lacks least."""
    found: dict[tuple[int, ...], Candidate] = {}
    for each in answer.found:
        known = found.get(_kind(each))
        if known is None or each == answer.chosen or (known != answer.chosen and _ahead(each) < _ahead(known)):
            found[_kind(each)] = each
    return sorted(found.values(), key=lambda each: (each.seconds, each.num_bytes))


def _ahead(candidate: Candidate) -> tuple[float, ...]:
    return candidate.lacking_bytes, candidate.seconds


def rejected(answer: Planned, chosen: Candidate) -> list[tuple[Candidate, str]]:
    """The fastest of other kinds; one that does not fit leads where it would be faster."""
    ordered = sorted(answer.found, key=lambda each: (each.seconds, *plainness(each.plan)))
    first = next((each for each in ordered if each.lacking_bytes and each.seconds < chosen.seconds), None)
    found = {} if first is None else {_kind(first): first}
    for each in ordered:
        if not each.lacking_bytes and _kind(each) != _kind(chosen):
            found.setdefault(_kind(each), each)
    is_timed = answer.machine.is_timed
    return [(each, _why_not(chosen, each, is_timed=is_timed)) for each in list(found.values())[:NUM_REJECTED]]


def _kind(candidate: Candidate) -> tuple[int, ...]:
    plan = candidate.plan
    return plan.cfg, plan.ulysses, plan.ring, plan.allgather, candidate.replicas


def _why_not(chosen: Candidate, other: Candidate, *, is_timed: bool) -> str:
    if other.lacking_bytes:
        return worded("but does not fit: {:.1f} GiB more are needed", other.lacking_bytes / GIB)
    change = other.seconds / chosen.seconds - 1
    if change >= 0.005 and not is_timed:
        return worded("{:.0%} slower, by what is assumed of such machines", change)
    if change >= 0.005:
        return worded("{:.0%} slower: {}", change, _difference(chosen.run.step, other.run.step))
    if change <= -0.005 and other.rounds_differently:
        return worded("{:.0%} faster, but it rounds differently", -change)
    if change <= -0.005 and other.num_devices > chosen.num_devices:
        return worded("{:.0%} faster with {} devices; {:.0%} is asked for", -change, other.num_devices, IDLE_GAIN)
    if change <= -0.01:
        return worded("{:.0%} faster by this prediction alone", -change)
    return worded("as fast, with {:.1f} GiB on a device", other.num_bytes / GIB)


def _difference(chosen: Step, other: Step) -> str:
    """What of a step takes so much longer."""
    more = {part: getattr(other, part) - getattr(chosen, part) for part in PARTS}
    part = max(more, key=lambda each: more[each])
    took, was = (duration(getattr(step, part)) for step in (other, chosen))
    return worded(PARTS[part], took=took, was=was, sent=volume(other.sent_bytes))


PARTS = {
    "linear": "matrix products take {took} a step, not {was}, with more on each device",
    "attention": "attention takes {took} a step, not {was}, with more on each device",
    "memory": "packing and merging take {took} a step, not {was}",
    "exposed": "each device waits {took} a step for what travels ({sent}), not {was}",
    "weights": "each device waits {took} a step for shared weights, not {was}",
    "waiting": "the host asks for more kernels, and devices wait {took} a step for it, not {was}",
}
