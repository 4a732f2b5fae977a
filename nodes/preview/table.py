"""The models on this machine: their parts, what each can be split by, and on which plans of these devices it fits.

What the page's list of models shows; from the files' headers, no weights are read.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ...parallel.machine.now import DeviceNow
from ...parallel.plan import DEGREES
from ...pipelines.forecast.plans import transformers, why_whole
from ...pipelines.models.component_files import inspect_model
from ...pipelines.models.describe import describe_model
from ...pipelines.models.installed import InstalledModel, installed_models
from ...pipelines.models.tensor_file import BITS
from ...pipelines.split_plans import SPLIT_PLANS
from ...pipelines.tokens.counter import longest_texts
from ...pipelines.values import Model
from .choices import Choice, choices, usual
from .room import quantizations_of

# Number formats by their names in files; others are called as they are there.
FORMATS = {"F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8", "F8_E5M2": "fp8"}
# How the names of parts begin, those first that a picture comes from.
ORDER = ("transformer", "unet", "prior", "text_encoder", "image_encoder", "vae")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelPart:
    """One component with weights."""

    name: str
    class_name: str
    num_bytes: int
    num_parameters: int
    dtypes: tuple[str, ...]
    """In which number formats its weights are in the files, that of most bytes first."""
    tokens: int | None = None
    """How many tokens of a prompt it reads at most, 0 for all; none where nobody knows, or it reads none."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Quantized:
    """The plans of a model whose transformer and text encoders are loaded in fewer bits."""

    quantization: str
    plans: tuple[Choice, ...]


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
    quantized: tuple[Quantized, ...] = ()
    """The same plans with each quantization that this machine can do."""
    parts: tuple[ModelPart, ...] = ()


def model_rows(model_dirs: Sequence[Path], machine: Sequence[DeviceNow]) -> list[ModelRow]:
    """Reads headers and configs. Raises `ValueError` for a folder of models that is not there."""
    return [_row(found, model_dirs, machine) for found in installed_models(model_dirs)]


def _row(found: InstalledModel, model_dirs: Sequence[Path], machine: Sequence[DeviceNow]) -> ModelRow:
    row = ModelRow(**vars(found))
    if found.problem:
        return row
    device = machine[0].name if machine else "cpu"
    try:
        roots = [folder.resolve() for folder in model_dirs]
        model = describe_model(found.name, revision=found.revision, device=device, roots=roots, is_here=False)
        folder = Path(model.folder)
        split_problem = why_whole(folder)
        strategies: tuple[str, ...] = ("cfg",)
        if not split_problem:  # the axes of a plan; `text` where its text may be sharded or not
            either = all(SPLIT_PLANS[name].either for name in transformers(folder).values())
            strategies = (*DEGREES, *(("text",) if either else ()))
        return dataclasses.replace(
            row,
            strategies=strategies,
            split_problem=split_problem,
            plans=tuple(choices(model, usual(model), machine)),
            quantized=tuple(
                Quantized(
                    quantization=each,
                    plans=tuple(choices(dataclasses.replace(model, quantization=each), usual(model), machine)),
                )
                for each in quantizations_of(model)
            ),
            parts=_parts_of(model),
        )
    except ValueError as error:
        return dataclasses.replace(row, problem=str(error))


def _parts_of(model: Model) -> tuple[ModelPart, ...]:
    """The model's components that have weights, the transformer first."""
    tokens = {name.replace("tokenizer", "text_encoder"): most for name, most in longest_texts(model).items()}
    found: list[tuple[int, str, ModelPart]] = []
    for component in inspect_model(Path(model.folder)).components.values():
        formats: Counter[str] = Counter()
        for file in component.weights:
            for entry in file.tensors.values():
                formats[FORMATS.get(entry.dtype, entry.dtype.lower())] += entry.numel * BITS.get(entry.dtype, 8)
        part = ModelPart(
            name=component.name,
            class_name=component.class_name,
            num_bytes=sum(file.size_bytes for file in component.weights),
            num_parameters=component.num_parameters,
            dtypes=tuple(name for name, _ in formats.most_common()),
            tokens=tokens.get(component.name),
        )
        place = next((at for at, begin in enumerate(ORDER) if part.name.startswith(begin)), len(ORDER))
        found += [(place, part.name, part)] if component.weights else []
    return tuple(part for _, _, part in sorted(found, key=lambda each: each[:2]))
