"""What a self-check found, and where that is kept for the next run: a small file of the user's own for each."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from ...parallel.errors import BadInput
from ...parallel.machine.folders import user_cache
from ..models.regular_file import read_object, write_object

MAX_BYTES = 4096
EXACT = 1e-5  # of the largest value, or of 1: further apart in fp32 is wrong, and refused
DOUBTED = 1.25  # how many times the whole run's rounding is told; by it nothing is refused

logger = logging.getLogger("latentloom")


class NotTheSame(BadInput):
    """Under a plan a model gives here what one process does not give."""

    code = "not-the-same"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Of one plan and model, by versions and devices that the file's name stands for."""

    state: Literal["same", "refused", "unproven"]
    apart: float = 0.0  # in fp32, as a part of the largest value, or of 1 where that is smaller
    ratio: float = 1.0  # the rms error in the run's own dtype, to that of the transformer whole
    why: str = ""  # it is not the same, or nothing was shown
    is_lasting: bool = True  # whether the next process need not try again
    seconds: float = 0.0
    day: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))

    def __str__(self) -> str:
        if self.state == "unproven":
            return f"not checked on this machine, {self.day}: {self.why}"
        doubt = f", rounding {self.ratio:.2f} times that of one device" if self.ratio > DOUBTED else ""
        return f"checked on this machine, {self.day}, {self.apart:.1e}{doubt}"


_VERDICT = TypeAdapter(Verdict)


def key_of(told: Any) -> str:
    """A name for what a verdict is good for: plain data, all of which counts."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def kept(key: str) -> Verdict | None:
    """None where nothing was checked, or is to be checked anew, and where the file cannot be read."""
    folder = user_cache()
    try:
        plain = folder and read_object(folder / "self_checks" / f"{key}.json", what="a verdict", max_bytes=MAX_BYTES)
        return _VERDICT.validate_python(plain)
    except ValueError:
        return None


def keep(verdict: Verdict, key: str) -> None:
    """A folder that cannot be written costs the next run a check, not this one its result."""
    if (folder := user_cache()) is None:
        return
    try:
        write_object(folder / "self_checks" / f"{key}.json", asdict(verdict))
    except OSError as error:
        logger.warning("a self-check is not kept for later: %s cannot be written (%s)", folder, error)
