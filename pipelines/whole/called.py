"""A whole pipeline as a process keeps it and calls it: loaded once, spread over the ranks of a plan, or over none.

LoRAs stay on it until a call asks for others or for none.
"""

import contextlib
import difflib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...parallel.errors import LoomError, is_out_of_memory, one_line
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress, alone, finish, measured
from ...parallel.wording import worded
from ..components.building import offline
from ..components.lora import refit_all
from ..components.store import store
from ..denoising import inside  # noqa: F401 (imported for what it silences)
from ..failures import check_finite, told_by
from ..signatures.table import (
    GUIDANCE,
    MADE_OF,
    REWRITERS,
    class_names,
    conditioned,
    is_modular,
    parameters_of,
    results_of,
    signature_of,
)
from ..spreading.pipeline import spread
from ..values import Dtype, Lora
from .assembled import load_pipeline, without_bars
from .shown import heard, rate_of, resampled, with_rate

# What pipelines raise for arguments that they do not check, and no class derived from these, such as torch's for a
# device that fails. Of several ranks it may be another's doing: the pool tells of it.
CRASHES = (
    *(AssertionError, AttributeError, IndexError, KeyError, NotImplementedError, OverflowError),
    *(RuntimeError, UnboundLocalError, ZeroDivisionError),
)
WIRED = ("picture", "pictures", "mask", "video", "audio")


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Which pipeline is loaded where; `class_name` as for `load_pipeline`."""

    source: str
    dtype: Dtype
    device: str
    revision: str = ""
    fingerprint: str = ""
    class_name: str = ""
    loras: tuple[Lora, ...] = field(default=(), compare=False)  # what it carries while it is called, in order


# The one pipeline that this process has loaded, and the LoRAs on it.
_kept: dict[Whole, tuple[Any, tuple[Lora, ...]]] = {}
_lock = threading.Lock()  # a pipeline is changed while it is spread, and holds the state of its run: one call at a time


def call(
    whole: Whole, arguments: Mapping[str, Any], progress: Progress, *, plan: ParallelPlan | str | int = 1
) -> dict[str, Any]:
    """What the pipeline gives, by the names of its output class, and `sampling_rate` beside a sound. A sound among the
    arguments, an `Audio`, is made what this pipeline takes. Collective under a plan of several ranks.

    Raises `ValueError` for what the pipeline refuses, `NotFinite` for what it made, `OutOfMemory`, and `Cancelled`
    after a step.
    """
    with alone(_lock, progress.check):
        pipe = _loaded(whole, progress)
        given = conditioned(pipe, heard(pipe, taken(pipe, arguments)))

        def on_step(done: int, total: int) -> None:
            finish(whole.device)
            progress.step(done, total)

        progress.phase("running the pipeline")
        name, remedy = type(pipe).__name__, "make it smaller or fewer at once, or use more devices"
        with (
            guided(pipe, arguments),
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
                raise ValueError(f"{name}: {error}{_left_out(name, arguments)}") from error
            except CRASHES as error:
                if type(error) not in CRASHES or handle.plan.num_ranks > 1 or is_out_of_memory(error):
                    raise
                told = f"{name} stopped with {type(error).__name__}: {one_line(error)}{_left_out(name, arguments)}"
                raise ValueError(f"{told}; look at sizes, pictures and parameters, which it does not check") from error
        _check_answer(pipe, whole, made)
    return with_rate(pipe, made)


def _left_out(name: str, given: Mapping[str, Any]) -> str:
    """Of a pipeline that refused its arguments: the pictures, clips and sounds that it might have meant."""
    parameters = signature_of(name).parameters if name in class_names() else ()
    left = [
        each.name for each in parameters if each.kind in WIRED and not each.is_advanced and given.get(each.name) is None
    ]
    return f" (not given: {', '.join(left)})" if left else ""


def _check_answer(pipe: Any, whole: Whole, made: Mapping[str, Any]) -> None:
    """Raise `NotFinite` for a result that is; pictures of whole numbers can hide it."""
    found: dict[str, torch.Tensor] = {}
    for name, value in made.items():
        numbers = [each for each in pytree.tree_leaves(value) if isinstance(each, torch.Tensor | np.ndarray)]
        found |= {f"{name} {count}" if count else name: torch.as_tensor(each) for count, each in enumerate(numbers)}
    check_finite(found, pipe.components, whole, what=f"what {type(pipe).__name__} made")


def asked(pipe: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline's result by the names of its output class, or of what its blocks give; `value` where it has none."""
    with offline():
        if is_modular(type(pipe)):
            made = pipe(**given, output=list(results_of(type(pipe))))
            return {name: value for name, value in made.items() if value is not None}
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


def _loaded(whole: Whole, progress: Progress) -> Any:
    if whole not in _kept:
        forget()  # before the next takes its place
        store().give_way()
        store().make_way = forget
        progress.phase("loading the pipeline", is_loading=True)
        pipe = load_pipeline(
            whole.source, dtype=whole.dtype, device=whole.device, revision=whole.revision, class_name=whole.class_name
        )
        without_bars(pipe)
        _kept[whole] = pipe, ()
    pipe, carried = _kept[whole]
    if carried != whole.loras:
        progress.phase("loading LoRAs", is_loading=True)
        try:
            refit_all(pipe.components, loras=whole.loras, pipeline=type(pipe).__name__)
        except BaseException:
            forget()  # it may carry some of them
            raise
        _kept[whole] = pipe, whole.loras
    return pipe


# ---- A modular pipeline, called by name as a classic one is

# C channels, S samples


def taken(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the call is given; of a classic pipeline the arguments themselves. References are made as it takes them,
    and guidance is as `guided` sets it. Raises `ValueError` for what it does not take, which diffusers would ignore,
    and where the folder lacks a component that this call needs."""
    if not is_modular(type(pipe)):
        return dict(arguments)
    known, names = parameters_of(type(pipe)), {each.name for each in pipe.blocks.inputs}
    given = {name: value for name, value in arguments.items() if name != GUIDANCE or GUIDANCE in names}
    if unknown := next((name for name in arguments if name not in known), ""):
        near = difflib.get_close_matches(unknown, known, n=1)
        hint = worded("did you mean {}?", near[0]) if near else f"it takes {', '.join(known)}"
        raise ValueError(f"{type(pipe).__name__} takes no {unknown[:100]}; {hint}")
    given = _referred(pipe, given)
    for name in given.keys() - names:
        if given.pop(name) != known[name].default:
            raise ValueError(f"{name} is for {', '.join(REWRITERS)}, which the model's folder lacks; leave it out")
    flow = pipe.blocks.get_execution_blocks(**given)
    if missing := [each.name for each in flow.expected_components if getattr(pipe, each.name, None) is None]:
        raise ValueError(f"this call needs {', '.join(missing)}, which the model's folder lacks; copy it there")
    return given


@contextlib.contextmanager
def guided(pipe: Any, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Within it the guider of a modular pipeline has the scale that is among the arguments, or its own."""
    guider, scale = getattr(pipe, "guider", None), arguments.get(GUIDANCE)
    if guider is None or scale is None or not is_modular(type(pipe)):
        yield
        return
    pipe.guider = guider.new(**{GUIDANCE: scale})
    try:
        yield
    finally:
        pipe.guider = guider


def _referred(pipe: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with MiniMax-H3's references, which are objects of diffusers', made of a call's: the pictures,
    then the clip, then the sound, as a prompt counts each kind."""
    names = MADE_OF["references"]
    given = {name: value for name, value in arguments.items() if name not in names}
    found = {name: arguments[name] for name in names if arguments.get(name) is not None}
    if made := _references(pipe, found) if found else []:
        given["references"] = made
    return given


def _references(pipe: Any, found: Mapping[str, Any]) -> list[Any]:
    from diffusers.modular_pipelines.minimax_h3.references import (
        MiniMaxH3AudioReference,
        MiniMaxH3ImageReference,
        MiniMaxH3VideoReference,
    )

    pictures = found.get("reference_images", ())
    pictures = pictures if isinstance(pictures, list | tuple) else [pictures]
    made: list[Any] = [MiniMaxH3ImageReference(image=each) for each in pictures]
    if (video := found.get("reference_video")) is not None:
        made.append(MiniMaxH3VideoReference(frames=video, fps=found.get("reference_video_fps")))
    if (audio := found.get("reference_audio")) is not None:
        if len(audio.waveform) != 1:
            raise ValueError(f"reference_audio holds {len(audio.waveform)} sounds; it takes one: give one")
        made.append(MiniMaxH3AudioReference(audio=resampled(audio, rate_of(pipe))[0]))  # C S
    return made
