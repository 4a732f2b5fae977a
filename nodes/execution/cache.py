"""Results by key, in memory and on disk; those used least lately are dropped when they exceed the budget.

A result's key is made of everything that it depends on, so a hit is the result. Owners do not see what others keep. On
disk entries appear whole or not at all; one that is damaged, or whose files changed, is dropped and counts as absent.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...parallel.machine.folders import private, private_folder
from ...parallel.ranks.channel import safetensors_of
from ...parallel.recent import Recent
from ...pipelines.models.regular_file import read_regular, sha256_of
from ...pipelines.values import from_plain, to_plain
from ..files.atomic import sync
from ..graph.spec import SCALARS, VALUE_TYPES, files_of, type_name

ENTRY_BYTES = 512  # what an entry costs besides its tensors and strings, roughly
FORMAT = 2
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"
ENTRY = re.compile(r"[0-9a-f]{64}")  # its folder's name; what else is there is somebody else's
STALE_S = 3600  # a temporary folder older than this belongs to a process that died


class Cache(Protocol):
    """Results by recipe key. A result that lists files is only there while they are unchanged."""

    def get(self, key: str) -> Any | None: ...

    def put(self, key: str, value: Any) -> None: ...


@dataclass(frozen=True)
class Share:
    """One owner's part of a cache: what others keep in it is not there, and takes as long to make as if it were not."""

    cache: Cache
    owner: str

    def get(self, key: str) -> Any | None:
        return self.cache.get(self._own(key))

    def put(self, key: str, value: Any) -> None:
        self.cache.put(self._own(key), value)

    def _own(self, key: str) -> str:
        return f"{self.owner}\0{key}"


def stamps(value: Any) -> dict[str, str]:
    """sha256 of each file that a `Saved` value lists."""
    return {name: sha256_of(Path(name)) for name in files_of(value)}


def is_intact(files: Mapping[str, str]) -> bool:
    """Whether every file is still there with the same content."""
    try:
        return all(sha256_of(Path(name)) == sha256 for name, sha256 in files.items())
    except OSError:
        return False


def storages(value: Any) -> Iterator[tuple[tuple[str, int], int]]:
    """(identity, bytes) of each tensor storage in a value; shared storages come once per tensor."""
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        yield (str(value.device), storage.data_ptr()), storage.nbytes()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from storages(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from storages(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from storages(item)


class MemoryCache:
    """Lives as long as the process that runs workflows. Threads may share it."""

    def __init__(self, budget_bytes: int) -> None:
        # With the sha256 of each file that a value lists.
        self.recent = Recent[tuple[Any, Mapping[str, str]]](budget_bytes)

    def get(self, key: str) -> Any | None:
        if (found := self.recent.get(key)) is None:
            return None
        value, files = found
        if is_intact(files):
            return value
        self.recent.drop(key)
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep a result; one that is larger than the whole budget is not kept."""
        own_bytes = ENTRY_BYTES + (len(value) if isinstance(value, str) else 0)
        self.recent.put(key, (value, stamps(value)), {key: own_bytes, **dict(storages(value))})


class DiskCache:
    """Several processes may share a folder. `salt` should name the versions that results depend on."""

    def __init__(self, folder: Path, budget_bytes: int, *, salt: str = "") -> None:
        self.folder = folder
        self.budget_bytes = budget_bytes
        self.salt = salt
        private_folder(folder)
        for temporary in folder.glob(".tmp-*"):
            if time.time() - _used(temporary) > STALE_S:
                _remove(temporary)

    def get(self, key: str) -> Any | None:
        entry = self._entry(key)
        if not entry.is_dir():
            return None
        try:
            value = _read(entry)
        except Exception:  # whatever a damaged file makes a reader raise, the answer is to compute it again
            value = None
        if value is None:
            _remove(entry)
            return None
        with contextlib.suppress(OSError):
            os.utime(entry)  # by which the oldest use is known when room is needed
        return value

    def put(self, key: str, value: Any) -> None:
        """Keep a result that fits the budget. Raises `OSError` when the disk does not take it."""
        if (entry := self._entry(key)).exists():
            return
        # written beside and renamed: whoever looks meanwhile, also from another process, finds all of it or nothing
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=self.folder))
        try:
            _write(temporary, value)
            if (size := _size(temporary)) > self.budget_bytes:
                return
            self._make_room(size)
            with contextlib.suppress(OSError):  # another process was first
                temporary.rename(entry)
        finally:
            _remove(temporary)

    def _entry(self, key: str) -> Path:
        return self.folder / hashlib.sha256(f"{self.salt}\0{key}".encode()).hexdigest()

    def _make_room(self, size: int) -> None:
        entries = sorted((e for e in self.folder.iterdir() if ENTRY.fullmatch(e.name)), key=_used)
        sizes = {entry: _size(entry) for entry in entries}
        total = sum(sizes.values()) + size
        for entry in entries:
            if total <= self.budget_bytes:
                return
            _remove(entry)
            total -= sizes[entry]


def _write(folder: Path, value: Any) -> None:
    tensors: list[Any] = []
    body: dict[str, Any] = {
        "format": FORMAT,
        "type": _kind(value),
        "value": _pack(to_plain(value), tensors),
        "files": stamps(value),
        "tensors": "",
    }
    if tensors:
        with open(folder / TENSORS, "wb", opener=private) as file:
            file.writelines(safetensors_of(tensors))
        body["tensors"] = sha256_of(folder / TENSORS)
        sync(folder / TENSORS)
    with open(folder / MANIFEST, "w", opener=private) as file:
        file.write(json.dumps({"sha256": _digest(body), "body": body}))
    sync(folder / MANIFEST)


def _read(entry: Path) -> Any | None:
    manifest = json.loads(read_regular(entry / MANIFEST))
    body = manifest["body"]
    if manifest["sha256"] != _digest(body) or body["format"] != FORMAT or not is_intact(body["files"]):
        return None
    tensors: dict[str, Any] = {}
    if body["tensors"]:
        from safetensors.torch import load_file

        if sha256_of(entry / TENSORS) != body["tensors"]:
            return None
        tensors = load_file(entry / TENSORS)
    plain = _unpack(body["value"], tensors)
    return _typed(body["type"], plain)


def _kind(value: Any) -> Any:
    """The name of a value's type; of several, as a node with several outputs gives them, their container's and each."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_kind, value)]
    return SCALARS.get(type(value)) or type_name(type(value))


def _typed(kind: Any, plain: Any) -> Any:
    if isinstance(kind, list):
        parts = [_typed(each, item) for each, item in zip(kind[1:], plain, strict=True)]
        return tuple(parts) if kind[0] == "tuple" else parts
    return plain if kind in SCALARS.values() else from_plain(VALUE_TYPES[kind], plain)


def _pack(plain: Any, tensors: list[Any]) -> Any:
    """Plain data with each tensor replaced by its place; dicts are wrapped so that nothing is ambiguous."""
    if isinstance(plain, Mapping):
        if not all(isinstance(name, str) for name in plain):
            raise TypeError("it holds a dict by other keys than texts, as which JSON would give them back")
        return {"dict": {name: _pack(item, tensors) for name, item in plain.items()}}
    if isinstance(plain, list):
        return [_pack(item, tensors) for item in plain]
    if plain is None or isinstance(plain, str | int | float | bool):
        return plain
    tensors.append(plain)
    return {"tensor": str(len(tensors) - 1)}


def _unpack(packed: Any, tensors: Mapping[str, Any]) -> Any:
    if isinstance(packed, list):
        return [_unpack(item, tensors) for item in packed]
    if not isinstance(packed, dict):
        return packed
    if "tensor" in packed:
        return tensors[packed["tensor"]]
    return {name: _unpack(item, tensors) for name, item in packed["dict"].items()}


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _used(path: Path) -> float:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(file.stat().st_size for file in folder.iterdir())
    return 0


_remove = functools.partial(shutil.rmtree, ignore_errors=True)
