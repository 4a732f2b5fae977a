"""What a model folder holds, found out without torch: its family, its components, and whether they are whole.

It holds one folder for each component, named by `model_index.json`, with config and safetensors files; whole means that
all that the family needs is there, and every file that an index names.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import os
import re
import stat
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .config import ConfigLimits, check_config, foreign_entry
from .json_file import parse_object, read_bytes, read_object
from .packed.packing import check_unpacked
from .packed.torchao_files import PACKED, is_torchao, put_together
from .regular_file import FromFile, FromFolder
from .source import PICKLES, is_allowed
from .tensor_file import (
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    TensorFile,
    are_settled,
    check_counts,
    content_mark,
    read_tensor_file,
    stamps_of,
)

if TYPE_CHECKING:
    from ..families.family import Family

Kind = Literal["model", "scheduler", "tokenizer", "processor", "guider"]

LIBRARIES = ("diffusers", "transformers")
INDEX, MODULAR_INDEX = "model_index.json", "modular_model_index.json"
TOP_FILES = (INDEX, MODULAR_INDEX, "latentloom.json")
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
CLASS = re.compile(r"[A-Z][A-Za-z0-9_]{0,99}")
CONFIGS: Mapping[Kind, tuple[str, ...]] = {
    "model": ("config.json",),
    "scheduler": ("scheduler_config.json",),
    "tokenizer": ("tokenizer_config.json",),
    "processor": ("preprocessor_config.json", "processor_config.json"),
    "guider": ("guider_config.json",),
}
VOCABULARIES = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
)
NO_VOCABULARY = ("ByT5Tokenizer",)
"""Tokenizers of bytes."""
WEIGHT_NAMES = {"transformers": "model"}
"""By library, what its weight files are called; `diffusion_pytorch_model` in all others."""
CONTENT_SUFFIXES = (".json", ".txt", ".model", ".jinja")
MAX_CONTENT_BYTES = 64 << 20
MAX_FINGERPRINTS = 64


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
    pipeline: str
    """The `_class_name` of model_index.json."""
    family: Family
    index: Mapping[str, Any]
    components: Mapping[str, ComponentFiles]
    """The components that are there, by their names in model_index.json."""
    fingerprint: str
    """Changes when the files change, not when they move."""


def inspect_model(folder: Path, *, roots: Sequence[Path] | None = None) -> ModelFiles:
    """Read and check a model folder. Raises `ValueError` naming the component and what is wrong with it.

    With `roots`, links that lead out of the folder and of the roots are refused. What was found is kept while the
    folder stays as it is: a sweep asks for each of its points.
    """
    return _INSPECTED(folder, None if roots is None else tuple(roots))


def _inspect(folder: Path, roots: Sequence[Path] | None) -> ModelFiles:
    index = read_allowed_index(folder, roots=roots)
    family = find_family(str(index["_class_name"]))
    named = components_of(index)
    names = {name for names in family.components.values() for name in names}
    for name in sorted({name.rstrip("?") for name in names} & index.keys() - named.keys()):
        if index[name] not in (None, [None, None]):
            raise ValueError(_no_component(folder / INDEX, name, index[name]))
    components = inspect_components(folder, index, roots=roots)
    if missing := sorted({name for name in names if not name.endswith("?")} - components.keys()):
        raise ValueError(f"model {folder} lacks {', '.join(missing)}, which {family.title} needs; copy the model again")
    return ModelFiles(
        folder=folder,
        pipeline=str(index["_class_name"]),
        family=family,
        index=index,
        components=components,
        fingerprint=fingerprint_of_parts(folder, components),
    )


_INSPECTED = FromFolder(_inspect)


def inspect_components(
    folder: Path, index: Mapping[str, Any], *, roots: Sequence[Path] | None = None
) -> dict[str, ComponentFiles]:
    """Read and check every component that the index names; roots as for `inspect_model`."""
    allowed = None if roots is None else (*roots, _whole(folder))
    return {
        name: inspect_component(folder, name, library=library, class_name=class_name, roots=allowed)
        for name, (library, class_name) in components_of(index).items()
    }


def read_allowed_index(folder: Path, *, roots: Sequence[Path] | None = None) -> dict[str, Any]:
    """What `read_index` gives, of a file that does not lie outside the folder and the roots by a link."""
    allowed = None if roots is None else (*roots, _whole(folder))
    for file in TOP_FILES:
        if not is_allowed(folder / file, allowed):
            raise ValueError(f"{folder / file} links to a place outside the allowed folders; copy the file there")
    return read_index(folder)


def families() -> Mapping[str, Family]:
    from ..families import FAMILIES

    return FAMILIES


def find_family(pipeline: str) -> Family:
    """The family that reads pipelines of this class. Raises `ValueError` with the list for an unknown one."""
    known = {name: family for family in families().values() for name in family.pipelines}
    if pipeline not in known:
        near = difflib.get_close_matches(pipeline, known, n=1)
        hint = f"; the nearest is {near[0]}" if near else ""
        raise ValueError(
            f"pipeline {pipeline[:100]!r} is not supported{hint}. Supported: {', '.join(sorted(known))}"
            f"{_offer(pipeline)}"
        )
    return known[pipeline]


def _offer(pipeline: str) -> str:
    """What runs a pipeline that no family reads, if anything does."""
    from ..signatures.table import class_names

    return ". The node Run Pipeline runs it as it is" if pipeline in class_names() else ""


def read_index(folder: Path, *, home: str = "") -> dict[str, Any]:
    """`model_index.json`: the pipeline's own values, and components as [library, class] of diffusers or transformers.

    A list of anything else is a value of the pipeline, as diffusers takes it (Krea 2: `text_encoder_select_layers`).
    `home` is the hub id of a folder that is not yet pulled whole.
    """
    if (known := _CLASSIC.known(f"{folder}{os.sep}{INDEX}")) is not None:
        return dict(known)
    path = index_path(folder)
    if path is None:
        raise ValueError(f"{folder} is no model: it has no {INDEX}; give a folder in diffusers format")
    if path.name == INDEX:
        return dict(_CLASSIC(path))
    index = _of_modular(path, _MODULAR(path), home)
    _check_entries(path, index)
    return index


def _read_named(path: Path) -> dict[str, Any]:
    """An index that names its pipeline."""
    index = read_object(path, what="model index")
    pipeline = index.get("_class_name")
    if isinstance(pipeline, list):
        raise ValueError(f"{path}: pipeline {str(pipeline)[:100]} is code of the model's own, which is refused")
    if not isinstance(pipeline, str):
        raise ValueError(f"{path} does not name its pipeline (_class_name); copy the model again")
    return index


def _read_classic(path: Path) -> dict[str, Any]:
    index = _read_named(path)
    _check_entries(path, index)
    return index


_CLASSIC, _MODULAR = FromFile(_read_classic), FromFile(_read_named)
"""Whether a modular index is right depends on the folder as well."""


def _check_entries(path: Path, index: Mapping[str, Any]) -> None:
    for name, entry in index.items():
        if _is_component(entry):
            _check_entry(path, name, entry)


def index_path(folder: Path) -> Path | None:
    """The model's index: that of a classic pipeline, else that of a modular one."""
    return next((folder / name for name in (INDEX, MODULAR_INDEX) if os.path.lexists(folder / name)), None)


def _of_modular(path: Path, index: Mapping[str, Any], home: str) -> dict[str, Any]:
    """The index of a modular pipeline as that of a classic one: [library, class] of components beside it.

    It says of each where it is loaded from, which may be another repository: only what lies here is read, or is yet to
    be pulled from the repository that this one is. What no stage of the family loads, or what not every call of the
    pipeline needs, such as a language model that rewrites prompts, may lie anywhere and is left out.
    """
    if reason := foreign_entry(dict(index)):
        raise ValueError(f"{path} {reason}, which is refused")
    found, loaded = dict(index), _loaded(str(index["_class_name"]))
    for name, entry in index.items():
        match entry:
            case [library, class_name, {**place}]:
                hint = place.get("type_hint")
                if None in (library, class_name) and isinstance(hint, list) and len(hint) == 2:
                    library, class_name = hint
                found[name] = [library, class_name]
                lies_at = (place.get("pretrained_model_name_or_path"), place.get("subfolder"))
                is_own = bool(home) and lies_at == (home, name) and (not loaded or name in loaded)
                if not NAME.fullmatch(name) or not (is_own or (path.parent / name).is_dir()):
                    if loaded and name not in loaded:
                        found[name] = [None, None]
                        continue
                    raise ValueError(_elsewhere(path, name, place))
            case _:
                pass
    return found


def _loaded(pipeline: str) -> set[str]:
    """The components that the stages of this pipeline's family load, or else that every call of the pipeline needs;
    none where neither is known."""
    from ..signatures.table import class_names, signature_of

    known = [family for family in families().values() if pipeline in family.pipelines]
    if not known and pipeline in class_names():
        return {*signature_of(pipeline).parts}
    return {name.rstrip("?") for family in known for names in family.components.values() for name in names}


def _elsewhere(path: Path, name: str, place: Mapping[str, Any]) -> str:
    home = str(place.get("pretrained_model_name_or_path") or "no place that it names")[:100]
    return (
        f"{path}: component {name[:64]!r} comes from {home}, and a modular model is read from one folder only; "
        f"copy it to {name[:64]} beside the index"
    )


def components_of(index: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """(library, class) of the components that the model has, by name, from what `read_index` gave."""
    return {name: found for name in index if (found := component_in(index, name)) is not None}


def component_in(index: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """(library, class) of one component; None where the model has none of that name."""
    entry: Any = index.get(name)
    return (entry[0], entry[1]) if _is_component(entry) and None not in entry else None


def _is_component(entry: Any) -> bool:
    """Whether it is meant as [library, class]: it names one of the libraries, or a pair that ends like a class."""
    match entry:
        case [str(library), *_] if library in LIBRARIES:
            return True
        case [str() | None, None] | [None, str()]:
            return True
        case [str(), str(class_name)]:
            return CLASS.fullmatch(class_name) is not None
        case _:
            return False


def _check_entry(path: Path, name: str, entry: list[Any]) -> None:
    if not NAME.fullmatch(name) or len(entry) != 2:
        raise ValueError(_no_component(path, name, entry))
    library, class_name = entry
    if library is None or class_name is None:
        return
    if library not in LIBRARIES and not is_part_of_diffusers(library):
        raise ValueError(
            f"{path}: component {name} comes from {library[:64]!r}, which would run code of the model's own; "
            f"only {' and '.join(LIBRARIES)} are accepted"
        )
    if not isinstance(class_name, str) or not CLASS.fullmatch(class_name):
        raise ValueError(f"{path}: component {name} names no class ({str(class_name)[:64]!r}); copy the model again")


def is_part_of_diffusers(library: str) -> bool:
    """Whether a component comes with one of diffusers' own pipelines, as LTX-2's connectors do. Imports nothing."""
    if not NAME.fullmatch(library) or (found := importlib.util.find_spec("diffusers")) is None:
        return False
    return any((Path(root) / "pipelines" / library).is_dir() for root in found.submodule_search_locations or ())


def _no_component(path: Path, name: str, entry: Any) -> str:
    return f"{path}: component {name[:64]!r} is {str(entry)[:100]}, not [library, class]; copy it again"


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """The config of one component, by its name; {} when the model has no such component."""
    found = component_in(read_index(folder), name)
    if found is None:
        return {}
    kind = kind_of(found[1])
    if (known := _CONFIG.known(_first_config(folder, name, kind))) is not None:
        return dict(known)
    return dict(_CONFIG(_config_path(folder / name, kind, name)))


def _first_config(folder: Path, name: str, kind: Kind) -> str:
    return f"{folder}{os.sep}{name}{os.sep}{CONFIGS[kind][0]}"


_CONFIG = FromFile(lambda path: read_object(path, what=f"config of {path.parent.name}"))

Read = tuple[FromFile[dict[str, Any]], str, dict[str, Any]]
"""A small file by its reader and path, and what was read."""


def reads_of(folder: Path, names: Iterable[str]) -> tuple[Read, ...] | None:
    """The index of a classic model and the configs of these components as they are kept; None where one is not."""
    index = f"{folder}{os.sep}{INDEX}"
    files = [(_CLASSIC, index)]
    for name in names:
        if (found := component_in(_CLASSIC.known(index) or {}, name)) is not None:
            files.append((_CONFIG, _first_config(folder, name, kind_of(found[1]))))
    kept = [(reader, path, known) for reader, path in files if (known := reader.known(path)) is not None]
    return tuple(kept) if len(kept) == len(files) else None


def are_as_read(read: Iterable[Read]) -> bool:
    """Whether all of these files are as they were."""
    return all(reader.known(path) is known for reader, path, known in read)


def kind_of(class_name: str) -> Kind:
    """What a component of this class is."""
    if class_name.endswith("Scheduler"):
        return "scheduler"
    if "Tokenizer" in class_name:
        return "tokenizer"
    if "Processor" in class_name or class_name.endswith("FeatureExtractor"):
        return "processor"
    if class_name.endswith("Guidance"):
        return "guider"
    return "model"


def _config_path(folder: Path, kind: Kind, name: str) -> Path:
    found = next((folder / config for config in CONFIGS[kind] if os.path.lexists(folder / config)), None)
    if found is None:
        raise ValueError(f"component {name}: {folder} has no {CONFIGS[kind][0]}; copy or pull the model again")
    return found


def inspect_component(
    model: Path, name: str, *, library: str, class_name: str, roots: Sequence[Path] | None
) -> ComponentFiles:
    """Read and check one component's folder."""
    folder, kind = model / name, kind_of(class_name)
    files = _list_files(folder, name, roots)
    _config_path(folder, kind, name)
    if "adapter_config.json" in files:
        raise ValueError(
            f"component {name}: {folder} holds an adapter (adapter_config.json); load it as a LoRA instead"
        )
    has_vocabulary = class_name in NO_VOCABULARY or any(vocabulary in files for vocabulary in VOCABULARIES)
    if kind == "tokenizer" and not has_vocabulary:
        raise ValueError(f"component {name}: {folder} has no vocabulary ({', '.join(VOCABULARIES)}); pull it again")
    weights = (
        _read_weights(folder, name, stem=WEIGHT_NAMES.get(library, "diffusion_pytorch_model"), files=files)
        if kind == "model"
        else ()
    )
    allowed: tuple[str, ...] = ()
    if kind == "model" and library == "diffusers":
        allowed = allowed_keys(read_object(_config_path(folder, "model", name), what=f"config of {name}"))
    if allowed:
        weights = put_together(weights)
    check_unpacked(weights)
    num_tensors = sum(len(file.tensors) for file in weights)
    for config in sorted(file for file in files if file.endswith(".json") and _is_config(file)):
        limits = (
            ConfigLimits(max_layers=num_tensors) if kind == "model" else ConfigLimits() if kind == "scheduler" else None
        )
        check_config(folder / config, name, limits=limits, allowed=allowed)
    return ComponentFiles(
        name=name, library=library, class_name=class_name, kind=kind, folder=folder, weights=tuple(weights)
    )


def allowed_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a component of diffusers may say although others may not: how torchao packed its weights."""
    return ("quantization_config",) if is_torchao(config.get("quantization_config")) else ()


def _is_config(file: str) -> bool:
    return file.endswith("config.json") or file in ("special_tokens_map.json", "added_tokens.json")


def _list_files(folder: Path, name: str, roots: Sequence[Path] | None) -> frozenset[str]:
    """The names in a component's folder, after refusing pipes, devices, broken links and links out of `roots`."""
    try:
        files = sorted(path.name for path in folder.iterdir())
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
            raise ValueError(
                f"component {name}: {folder} has only pickle weights, which can run code when opened; "
                "get the safetensors version of the model"
            )
        raise ValueError(f"component {name}: {folder} has no {single}; copy or pull the model again")
    listed = read_bytes(folder / index, what=f"index of {name}", max_bytes=MAX_HEADER_BYTES)
    check_counts(folder / index, listed, texts=2, marks=1)
    weight_map = parse_object(listed, what=f"index of {name} {folder / index}").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ValueError(f"component {name}: {folder / index} lists no weights; copy the model again")
    shards: dict[str, TensorFile] = {}
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or shard not in files or not shard.endswith(".safetensors"):
            raise ValueError(f"component {name}: shard {str(shard)[:100]!r} is not in {folder}; pull the model again")
        if shard not in shards:
            shards[shard] = read_tensor_file(folder / shard)
            if sum(len(file.tensors) for file in shards.values()) > MAX_TENSORS:
                raise ValueError(f"component {name}: {folder} holds more than {MAX_TENSORS:,} tensors; pull it again")
        if tensor not in shards[shard].tensors:
            raise ValueError(f"component {name}: shard {shard} lacks {tensor[:100]!r}; pull the model again")
    return list(shards.values())


def _whole(folder: Path) -> Path:
    """The folder that may hold what a model's links point at: a hub snapshot's repository, else the model itself."""
    real = Path(os.path.realpath(folder))
    return real.parent.parent if real.parent.name == "snapshots" else real


_fingerprints: dict[Hashable, str] = {}
"""Of models whose files had settled, by what the file system says of each."""


def fingerprint_of_parts(folder: Path, components: Mapping[str, ComponentFiles]) -> str:
    """sha256 over the content of configs and vocabularies and over the marks of the weights (`content_mark`).

    Files that are as they were, by their sizes and stamps, are not read again: every run asks, several times.
    """
    top = [path for path in (folder / file for file in TOP_FILES) if os.path.lexists(path)]
    texts = {
        name: [path for path in sorted(component.folder.iterdir()) if path.name.endswith(CONTENT_SUFFIXES)]
        for name, component in sorted(components.items())
    }
    weights = {name: components[name].weights for name in texts}
    paths = [*top, *(path for name in texts for path in (*texts[name], *(file.path for file in weights[name])))]
    stamps = tuple((name, len(texts[name]), len(weights[name])) for name in texts), stamps_of(paths)
    if (known := _fingerprints.get(stamps)) is not None:
        return known
    digest = hashlib.sha256()
    for path in top:
        _add(digest, path.name, read_bytes(path, what="file"))
    for name in texts:
        for path in texts[name]:
            _add(digest, f"{name}/{path.name}", read_bytes(path, what=f"{name}:", max_bytes=MAX_CONTENT_BYTES))
        for file in weights[name]:
            _add(digest, f"{name}/{file.path.name}", content_mark(file).encode())
    found = digest.hexdigest()
    if stamps[1] and stamps[1] == stamps_of(paths) and are_settled(stamps[1]):
        if len(_fingerprints) >= MAX_FINGERPRINTS:
            _fingerprints.clear()
        _fingerprints[stamps] = found
    return found


def _add(digest: Any, name: str, content: bytes) -> None:
    digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
    digest.update(content)
