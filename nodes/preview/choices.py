"""What a denoise needs by each plan that it could have, on the devices that are there.

For each plan that the model and the devices allow: whether it can run, what each rank would need of its device's
memory, and whether that fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...parallel.machine.container import num_cores
from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...pipelines.models.describe import card_of
from ...pipelines.needs.memory import Need, Work, fits, work_of
from ...pipelines.place import has_ranks
from ...pipelines.planning.plans import plans_for, why_not
from ...pipelines.planning.terms import Wanted, is_guided
from ...pipelines.shape import empty_canvas
from ...pipelines.values import Model, Place


@dataclasses.dataclass(frozen=True, kw_only=True)
class Denoise:
    """One denoising node's model and work, which is that of a text of so many tokens and of so many references."""

    model: Model
    work: Work
    is_guided: bool
    steps: int = 0
    text_length: int = 0
    num_references: int = 0

    def needs(self, plan: ParallelPlan, machine: Sequence[DeviceNow]) -> tuple[Need, ...]:
        """Of each rank, where as many decode together as a run would have."""
        if self.work.decoders(plan) == 1:
            return self.work.needs(plan, decoders=1)
        from ...pipelines.planning.foreseen import decoders_for

        canvas, model = self.work.canvas, self.model
        if not model.place.devices:
            model = dataclasses.replace(model, place=Place(devices=(model.device,) * plan.num_ranks))
        wanted = Wanted(
            width=canvas.width,
            height=canvas.height,
            frames=canvas.frames,
            batch=canvas.batch,
            steps=self.steps,
            text_length=self.text_length,
            num_references=self.num_references,
            is_guided=self.is_guided,
        )
        return self.work.needs(plan, decoders=decoders_for(model, wanted, plan, now=machine))

    def fits(self, needs: Sequence[Need], devices: Sequence[str], memories: Mapping[str, int]) -> list[bool | None]:
        """Whether each rank has room; None on a cluster, whose machines nobody has asked."""
        return fits(needs, devices, {} if self.model.place.cluster else memories)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choice:
    """One plan on some devices; `fits` is None where a device's memory is not known."""

    plan: str
    devices: str
    num_ranks: int
    fits: bool | None
    bytes_per_device: int
    problem: str


def usual(model: Model) -> Denoise:
    """A denoise with the model's own numbers."""
    canvas = empty_canvas(model, width=0, height=0, frames=0, fps=0.0, batch=1)
    work = work_of(model, canvas=canvas, text_length=card_of(model).text_length)
    return Denoise(model=model, work=work, is_guided=is_guided(model))


def memories_of(machine: Sequence[DeviceNow]) -> dict[str, int]:
    """Bytes by the names that models use; `cuda` is the first GPU."""
    memories = {device.name: device.total_bytes for device in machine}
    return {**memories, **({"cuda": memories["cuda:0"]} if "cuda:0" in memories else {})}


def devices_of(model: Model, plan: ParallelPlan) -> tuple[str, ...]:
    """The device of each rank of one job; a plan may span machines of a cluster."""
    here = model.place.devices[: model.place.group_size] or (model.device,)
    return tuple(here[rank % len(here)] for rank in range(plan.num_ranks))


def choices(denoise: Denoise, machine: Sequence[DeviceNow]) -> list[Choice]:
    """The plans for the devices that the model is on; for one that is on none, for what this machine could give."""
    place = denoise.model.place
    lists = [place.devices[: place.group_size]] if place.devices else _device_lists(denoise.model, machine)
    memories = memories_of(machine)
    return [
        _choice(denoise, plan, devices, memories, machine)
        for devices in lists
        for plan in plans_for(denoise.model, len(devices), is_guided=denoise.is_guided)
    ]


def for_all(each: Sequence[Sequence[Choice]]) -> list[Choice]:
    """The choices of several denoises together: the plans that all of them list, with the largest need and the first
    problem.
    """
    listed = [{(choice.plan, choice.devices): choice for choice in found} for found in each]
    common = [key for key in listed[0] if all(key in found for found in listed)] if listed else []
    return [_joined([found[key] for found in listed]) for key in common]


def _joined(alike: Sequence[Choice]) -> Choice:
    verdicts = [choice.fits for choice in alike]
    return dataclasses.replace(
        alike[0],
        fits=_all(verdicts),
        bytes_per_device=max(choice.bytes_per_device for choice in alike),
        problem=next((choice.problem for choice in alike if choice.problem), ""),
    )


def _choice(
    denoise: Denoise,
    plan: ParallelPlan,
    devices: Sequence[str],
    memories: Mapping[str, int],
    machine: Sequence[DeviceNow],
) -> Choice:
    needs, problem = denoise.needs(plan, machine), why_not(plan, denoise.model)
    return Choice(
        plan=str(plan),
        devices=f"cpu*{len(devices)}" if devices[0] == "cpu" else ",".join(devices),
        num_ranks=plan.num_ranks,
        fits=False if problem else _all(denoise.fits(needs, devices, memories)),
        bytes_per_device=max(need.num_bytes for need in needs),
        problem=problem,
    )


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
