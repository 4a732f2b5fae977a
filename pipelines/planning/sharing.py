"""How many groups of the devices share out the runs of a sweep: as many as let all of them end soonest.

A group does whole runs, so that what it gives is what one group of as many devices gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ..costs.units import duration
from ..models.checks import why_not_compiled
from ..values import MARK, Model, Place
from .choice import AS_FAST, DOUBT, Candidate, replicas_of
from .forecast import forecast_at
from .known import spot_of
from .terms import Wanted


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """`replicas` groups of equal size, and why."""

    replicas: int
    seconds: float
    """Of all runs, by prediction."""
    plan: str
    """What a group does of the first run that was asked for."""
    why: str

    def at(self, place: Place) -> Place:
        """The place in so many groups; devices that are left over do nothing."""
        return _grouped(place, self.replicas)


def shared_out(
    asked: Sequence[tuple[Model, Wanted]],
    place: Place,
    num_runs: int,
    *,
    is_warm: bool = False,
    now: Sequence[DeviceNow] | None = None,
) -> Sharing | None:
    """For denoises that stand for all of the sweep; `is_warm`: the place's own groups may have loaded the model, others
    would have to. None where there is nothing to choose: one device or run, machines
    of a cluster, or where no number of groups fits. Raises `ValueError` where no time can be predicted.
    """
    if min(len(place.devices), num_runs) < 2 or place.cluster or not asked:
        return None
    is_assumed = False
    options: dict[int, list[Candidate]] = {}
    for groups in replicas_of(len(place.devices), num_runs):
        spot = spot_of(_grouped(place, groups).devices, now)
        found = [forecast_at(_working(model), wanted, spot, groups) for model, wanted in asked]
        known = [each.chosen for each in found if each.chosen is not None]
        is_assumed = found[0].machine.is_assumed
        if len(known) == len(found):
            options[groups] = known
    if not options:
        return None
    seconds = {groups: _all_s(found, -(-num_runs // groups)) for groups, found in options.items()}
    if is_warm:
        seconds = {n: each + (n != place.replicas) * options[n][0].run.load_s for n, each in seconds.items()}
    chosen = fewest(seconds, is_assumed=is_assumed)
    return Sharing(
        replicas=chosen,
        seconds=seconds[chosen],
        plan=f"{options[chosen][0].plan}{MARK * place.compiles}",
        why=_why(seconds, chosen, options[chosen][0].plan, num_runs, len(place.devices), is_assumed=is_assumed),
    )


def _grouped(place: Place, groups: int) -> Place:
    most = len(place.devices) // groups * groups
    return Place(devices=place.devices[:most], plan=place.plan, replicas=groups, cluster=place.cluster)


def _working(model: Model) -> Model:
    """As it works by the place's plan."""
    may = model.place.compiles and not why_not_compiled(model, has_step_cache=False)
    return replace(model, engine="inductor") if may else model


def _all_s(found: Sequence[Candidate], num_rounds: int) -> float:
    """So many runs of a group one after the other, as long as the mean of those that were looked at."""
    return fmean(each.run.seconds + (num_rounds - 1) * each.run.next_s for each in found)


def fewest(seconds: dict[int, float], *, is_assumed: bool) -> int:
    """The fewest groups of those that are about as fast; by assumed rates one, unless others save a quarter."""
    least = min(seconds.values())
    if is_assumed and 1 in seconds and least > (1 - DOUBT) * seconds[1]:
        return 1
    return min(groups for groups, each in seconds.items() if each <= (1 + AS_FAST) * least)


def _why(
    seconds: dict[int, float], chosen: int, plan: ParallelPlan, num_runs: int, num_devices: int, *, is_assumed: bool
) -> str:
    """How long each number of groups takes, where more than assumptions tell."""
    size = num_devices // chosen
    each = f"{size} device{'s' if size > 1 else ''}"
    took = "end soonest, by what is assumed of such machines," if is_assumed else f"take {duration(seconds[chosen])}"
    told = f"{num_runs} runs are predicted to {took} by "
    told += f"{chosen} groups of {each}" if chosen > 1 else f"one group of {each}"
    others = [f"{duration(seconds[n])} by {n}" for n in sorted(seconds, key=lambda n: seconds[n]) if n != chosen][:3]
    not_taken = f", not {', '.join(others)}" if others and not is_assumed else ""
    if size * chosen < num_devices:
        not_taken += f"; {num_devices - size * chosen} of {num_devices} devices are left over"
    return f"{told} ({plan} in each){not_taken}" if size > 1 else told + not_taken
