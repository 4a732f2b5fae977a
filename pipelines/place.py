"""From what the user wrote to a model's place: which devices, and how a denoise uses them.

A *place* is where a model works: devices, the plan for them, how many groups they form (replicas), and a Ray cluster's
address. Without devices it is the process that asks.
"""

import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence

from ..parallel.errors import BadInput
from ..parallel.machine.machine import parse_devices
from ..parallel.machine.now import DeviceNow, num_cores
from ..parallel.plan import ParallelPlan
from .forecast.plans import BY_HAND, LEFT_OPEN, Wanted, check_plan
from .values import MARK, Model, Place

Measures = Callable[[Sequence[str]], object]  # measures these devices if nobody has yet

logger = logging.getLogger("latentloom")


def read_place(
    devices: str, plan: str = "", *, replicas: int = 1, cluster: str = "", here: Sequence[str] | None = None
) -> Place:
    """Read `cpu*4` and `cfg=2,ulysses=2`; no devices are all there are. Raises `ValueError` for what cannot be.

    Devices of a cluster are named one by one, because this machine may have others, or none. `here` names this
    machine's accelerators; without it torch is asked.
    """
    if cluster and devices.strip() in ("", "all"):
        raise ValueError(
            f"--cluster {cluster} needs the devices of each of its machines; name them, as --devices cuda*2 or cpu"
        )
    found = parse_devices(devices or "all", is_here=not cluster, here=here)
    if not 1 <= replicas <= len(found) or len(found) % replicas:
        raise ValueError(
            f"replicas is {replicas}, but {len(found)} devices were given; give a number that divides them"
        )
    return checked(Place(devices=found, plan=read_plan(plan), replicas=replicas, cluster=cluster))


def read_plan(text: str) -> str:
    """A plan as it is always written, `auto`, `auto,compiled`, or nothing. Raises `ValueError`."""
    found = ",".join(part.strip() for part in text.strip().split(","))
    return found if found in LEFT_OPEN else str(ParallelPlan.parse(text))


def names_plan(place: Place) -> bool:
    """Whether its plan is one, and need not be chosen."""
    return place.plan not in LEFT_OPEN


def named_plan(place: Place) -> ParallelPlan | None:
    """The plan that the place names, None where it is to be chosen. Raises `ValueError` if it does not fit the devices.

    On a cluster a plan may span machines, whose number is not known yet.
    """
    if not names_plan(place):
        return None
    plan = ParallelPlan.parse(place.plan.removesuffix(MARK))
    if place.cluster:
        check_span(plan, place)
    else:
        check_plan(plan, place.group_size)
    return plan


def checked(place: Place) -> Place:
    """The place, if its plan fits its devices."""
    named_plan(place)
    return place


def check_span(plan: ParallelPlan, place: Place) -> None:
    """Refuse a plan that does not put whole branches of guidance on machines of a cluster."""
    num_devices = place.group_size
    where = f"and each machine gives {num_devices} to a job"
    if plan.num_ranks % num_devices:
        raise BadInput(
            "plan {} uses {} ranks, {}; make cfg x ulysses x (ring or allgather) {} or a multiple of it",
            plan,
            plan.num_ranks,
            where,
            num_devices,
        )
    if plan.layers > 1 and num_devices % plan.branch:
        raise ValueError(
            f"plan {plan} splits a forward over {plan.branch} ranks, {where}; its sections stay in one machine, only "
            f"cfg goes beyond: make layers x ulysses x (ring or allgather) a divisor of {num_devices}"
        )
    if num_devices % plan.sequence:
        raise ValueError(
            f"plan {plan} splits a sequence over {plan.sequence} ranks, {where}; a sequence stays in one machine, "
            f"only cfg goes beyond: make ulysses x (ring or allgather) a divisor of {num_devices}"
        )
    if plan.weights > num_devices:
        raise ValueError(
            f"plan {plan} shares weights between {plan.weights} ranks, {where}; shared weights stay in one machine: "
            f"make weights {num_devices} or less"
        )
    if plan.num_ranks > num_devices and place.devices[0] != "cpu":
        raise ValueError(
            f"plan {plan} uses {plan.num_ranks} GPUs, {where}; branches of guidance go to other machines on CPUs only, "
            f"because NCCL between machines is not supported yet: make the plan {num_devices} ranks, so that each "
            "machine does whole jobs"
        )


def check_cores(place: Place, *, more: str = "") -> None:
    """Refuse more ranks on the CPU than a workflow, which may be a stranger's, should start here.

    `more` says how the owner of this machine gets them all the same, where the host has a way.
    """
    most = max(2, num_cores())
    if place.devices[0] == "cpu" and len(place.devices) > most:
        raise BadInput(
            "the workflow names {} CPU ranks, but this machine has {} cores; use cpu*{} or fewer{}{}",
            len(place.devices),
            num_cores(),
            most,
            more and ", or ",
            more,
        )


def placed(model: Model, place: Place) -> Model:
    """The model at a place; one device that needs no rank becomes the model's own. Raises `ValueError`."""
    if not place.devices:
        return model
    kind, wanted = model.device.partition(":")[0], place.devices[0].partition(":")[0]
    if kind != wanted:
        raise BadInput(
            "the devices are {}, but {} was described for {}; set the device of Load Model to {}",
            ", ".join(place.devices),
            model.source,
            model.device,
            wanted,
        )
    if len(place.devices) == 1 and not place.cluster and not has_ranks():
        return dataclasses.replace(model, device=place.devices[0])
    return dataclasses.replace(model, place=place)


def trial_devices() -> tuple[str, ...]:
    """What `latentloom doctor` starts ranks on: every GPU, or two on the CPU."""
    found = parse_devices("all")
    return found if found[0].startswith("cuda") else ("cpu", "cpu")


def has_ranks() -> bool:
    """Whether this platform can start ranks; elsewhere one device works in process."""
    return sys.platform == "linux"


def plan_for(
    model: Model, wanted: Wanted, *, measures: Measures | None = None, now: Sequence[DeviceNow] | None = None
) -> tuple[ParallelPlan, str]:
    """The plan that the place names, else the best for its devices, and why. GPUs that nobody measured are measured
    first by `measures`; `now` is this machine as it is (see `spot_of`). Raises `ValueError`.
    """
    place = model.place
    if (named := named_plan(place)) is not None:
        return named, BY_HAND
    from .forecast.auto import choose

    if measures is not None and not place.cluster:
        measures(place.devices)
    return choose(model, wanted, now=now)


def logged(plan: ParallelPlan, why: str, model: Model) -> None:
    """Say why, unless the user named the plan."""
    if why != BY_HAND:
        is_less = plan.num_ranks < model.place.group_size
        logger.log(logging.WARNING if is_less else logging.INFO, "%s", why)
