"""What is not chosen because it rounds differently, and would be faster: a ring, a compiled transformer; and whether
steps are replayed as CUDA graphs.

A step that is replayed has the bits of one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ..costs.machine import Machine
from ..costs.software import COMPILE_S
from ..costs.units import duration
from ..models.checks import LEAST_STEPS, check_engine, why_no_graphs
from ..values import Model
from .choice import ROUNDING_GAIN, Candidate, best, spelt
from .terms import Wanted


def ring_hint(found: Iterable[Candidate], chosen: Candidate | None) -> str:
    """What a ring would save of the choice, or that one alone has room; "" where less than a tenth is saved."""
    rings = [each for each in found if each.rounds_differently and not each.lacking_bytes]
    ring = min(rings, key=lambda each: each.seconds, default=None)
    if ring is None:
        return ""
    if chosen is None:
        return worded("{} would fit, and rounds differently", spelt(ring))
    gain = _gain(ring, chosen)
    return (
        worded("{} would be {:.0%} faster, and rounds differently", spelt(ring), gain) if gain >= ROUNDING_GAIN else ""
    )


def compiled_hint(compiled: Sequence[Candidate], chosen: Candidate, num_runs: int) -> str:
    """What a compiled transformer would save, and how many runs make up for compiling it; "" where less than a tenth is
    saved.
    """
    swift = best(compiled)
    if swift is None or (gain := _gain(swift, chosen)) < ROUNDING_GAIN:
        return ""
    least = math.ceil(COMPILE_S * num_runs / (chosen.seconds - swift.seconds))
    told = worded("compiled, {} would be {:.0%} faster, and rounds differently", spelt(swift), gain)
    runs = f"{least} runs make" if least > 1 else "one run makes"
    return worded("{}; compiling takes about {} the first time, which {} up for", told, duration(COMPILE_S), runs)


def _gain(other: Candidate, chosen: Candidate) -> float:
    return 1 - other.seconds / chosen.seconds


def may_compile(model: Model, wanted: Wanted, machine: Machine) -> bool:
    """Whether what compiling would save is worth a word: nobody has measured that on a CPU."""
    if model.is_compiled or wanted.has_step_cache or machine.kind != "cuda":
        return False
    try:
        check_engine("inductor", device=machine.kind if machine.name == "here" else "")
    except ValueError:
        return False
    return True


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
    return worded("steps without CUDA graphs: {}", reason) if reason else "steps as CUDA graphs, where memory allows"
