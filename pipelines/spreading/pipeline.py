"""Any diffusers pipeline on all ranks, exactly: what `latentloom.spread` does.

The pipeline itself is not changed, and nothing here knows one: what it consists of is. Transformers are split by the
split plans of their classes; guidance by its guider, or by the calls that it makes (`branches.py`); texts are encoded
once; the VAE decodes by rows where its class is known, and in tiles where it was told to; steps are counted by the
pipeline's own progress bar, or by its solver (`borders.py`). While it is spread, it and its transformers belong to
classes derived from their own, of the same names; `remove()` gives them their own again. A solver has a `step` of its
own meanwhile, as a bound method: pipelines copy their solvers, and ask for their type.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from ...parallel.group import Axis, Count
from ...parallel.mesh import Mesh, everyone, mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.sharding.operator import leave_all
from ...parallel.sharding.sections.waiting import finished
from ..denoising.inside import derive
from ..split_plans import is_denoiser
from .borders import Bar, Borders, OnStep
from .branches import SharedCalls
from .calls import ALL_ROWS, BY_TOKENS, NEVER_SHARED, REPLACED, is_perturbed
from .guidance import beside, lift_refusal, split_guider
from .handed import are_alike, once, same_random_numbers, unchanged
from .transformer import Processes, leave_padding_out, planned, shard, split_plan_of
from .vae import split_vae, why_not

if TYPE_CHECKING:
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

logger = logging.getLogger("latentloom")
# Arguments of a pipeline's call that decide how many branches a step has.
OPTION = re.compile("guidance|cfg|negative|stg|modality|pag")
_spread: weakref.WeakSet[Any] = weakref.WeakSet()


def spread(
    pipe: DiffusionPipeline,
    plan: ParallelPlan | str | int | Processes,
    *,
    on_step: OnStep | None = None,
    border: OnStep | None = None,
    kernel: str = "auto",
) -> Spread:
    """Collective: run a diffusers pipeline on every rank of the process group, with the result of one process.

    Call it on every rank, with the same pipeline on the rank's device, and then the pipeline as before, with the same
    arguments: each rank gets the whole result. `plan` is a plan, such as `cfg=2,ulysses=2`, or a number of ranks, which
    get ulysses as far as the heads divide and allgather for the rest, or an `accelerate.Accelerator`, which has that
    number. `on_step(done, total)` is called after each step,
    on every rank; so is `border`, which takes its place and that of the vote on `cancel()` where it raises on all ranks
    or on none by itself. Where no generator is given, all ranks draw the first rank's random numbers. Parts are put
    into eval mode. `kernel` is the attention kernel, as for `latentloom.shard`.

    Raises ValueError if the plan does not fit the ranks, or the transformer cannot be split; nothing was changed then.
    """
    parts = {name: part for name, part in pipe.components.items() if isinstance(part, nn.Module)}
    denoisers = {part: name for name, part in denoisers_of(pipe).items()}
    plan = planned(plan, denoisers)
    if pipe in _spread:
        raise ValueError(f"this {type(pipe).__name__} is spread already; call remove() on its handle first")
    if plan.num_shares > 1:
        raise ValueError(
            f"plan {plan}: spread keeps whole weights in each rank; leave weights and layers out of the plan"
        )
    if not denoisers:
        raise ValueError(f"{type(pipe).__name__} has no transformer; give a pipeline that has one, or run it as it is")
    if plan.sequence > 1:
        for part in denoisers:
            split_plan_of(part)
    handle = Spread(pipe, mesh_for(plan), on_step, border)
    try:
        handle._install(parts, denoisers, kernel)
    except BaseException:
        handle.remove()
        raise
    return handle


class Spread(contextlib.AbstractContextManager["Spread"]):
    """A spread pipeline: `remove()` leaves it as it was, `cancel()` ends its run at the next step."""

    def __init__(self, pipe: Any, mesh: Mesh, on_step: OnStep | None, border: OnStep | None) -> None:
        self.pipe, self.mesh = pipe, mesh
        self.device = torch.device("cpu")
        self._undo = contextlib.ExitStack()
        self._branches: SharedCalls | None = None
        self._is_encoding = False
        self._is_told = False
        self._all = everyone(mesh)
        self._borders = Borders(self._all.size, on_step=on_step, border=border, step_ends=self._step_ends)

    @property
    def plan(self) -> ParallelPlan:
        return self.mesh.plan

    @property
    def sent(self) -> Count:
        """What this rank has sent so far: under this plan at any time, and since it was spread in whole results."""
        parts, whole = self.mesh.sent, self._all.count
        return Count(parts.sent_bytes + whole.sent_bytes, parts.calls + whole.calls)

    @property
    def num_calls(self) -> Mapping[str, int]:
        """The transformers' calls of the last run, by how branches were shared out: whole (by all), rows, turns."""
        return {} if self._branches is None else {str(mode): n for mode, n in self._branches.num_calls.items()}

    def why_whole(self) -> str:
        """Why the last run did not share out all branches over the cfg axis; empty if it did, or has none."""
        if self._branches is None or not self._branches.num_calls["whole"]:
            return ""
        reasons = "; ".join(self._branches.reasons)
        if any(self._branches.num_calls[mode] for mode in ("rows", "turns")):
            return reasons
        return reasons or "a step is shared out once one like it was seen, and none was"

    def cancel(self) -> None:
        """From any thread, of any rank: the run ends on all ranks after the step under way, by `Cancelled`."""
        self._borders.cancel()

    def remove(self) -> None:
        """Take everything off again; a second call does nothing."""
        self._undo.close()
        _spread.discard(self.pipe)

    def __exit__(self, *_: object) -> None:
        self.remove()

    # Putting it on

    def _install(self, parts: Mapping[str, nn.Module], denoisers: Mapping[nn.Module, str], kernel: str) -> None:
        _spread.add(self.pipe)
        self.device = next((each.device for part in denoisers for each in part.parameters()), self.device)
        self._rest(parts)
        if self.plan.num_ranks > 1:
            for part in denoisers:
                self._undo.callback(shard(part, self.plan, self.mesh, kernel=kernel).remove)
                lift_refusal(part)
        else:
            for part in denoisers:
                self._undo.callback(leave_padding_out(part))
        if self.plan.cfg > 1:
            self._share_guidance(denoisers)
        for part in parts.values():
            config = cast("Mapping[str, Any]", getattr(part, "config", {}))
            if self._all.size > 1 and why_not(type(part).__name__, config) is None:
                self._undo.enter_context(split_vae(part, self._all, is_strict=False))
        self._derive(self.pipe, __call__=self._call)
        self._follow_solvers()
        for each in bars_of(self.pipe):
            encodes = hasattr(each, "encode_prompt") and self._all.size > 1
            self._derive(each, progress_bar=self._bar, **({"encode_prompt": self._encode} if encodes else {}))

    def _rest(self, parts: Mapping[str, nn.Module]) -> None:
        """Into eval mode: parts that are put together by hand come in the mode of training, and drop out."""
        training = [module for part in parts.values() for module in part.modules() if module.training]
        for module in training:
            module.training = False
            self._undo.callback(setattr, module, "training", True)

    def _share_guidance(self, denoisers: Mapping[nn.Module, str]) -> None:
        guiders = {
            name: part
            for name, part in self.pipe.components.items()
            if hasattr(part, "prepare_models") and hasattr(part, "set_state")
        }
        split = {name: split_guider(guider, self.mesh) for name, guider in guiders.items()}
        for name, guider in guiders.items():
            is_second = name == "audio_guider" and "guider" in split
            setattr(self.pipe, name, beside(guider, split["guider"]) if is_second else split[name])
            self._undo.callback(setattr, self.pipe, name, guider)
        if guiders:
            return
        self._branches = branches = SharedCalls(self.mesh[Axis.CFG], type(self.pipe).__name__)
        for part, name in denoisers.items():
            self._derive(part, __call__=functools.partial(self._ask, branches, name))

    def _follow_solvers(self) -> None:
        found: list[Any] = [getattr(each, "scheduler", None) for each in (self.pipe, *bars_of(self.pipe))]
        for solver in {id(each): each for each in found if hasattr(each, "step")}.values():
            step = self._followed(type(solver).step)
            solver.step = types.MethodType(step, solver)  # bound, so that a copy's is bound to the copy
            self._undo.callback(solver.__dict__.pop, "step")

    def _derive(self, thing: Any, **methods: Callable[..., Any]) -> None:
        """Give `thing` a class derived from its own; each method is given that of the own class, and the thing."""
        own = type(thing)

        def method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            inherited = getattr(own, name)

            @functools.wraps(inherited)
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return function(functools.partial(inherited, self), self, args, kwargs)

            return call

        self._undo.callback(derive(thing, **{name: method(name, function) for name, function in methods.items()}))

    # While it runs

    def _call(self, run: Callable[..., Any], pipe: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._check_call(run, kwargs)
        self._borders.begin()
        self._is_told = False
        if self._all.size > 1:
            same_random_numbers(self._all, self.device)
        if self._branches is not None:
            if not are_alike(self._branches.known.mark(), self._all, self.device):
                self._branches.known.forget()
            self._branches.begin(_options(run, args, kwargs))
        if callable(callback := kwargs.get("callback_on_step_end")):
            kwargs["callback_on_step_end"] = lambda *args, **given: callback(*finished(args), **finished(given))
        try:
            found = finished(run(*args, **kwargs))
            if hasattr(found, "kwargs_mapping"):  # the state of a modular pipeline
                found.values = finished(found.values)
        finally:
            leave_all()
            self._borders.end()
        if self._branches is not None and not any(self._branches.num_calls[mode] for mode in ("rows", "turns")):
            self._tell_unshared("no guidance was shared out", "or run it for more steps")
        return found

    def _check_call(self, run: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """ValueError before the first step of a call that is known to gain nothing by the plan, or not to fit it."""
        by_tokens, perturbs = type(self.pipe).__name__ in BY_TOKENS, is_perturbed(self.pipe, run, given)
        if perturbs and self.plan.sequence > 1 and not by_tokens:
            raise ValueError(f"plan {self.plan}: {REPLACED}; use one device, or give pag_scale=0")
        if self.plan.cfg > 1 and (reason := NEVER_SHARED.get(type(self.pipe).__name__, ALL_ROWS if perturbs else "")):
            instead = str(planned(self.plan.num_ranks, denoisers_of(self.pipe).values()))
            remedy = instead if by_tokens else "one device, or give pag_scale=0"
            raise ValueError(f"plan {self.plan}: cfg shares out nothing here, because {reason}; use {remedy}")

    def _ask(self, branches: SharedCalls, name: str, run: Any, part: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        return branches.call(name, run, args, kwargs, keeps=getattr(part, "is_cache_enabled", False))

    def _encode(self, run: Any, pipe: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """On the first rank, for all; on each where it draws random numbers or changes the pipeline."""
        draws = any(isinstance(each, torch.Generator) for each in (*args, *kwargs.values()))
        if self._is_encoding or draws:
            return run(*args, **kwargs)
        self._is_encoding = True
        try:
            return once(functools.partial(run, *args, **kwargs), self._all, self.device, is_all=unchanged(pipe))
        finally:
            self._is_encoding = False

    def _bar(self, run: Any, pipe: Any, args: tuple[Any, ...], kwargs: Any) -> Bar:
        settings = getattr(pipe, "_progress_bar_config", {})
        if self.mesh.rank:
            pipe._progress_bar_config = {**settings, "disable": True}  # one rank's bar is enough
        try:
            bar = run(*args, **kwargs)
        finally:
            if self.mesh.rank:
                pipe._progress_bar_config = settings
        return self._borders.opened(bar)

    def _step_ends(self) -> None:
        if self._branches is not None and self._branches.step_ends() and not self._branches.is_shared:
            self._tell_unshared("the step shared out no guidance", "unless later steps have more branches")

    def _tell_unshared(self, what: str, unless: str) -> None:
        """Once a run, by the first rank."""
        if not self._is_told and not self.mesh.rank:
            text = "plan %s: %s, because %s; leave cfg out of the plan, %s"
            logger.warning(text, self.plan, what, self.why_whole(), unless)
        self._is_told = True

    def _followed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """A solver's step, which ends the calls that belong together."""

        @functools.wraps(step)
        def call(solver: Any, *args: Any, **kwargs: Any) -> Any:
            self._step_ends()
            args, kwargs = finished((args, kwargs))
            found = step(solver, *args, **kwargs)
            self._borders.solved(lambda: getattr(self.pipe, "num_timesteps", 0) or len(solver.timesteps))
            return found

        return call


def _options(run: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Which options of guidance are on."""
    try:
        bound = inspect.signature(run).bind_partial(*args, **kwargs).arguments
    except TypeError:  # the call itself will say what is wrong
        bound = dict(kwargs)
    given = {**bound, **bound.get("kwargs", {})}
    found: list[tuple[str, Hashable]] = []
    for name, value in sorted(given.items()):
        if OPTION.search(name):
            is_number = isinstance(value, int | float)
            found.append((name, (value > 0, value > 1) if is_number else value is not None))
    return tuple(found)


def denoisers_of(pipe: Any) -> dict[str, nn.Module]:
    """The transformers of a pipeline, and its UNet, by name."""
    parts = {name: part for name, part in pipe.components.items() if isinstance(part, nn.Module)}
    return {name: part for name, part in parts.items() if is_denoiser(name, type(part).__name__)}


def bars_of(pipe: Any) -> list[Any]:
    """What may open a progress bar: the pipeline and those that it is put together from, or its blocks."""
    if hasattr(pipe, "blocks"):
        return [each for each in _blocks_of(pipe._blocks) if hasattr(each, "progress_bar")]
    return [pipe, *(each for each in vars(pipe).values() if hasattr(type(each), "progress_bar"))]


def _blocks_of(block: Any) -> Iterator[Any]:
    yield block
    for each in block.sub_blocks.values():
        yield from _blocks_of(each)
