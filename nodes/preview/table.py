"""The models on this machine: what each can be split by, and on which plans of these devices it fits.

What the page's list of models shows; from the files' headers, no weights are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ...parallel.machine.now import DeviceNow
from ...pipelines.models.describe import describe_model
from ...pipelines.models.installed import InstalledModel, installed_models
from ...pipelines.planning.plans import transformers, why_whole
from ...pipelines.split_plans import SPLIT_PLANS
from .choices import Choice, choices, usual


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model; `plans` are those for the first device, two, four and so on, up to all."""

    name: str
    family: str
    num_bytes: int
    location: str
    revision: str
    problem: str
    does: str = ""
    compared: str = ""
    strategies: tuple[str, ...] = ()
    split_problem: str = ""
    """Why the tokens of its transformer cannot be split; guidance can be in any case."""
    plans: tuple[Choice, ...] = ()


def model_rows(model_dirs: Sequence[Path], machine: Sequence[DeviceNow]) -> list[ModelRow]:
    """Reads headers and configs. Raises `ValueError` for a folder of models that is not there."""
    return [_row(found, model_dirs, machine) for found in installed_models(model_dirs)]


def _row(found: InstalledModel, model_dirs: Sequence[Path], machine: Sequence[DeviceNow]) -> ModelRow:
    row = ModelRow(**found.to_plain())  # pyright: ignore[reportArgumentType] (texts and a number, as its fields are)
    if found.problem:
        return row
    device = machine[0].name if machine else "cpu"
    try:
        roots = [folder.resolve() for folder in model_dirs]
        model = describe_model(found.name, revision=found.revision, device=device, roots=roots, is_here=False)
        split_problem = why_whole(Path(model.folder))
        return dataclasses.replace(
            row,
            strategies=("cfg",) if split_problem else strategies_of(Path(model.folder)),
            split_problem=split_problem,
            plans=tuple(choices(usual(model), machine)),
        )
    except ValueError as error:
        return dataclasses.replace(row, problem=str(error))


def strategies_of(folder: Path) -> tuple[str, ...]:
    """The axes of a plan that a model with a split plan can have; `text` where its text may be sharded or not."""
    either = all(SPLIT_PLANS[name].either for name in transformers(folder).values())
    return ("cfg", "ulysses", "ring", "allgather", "weights", *(("text",) if either else ()))
