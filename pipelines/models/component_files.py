"""The components of a model folder, found whole: their files, the headers of their weights, and a fingerprint of all.

Whole means that all that the family needs is there, and every file that an index names.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...parallel.errors import BadInput
from .config import check_config
from .folder import (
    INDEX,
    TOP_FILES,
    Kind,
    components_of,
    config_path,
    find_family,
    kind_of,
    no_component,
    read_allowed_index,
    repository_of,
)
from .packing import PACKED, check_unpacked, put_together
from .regular_file import FromFolder, Unchanged, parse_object, read_bytes, read_object
from .source import PICKLES, is_allowed
from .tensor_file import MAX_HEADER_BYTES, MAX_TENSORS, TensorFile, check_counts, content_mark, read_tensor_file

if TYPE_CHECKING:
    from ..families.family import Family

VOCABULARIES = (
    *("tokenizer.json", "vocab.json", "vocab.txt"),
    *("spiece.model", "tokenizer.model", "sentencepiece.bpe.model"),
)
NO_VOCABULARY = ("ByT5Tokenizer",)  # tokenizers of bytes
# By library, what its weight files are called; `diffusion_pytorch_model` in all others.
WEIGHT_NAMES = {"transformers": "model"}
CONTENT_SUFFIXES = (".json", ".txt", ".model", ".jinja")
MAX_CONTENT_BYTES = 64 << 20
MAX_FINGERPRINTS = 64
MAX_SCHEDULER_LAYERS = 1000


@dataclass(frozen=True, kw_only=True)
class ComponentFiles:
    """One component of a model: its class and the files in its folder."""

    name: str
    library: str
    class_name: str
    kind: Kind
    folder: Path
    weights: tuple[TensorFile, ...] = ()

    @property
    def num_parameters(self) -> int:
        return sum(entry.numel for file in self.weights for entry in file.tensors.values())

    @property
    def is_packed(self) -> bool:
        """Whether torchao has quantized its weights, so that each is made of several tensors."""
        return any(entry.dtype.startswith(PACKED) for file in self.weights for entry in file.tensors.values())


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model folder that was read and found whole."""

    folder: Path
    pipeline: str  # the `_class_name` of model_index.json
    family: Family
    index: Mapping[str, Any]
    components: Mapping[str, ComponentFiles]  # the components that are there, by their names in model_index.json
    fingerprint: str  # changes when the files change, not when they move


def inspect_model(folder: Path, *, roots: Sequence[Path] | None = None) -> ModelFiles:
    """Read and check a model folder. Raises `ValueError` naming the component and what is wrong with it.

    With `roots`, links that lead out of the folder and of the roots are refused. What was found is kept while the
    folder stays as it is: a sweep asks for each of its points.
    """
    return _inspect(folder, None if roots is None else tuple(roots))


@FromFolder
def _inspect(folder: Path, roots: Sequence[Path] | None) -> ModelFiles:
    index = read_allowed_index(folder, roots=roots)
    pipeline = str(index["_class_name"])
    family, named = find_family(pipeline), components_of(index)
    names = {name for names in family.components.values() for name in names}
    for name in sorted({name.rstrip("?") for name in names} & index.keys() - named.keys()):
        if index[name] not in (None, [None, None]):
            raise ValueError(no_component(folder / INDEX, name, index[name]))
    components = inspect_components(folder, index, roots=roots)
    if missing := sorted({name for name in names if not name.endswith("?")} - components.keys()):
        raise BadInput(
            "model {} lacks {}, which {} needs; copy the model again", folder, ", ".join(missing), family.title
        )
    mark = fingerprint_of_parts(folder, components)
    return ModelFiles(
        folder=folder, pipeline=pipeline, family=family, index=index, components=components, fingerprint=mark
    )


def inspect_components(
    folder: Path, index: Mapping[str, Any], *, roots: Sequence[Path] | None = None
) -> dict[str, ComponentFiles]:
    """Read and check every component that the index names; roots as for `inspect_model`."""
    allowed = None if roots is None else (*roots, repository_of(folder))
    return {
        name: inspect_component(folder, name, library=library, class_name=class_name, roots=allowed)
        for name, (library, class_name) in components_of(index).items()
    }


def inspect_component(
    model: Path, name: str, *, library: str, class_name: str, roots: Sequence[Path] | None
) -> ComponentFiles:
    """Read and check one component's folder."""
    folder, kind = model / name, kind_of(class_name)
    files = _list_files(folder, name, roots)
    config_path(folder, kind, name)  # raises where there is none
    if "adapter_config.json" in files:
        raise ValueError(
            f"component {name}: {folder} holds an adapter (adapter_config.json); load it as a LoRA instead"
        )
    has_vocabulary = class_name in NO_VOCABULARY or any(vocabulary in files for vocabulary in VOCABULARIES)
    if kind == "tokenizer" and not has_vocabulary:
        raise ValueError(f"component {name}: {folder} has no vocabulary ({', '.join(VOCABULARIES)}); pull it again")
    weights: tuple[TensorFile, ...] = ()
    allowed: tuple[str, ...] = ()
    max_layers = MAX_SCHEDULER_LAYERS if kind == "scheduler" else None
    if kind == "model":
        stem = WEIGHT_NAMES.get(library, "diffusion_pytorch_model")
        weights = tuple(_read_weights(folder, name, stem=stem, files=files))
        if library == "diffusers":
            allowed = allowed_keys(read_object(config_path(folder, "model", name), what=f"config of {name}"))
        if allowed:
            weights = put_together(weights)
        check_unpacked(weights)
        max_layers = sum(len(file.tensors) for file in weights)  # each layer has one tensor at least
    others = ("special_tokens_map.json", "added_tokens.json")
    for config in sorted(file for file in files if file.endswith("config.json") or file in others):
        check_config(folder / config, name, max_layers=max_layers, allowed=allowed)
    return ComponentFiles(name=name, library=library, class_name=class_name, kind=kind, folder=folder, weights=weights)


def allowed_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a component of diffusers may say although others may not: how torchao packed its weights."""
    packing = config.get("quantization_config")
    return ("quantization_config",) if isinstance(packing, dict) and packing.get("quant_method") == "torchao" else ()


def _list_files(folder: Path, name: str, roots: Sequence[Path] | None) -> frozenset[str]:
    """The names in a component's folder, after refusing pipes, devices, broken links and links out of `roots`."""
    try:
        files = sorted(path.name for path in folder.iterdir())
        # before a library opens any: a pipe would be waited for, and a device may do something when it is opened
        for file in files:
            mode = (folder / file).stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise ValueError(f"component {name}: {folder / file} is not a file; remove it or copy the model again")
            if not is_allowed(folder / file, roots):
                raise ValueError(
                    f"component {name}: {folder / file} links to a place outside the allowed folders; copy it"
                )
            if stat.S_ISDIR(mode) and file.endswith((".json", ".safetensors", ".txt", ".model", ".jinja")):
                raise ValueError(f"component {name}: {folder / file} is a folder and should be a file; copy it again")
    except OSError as error:
        raise ValueError(
            f"component {name}: {folder} cannot be read ({error.strerror}); copy the model again"
        ) from None
    return frozenset(files)


def _read_weights(folder: Path, name: str, *, stem: str, files: frozenset[str]) -> list[TensorFile]:
    """The headers of a component's safetensors files, one or the shards of an index."""
    single, index = f"{stem}.safetensors", f"{stem}.safetensors.index.json"
    if single in files:
        return [read_tensor_file(folder / single)]
    if index not in files:
        if any(file.endswith(PICKLES) for file in files):
            raise BadInput(
                "component {}: {} has only pickle weights, which can run code when opened; get the "
                "safetensors version of the model",
                name,
                folder,
            )
        raise BadInput("component {}: {} has no {}; copy or pull the model again", name, folder, single)
    listed = read_bytes(folder / index, what=f"index of {name}", max_bytes=MAX_HEADER_BYTES)
    check_counts(folder / index, listed, texts=2, marks=1)
    weight_map = parse_object(listed, what=f"index of {name} {folder / index}").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"component {name}: {folder / index} lists no weights; copy the model again")
    shards: dict[str, TensorFile] = {}
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or shard not in files or not shard.endswith(".safetensors"):
            raise BadInput(
                "component {}: shard {!r} is not in {}; pull the model again", name, str(shard)[:100], folder
            )
        if shard not in shards:
            shards[shard] = read_tensor_file(folder / shard)
            if sum(len(file.tensors) for file in shards.values()) > MAX_TENSORS:
                raise ValueError(f"component {name}: {folder} holds more than {MAX_TENSORS:,} tensors; pull it again")
        if tensor not in shards[shard].tensors:
            raise ValueError(f"component {name}: shard {shard} lacks {tensor[:100]!r}; pull the model again")
    return list(shards.values())


_FINGERPRINTS = Unchanged[str](MAX_FINGERPRINTS)


def fingerprint_of_parts(folder: Path, components: Mapping[str, ComponentFiles]) -> str:
    """sha256 over the content of configs and vocabularies and over the marks of the weights (`content_mark`)."""
    entries: list[tuple[str, Path, TensorFile | None]] = []
    entries += [(file, folder / file, None) for file in TOP_FILES if os.path.lexists(folder / file)]
    for name, component in sorted(components.items()):
        texts = [path for path in sorted(component.folder.iterdir()) if path.name.endswith(CONTENT_SUFFIXES)]
        entries += [(f"{name}/{path.name}", path, None) for path in texts]
        entries += [(f"{name}/{file.path.name}", file.path, file) for file in component.weights]

    def digested() -> str:
        digest = hashlib.sha256()
        for place, path, weights in entries:
            name, is_inside, _ = place.partition("/")
            if weights is not None:
                content = content_mark(weights).encode()
            elif is_inside:
                content = read_bytes(path, what=f"{name}:", max_bytes=MAX_CONTENT_BYTES)
            else:
                content = read_bytes(path, what="file")
            # with their lengths, so that no name or content can be taken for a part of its neighbour
            digest.update(f"{len(place)}:{place}:{len(content)}:".encode())
            digest.update(content)
        return digest.hexdigest()

    key = tuple((place, path, weights is None) for place, path, weights in entries)
    return _FINGERPRINTS.get(key, [path for _, path, _ in entries], digested)
