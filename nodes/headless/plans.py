"""What `latentloom plan` answers: how a model, or each denoise of a workflow, would run on a machine."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...parallel.machine.folders import user_cache
from ...pipelines.components.memory import memory_limit
from ...pipelines.costs.machine import Machine, limited, read_machine
from ...pipelines.costs.ran import kept
from ...pipelines.forecast.explained import as_text
from ...pipelines.forecast.forecast import Forecast, forecast
from ...pipelines.forecast.history import learned, setting_of
from ...pipelines.forecast.known import machines_folder, with_devices
from ...pipelines.forecast.plans import AUTO, Wanted, is_guided
from ...pipelines.models.describe import DtypeChoice, card_of, describe_model
from ...pipelines.models.outlines import Outlines, outline_of
from ...pipelines.values import Engine, Model, Place, Quantization
from ..files.workspace import Workspace
from ..graph.ready import ready
from ..preview.carried import wanted_of
from ..preview.walk import MAX_DENOISES, Walk
from ..registry import SPECS
from .job import split_set, typed_values
from .workflow_files import PICTURES, SOUNDS, VIDEOS, read_workflow, roots_of

SIZE = re.compile(r"([0-9]{1,5})[xX]([0-9]{1,5})")
WORKFLOWS = (".json", *PICTURES, *VIDEOS, *SOUNDS)
RUN_WHOLE = "{} is run whole, and how long its steps take is not known beforehand"
Plans = list[tuple[str, Forecast]]  # by the node that denoises, or by nothing where a model is asked for
OWN = Wanted(batch=0)  # nothing is written in place of the model's, or the workflow's, own numbers
WRITTEN = ("width", "height", "frames", "batch", "steps")  # what of a `Wanted` the user writes


def read_wanted(size: str, *, frames: int, batch: int, steps: int, guidance: float, num_runs: int) -> Wanted:
    """What the user wrote of a denoise; zeros, and the size "", are the model's, or the workflow's, own. Raises
    `ValueError`.
    """
    found = SIZE.fullmatch((size or "0x0").strip())
    if found is None:
        raise ValueError(f"--size {size[:50]!r} is no size; write it like 1024x768")
    if num_runs < 1:
        raise ValueError(f"--runs is {num_runs}; give 1 or more")
    for name, value in {"frames": frames, "batch": batch, "steps": steps, "guidance": guidance}.items():
        if value < 0:
            raise ValueError(f"--{name} is {value:g}; give more, or 0 for the model's own")
    return Wanted(width=int(found[1]), height=int(found[2]), frames=frames, batch=batch, steps=steps)


def machine_named(name: str, *, anew: bool) -> Machine:
    """This machine, `here`, measured once or `anew`; else one by its name or from a JSON file; of its memory what may
    be taken. Raises `ValueError`.
    """
    if name != "here":
        return limited(read_machine(name), memory_limit())
    from ...pipelines.forecast.here import machine_here

    return machine_here(machines_folder(), anew=anew)


def first_devices(machine: Machine, count: int) -> Machine:
    """The machine with fewer of its devices. Raises `ValueError` for more than there are."""
    if not count:
        return machine
    if not 1 <= count <= machine.num_devices:
        raise ValueError(
            f"{count} devices are asked for, and {machine.title} has {machine.num_devices}; give 1 to that"
        )
    return with_devices(machine, count)


def plans_of(
    what: str,
    machine: Machine,
    *,
    # of each denoise, as `read_wanted` read it
    written: Wanted,
    guidance: float,
    num_runs: int,
    # of a model; those of a workflow's are in it, but for the engine
    dtype: DtypeChoice,
    quantization: Quantization,
    engine: Engine,
    # for a workflow, and what it may read
    settings: Sequence[str],
    allowed: Sequence[Path],
    outlines: Outlines = outline_of,
) -> Plans:
    """How a model, or each denoise of a workflow by its node, would run on all of a machine. Raises `ValueError` where
    one is not known.
    """
    asked: dict[str, Any] = {"written": written, "guidance": guidance, "num_runs": num_runs, "engine": engine}
    if "@" in what or not what.lower().endswith(WORKFLOWS):
        asked |= {"dtype": dtype, "quantization": quantization, "outlines": outlines}
        return [("", plan_model(what, machine, roots=roots_of(Path(what), [what], allowed), **asked))]
    file = Path(what)
    graph = read_workflow(file)
    place = Place(devices=machine.devices, plan=AUTO)
    named = [text.partition("=")[2] for text in settings]
    workspace = Workspace(roots=roots_of(file, named, allowed), place=place, host="command line", outlines=outlines)
    overrides = typed_values(graph, SPECS, split_set(settings), workspace=workspace)
    walk = Walk(ready(graph, SPECS, overrides, workspace=workspace), workspace=workspace, accelerators=machine.devices)
    found = [(name, plan_denoise(walk, name, machine, **asked)) for name in walk.denoising()[:MAX_DENOISES]]
    if not found:
        raise ValueError(f"{file} denoises nothing, so that there is nothing to plan; give a workflow with a Denoise")
    return found


def plans_as_text(plans: Plans, *, compares: bool) -> str:
    texts = [(node, as_text(answer, compares=compares)) for node, answer in plans]
    return "\n\n".join(f"{node}: {text}" if node else text for node, text in texts)


def plan_model(
    source: str,
    machine: Machine,
    *,
    roots: tuple[Path, ...],
    written: Wanted = OWN,
    guidance: float = 0.0,
    num_runs: int = 1,
    dtype: DtypeChoice = "auto",
    quantization: Quantization = "none",
    engine: Engine = "eager",
    outlines: Outlines = outline_of,
) -> Forecast:
    """Raises `ValueError` for a model that is not here nor in outline, and for what it cannot make."""
    where: dict[str, Any] = {"device": machine.devices[0], "roots": roots, "is_here": False, "outlines": outlines}
    model = describe_model(source, dtype=dtype, quantization=quantization, engine=engine, **where)
    wanted = Wanted(is_guided=is_guided(model, guidance=guidance))
    return _forecast(model, machine, wanted=wanted, written=written, num_runs=num_runs)


def plan_denoise(
    walk: Walk,
    name: str,
    machine: Machine,
    *,
    written: Wanted = OWN,
    guidance: float = 0.0,
    num_runs: int = 1,
    engine: Engine = "eager",
) -> Forecast:
    """One denoise of a workflow. Raises `ValueError` where it cannot be, or how long it takes is not known."""
    denoising, problems = walk.denoise(name)
    if problem := next(filter(None, [*problems, *denoising.refusals.values()]), ""):
        raise ValueError(problem)
    if denoising.pipeline:
        raise ValueError(RUN_WHOLE.format(denoising.pipeline))
    model = denoising.model
    if engine != "eager":
        model = dataclasses.replace(model, engine=engine)
    guided = is_guided(model, guidance=guidance or denoising.guidance, guidance_2=denoising.guidance_2)
    wanted = dataclasses.replace(wanted_of(denoising), is_guided=guided)
    return _forecast(model, machine, wanted=wanted, written=written, num_runs=num_runs)


def _forecast(model: Model, machine: Machine, *, wanted: Wanted, written: Wanted, num_runs: int) -> Forecast:
    """With the numbers that the user wrote, in place of others."""
    if not model.family:
        raise ValueError(RUN_WHOLE.format(model.source))
    # As if without a step cache: what one skips depends on the picture.
    numbers = {name: value for name in WRITTEN if (value := getattr(written, name))}
    wanted = dataclasses.replace(wanted, has_step_cache=False, **numbers)
    tokens = wanted.text_length or card_of(model).text_length
    setting = setting_of(model, wanted.canvas(model), machine, text_tokens=tokens)
    factors = learned(setting, kept(user_cache()) if machine.name == "here" else ())
    return forecast(model, wanted, dataclasses.replace(machine, factors=factors), num_runs=num_runs)
