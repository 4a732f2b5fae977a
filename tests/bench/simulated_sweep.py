"""How often the planner picks the fastest plan on machines that are not its own model, beside today's rule.

    python tests/bench/simulated_sweep.py [SEEDS]        # 6 seeds, 1,296 cells, and 1,296 of sweeps: some minutes

A cell is a machine (its constants drawn by a seed), a load, a count of devices, and eager, or compiled and replayed as
CUDA graphs. Its truth is `simulated.py`, which is asked for every plan; the planner knows the machine by `measure`
alone. The rules about rounding and idle devices (`forecast/choice.py`) hold for the truth as for the planner: best is
the plan that they would pick if true times were known. `of all` is against the fastest there is, whatever they say.
Exit code 1 where the choice is within 2 % in fewer than 95 % of the cells. Last, what the rule costs: how often a
planner that may take what rounds differently, where a tenth is predicted to be saved, takes it, and how much longer
than that the choice takes.

A cell of a sweep asks for 3 runs of 4 steps, or 16 of 28, text and picture included: into how many groups the devices
are put (`forecast/auto.py`), and by which plan each works. Best is the least true time of all runs over all of these
that the rules allow.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.simulated import (
    BOXES,
    HALF,
    LOADS,
    NORMS,
    PIXEL_FLOPS,
    PIXELS_A_TOKEN,
    TEXT_FLOPS,
    Box,
    Load,
    Way,
    drawn,
    measure,
    need_bytes,
    step_s,
    sweep_s,
)
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.chips import software_of
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.costs.measured import checked, machine_of
from latentloom.pipelines.costs.run import predict
from latentloom.pipelines.costs.step import Demand
from latentloom.pipelines.forecast.auto import fewest
from latentloom.pipelines.forecast.choice import ROUNDING_GAIN, counts, plainness, replicas_of, settled

Told = TypeVar("Told")
COUNTS, SEEDS, NEAR = (2, 4, 8), 6, 0.02
USABLE = 0.94


@dataclass(frozen=True, kw_only=True)
class Cell:
    box: Box
    load: Load
    count: int
    is_compiled: bool
    seed: int

    def __str__(self) -> str:
        kind = "compiled" if self.is_compiled else "eager"
        return f"{self.load.name} on {self.count} x {self.box.name} ({kind}, seed {self.seed})"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Regrets: how much longer than the best a choice takes."""

    cell: Cell
    chosen: Way
    best: Way
    regret: float
    of_all: float
    rule: float  # NaN where today's plan does not fit
    error: float  # of the chosen plan's predicted time
    cost: float | None  # how much longer than a ring that is predicted to save a tenth; None where none is


def cells(num_seeds: int) -> list[Cell]:
    return [
        Cell(box=drawn(box, seed), load=load, count=count, is_compiled=is_compiled, seed=seed)
        for box in BOXES
        for load in LOADS
        for count in COUNTS
        for is_compiled in (False, True)
        for seed in range(num_seeds)
    ]


def ways(cell: Cell) -> list[Way]:
    """Every plan that fits, for so many devices or fewer."""
    load, found = cell.load, []
    for count in counts(cell.count):
        for cfg in (1, 2) if load.branches == 2 and count % 2 == 0 else (1,):
            left = count // cfg
            for ulysses in (each for each in range(1, left + 1) if left % each == 0 and load.heads % each == 0):
                rest = left // ulysses
                for ring, gather in ((1, rest), (rest, 1)) if rest > 1 else ((1, 1),):
                    for weights in sorted({1, left, count}):
                        for is_replicated in (False, True) if load.text and left > 1 else (False,):
                            found.append(
                                Way(
                                    cfg=cfg,
                                    ulysses=ulysses,
                                    ring=ring,
                                    gather=gather,
                                    weights=weights,
                                    replicated_text=is_replicated,
                                    is_compiled=cell.is_compiled,
                                )
                            )
    return [way for way in found if fits(cell, way)]


def fits(cell: Cell, way: Way) -> bool:
    return need_bytes(cell.load, way) <= USABLE * cell.box.memory_bytes


def todays(cell: Cell) -> Way:
    """Guidance first, then ulysses as far as the heads divide, the rest by allgather; all devices."""
    cfg = 2 if cell.load.branches == 2 and cell.count % 2 == 0 else 1
    left = cell.count // cfg
    ulysses = math.gcd(cell.load.heads, left)
    return Way(cfg=cfg, ulysses=ulysses, gather=left // ulysses, is_compiled=cell.is_compiled)


def outcome(cell: Cell) -> Outcome | None:
    """None where no plan fits."""
    listed = ways(cell)
    if not listed:
        return None
    machine, job = machine_as_measured(cell), job_of(cell.load)
    software = software_of(is_compiled=cell.is_compiled, is_captured=cell.is_compiled)
    true = {way: step_s(cell.box, cell.load, way) for way in listed}
    told = {way: predict(job, plan_of(way), machine, software).seconds for way in listed}
    chosen, best, ring = _settled(listed, told), _settled(listed, true), _settled(listed, told, may_round=True)
    is_ring, rule = told[ring] <= (1 - ROUNDING_GAIN) * told[chosen], todays(cell)
    return Outcome(
        cell=cell,
        chosen=chosen,
        best=best,
        regret=true[chosen] / true[best] - 1,
        of_all=true[chosen] / min(true.values()) - 1,
        rule=true[rule] / true[best] - 1 if rule in true else math.nan,
        error=told[chosen] / true[chosen] - 1,
        cost=true[chosen] / true[ring] - 1 if is_ring else None,
    )


def _settled(listed: Sequence[Way], seconds: dict[Way, float], *, may_round: bool = False) -> Way:
    found = settled(
        [way for way in listed if may_round or way.ring == 1],
        seconds=lambda way: seconds[way],
        num_devices=lambda way: way.ranks,
        tie=lambda way: plainness(plan_of(way)),
    )
    assert found is not None
    return found


def plan_of(way: Way) -> ParallelPlan:
    return ParallelPlan(
        cfg=way.cfg,
        ulysses=way.ulysses,
        ring=way.ring,
        allgather=way.gather,
        weights=way.weights,
        text="replicated" if way.replicated_text else "auto",
    )


def job_of(load: Load) -> Demand:
    return Demand(
        image=load.image,
        text=load.text,
        layers=load.layers,
        width=load.width,
        heads=load.heads,
        kv_heads=load.heads,
        head_dim=load.head_dim,
        image_weights=load.weights,
        text_weights=load.weights,
        block_bytes=int(load.weight_bytes / load.layers),
        branches=load.branches,
        latent_bytes=int(load.latent_bytes),
    )


def machine_as_measured(cell: Cell) -> Machine:
    """What ranks would measure on one device, two, and so on."""
    box = cell.box
    seen = {}
    for count in counts(cell.count):
        told = measure(box, count)
        rows, inner, columns, gemm_s = told.gemm
        tokens, heads, head_dim, attention_s = told.attention
        product = {"rows": rows, "inner": inner, "columns": columns, "seconds": gemm_s}
        attention = {"tokens": tokens, "heads": heads, "head_dim": head_dim, "seconds": attention_s}
        copied = {"tensor_bytes": int(told.copy[0] / 2), "passed_bytes": told.copy[0], "seconds": told.copy[1]}
        seen[count] = {
            "single": {**product, "seconds": 10 * gemm_s},
            "half": product,
            "attentions": [attention],
            "passes": [copied],
            "launch_s": told.launch_s,
            "convolution": None,
            "samples": [
                {"operation": name, "degree": degree, "stride": stride, **vars(each)}
                for (name, degree, stride), points in told.wires.items()
                for each in points
            ],
        }
    plain = {"title": box.name, "kind": "cuda", "memory_bytes": box.memory_bytes, "num_units": box.num_units}
    return machine_of(checked({**plain, "seen": seen}))


# ---- sweeps


@dataclass(frozen=True, kw_only=True)
class Sweep:
    cell: Cell
    runs: int
    steps: int

    def __str__(self) -> str:
        return f"{self.runs} runs of {self.steps} steps, {self.cell}"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """So many groups, what each does, and how many of its ranks decode together."""

    groups: int
    way: Way
    decoders: int = 1

    def __str__(self) -> str:
        return f"{self.groups} x {plan_of(self.way)}" + f", {self.decoders} decode" * (self.decoders > 1)


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    sweep: Sweep
    chosen: Shared
    best: Shared
    regret: float
    alone: float  # regret of one group, whose plan is the planner's
    # How much longer than with a ring or rows of a decode that are predicted to save a tenth; None without either.
    cost: float | None


def sweeps(num_seeds: int) -> list[Sweep]:
    return [Sweep(cell=cell, runs=runs, steps=steps) for cell in cells(num_seeds) for runs, steps in ((3, 4), (16, 28))]


def sweep_outcome(sweep: Sweep) -> SweepOutcome | None:
    """None where no plan fits."""
    cell, steps, runs = sweep.cell, sweep.steps, sweep.runs
    listed = ways(cell)
    if not listed:
        return None
    machine, job, software = (
        machine_as_measured(cell),
        _sweep_job(sweep),
        software_of(is_compiled=cell.is_compiled, is_captured=cell.is_compiled),
    )

    def told(way: Way, groups: int, decoders: int) -> float:
        run = predict(job, plan_of(way), machine, software, replicas=groups, decoders=decoders)
        return run.seconds + (math.ceil(runs / groups) - 1) * run.next_s

    def true(way: Way, groups: int, decoders: int) -> float:
        return sweep_s(cell.box, cell.load, way, steps=steps, runs=runs, groups=groups, decoders=decoders)

    def shared(
        seconds: Callable[[Way, int, int], float], *, may_round: bool = False
    ) -> dict[int, tuple[Shared, float]]:
        found = {}
        for groups in replicas_of(cell.count, runs):
            near = [way for way in listed if way.ranks <= cell.count // groups and (may_round or way.ring == 1)]
            if near:
                found[groups] = _option(near, groups, seconds, may_round=may_round)
        return found

    def fastest(options: dict[int, tuple[Shared, float]]) -> tuple[Shared, float]:
        return options[fewest({groups: seconds for groups, (_, seconds) in options.items()}, is_assumed=False)]

    def truth(each: Shared) -> float:
        return true(each.way, each.groups, each.decoders)

    options, best = shared(told), min(shared(true).values(), key=lambda each: each[1])
    (chosen, chosen_s), (free, free_s) = fastest(options), fastest(shared(told, may_round=True))
    return SweepOutcome(
        sweep=sweep,
        chosen=chosen,
        best=best[0],
        regret=truth(chosen) / best[1] - 1,
        alone=truth(options[1][0]) / best[1] - 1 if 1 in options else math.nan,
        cost=truth(chosen) / truth(free) - 1 if free_s <= (1 - ROUNDING_GAIN) * chosen_s else None,
    )


def _option(
    near: Sequence[Way], groups: int, seconds: Callable[[Way, int, int], float], *, may_round: bool
) -> tuple[Shared, float]:
    """The plan by the rules, and what all runs take by it; by rows of a decode where that is faster and may be."""
    times = {way: seconds(way, groups, 1) for way in near}
    rows = {way: seconds(way, groups, way.ranks) for way in near} if may_round else times
    way = _settled(near, {way: min(times[way], rows[way]) for way in near}, may_round=may_round)
    decoders = way.ranks if rows[way] < times[way] else 1
    return Shared(groups=groups, way=way, decoders=decoders), min(times[way], rows[way])


def _sweep_job(sweep: Sweep) -> Demand:
    load = sweep.cell.load
    pixels = load.image * PIXELS_A_TOKEN
    return replace(
        job_of(load),
        steps=sweep.steps,
        encode_flops=TEXT_FLOPS,
        encode_tokens=512,
        decode_flops=pixels * PIXEL_FLOPS,
        decode_exchanges=NORMS,
        pixel_bytes=3 * HALF * pixels,
    )


def main() -> None:
    num_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    found = [outcome(cell) for cell in cells(num_seeds)]
    done = [each for each in found if each is not None]
    print(f"{len(found)} cells, in {len(found) - len(done)} of which no plan fits\n")
    print(f"{'regret':34} {'median':>7} {'mean':>7} {'95 %':>7} {'worst':>7} {'within 2 %':>11}")
    share = _row("planner", done, lambda each: each.regret)
    _row("planner, of all plans", done, lambda each: each.of_all)
    fitting = [each for each in done if not math.isnan(each.rule)]
    _row(f"today's rule ({len(done) - len(fitting)} do not fit)", fitting, lambda each: each.rule)
    for kind in (True, False):
        name = "compiled" if kind else "eager"
        _row(f"planner, {name}", [each for each in done if each.cell.is_compiled == kind], lambda each: each.regret)
    errors = [abs(each.error) for each in done]
    print(f"\npredicted time of the chosen plan: median error {statistics.median(errors):.1%}, worst {max(errors):.1%}")
    print("\nworst:")
    for each in sorted(done, key=lambda each: -each.regret)[:12]:
        print(f"  {each.regret:6.1%}  {each.cell}: {plan_of(each.chosen)}, best {plan_of(each.best)}")
    shared = [each for each in map(sweep_outcome, sweeps(num_seeds // 2 or 1)) if each is not None]
    print(f"\n{len(shared)} sweeps in which a plan fits\n")
    of_sweeps = _row("replicas", shared, lambda each: each.regret)
    _row("one group", [each for each in shared if not math.isnan(each.alone)], lambda each: each.alone)
    groups = sum(each.best.groups > 1 for each in shared)
    print(f"\nbest in several groups {groups} times; worst:")
    for each in sorted(shared, key=lambda each: -each.regret)[:8]:
        print(f"  {each.regret:6.1%}  {each.sweep}: {each.chosen}, best {each.best}")
    print(f"\n{'what the rule costs':44} {'cells':>7} {'median':>7} {'worst':>7}")
    for kind in (True, False):
        cells_of_kind = [each for each in done if each.cell.is_compiled == kind]
        _cost(f"no ring, {'compiled' if kind else 'eager'}", [each.cost for each in cells_of_kind])
    _cost("no ring, all", [each.cost for each in done])
    _cost("sweeps: neither ring nor rows of a decode", [each.cost for each in shared])
    sys.exit(min(share, of_sweeps) < 0.95)


def _row(name: str, outcomes: Sequence[Told], regret: Callable[[Told], float]) -> float:
    values = sorted(max(0.0, regret(each)) for each in outcomes)
    near = sum(value <= NEAR for value in values) / len(values)
    middle, tail = statistics.median(values), values[int(0.95 * len(values))]
    print(f"{name:34} {middle:7.1%} {statistics.mean(values):7.1%} {tail:7.1%} {values[-1]:7.1%} {near:11.1%}")
    return near


def _cost(name: str, costs: Sequence[float | None]) -> None:
    """The share of cells in which something is not taken, and what that costs there."""
    found = sorted(each for each in costs if each is not None)
    middle, worst = (statistics.median(found), found[-1]) if found else (0.0, 0.0)
    print(f"{name:44} {len(found) / len(costs):7.1%} {middle:7.1%} {worst:7.1%}")


if __name__ == "__main__":
    main()
