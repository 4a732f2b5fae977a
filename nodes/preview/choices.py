"""What a denoise needs by each plan that it could have here, and how many groups of devices share out a sweep.

For each plan that the model and the devices allow: whether it can run, what each rank would need of its device's
memory, and whether that fits.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache

from ...parallel.machine.now import DeviceNow, num_cores
from ...parallel.plan import ParallelPlan
from ...pipelines.components.memory import memory_limit
from ...pipelines.forecast.auto import decoders_for, shared_out
from ...pipelines.forecast.memory import EACH, Work, fits, room_of, work_of
from ...pipelines.forecast.plans import Wanted, is_guided, plans_for, why_not
from ...pipelines.forecast.weights import Need
from ...pipelines.models.describe import card_of
from ...pipelines.place import has_ranks, names_plan
from ...pipelines.values import Model, Place
from ..files.workspace import Workspace
from ..graph.ready import Ready
from .carried import wanted_of
from .walk import Walk


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """One plan on some devices; `fits` is None where a device's memory is not known."""

    plan: str
    devices: str
    num_ranks: int
    fits: bool | None
    bytes_per_device: int
    problem: str


@lru_cache(maxsize=64)
def work_for(model: Model, wanted: Wanted) -> Work:
    """Of a denoise; errors as of `work_of`."""
    length, references = wanted.text_length or card_of(model).text_length, wanted.num_references
    return work_of(model, canvas=wanted.canvas(model), text_length=length, num_references=references)


def needs_of(
    model: Model, wanted: Wanted, plan: ParallelPlan, machine: Sequence[DeviceNow], devices: Sequence[str] = ()
) -> tuple[Need, ...]:
    """Of each rank of a denoise, on the model's own devices or on others, where as many decode together and as many
    blocks stream as a run would have."""
    work = work_for(model, wanted)
    room = room_of(devices or devices_of(model, plan), memories_for(model, machine))
    num_devices = len(devices) or model.place.group_size
    if work.decoders(plan) == 1:
        return work.needs(plan, num_devices=num_devices, decoders=1, room=room)
    if not model.place.devices:
        model = dataclasses.replace(model, place=Place(devices=(model.device,) * plan.num_ranks))
    decoders = decoders_for(model, wanted, plan, now=machine)
    return work.needs(plan, num_devices=num_devices, decoders=decoders, room=room)


def usual(model: Model) -> Wanted:
    """A denoise with the model's own numbers."""
    return Wanted(is_guided=is_guided(model))


def memories_of(machine: Sequence[DeviceNow], *, in_use: bool = False) -> dict[str, int]:
    """Bytes by the names that models use, where `cuda` is the first GPU, as far as they may be taken; or what is
    `in_use` of accelerators."""
    shown, limit = [device for device in machine if not in_use or device.name != "cpu"], memory_limit()
    memories = {device.name: device.used_bytes if in_use else device.total_bytes for device in shown}
    if limit and not in_use:
        memories |= {name: min(each, limit) for name, each in memories.items() if name != "cpu"} | {EACH: limit}
    return {**memories, **({"cuda": memories["cuda:0"]} if "cuda:0" in memories else {})}


def memories_for(model: Model, machine: Sequence[DeviceNow]) -> dict[str, int]:
    """None of a cluster, whose machines' memory nobody has asked for."""
    return {} if model.place.cluster else memories_of(machine)


def devices_of(model: Model, plan: ParallelPlan) -> tuple[str, ...]:
    """The device of each rank of one job, and where text is encoded if the plan leaves that free; a plan may span
    machines of a cluster.
    """
    here = model.place.devices[: model.place.group_size] or (model.device,)
    free = here[-1:] if model.family and plan.num_ranks < len(here) else ()
    return *(here[rank % len(here)] for rank in range(plan.num_ranks)), *free


def choices(model: Model, wanted: Wanted, machine: Sequence[DeviceNow]) -> list[Choice]:
    """The plans for the devices that the model is on; for one that is on none, for what this machine could give."""
    place = model.place
    lists = [place.devices[: place.group_size]] if place.devices else _device_lists(model, machine)
    memories, found = memories_for(model, machine), []
    for devices in lists:
        plans = plans_for(model, len(devices), is_guided=wanted.is_guided)
        for plan in (plan for plan in plans if plan.layers <= work_for(model, wanted).most_sections):
            needs, problem = needs_of(model, wanted, plan, machine, devices), why_not(plan, model)
            choice = Choice(
                plan=str(plan),
                devices=f"cpu*{len(devices)}" if devices[0] == "cpu" else ",".join(devices),
                num_ranks=plan.num_ranks,
                fits=False if problem else _all(fits(needs, devices, memories)),
                bytes_per_device=max(need.num_bytes for need in needs),
                problem=problem,
            )
            found.append(choice)
    return found


def for_all(each: Sequence[Sequence[Choice]]) -> list[Choice]:
    """The choices of several denoises together: the plans that all of them list, with the largest need and the first
    problem."""
    alike: dict[tuple[str, str], list[Choice]] = {}
    for choice in (choice for found in each for choice in found):
        alike.setdefault((choice.plan, choice.devices), []).append(choice)
    return [
        dataclasses.replace(
            found[0],
            fits=_all([choice.fits for choice in found]),
            bytes_per_device=max(choice.bytes_per_device for choice in found),
            problem=next((choice.problem for choice in found if choice.problem), ""),
        )
        for found in alike.values()
        if len(found) == len(each)
    ]


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


def _device_lists(model: Model, machine: Sequence[DeviceNow]) -> list[tuple[str, ...]]:
    """One device, two, four and so on, up to all GPUs, or up to as many ranks as the CPU has cores."""
    if not has_ranks() or model.device == "mps":
        return [(model.device,)]
    gpus = [device.name for device in machine if device.name.startswith("cuda")]
    found = gpus if model.device.startswith("cuda") else ["cpu"] * max(2, num_cores())
    counts = {1 << power for power in range(len(found).bit_length())} | {len(found)}
    return [tuple(found[:count]) for count in sorted(counts)]


# ---- How many groups of a run's devices share out a sweep, by what its denoises ask for.

MOST_LOOKED_AT = 8  # points of a sweep, taken evenly, that stand for all: each costs some 20 ms for a denoise


def sharing_of(
    points: Sequence[Callable[[], Ready]], *, workspace: Workspace, is_warm: bool = False
) -> tuple[Place, str] | None:
    """The workspace's place in the groups that share out these points of a sweep, and why; None where one group is all
    that can be, or nobody can tell."""
    place, every = workspace.place, -(-len(points) // MOST_LOOKED_AT)
    if min(len(place.devices), len(points)) < 2 or names_plan(place):
        return None
    asked: dict[tuple[Model, Wanted], None] = {}
    try:
        for point in points[::every]:
            walk = Walk(point(), workspace=workspace, accelerators=())
            for name in walk.denoising():
                denoising = walk.denoise(name)[0]
                if denoising.model.place != place or denoising.latents is None or denoising.pipeline:
                    return None
                asked[denoising.model, wanted_of(denoising)] = None
        return shared_out(list(asked), place, len(points), is_warm=is_warm)
    except ValueError:  # a run tells it, where it keeps it from working
        return None
