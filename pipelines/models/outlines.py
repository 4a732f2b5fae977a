"""Outlines: models of the hub that are not on this machine, but whose sizes are known.

The table `outlines.json`, which `tests/bench/family_sizes.py` makes, has configs, and the names and shapes of weights,
each with the source that says so. Of a model in it a folder is made that answers what is asked of any before it runs.
Its files of weights are empty: their headers stand in this process alone, so that nothing can be loaded from it, and no
other process takes it for a model.
"""

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from .tensor_file import STANDING, TensorEntry, TensorFile

TABLE = Path(__file__).with_name("outlines.json")
SIZES_FROM = "_sizes_from"  # the entry of an outline's index that names its sources
RUN = re.compile(r"([0-9]+):([0-9]+)")
ITEM_BYTES = 2  # bf16, in which models are published
MAKING = Lock()
# The folder of a model by its id and revision, None for one that is not known.
Outlines = Callable[[str, str], Path | None]


def outline_of(model_id: str, revision: str = "") -> Path | None:
    """The folder of a model, made once in a process and removed at its end; None for one that is not in the table, and
    for revisions, of which the table knows nothing."""
    with MAKING:  # or two threads would make one
        return _made(model_id) if model_id in _table()["models"] and not revision else None


@functools.cache
def _made(model_id: str) -> Path:
    table = _table()
    found = table["models"][model_id]
    folder = Path(home().name) / model_id.replace("/", "--")
    parts = {name: table["parts"][part] for name, part in found["parts"].items()}
    for name, part in parts.items():
        (folder / name).mkdir(parents=True)
        _write_part(folder / name, part)
    named = {name: [part["library"], part["class"]] for name, part in parts.items()}
    _write(folder / "model_index.json", {**found["index"], **named, SIZES_FROM: _told(parts)})
    return folder


def known_ids() -> list[str]:
    """The models in the table, by their ids on the hub."""
    return list(_table()["models"])


def unfolded(rows: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """The shapes of tensors by their names, of `{shape: names}`: `blocks.0:18.to_q,to_k.weight` is a name for each
    number from 0 to 18 with each of both words.
    """
    return {
        ".".join(words): tuple(int(size) for size in shape.split("x") if size)
        for shape, names in rows.items()
        for name in names.split()
        for words in itertools.product(*map(_words, name.split(".")))
    }


def _words(folded: str) -> list[str]:
    runs = [(RUN.fullmatch(each), each) for each in folded.split(",")]
    return [word for run, each in runs for word in (map(str, range(int(run[1]), int(run[2]) + 1)) if run else [each])]


@functools.cache
def _table() -> Mapping[str, Any]:
    return json.loads(TABLE.read_bytes())


@functools.cache
def home() -> TemporaryDirectory[str]:
    """Where the outlines of this process lie, gone with it."""
    return TemporaryDirectory(prefix="latentloom-outlines-")


def _told(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """Which source says what."""
    said: dict[str, list[str]] = defaultdict(list)
    for name, part in parts.items():
        if "source" in part:
            said[part["source"]].append(name)
    return "; ".join(f"{', '.join(names)}: {source}" for source, names in said.items())


def _write_part(folder: Path, part: Mapping[str, Any]) -> None:
    for name, plain in part["files"].items():
        _write(folder / name, plain)
    if "tensors" in part:
        file = folder / part["weights"]
        file.touch()
        tensors = {name: TensorEntry("BF16", shape) for name, shape in unfolded(part["tensors"]).items()}
        size = ITEM_BYTES * sum(entry.numel for entry in tensors.values())
        STANDING[file] = TensorFile(file, b"", size, (0, 0, 0), tensors, {})


def _write(file: Path, plain: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(plain))
