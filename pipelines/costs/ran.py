"""What denoises here were predicted to take and took: seen by ranks, and kept in a small file of the user's own.

SQLite keeps several processes apart and a line whole. A line that cannot be read is passed over, a file that is none is
begun anew: what is lost is only what predictions learn from. Neither prompts nor paths are in it.
"""

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from ...parallel.machine.folders import private_folder
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Foreseen, Setting
from ..models.regular_file import parse_strict
from .run import duration, volume

FILE = "runs.sqlite"
MOST = 2000  # denoises that are kept; the oldest go first
MAX_LINE = 4096
WAIT_S = 2.0  # for another process that is writing
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
    # On the device that held most; 0 where it was not measured. Both without an accelerator's context.
    took_bytes: int = 0
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


# ----
# What a denoise and the run around it took, beside what they were predicted to take: numbers, words, the line to keep.
#
# Only what is warm is compared: to load comes before, and so does what a first step takes longer than the others.

OFF = 0.2  # by which part a run may miss its prediction before something is said, and done, about it
LEAST_TOLD_S = 0.05  # parts that take less are not blamed
COLD_PART = 0.1  # of the steps' time: what a first step takes longer is told from here on


@dataclass(frozen=True, kw_only=True)
class Took:
    """What was measured of a denoise, and of the text and the decoding beside it; None where it was not done, or was
    cold."""

    steps: int
    step_s: float | None = None
    """The median of the steps after the first; None where there was one only."""
    steps_s: float = 0.0
    """All of them, the first included."""
    text_s: float | None = None
    decode_s: float | None = None
    num_bytes: int = 0
    """On the device that held most, its context left out: on a CPU beyond what an idle rank has; 0 where it was not
    measured."""
    is_busy: bool = False
    """Whether the machine had too much else to do."""


def parts(foreseen: Foreseen, took: Took) -> list[tuple[str, float, float]]:
    """(part of the run, seconds predicted, taken) of what was both predicted and measured, and may be compared."""
    steps_s = None if took.step_s is None else took.step_s * took.steps
    found = (
        ("text", foreseen.text_s, took.text_s),
        ("steps", foreseen.step_s * took.steps, steps_s),
        ("decoding", foreseen.decode_s, took.decode_s),
    )
    return [(name, predicted, taken) for name, predicted, taken in found if taken is not None and predicted > 0]


def totals(foreseen: Foreseen, took: Took) -> tuple[float, float] | None:
    """(predicted, took) of all that may be compared; None where that is nothing."""
    found = parts(foreseen, took)
    return (sum(predicted for _, predicted, _ in found), sum(taken for *_, taken in found)) if found else None


def before(foreseen: Foreseen) -> str:
    """The plan in plain words, for whoever waits."""
    plan = "one device" if foreseen.plan in ("", str(ParallelPlan())) else foreseen.plan
    held = f"{volume(foreseen.num_bytes)} on the fullest device"
    if foreseen.is_assumed:
        return f"plan {plan} ({foreseen.why}); how long it takes is not measured yet; {held}"
    measured = "as this machine was measured" if foreseen.is_measured else "nothing was measured here yet"
    return (
        f"plan {plan} ({foreseen.why}); predicted {duration(foreseen.seconds)}: {foreseen.steps} steps of "
        f"{duration(foreseen.step_s)}, text {duration(foreseen.text_s)}, decoding {duration(foreseen.decode_s)}; "
        f"{held}; {measured}"
    )


def after(foreseen: Foreseen, took: Took, *, is_kept: bool) -> str:
    """How it went; what was far off by name, and what comes of it. `is_kept`: whether later predictions learn."""
    found = totals(foreseen, took)
    predicted = "" if foreseen.is_assumed else f"predicted {duration(found[0] if found else foreseen.seconds)}"
    if found is None:
        return f"{predicted}; too few steps were done to compare" if predicted else "too few steps were done to measure"
    words = ", ".join(filter(None, (predicted, f"took {duration(found[1])}")))
    cold_s = took.steps_s - took.steps * (took.step_s or 0.0)
    if took.step_s is not None and cold_s > COLD_PART * took.steps_s:
        words += f", and {duration(cold_s)} more until it was warm"
    off = found[1] / found[0] - 1
    if took.is_busy:
        longer = ", longer than foretold" if predicted and off > OFF else ""
        return f"{words}{longer}: the machine was busy, so later predictions learn nothing from it"
    learns = is_kept and foreseen.setting
    if foreseen.is_assumed:
        return f"{words}; later predictions learn from it" if learns else words
    if abs(off) <= OFF:
        return words
    missed = [
        f"{name} {duration(taken)}, not {duration(predicted_s)}"
        for name, predicted_s, taken in parts(foreseen, took)
        if abs(taken - predicted_s) > max(LEAST_TOLD_S, OFF * predicted_s)
    ]
    # A percentage of hundreds tells nobody anything.
    how = f"which is {off:+.0%}" if off <= 1 else "longer than foretold"
    return (
        f"{words}, {how} ({'; '.join(missed) or 'all parts a little'}): "
        f"{'later predictions are corrected by what runs here took; ' if learns else ''}"
        "latentloom plan MODEL --measure measures this machine anew"
    )


def foreseen_to_plain(foreseen: Foreseen) -> dict[str, Any]:
    """As manifests and reports hold it; seconds that follow from assumptions are None."""
    plain = _rounded(asdict(foreseen))
    rejected = [{"plan": plan, "step_s": round(step_s, 6), "why": why} for plan, step_s, why in foreseen.rejected]
    own = {"rejected": rejected, "factors": _rounded(plain["factors"]), "seconds": round(foreseen.seconds, 6)}
    if foreseen.is_assumed:
        own |= dict.fromkeys(("seconds", "step_s", "text_s", "decode_s", "load_s"))
        own["rejected"] = [{**each, "step_s": None} for each in rejected]
    return {**plain, **own}


def took_to_plain(foreseen: Foreseen, took: Took) -> dict[str, Any]:
    """With the seconds that were compared, their ratio, and the bytes that were predicted of those that it names. Of
    a speed that was assumed neither is told, and of a busy machine no ratio.
    """
    found = totals(foreseen, took)
    plain: dict[str, Any] = {**asdict(took), "predicted_bytes": foreseen.num_bytes - foreseen.context_bytes}
    if found is not None:
        ratio = None if foreseen.is_assumed or took.is_busy else found[1] / found[0]
        plain |= {"predicted_s": None if foreseen.is_assumed else found[0], "seconds": found[1], "ratio": ratio}
    return _rounded(plain)


def _rounded(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in plain.items()}


def ran_of(foreseen: Foreseen, took: Took, *, torch: str) -> Ran | None:
    """The line to keep; None where no step was measured, the machine was busy, or nobody said what the prediction was
    for."""
    if foreseen.setting is None or not took.step_s or took.is_busy:
        return None
    factors = foreseen.factors
    predicted = {name: getattr(foreseen, name) for name in ("plan", "step_s", "text_s", "decode_s")}
    return Ran(
        day=time.strftime("%Y-%m-%d"),
        setting=foreseen.setting,
        title=foreseen.machine,
        steps=took.steps,
        num_bytes=foreseen.num_bytes - foreseen.context_bytes,
        took_step_s=took.step_s,
        took_text_s=took.text_s,
        took_decode_s=took.decode_s,
        took_bytes=took.num_bytes,
        step_factor=factors.step,
        text_factor=factors.text,
        decode_factor=factors.decode,
        torch=torch,
        **predicted,
    )
