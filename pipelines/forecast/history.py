"""What predictions learn from runs that have ended here, and how well they did.

A factor is the median of what the last runs took to what was predicted before any factor. It is one for all plans, so
that it changes what is predicted and not which plan is the fastest; steps, text and decoding have one each, since
their closed forms err apart. Those that compute and those that travel are not told apart: runs of one plan cannot tell.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from statistics import median

from ...parallel.plan import ParallelPlan
from ...parallel.progress import Basis, Factors, Foreseen, Setting
from ..costs.machine import LEAST_FACTOR, MOST_FACTOR, Machine, corrects
from ..costs.ran import Ran
from ..costs.run import duration
from ..models.describe import card_of
from ..models.source import split_source
from ..values import Latents, Model
from .plans import transformers

LEAST_RUNS = 3  # runs that teach something; fewer may be hiccups
LAST_RUNS = 9  # the newest count: versions and drivers change


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """How well one model's runs by one plan were predicted. A ratio is what a step took to what was predicted."""

    model: str
    plan: str
    machine: str
    dtype: str
    num_runs: int
    median: float
    worst: float
    """The ratio that is furthest from 1, either way."""
    last: float
    last_day: str
    last_predicted_s: float
    """Of a step; the next is what it took."""
    last_took_s: float


def history_table(ran: Sequence[Ran], *, model: str = "") -> list[HistoryRow]:
    """A row for each model, machine, dtype and plan of `costs.ran.kept`; with `model`, a source or a part of a name,
    only those whose name has it.
    """
    wanted = _letters(_name_of(model))
    alike: dict[tuple[str, str, str, str], list[Ran]] = {}
    for each in ran:
        if wanted in _letters(each.setting.model):
            key = (each.setting.model, each.title, each.setting.dtype, each.plan)
            alike.setdefault(key, []).append(each)
    rows: list[HistoryRow] = []
    for _, found in sorted(alike.items()):
        ratios, last = [each.ratio for each in found], found[-1]
        row = HistoryRow(
            model=last.setting.model,
            plan=last.plan,
            machine=last.title,
            dtype=last.setting.dtype,
            num_runs=len(found),
            median=median(ratios),
            worst=max(ratios, key=lambda ratio: max(ratio, 1 / ratio)),
            last=last.ratio,
            last_day=last.day,
            last_predicted_s=last.step_s,
            last_took_s=last.took_step_s,
        )
        rows.append(row)
    return rows


def as_table(rows: Sequence[HistoryRow], *, model: str = "") -> str:
    """One screen for people."""
    if not rows:
        of = f" of a model whose name has {model!r}" if model else ""
        return f"no run{of} has been compared with its prediction here yet; each run with a denoise adds one"
    heads = ("model", "plan", "machine", "dtype", "runs", "median", "worst", "last", "a step, predicted and taken")
    lines = [
        (
            row.model,
            "one device" if row.plan == str(ParallelPlan()) else row.plan,
            row.machine,
            row.dtype,
            str(row.num_runs),
            *(f"{ratio:.2f}" for ratio in (row.median, row.worst, row.last)),
            f"{duration(row.last_predicted_s)}, {duration(row.last_took_s)} on {row.last_day}",
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    told = ("  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) for line in (heads, *lines))
    return "\n".join(
        [*(line.rstrip() for line in told), "", "median, worst, last: what a step took to what was predicted"]
    )


def learned(setting: Setting, ran: Sequence[Ran]) -> Factors:
    """What earlier runs of this machine teach for such a run: those of the model's class, dtype and kind, else those of
    all models. All ones where too few were made.
    """
    # Never from another machine: its error is another one. Runs of other models here are better than nothing, since
    # most of an error is the machine's.
    here = [each for each in ran if each.setting.machine == setting.machine]
    alike = [each for each in here if _kind(each.setting) == _kind(setting)]
    pools: Mapping[Basis, Sequence[Ran]] = {"model": alike, "machine": here}
    for basis, found in pools.items():
        if len(found) >= LEAST_RUNS:
            return Factors(
                step=_factor([(each.took_step_s, each.step_s, each.step_factor) for each in found]),
                text=_factor([(each.took_text_s, each.text_s, each.text_factor) for each in found]),
                decode=_factor([(each.took_decode_s, each.decode_s, each.decode_factor) for each in found]),
                num_runs=min(len(found), LAST_RUNS),
                basis=basis,
            )
    return Factors()


def _kind(setting: Setting) -> tuple[str, ...]:
    return setting.class_name, setting.dtype, setting.quantization, setting.engine


def _factor(found: Sequence[tuple[float | None, float, float]]) -> float:
    """Of (what runs took, what was predicted, by which factor already), where both are known."""
    known = [factor * (took / predicted) for took, predicted, factor in found if took and predicted][-LAST_RUNS:]
    return min(MOST_FACTOR, max(LEAST_FACTOR, median(known))) if len(known) >= LEAST_RUNS else 1.0


def corrected(foreseen: Foreseen, setting: Setting, ran: Sequence[Ran]) -> Foreseen:
    """The prediction as earlier runs taught to make it, and what it is for."""
    factors = learned(setting, ran)
    return dataclasses.replace(
        foreseen,
        step_s=foreseen.step_s * factors.step,
        text_s=foreseen.text_s * factors.text,
        decode_s=foreseen.decode_s * factors.decode,
        rejected=[(plan, step_s * factors.step, why) for plan, step_s, why in foreseen.rejected],
        factors=factors,
        setting=setting,
        is_assumed=foreseen.is_assumed and not corrects(factors),
    )


def in_words(factors: Factors) -> str:
    """What earlier runs changed of a prediction; "" where they changed nothing."""
    if not factors.num_runs:
        return ""
    runs = {"model": "such runs here", "machine": "runs of other models here"}[factors.basis]
    rest = {"text": factors.text, "decoding": factors.decode}
    other = "".join(f", {name} by {factor:.3g}" for name, factor in rest.items() if abs(factor - 1) >= 0.005)
    return f"steps are corrected by {factors.step:.3g}{other}, from the last {factors.num_runs} {runs}"


def setting_of(model: Model, canvas: Latents, machine: Machine, *, text_tokens: int) -> Setting:
    """What a prediction for this run is compared by later. Reads config files only."""
    of_model = {name: getattr(model, name) for name in ("fingerprint", "dtype", "quantization", "engine")}
    return Setting(
        machine=key_of(machine),
        model=card_of(model).name or _name_of(model.source),
        class_name=next(iter(transformers(Path(model.folder)).values()), ""),
        text_tokens=text_tokens,
        **of_model,
        **{name: getattr(canvas, name) for name in ("width", "height", "frames", "batch")},
    )


def _name_of(source: str) -> str:
    """Of a model's source what is no path."""
    checkpoint, base = split_source(source)
    return PurePath(checkpoint or base).name.removeprefix("builtin:")


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def key_of(machine: Machine) -> str:
    """The same for some of a machine's devices as for all; another one when they were measured anew."""
    if machine.key:
        return machine.key
    alone = dataclasses.replace(machine.chip(1), memory_bytes=0)
    # Without what came to a chip later, of its links and its host: what was learnt before is found again.
    chip = {name: rate for name, rate in vars(alone).items() if name not in ("wires", "launch_s", "is_async")}
    rates = [machine.kind, machine.is_measured, chip, alone.launch_s]
    return hashlib.sha256(json.dumps(rates).encode()).hexdigest()[:16]
