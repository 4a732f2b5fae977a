"""What denoises on this machine were predicted to take, and what they took, kept in a small file of the user's own.

SQLite keeps several processes apart and a line whole. A line that cannot be read is passed over, a file that is none is
begun anew: what is lost is only what predictions learn from. Neither prompts nor paths are in it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ...parallel.machine.folders import private_folder
from ...parallel.progress import Setting
from ..models.json_file import parse_strict

FILE = "runs.sqlite"
MOST = 2000
"""Denoises that are kept; the oldest go first."""
MAX_LINE = 4096
WAIT_S = 2.0
"""For another process that is writing."""
MOST_S, MOST_BYTES = 1e7, 1 << 50

logger = logging.getLogger("latentloom")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One denoise that had a prediction, and ended well. What was not measured is None."""

    day: str  # such as 2026-11-23
    setting: Setting
    title: str  # of the machine
    plan: str
    steps: int
    step_s: float  # as it was predicted, corrections included; so are the next three
    text_s: float
    decode_s: float
    num_bytes: int
    took_step_s: float  # the median of the steps after the first
    took_text_s: float | None = None
    took_decode_s: float | None = None
    took_bytes: int = 0
    """On the device that held most; 0 where it was not measured. Both without an accelerator's context."""
    step_factor: float = 1.0  # by which the prediction was corrected; so are the next two
    text_factor: float = 1.0
    decode_factor: float = 1.0
    torch: str = ""

    @property
    def ratio(self) -> float:
        """What a step took, to what was predicted."""
        return self.took_step_s / self.step_s


def keep(ran: Ran, folder: Path) -> None:
    """Add one to those in the folder; a folder that cannot be written costs the line, not the run."""

    def add(lines: sqlite3.Connection) -> None:
        with lines:
            last = lines.execute("INSERT INTO runs (line) VALUES (?)", [json.dumps(asdict(ran))]).lastrowid or 0
            lines.execute("DELETE FROM runs WHERE id <= ?", [last - MOST])

    try:
        private_folder(folder)
        os.close(os.open(folder / FILE, os.O_CREAT | os.O_RDWR, 0o600))
        _with_lines(folder / FILE, add)
    except (OSError, sqlite3.Error) as error:
        logger.warning("what a run took is not kept for later: %s cannot be written (%s)", folder / FILE, error)


def kept(folder: Path | None) -> tuple[Ran, ...]:
    """The oldest first; none without a folder, or where nothing can be read."""
    try:
        stamp = (folder / FILE).stat() if folder is not None else None
    except OSError:
        return ()
    return () if folder is None or stamp is None else _kept(folder / FILE, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=2)
def _kept(path: Path, changed_ns: int, num_bytes: int) -> tuple[Ran, ...]:
    """As it is since then."""
    try:
        rows = _with_lines(
            path,
            lambda lines: lines.execute(
                "SELECT line FROM runs WHERE length(line) < ? ORDER BY id DESC LIMIT ?", [MAX_LINE, MOST]
            ).fetchall(),
        )
    except (OSError, sqlite3.Error):
        return ()
    return tuple(ran for (line,) in reversed(rows) if (ran := _read(line)) is not None)


def _with_lines(path: Path, ask: Callable[[sqlite3.Connection], T]) -> T:
    """What `ask` gives of the file; one that is damaged is begun anew."""
    try:
        with _lines(path) as lines:
            return ask(lines)
    except sqlite3.OperationalError:  # locked, or a full disk
        raise
    except sqlite3.DatabaseError:
        path.write_bytes(b"")
        with _lines(path) as lines:
            return ask(lines)


@contextlib.contextmanager
def _lines(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, timeout=WAIT_S)) as lines:
        lines.execute("CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY AUTOINCREMENT, line TEXT)")
        yield lines


@lru_cache(maxsize=2 * MOST)  # each run adds one, and all are asked for again
def _read(line: Any) -> Ran | None:
    try:
        plain = parse_strict(line)
        setting = {**plain["setting"]}
        if "is_compiled" in setting:  # kept before there was a choice of engines
            setting["engine"] = "inductor" if setting.pop("is_compiled") else "eager"
        plain["setting"] = Setting(**setting)
        ran = Ran(**plain)
        return ran if _is_sound(ran) else None
    except (ValueError, KeyError, TypeError):
        return None


def _is_sound(ran: Ran) -> bool:
    """Whether its fields are what they say; somebody may have written into the file."""
    times = [ran.step_s, ran.took_step_s, ran.step_factor, ran.text_factor, ran.decode_factor]
    rest = [ran.text_s, ran.decode_s, *(each for each in (ran.took_text_s, ran.took_decode_s) if each is not None)]
    kinds = {field.name: {"str": str, "int": int, "bool": bool}[str(field.type)] for field in fields(Setting)}
    return (
        all(type(each) in (int, float) and 0 <= each < MOST_S for each in (*times, *rest))
        and all(times)
        and all(type(each) is int and 0 <= each < MOST_BYTES for each in (ran.steps, ran.num_bytes, ran.took_bytes))
        and all(isinstance(each, str) for each in (ran.day, ran.title, ran.plan, ran.torch))
        and all(type(value) is kinds[name] for name, value in vars(ran.setting).items())
    )
