"""The models that a workflow uses, for whoever asks later what made something: revision, LoRAs, and each file of
weights by its size and the hash of its header. No weights are read.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...pipelines.models.component_files import inspect_components, inspect_model
from ...pipelines.models.folder import read_allowed_index
from ...pipelines.models.packing import read_checkpoint
from ...pipelines.models.regular_file import Unchanged, sha256_of
from ...pipelines.models.source import checkpoints_of, split_source
from ...pipelines.models.tensor_file import TensorFile
from ...pipelines.values import Model

if TYPE_CHECKING:
    from ..preview.walk import Walk

MOST_FILES = 256  # what is told of one model; the largest in use have some fifty

logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """One file of weights."""

    name: str
    """Below the model's folder; of a single file its own name."""
    num_bytes: int
    header_sha256: str
    """Of the header alone, which names each tensor, its type and its shape."""


@dataclass(frozen=True, kw_only=True)
class LoraFacts:
    """One LoRA on a model."""

    name: str
    scale: float
    sha256: str
    """Of the whole file; empty where it could not be read."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """A model as a run had it."""

    source: str
    family: str
    revision: str
    """The commit of a hub model; empty for any other."""
    fingerprint: str
    dtype: str
    quantization: str
    loras: tuple[LoraFacts, ...] = ()
    files: tuple[WeightsFile, ...] = ()
    """Of a model without LoRAs: those of one with them are told where it was loaded."""


def models_of(walk: Walk, order: Iterable[str]) -> dict[str, ModelFacts]:
    """What is kept of the models that nodes give, as far as they are known before the run."""
    names = [name for name in order if any(each.type == Model.__name__ for each in walk.specs[name].outputs)]
    given = {
        name: next((each for each in walk.gives(name).values() if isinstance(each, Model)), None) for name in names
    }
    return {name: model_facts(model) for name, model in given.items() if model is not None}


def model_facts(model: Model) -> ModelFacts:
    """What is kept of a model beside a result: its files, or the LoRAs that were put on it. Files that cannot be read
    are left out: the run itself will tell."""
    folder, files = Path(model.folder), [] if model.loras else weights_of(model)[:MOST_FILES]
    named = ("source", "family", "revision", "fingerprint", "dtype", "quantization")
    return ModelFacts(
        **{name: getattr(model, name) for name in named},
        loras=tuple(
            LoraFacts(name=Path(lora.path).name, scale=lora.scale, sha256=lora.sha256 or _content(Path(lora.path)))
            for lora in model.loras
        ),
        files=tuple(
            WeightsFile(
                name=name_of(file, folder),
                num_bytes=file.size_bytes,
                header_sha256=hashlib.sha256(file.header).hexdigest(),
            )
            for file in files
        ),
    )


def weights_of(model: Model, *, roots: Sequence[Path] | None = None) -> list[TensorFile]:
    """The headers of all files of weights that a model reads, LoRAs apart; empty where they cannot be read."""
    folder, (single, _) = Path(model.folder), split_source(model.source)
    try:
        if model.family:
            parts = inspect_model(folder, roots=roots).components
        else:
            parts = inspect_components(folder, read_allowed_index(folder, roots=roots), roots=roots)
        named = {} if not single else checkpoints_of(Path(single), parts)
        own = (file for name, part in parts.items() if name not in named for file in part.weights)
        return list({file.path: file for file in (*map(read_checkpoint, named.values()), *own)}.values())
    except (ValueError, OSError) as error:
        logger.info("the weights of %s are not told: %s", model.source, error)
        return []


def name_of(file: TensorFile, folder: Path) -> str:
    """Below the model's folder; of a single file its own."""
    return file.path.relative_to(folder).as_posix() if file.path.is_relative_to(folder) else file.path.name


_CONTENTS = Unchanged[str]()  # of LoRAs: every run asks


def _content(path: Path) -> str:
    try:
        return _CONTENTS.get(path, [path], lambda: sha256_of(path))
    except (ValueError, OSError):
        return ""
