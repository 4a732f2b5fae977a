"""A whole pipeline as a process keeps it and calls it: loaded once, spread over the ranks of a plan, or over none."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...parallel.errors import LoomError
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress
from ..components.store import store
from ..denoising import quiet  # noqa: F401 (quiet for what it silences)
from ..out_of_memory import told_by
from ..signatures.calls import is_modular
from ..spreading.measured import finish, measured
from ..spreading.pipeline import spread
from ..values import Dtype
from . import modular
from .assembled import load_pipeline, without_bars
from .sound import heard, with_rate

POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Which pipeline is loaded where; `class_name` as for `load_pipeline`."""

    source: str
    dtype: Dtype
    device: str
    revision: str = ""
    fingerprint: str = ""
    class_name: str = ""


_kept: dict[Whole, Any] = {}
"""The one pipeline that this process has loaded."""
_lock = threading.Lock()
"""A pipeline is changed while it is spread, and holds the state of its run: one call at a time."""


def call(
    whole: Whole, arguments: Mapping[str, Any], progress: Progress, *, plan: ParallelPlan | str | int = 1
) -> dict[str, Any]:
    """What the pipeline gives, by the names of its output class, and `sampling_rate` beside a sound. A sound among the
    arguments, an `Audio`, is made what this pipeline takes. Collective under a plan of several ranks.

    Raises `ValueError` for what the pipeline refuses, `OutOfMemory`, and `Cancelled` after a step.
    """
    with _alone(progress):
        pipe = _loaded(whole, progress)
        given = heard(pipe, modular.taken(pipe, arguments))

        def on_step(done: int, total: int) -> None:
            finish(whole.device)
            progress.step(done, total)

        progress.phase("running the pipeline")
        name, remedy = type(pipe).__name__, "make it smaller or fewer at once, or use more devices"
        with (
            modular.guided(pipe, arguments),
            spread(pipe, plan, border=on_step) as handle,
            measured(handle.plan, progress, device=whole.device),
            told_by(whole.device, doing=f"running {name} of {whole.source}", remedy=remedy),
            _drawing(given.get("generator"), whole.device),
        ):
            try:
                made = asked(pipe, given)
            except (TypeError, ValueError) as error:
                if isinstance(error, LoomError):
                    raise
                raise ValueError(f"{name}: {error}") from error
    return with_rate(pipe, made)


def asked(pipe: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's result by the names of its output class, or of what its blocks give; `value` where it has none."""
    if is_modular(type(pipe)):
        return modular.run(pipe, given)
    made = pipe(**given)
    return dict(made.items() if hasattr(made, "items") else {"value": made})


def forget() -> None:
    """Drop the pipeline that is kept; memory is free once a call under way has ended."""
    _kept.clear()


@contextlib.contextmanager
def _drawing(generator: Any, device: str) -> Iterator[None]:
    """Some pipelines draw the latents of a picture or a sound from torch's own generator, whatever they are given: it
    has the seed of the given one meanwhile, on each rank."""
    if not isinstance(generator, torch.Generator):
        yield
        return
    with torch.random.fork_rng([device] if device.startswith("cuda") else []):
        torch.manual_seed(generator.initial_seed())
        yield


@contextlib.contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    while not _lock.acquire(timeout=POLL_S):
        progress.check()
    try:
        yield
    finally:
        _lock.release()


def _loaded(whole: Whole, progress: Progress) -> Any:
    if whole not in _kept:
        forget()  # before the next takes its place
        store().give_way()
        store().make_way = forget
        progress.phase("loading the pipeline", is_loading=True)
        pipe = load_pipeline(
            whole.source,
            dtype=whole.dtype,
            device=whole.device,
            revision=whole.revision,
            class_name=whole.class_name,
        )
        without_bars(pipe)
        _kept[whole] = pipe
    return _kept[whole]
