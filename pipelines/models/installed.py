"""Which models are on this machine: the built-in one, those in folders of models, those in the hub's local cache."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ..families import OUTSIDE
from .component_files import inspect_model
from .folder import INDEX, MODULAR_INDEX, index_path
from .source import BUILTINS, hub_cache

MAX_DEPTH = 4  # how deep a folder of models is searched
UNSUPPORTED = "unsupported"


@dataclass(frozen=True, kw_only=True)
class InstalledModel:
    """One model found: `name` is what Load Model takes as its source."""

    name: str
    family: str  # `UNSUPPORTED` where it cannot be used; `problem` then says why
    num_bytes: int
    location: str
    revision: str = ""
    problem: str = ""
    does: str = ""  # what its family makes of what
    # With what its family's stages were compared, and where they were not; nothing is known of one from outside.
    compared: str = ""


def installed_models(model_dirs: Iterable[Path] = (), *, cache: Path | None = None) -> list[InstalledModel]:
    """All models found, usable or not. Reads headers only; `cache` None is the hub client's own folder."""
    found = [_describe(f"builtin:{name}", folder) for name, folder in sorted(BUILTINS.items())]
    for directory in model_dirs:
        if not directory.is_dir():
            raise BadInput("models folder {} does not exist; check the path", directory)
        found.extend(_describe(str(folder), folder) for folder in model_folders(directory))
    hub = _hub_snapshots(hub_cache() if cache is None else cache)
    found.extend(_describe(name, snapshot, revision=snapshot.name) for name, snapshot in hub)
    return found


def as_text(found: Iterable[InstalledModel]) -> str:
    """A line for each model, and more where there is more to say of it."""
    lines: list[str] = []
    for model in found:
        where = model.problem or model.location
        lines.append(f"{model.name:<44} {model.family:<12} {model.num_bytes / 2**20:>10,.0f} MiB  {where}")
        lines += [f"    {model.does}"] if model.does else []
        lines += [f"    compared {model.compared}"] if model.compared else []
    return "\n".join(lines)


def names_without_folder() -> list[str]:
    """What Load Model takes as its source beside folders: the built-in model and those of the hub that are here."""
    hub = dict.fromkeys(name for name, _ in _hub_snapshots(hub_cache()))
    return [*(f"builtin:{name}" for name in sorted(BUILTINS)), *hub]


def _describe(name: str, folder: Path, *, revision: str = "") -> InstalledModel:
    size, place = _num_bytes(folder), str(folder)
    told = InstalledModel(name=name, family=UNSUPPORTED, num_bytes=size, location=place, revision=revision)
    try:
        found = inspect_model(folder).family
    except ValueError as error:
        return replace(told, problem=str(error))
    how = "with {} of diffusers: tiny random weights, fp32, on a CPU; not with published weights, in bf16, or on GPUs"
    compared = "" if found.name in OUTSIDE else worded(how, ", ".join(found.pipelines))
    return replace(told, family=found.name, does=found.does, compared=compared)


def model_folders(directory: Path) -> Iterator[Path]:
    """Folders with a model_index.json at most `MAX_DEPTH` deep; links are followed once, loops end with the depth."""
    for parent, folders, files in os.walk(directory, followlinks=True):
        folders.sort()
        if INDEX in files or MODULAR_INDEX in files:
            folders.clear()
            yield Path(parent)
        elif len(Path(parent).relative_to(directory).parts) >= MAX_DEPTH:
            folders.clear()


def _hub_snapshots(cache: Path) -> Iterator[tuple[str, Path]]:
    """The hub's cache layout: `models--ORG--NAME/snapshots/COMMIT`."""
    for repo in sorted(cache.glob("models--*--*")):
        for snapshot in sorted(repo.glob("snapshots/*")):
            if index_path(snapshot) is not None:
                yield "/".join(repo.name.split("--")[1:]), snapshot


def _num_bytes(folder: Path) -> int:
    """Bytes of all the files, each counted once where several links lead to it."""
    sizes = {}
    for parent, _, files in os.walk(folder):
        for path in (Path(parent, file) for file in files):
            with contextlib.suppress(OSError):  # broken, unreadable or looping links: the model's problem says so
                status = path.stat()
                sizes[status.st_dev, status.st_ino or str(path)] = status.st_size
    return sum(sizes.values())
