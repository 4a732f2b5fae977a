"""Plans that were chosen, kept so that a choice stays: one small file for each machine, model, size and number format.

A size is its pixels in all frames and pictures, up to the next power of two. What a file says is read as a stranger's.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from ...parallel.machine.folders import user_cache
from ...parallel.plan import ParallelPlan
from ..models.json_file import read_object
from ..values import Model
from .known import Spot
from .wanted import Wanted

FORMAT = 1
MAX_BYTES = 4096

logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class KeptChoice:
    plan: ParallelPlan
    is_measured: bool
    """Whether the machine was measured when the plan was chosen."""


def choices_folder() -> Path | None:
    """None for a user without a home."""
    folder = user_cache()
    return folder and folder / "plans"


def choice_path(folder: Path, model: Model, wanted: Wanted, spot: Spot) -> Path:
    """Where the choice for this model, size and these devices is kept."""
    canvas = wanted.canvas(model)
    pixels = canvas.width * canvas.height * canvas.frames * canvas.batch
    kind = [model.dtype, model.quantization, model.compiled, model.cuda_graph, len(model.loras), wanted.is_guided]
    told = [FORMAT, spot.here.key, list(spot.devices), (pixels - 1).bit_length(), *kind]
    return folder / f"{_name_of(model)}-{_hash(json.dumps(told))}.json"


def read_choice(path: Path) -> KeptChoice | None:
    """None where nothing was chosen yet, or what is there cannot be read."""
    if not path.is_file():
        return None
    try:
        plain = read_object(path, what="kept plan", max_bytes=MAX_BYTES)
        if plain["format"] != FORMAT or type(plain["is_measured"]) is not bool:
            return None
        return KeptChoice(plan=ParallelPlan.parse(str(plain["plan"])), is_measured=plain["is_measured"])
    except (ValueError, KeyError):
        return None


def keep_choice(path: Path, choice: KeptChoice, model: Model) -> None:
    """A folder that cannot be written costs the choice, not the run."""
    plain = {"format": FORMAT, "model": model.source, "plan": str(choice.plan), "is_measured": choice.is_measured}
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(plain))
        part.replace(path)
    except OSError as error:
        logger.warning("the plan %s is not kept for the next run: %s", choice.plan, error.strerror)


def forget_choices(model: Model | None = None) -> int:
    """Drop what is kept for a model, or all; how many choices these were."""
    folder = choices_folder()
    found = [] if folder is None else list(folder.glob(f"{_name_of(model)}-*.json" if model else "*.json"))
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def _name_of(model: Model) -> str:
    return _hash(model.fingerprint or model.source)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
