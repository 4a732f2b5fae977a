"""ComfyUI's own folders: where our nodes read and write there, and what they offer of its models.

What a user has told ComfyUI of his models (`extra_model_paths.yaml`) counts for our nodes, and a file is called as its
own nodes call it: by its path inside the folder of its kind.
"""

import functools
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...pipelines.models.component_files import inspect_components
from ...pipelines.models.folder import index_path, read_index
from ...pipelines.models.installed import model_folders, names_without_folder
from ...pipelines.models.packing import read_checkpoint, read_packing
from ...pipelines.models.source import resolve_source
from ..files.workspace import Workspace

LORA, MODEL = "lora", "model"  # the widgets of sockets that take one
# ComfyUI's names for the folders in which it keeps them.
KINDS = {MODEL: ("diffusion_models", "checkpoints", "diffusers"), LORA: ("loras",)}
ENDINGS = {MODEL: (".safetensors", ".gguf"), LORA: (".safetensors",)}
# What stands at the socket there, in place of its help.
TIPS = {
    MODEL: "Of ComfyUI's folders diffusers, diffusion_models, checkpoints, or of the hub's cache; FILE@BASE takes "
    "what the file lacks from BASE",
    LORA: "A .safetensors file of ComfyUI's folders loras",
}
FRESH_S = 2.0  # how long names are kept: ComfyUI asks for them several times in each prompt


def comfy_workspace(first: str = MODEL) -> Workspace:
    """ComfyUI's folders and its way with file names; without ComfyUI (tests, tools) the current folder's.

    A name that stands in folders of both kinds is of the kind `first`.
    """
    folders = _folder_paths()
    if folders is None:
        return Workspace(host="comfyui", counts_up=True)
    kinds = sorted(KINDS, key=lambda kind: kind != first)
    roots = [folders.get_input_directory(), folders.get_output_directory(), folders.models_dir]
    roots += [folder for kind in kinds for folder in _folders(kind)]
    return Workspace(
        output_dir=Path(folders.get_output_directory()).resolve(),
        roots=tuple(dict.fromkeys(Path(root).resolve() for root in roots)),
        host="comfyui",
        counts_up=True,
    )


def names(kind: str) -> list[str] | None:
    """What there is to choose for a socket of this kind; None where ComfyUI is not here. Other values are good, too."""
    return None if _folder_paths() is None else list(_names(kind, int(time.monotonic() / FRESH_S)))


@functools.lru_cache(2 * len(KINDS))
def _names(kind: str, now: int) -> Sequence[str]:
    files = sorted(_files(kind), key=str.casefold)
    if kind == LORA:
        return files
    folders = [str(folder.relative_to(root)) for root in _folders(MODEL) for folder in model_folders(root)]
    found = [*names_without_folder(), *sorted(dict.fromkeys(folders), key=str.casefold)]
    workspace = comfy_workspace()
    sizes = {name: _num_in_transformer(name, workspace) for name in found} if files else {}
    for file in files:
        # a file that holds a transformer comes with each model whose own has as many numbers; where none has, alone, so
        # that whoever takes it is told what is missing
        places = (root / file for root in workspace.roots or () if (root / file).is_file())
        held = next(map(_num_weights, places), 0)
        found += [f"{file}@{name}" for name, size in sizes.items() if held and held == size] or [file]
    return found


def _num_weights(path: Path) -> int:
    """Of the transformer in a single file, 0 where it has none that can be read."""
    try:
        file = read_checkpoint(path)
        return sum(math.prod(file.tensors[name].shape) for name in read_packing(file))
    except (ValueError, OSError):
        return 0


def _num_in_transformer(name: str, workspace: Workspace) -> int:
    """-1 of a model that has none, or cannot be read."""
    try:
        folder = resolve_source(name, roots=workspace.roots).folder
        weights = inspect_components(folder, read_index(folder))["transformer"].weights
    except (ValueError, OSError, KeyError):
        return -1
    return sum(math.prod(entry.shape) for each in weights for entry in each.tensors.values())


def _files(kind: str) -> set[str]:
    """By their paths inside the folders, as ComfyUI lists them, which knows no .gguf; none of a model that is whole."""
    found = set()
    for root in _folders(kind):
        for parent, inner, files in os.walk(root, followlinks=True):
            if index_path(Path(parent)) is not None:
                inner.clear()
                continue
            inside = Path(parent).relative_to(root)
            found |= {str(inside / file) for file in files if file.lower().endswith(ENDINGS[kind])}
    return found


def _folders(kind: str) -> list[Path]:
    folders = _folder_paths()
    known = folders.folder_names_and_paths
    return [
        Path(f) for name in KINDS[kind] if name in known for f in folders.get_folder_paths(name) if Path(f).is_dir()
    ]


def _folder_paths() -> Any:
    """ComfyUI's module of that name, None where it is not here."""
    try:
        import folder_paths
    except ImportError:
        return None
    return folder_paths
