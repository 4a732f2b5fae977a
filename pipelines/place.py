"""From what the user wrote to a model's place: which devices, and how a denoise uses them."""

from __future__ import annotations

import dataclasses
import sys

from ..parallel.machine import parse_devices
from ..parallel.plan import ParallelPlan
from .auto_plan import check_plan
from .values import Model, Place

AUTO = "auto"


def read_place(devices: str, plan: str = AUTO, *, replicas: int = 1, cluster: str = "") -> Place:
    """Read `cpu*4` and `cfg=2,ulysses=2`; no devices are all there are. Raises `ValueError` for what cannot be."""
    found = parse_devices(devices or "all")
    if not 1 <= replicas <= len(found) or len(found) % replicas:
        raise ValueError(
            f"replicas is {replicas}, but {len(found)} devices were given; give a number that divides them"
        )
    return checked(Place(devices=found, plan=read_plan(plan), replicas=replicas, cluster=cluster))


def read_plan(text: str) -> str:
    """A plan as it is always written, or `auto`."""
    if text.strip() in ("", AUTO):
        return AUTO
    return str(ParallelPlan.parse(text))


def checked(place: Place) -> Place:
    """The place, if its plan fits its devices; on a cluster a plan may span machines, whose number is not known yet."""
    if place.plan != AUTO and not place.cluster:
        check_plan(ParallelPlan.parse(place.plan), len(place.devices) // place.replicas)
    return place


def placed(model: Model, place: Place) -> Model:
    """The model at a place; one device that needs no rank becomes the model's own. Raises `ValueError`."""
    if not place.devices:
        return model
    kind, wanted = model.device.partition(":")[0], place.devices[0].partition(":")[0]
    if kind != wanted:
        raise ValueError(
            f"the devices are {', '.join(place.devices)}, but {model.source} was described for {model.device}; "
            f"set the device of Load Model to {wanted}"
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
