"""Which LoRAs are in the folders of models, each read once, and whether one fits a model.

A folder may hold thousands, and files that are no LoRAs: one look reads headers for some seconds at most, and says
whether it saw all; the next goes on where it ended, because what was read is kept while the files stay as they are.
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ....parallel.wording import worded
from ...values import Model
from ..folder import INDEX, MODULAR_INDEX
from ..regular_file import Unchanged
from ..source import is_allowed
from ..tensor_file import read_tensor_file
from .facts import NOTE, PICTURES, LoraFacts, lora_facts
from .lora_file import what_differs

MAX_DEPTH = 6  # how deep a folder of models is searched
MOST_FILES = 20_000  # looked at in one look; the rest is not seen
MOST_LORAS = 2_000
READING_S = 8.0  # for one look
MOST_KEPT = 20_000  # files whose facts are kept, some hundred bytes each
MOST_VERDICTS = 4_096
BESIDE = (NOTE, *PICTURES)  # how the files of a LoRA's name end that tell of it

# Whether its layers are the model's; whether what it says it was made for is; whether nobody knows; or neither.
Verdict = Literal["fits", "likely", "unknown", "other"]


@dataclass(frozen=True, kw_only=True)
class InstalledLoras:
    loras: tuple[LoraFacts, ...]  # by path
    has_more: bool = False  # there are more than are looked at
    may_grow: bool = False  # no time was left: the next look goes on

    @property
    def is_whole(self) -> bool:
        return not (self.has_more or self.may_grow)


@dataclass(frozen=True)
class Fit:
    verdict: Verdict
    why: str = ""  # why it does not fit, as a sentence that begins small; empty where it may


_FACTS = Unchanged[LoraFacts | None](MOST_KEPT)  # of each file and of those of its name; None: no LoRA
# What the model lacks of a LoRA's layers, as `what_differs` says it, by these layers and the model.
_verdicts: dict[tuple[str, str, str, str], str | None] = {}
_lock = threading.Lock()


def installed_loras(
    model_dirs: Sequence[Path], *, roots: Sequence[Path] | None = None, reading_s: float = READING_S
) -> InstalledLoras:
    """All LoRAs in these folders; of a folder with a model, those beside its index. Headers are read, no tensors.

    What links out of `roots` is left out, and a folder that is not there holds none.
    """
    end = time.monotonic() + reading_s
    found: dict[Path, LoraFacts] = {}
    for number, (path, names) in enumerate(_candidates(model_dirs, end)):
        if number >= MOST_FILES or len(found) >= MOST_LORAS:
            return InstalledLoras(loras=tuple(found.values()), has_more=True)
        if path not in found and is_allowed(path, roots) and (facts := _facts(path, names, roots)) is not None:
            found[path] = facts
    return InstalledLoras(loras=tuple(found[path] for path in sorted(found)), may_grow=time.monotonic() >= end)


def fit_of(lora: LoraFacts, model: Model, held: Mapping[str, tuple[int, ...]]) -> Fit:
    """Whether a LoRA fits a model, which has the layers `held`, by these where they can be compared, else by what it
    says it was made for.
    """
    if lora.problem:
        return Fit("other", lora.problem)
    differs = _differs(lora, model, held)
    if differs is not None:
        return Fit("other", differs) if differs else Fit("fits")
    if lora.families is None:
        return Fit("unknown")
    return Fit("likely") if model.family in lora.families else Fit("other", worded("it was made for {}", lora.made_for))


def _differs(lora: LoraFacts, model: Model, held: Mapping[str, tuple[int, ...]]) -> str | None:
    key = (lora.layers, model.fingerprint, model.source, model.family)
    with _lock:
        if key in _verdicts:
            return _verdicts[key]
    try:
        file = read_tensor_file(lora.path)
    except ValueError:  # gone since
        return None
    found = what_differs(file, model, held)
    with _lock:
        if len(_verdicts) >= MOST_VERDICTS:
            _verdicts.clear()
        _verdicts[key] = found
    return found


def _candidates(model_dirs: Iterable[Path], end: float) -> Iterator[tuple[Path, frozenset[str]]]:
    """Safetensors files with the names beside them, until there is no time left; loops of links end with the depth."""
    for directory in model_dirs:
        for parent, folders, files in os.walk(directory, followlinks=True):
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            is_model = INDEX in files or MODULAR_INDEX in files
            if is_model or len(Path(parent).relative_to(directory).parts) >= MAX_DEPTH:
                folders.clear()
            names = frozenset(files)
            for file in sorted(files):
                if time.monotonic() >= end:
                    return
                # no path with bytes that are no text, which file systems take: no page can be told it
                is_text = not any("\ud800" <= c <= "\udfff" for c in f"{parent}/{file}")
                if file.lower().endswith(".safetensors") and is_text:
                    yield Path(parent, file), names


def _facts(path: Path, names: frozenset[str], roots: Sequence[Path] | None) -> LoraFacts | None:
    beside = [path.with_name(name) for ending in BESIDE if (name := f"{path.stem}{ending}") in names]
    allowed = [each for each in beside if is_allowed(each, roots)]

    def told() -> LoraFacts | None:
        try:
            return lora_facts(path, beside={each.name for each in allowed})
        except ValueError:  # damaged, so that nobody knows whether it is one
            return None

    return _FACTS.get((path, *allowed), (path, *allowed), told)
