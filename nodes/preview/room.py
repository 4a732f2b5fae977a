"""Whether a denoise has room on its devices, and a run's files on the disk: what lacks, and what makes it fit."""

import contextlib
import dataclasses
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import ParallelPlan
from ...parallel.wording import worded
from ...pipelines.components.memory import USABLE_SHARE
from ...pipelines.forecast.choice import MIB, Ask, Fit, Mend, amount, mends_of
from ...pipelines.forecast.memory import asked_of, fits
from ...pipelines.forecast.plans import Wanted, why_not
from ...pipelines.models.describe import check_quantization
from ...pipelines.place import names_plan
from ...pipelines.values import Latents, Model, Quantization
from ..files.workspace import Host, Workspace
from .choices import Choice, devices_of, memories_of, needs_of
from .walk import Walk

QUANTIZATIONS: tuple[Quantization, ...] = ("int8", "int4")
OF_A_PLACE = ("plan", "devices")
Mends = tuple[Mapping[str, Any], ...]
SIZE = attrgetter("width", "height", "frames", "batch")
NO_WAY = "take a device with more memory, or another model"


def lack_of(
    walk: Walk,
    name: str,
    model: Model,
    wanted: Wanted,
    plan: ParallelPlan,
    *,
    machine: Sequence[DeviceNow],
    listed: Sequence[Choice],
) -> tuple[str, Mends] | None:
    """What is missing in a sentence, and the values that mend it, each a set of them by node.socket; None where it
    fits, or nobody knows: of a cluster's machines. What other programs hold of an accelerator counts
    where none of it can be ours."""
    if model.place.cluster:
        return None
    asked = asked_of(needs_of(model, wanted, plan, machine), devices_of(model, plan))
    whole = left = memories_of(machine)
    if not _has_some():
        left = whole | {device: whole[device] - used for device, used in memories_of(machine, in_use=True).items()}
    # First what no end of other programs would mend.
    for memories in (whole, left):
        short = [each for each in asked if each in memories and asked[each] > USABLE_SHARE * memories[each]]
        if not short:
            continue
        device = max(short, key=lambda each: asked[each] - memories[each])
        usable, beside = int(USABLE_SHARE * memories[device]), whole[device] - memories[device]
        held = worded(", beside {} that other programs hold now", amount(beside)) if memories is not whole else ""
        found = _ways(walk, name, model, wanted, plan, memories, listed, machine)
        better = worded("any of these fits: {}", ", ".join(str(way) for way, _ in found)) if found else NO_WAY
        problem = worded(
            "it does not fit: {} are needed on {}, where {} of {} can be used{}: {} too much; {}",
            amount(asked[device]),
            device,
            amount(usable),
            amount(whole[device]),
            held,
            amount(asked[device] - usable),
            worded("end them, or {}", better) if held else better,
        )
        return problem, tuple(mend for _, mend in found if mend)
    return None


def _has_some() -> bool:
    """Whether some of what is in use may be held by this process, or by its ranks."""
    from ...pipelines.pools import POOLS

    cuda = sys.modules.get("torch.cuda")  # which another thread may be importing
    is_open = getattr(cuda, "is_initialized", None)
    return bool(POOLS.open) or (is_open is not None and is_open())


def _ways(
    walk: Walk,
    name: str,
    model: Model,
    wanted: Wanted,
    plan: ParallelPlan,
    memories: Mapping[str, int],
    listed: Sequence[Choice],
    machine: Sequence[DeviceNow],
) -> list[tuple[Mend, Mapping[str, Any]]]:
    """What makes it fit, and the values that do it; of a plan maybe none, since the run may say which it is."""
    canvas = wanted.canvas(model)

    def ask(changed: Model, size: Latents) -> Fit | None:
        other, chosen = wanted.of_size(size), plan
        # Of another size or with fewer bits `auto` may take another plan, by which it then fits.
        if changed.place.devices and not names_plan(changed.place):
            from ...pipelines.forecast.auto import choose

            chosen = choose(changed, other, now=machine)[0]
        if why_not(chosen, changed):
            return None
        needs, devices = needs_of(changed, other, chosen, machine), devices_of(changed, chosen)
        return (max(asked_of(needs, devices).values()), "") if all(fits(needs, devices, memories)) else None

    plans: list[Mend] = []
    for choice in listed:
        room = [USABLE_SHARE * memories[device] for device in choice.devices.split(",") if device in memories]
        if choice.fits and all(choice.bytes_per_device <= each for each in room):
            words = f"plan {choice.plan}" + ("" if model.place.devices else f" on {choice.devices}")
            plans.append(Mend(words=words, values={"plan": choice.plan}, num_bytes=choice.bytes_per_device))
    ways = mends_of(model, canvas, ask, quantizations=quantizations_of(model), plans=plans)
    mended = [(way, _mend(walk, name, way, canvas)) for way in [*ways, *_fewer_ranks(model, canvas, ask)]]
    return [(way, mend) for way, mend in mended if mend or way in plans]


def quantizations_of(model: Model) -> list[Quantization]:
    """Those of weights that this machine can do with the model."""
    found: list[Quantization] = []
    for each in QUANTIZATIONS:
        with contextlib.suppress(ValueError):
            check_quantization(each, device=model.device, dtype=model.dtype)
            found.append(each)
    return found


def _fewer_ranks(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    """Ranks on the CPU share one memory, and each takes its part of it."""
    place = model.place
    if model.device != "cpu" or place.replicas > 1 or names_plan(place):
        return []
    for count in range(len(place.devices) - 1, 0, -1):
        fewer = dataclasses.replace(model, place=dataclasses.replace(place, devices=place.devices[:count]))
        if fit := ask(fewer, canvas):
            named = f"cpu*{count}"
            return [Mend(words=f"devices {named}", values={"devices": named}, num_bytes=fit[0])]
    return []


def _mend(walk: Walk, name: str, way: Mend, canvas: Latents) -> Mapping[str, Any]:
    """The values by node.socket, at the node that says so; empty where a link does, or the run itself."""
    is_of_place, is_of_model = not way.values.keys().isdisjoint(OF_A_PLACE), "quantization" in way.values
    if is_of_place and walk.workspace.place.devices:
        return {}
    node = walk.setter(name, way.values, kind="Model" if is_of_place or is_of_model else "Latents")
    if not node:
        return {}
    if not (is_of_place or is_of_model):
        made = [each for each in walk.gives(node).values() if isinstance(each, Latents)]
        if not any(SIZE(each) == SIZE(canvas) for each in made):  # something between changes the size
            return {}
    return {f"{node}.{socket}": value for socket, value in way.values.items()}


# ---- Whether the disk has room for what a run will write, by what codings take at most.

FREE: Mapping[Host, str] = {
    "python": "free some space, or choose another output folder",
    "command line": "free some space, or choose another folder with --out",
    "page": "delete some results, or tell who runs this server",
    "comfyui": "free some space",
}


def written(walk: Walk, needed: Collection[str]) -> dict[str, int]:
    """How many bytes of files each of the needed nodes would save, where that is known."""
    return {name: size for name, size in walk.told("writes", needed) if isinstance(size, int) and size}


def why_no_room(num_bytes: int, workspace: Workspace, *, what: str = "this run") -> str:
    """ "" where there is room in the output folder, or where nobody can tell."""
    folder = workspace.output_dir.absolute()
    try:
        disk = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir()))
    except OSError:
        return ""
    if num_bytes <= disk.free or not disk.total:  # none of a system's own folders, such as /proc
        return ""
    where = "the server's disk" if workspace.host == "page" else str(workspace.output_dir)
    return worded(
        "{} may write {} to {}, where {} are free; {}",
        what,
        amount(max(num_bytes, MIB)),
        where,
        amount(disk.free),
        FREE[workspace.host],
    )
