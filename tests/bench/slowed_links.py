"""Is the planner's pick the fastest of five plans where the link between two CPU ranks is slow?

    python tests/bench/slowed_links.py                           # 20 configurations: six minutes; needs root and `tc`
    python tests/bench/slowed_links.py --only 0-9 --keep FILE    # in parts, told together at the end

The script enters a network namespace of its own, in which a token bucket lets so many bits a second pass the loopback,
both ranks' together. A configuration, drawn by its number: the transformer's width and depth, size, pictures,
guidance, rate. The machine is measured with the link as slow as it is then; each plan (one device, guidance, ulysses,
ring, allgather) is run five times, in turns. The pick is right if it is the fastest, or slower by at most 5 % or twice
its own spread (half of the runs lie within it). The planner's rules forgive more: a ring, which rounds differently and
is never picked, 5 % where another device is left idle; what is right by these is counted beside it, as is `auto`'s
rule. Exit code 1 where fewer than nine in ten are right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import support.checkout  # noqa: F401 (makes the checkout importable)
from bench.predicted_runs import Setting, denoised
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.forecast.choice import IDLE_GAIN, best
from latentloom.pipelines.forecast.forecast import forecast
from latentloom.pipelines.forecast.here import machine_here
from latentloom.pipelines.forecast.terms import Wanted
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Model

ONE = str(ParallelPlan())
PLANS = (ONE, "cfg=2", "ulysses=2", "ring=2", "allgather=2")
ROUNDS, STEPS, NEAR, NUM = 5, 3, 0.05, 20
PLANNED_STEPS = 30
"""For which a plan is picked: steps are what is compared, and a trial of a few of them stands for a run."""
INSIDE = "SLOWED_LINKS_INSIDE"


@dataclass(frozen=True, kw_only=True)
class Examined:
    """Plans by their names; seconds of a step."""

    config: dict[str, int]
    picked: str
    rule: str
    times: dict[str, list[float]]
    told: dict[str, float]

    @property
    def medians(self) -> dict[str, float]:
        return {plan: statistics.median(times) for plan, times in self.times.items()}

    @property
    def regret(self) -> float:
        """How much longer the pick takes than the fastest. `rule_regret`: what `auto` takes by its rule."""
        return self.medians[self.picked] / min(self.medians.values()) - 1

    @property
    def rule_regret(self) -> float:
        return self.medians[self.rule] / min(self.medians.values()) - 1

    @property
    def allowed(self) -> float:
        low, middle, high = statistics.quantiles(self.times[self.picked], n=4, method="inclusive")
        return max(NEAR, 2 * (high - low) / middle)

    @property
    def is_right(self) -> bool:
        return self.regret <= self.allowed

    @property
    def is_right_by_the_rules(self) -> bool:
        """Whether the planner's rules about rounding and idle devices explain what its spread does not."""
        times, gain = self.medians, IDLE_GAIN if self.picked == ONE else 0.0
        exact = min(seconds for plan, seconds in times.items() if "ring" not in plan)
        return times[self.picked] * (1 - gain) <= exact * (1 + self.allowed)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    heads: int
    single_layers: int
    side: int
    batch: int
    is_guided: bool
    rate_mbit: int

    def __str__(self) -> str:
        guided = "guided" if self.is_guided else "unguided"
        return (
            f"{self.heads} heads, 2 + {self.single_layers} blocks, {self.side} x{self.batch}, {guided}, "
            f"{self.rate_mbit} Mbit/s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=f"0-{NUM - 1}", help="numbers of configurations, as 0-9")
    parser.add_argument("--keep", type=Path, help="a file that collects what was found, for later parts")
    args = parser.parse_args()
    if os.environ.get(INSIDE) != "1":
        return _enter()
    first, _, last = args.only.partition("-")
    kept = json.loads(args.keep.read_text()) if args.keep and args.keep.is_file() else {}
    found = {int(number): Examined(**plain) for number, plain in kept.items()}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(first), int(last or first) + 1):
            found[number] = _examined(drawn(number), Path(folder))
            print(f"{number:3} {_told(found[number])}", flush=True)
            if args.keep:
                args.keep.write_text(json.dumps({each: asdict(one) for each, one in found.items()}))
    return _summary([found[each] for each in sorted(found)])


def _enter() -> int:
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip", "tc"))):
        sys.exit("slowed_links.py slows the loopback of a network namespace: run it as root, with iproute2 installed")
    again = [sys.executable, *sys.argv]
    return subprocess.run(["unshare", "--net", *again], env={**os.environ, INSIDE: "1"}, check=False).returncode


def drawn(number: int) -> Drawn:
    seeded = random.Random(f"slowed link {number}")
    return Drawn(
        heads=seeded.choice((4, 8, 12)),
        single_layers=seeded.choice((2, 6)),
        side=seeded.choice((128, 192, 256, 320)),
        batch=seeded.choice((1, 2)),
        is_guided=seeded.random() < 0.5,
        rate_mbit=round(10 ** seeded.uniform(2.5, 4)),
    )


def _slow(rate_mbit: int) -> None:
    bucket = ("burst", "128k", "latency", "400ms", "rate", f"{rate_mbit}mbit")
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", *bucket],
    ):
        subprocess.run(command, check=True)


def _examined(config: Drawn, folder: Path) -> Examined:
    _slow(config.rate_mbit)
    model = _model(config, folder)
    machine = machine_here(None, anew=True)
    size = {"width": config.side, "height": config.side, "batch": config.batch}
    answer = forecast(model, Wanted(**size, is_guided=config.is_guided, steps=PLANNED_STEPS), machine)
    plans = [plan for plan in PLANS if config.is_guided or plan != "cfg=2"]
    by_plan = {str(each.plan): each for each in answer.found if each.replicas == 1}
    chosen = best([by_plan[plan] for plan in plans])
    assert chosen is not None, "two gigabytes are enough for all"
    times: dict[str, list[float]] = {plan: [] for plan in plans}
    for turn in range(ROUNDS + 1):  # the first warms each plan's groups up
        for plan in plans[turn % len(plans) :] + plans[: turn % len(plans)]:
            guidance = 3.0 if config.is_guided else 1.0
            setting = Setting(plan=plan, side=config.side, batch=config.batch, guidance=guidance, steps=STEPS)
            _, took = denoised(model, setting, "a red star")
            times[plan] += [took] if turn else []
    return Examined(
        config=asdict(config),
        picked=str(chosen.plan),
        rule=answer.rule,
        times=times,
        told={plan: by_plan[plan].step.seconds for plan in plans},
    )


def _model(config: Drawn, folder: Path) -> Model:
    """The built-in model with a transformer of another size and random weights."""
    import torch
    from diffusers import FluxTransformer2DModel

    base = Path(describe_model("builtin:bobbin", device="cpu").folder)
    made = folder / f"{config.heads}_{config.single_layers}"
    if not made.exists():
        shutil.copytree(base, made)
        torch.manual_seed(0)
        sizes = {"num_attention_heads": config.heads, "num_single_layers": config.single_layers}
        plain = {**FluxTransformer2DModel.load_config(base / "transformer"), **sizes}
        FluxTransformer2DModel.from_config(plain).save_pretrained(made / "transformer")
    return describe_model(str(made), device="cpu", roots=(folder,))


def _told(one: Examined) -> str:
    times = ", ".join(f"{plan} {took * 1e3:.0f} ({one.told[plan] * 1e3:.0f})" for plan, took in one.medians.items())
    verdict = "right" if one.is_right else "right by the rules" if one.is_right_by_the_rules else "WRONG"
    return (
        f"{Drawn(**one.config)}: picked {one.picked}, {one.regret:+.0%} of {one.allowed:.0%} allowed, {verdict}; "
        f"rule {one.rule_regret:+.0%}; ms a step (predicted): {times}"
    )


def _summary(found: list[Examined]) -> int:
    right = sum(one.is_right for one in found)
    by_rules = sum(one.is_right or one.is_right_by_the_rules for one in found)
    ruled = sum(one.rule_regret <= one.allowed for one in found)
    print(
        f"\npicked right in {right} of {len(found)}, by the planner's own rules in {by_rules}; auto's rule in {ruled}"
    )
    for title, regrets in (
        ("picks", [one.regret for one in found]),
        ("auto's rule", [one.rule_regret for one in found]),
    ):
        middle, most = statistics.median(regrets), max(regrets)
        print(f"{title}: slower than the fastest by {middle:.0%} in the median, {most:.0%} at most")
    return 0 if right >= 0.9 * len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
