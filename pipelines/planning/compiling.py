"""Whether a compiled transformer pays: what it saves of all runs that are made, compiling counted, and in which words;
and whether steps are replayed as CUDA graphs, compiled or not.

Compiled blocks round differently, so that `auto` compiles only where it was asked to (`auto,compiled`), where that is
predicted to save a tenth of the whole, and on GPUs alone: nobody has measured what it saves on a CPU. A step that is
replayed has the bits of one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...parallel.plan import ParallelPlan
from ..costs.machine import Machine
from ..costs.software import COMPILE_S
from ..costs.units import duration
from ..models.checks import LEAST_STEPS, check_engine, why_no_graphs
from ..values import Model
from .choice import ROUNDING_GAIN, Candidate, all_s, best, spelt
from .terms import MARK, Wanted

MOST_RUNS = 1 << 13
"""Of a sweep that is looked at; `latentloom run` makes at most 10,000."""


@dataclass(frozen=True, kw_only=True)
class Compiling:
    """The best plan as it is and the best of a compiled transformer, and so many runs, one after another."""

    eager: Candidate
    compiled: Candidate
    num_runs: int

    @property
    def gain(self) -> float:
        """Which part of the time of all runs it saves, compiling counted."""
        return 1 - (all_s(self.compiled, self.num_runs) + COMPILE_S) / all_s(self.eager, self.num_runs)

    @property
    def pays(self) -> bool:
        return self.gain >= ROUNDING_GAIN

    @property
    def runs(self) -> str:
        return "one run" if self.num_runs == 1 else f"{self.num_runs} runs"

    def words(self) -> str:
        """Why it is done, or not."""
        of = f"of {self.runs}, about {duration(COMPILE_S)} of compiling counted"
        if self.pays:
            return f"compiled, which saves {self.gain:.0%} of the time {of}, and rounds differently"
        if self.gain <= 0:
            return f"not compiled, which would save nothing {of}"
        asked = f"and rounds differently, for which {ROUNDING_GAIN:.0%} is asked"
        return f"not compiled, which would save {self.gain:.0%} of the time {of}, {asked}"

    def rejected(self) -> tuple[str, float, str]:
        """The other of the two: its name, the seconds of a step, and why not."""
        slower = 1 / (1 - self.gain) - 1
        if self.pays:
            return spelt(self.eager), self.eager.run.step.seconds, f"{slower:.0%} slower over {self.runs}"
        told = f"{self.gain:.0%} faster" if self.gain > 0 else f"{-self.gain:.0%} slower"
        name = spelt(self.compiled) + MARK
        return name, self.compiled.run.step.seconds, f"{told} over {self.runs}, compiling counted"


def counted(num_runs: int) -> int:
    """Runs as a choice counts them: the power of two below, so that it holds for all sweeps of about so many."""
    return min(MOST_RUNS, 1 << (num_runs.bit_length() - 1))


def why_not_compiled(model: Model, wanted: Wanted, machine: Machine) -> str:
    """Why `auto` compiles nothing here, however many runs there are; "" where it may."""
    if wanted.has_step_cache:
        return "a step cache runs blocks that a graph would hold"
    if machine.kind != "cuda":
        return "nobody has measured what that saves on a CPU"
    if machine.is_assumed:
        return "the speed of this machine is only assumed"
    return why_no_compiler(machine)


def is_captured(model: Model, machine: Machine, *, steps: int, has_step_cache: bool = False) -> bool:
    """Whether steps are replayed as CUDA graphs by plans that share no weights, memory allowing."""
    may = not why_no_graphs(model, ParallelPlan(), has_step_cache=has_step_cache)
    wanted = model.graphs == "on" or (model.graphs == "auto" and may and steps >= LEAST_STEPS)
    return wanted and machine.kind == "cuda"


def graphs_told(model: Model, machine: Machine, plan: ParallelPlan, *, steps: int) -> str:
    """How steps are replayed, or why not; "" where nobody would expect it."""
    if machine.kind != "cuda" or model.graphs == "off":
        return ""
    reason = why_no_graphs(model, plan, has_step_cache=False)
    if not reason and not is_captured(model, machine, steps=steps):
        reason = f"{steps} are too few to pay for them the first time"
    return f"steps without CUDA graphs: {reason}" if reason else "steps as CUDA graphs, where memory allows"


def why_no_compiler(machine: Machine) -> str:
    """What this machine lacks to compile; "" where it lacks nothing, or is one that is not here."""
    try:
        check_engine("inductor", device=machine.kind if machine.name == "here" else "")
    except ValueError as error:
        return str(error)
    return ""


def hint(eager: Sequence[Candidate], compiled: Sequence[Candidate], num_runs: int) -> str:
    """What a compiled transformer would save of so many runs, how many make up for compiling, and for how many `auto`
    would take it; "" where less than a tenth is saved, since it rounds differently. Of all plans and replicas.
    """
    both = _best_of(eager, compiled, num_runs)
    saved_s = both and (all_s(both.eager, num_runs) - all_s(both.compiled, num_runs)) / num_runs
    if both is None or not saved_s or saved_s < ROUNDING_GAIN * all_s(both.eager, num_runs) / num_runs:
        return ""
    step, least = duration(both.compiled.run.step.seconds), math.ceil(COMPILE_S / saved_s)
    told = (
        f"compiled: {spelt(both.compiled)} then takes {step} a step, and rounds differently; compiling takes about "
        f"{duration(COMPILE_S)} the first time, which {f'{least} runs make' if least > 1 else 'one run makes'} up for"
    )
    if num_runs >= max(2, least):
        told += f": these {num_runs} then take {duration(all_s(both.compiled, num_runs) + COMPILE_S)} with it"
    powers = [1 << power for power in range(MOST_RUNS.bit_length())]
    sweep = next((each for each in powers if (found := _best_of(eager, compiled, each)) and found.pays), 0)
    if not sweep:
        return f"{told}; plan auto,compiled takes it for no sweep, whose groups gain less"
    return f"{told}; plan auto,compiled takes it for {sweep} or more runs of a sweep"


def _best_of(eager: Sequence[Candidate], compiled: Sequence[Candidate], num_runs: int) -> Compiling | None:
    """The best of each for so many runs, which no more groups can share out; None where one of them does not fit."""

    def of(found: Sequence[Candidate]) -> Candidate | None:
        can = (each for each in found if each.replicas <= num_runs)
        return best([replace(each, seconds=all_s(each, num_runs)) for each in can])

    first, second = of(eager), of(compiled)
    return Compiling(eager=first, compiled=second, num_runs=num_runs) if first and second else None
