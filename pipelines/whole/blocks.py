"""Our denoise, encode and decode as Modular Diffusers blocks: what `latentloom.blocks` is.

Each has a stock block of any model, declares what that declares, and so stands in its place among others. It runs that
block itself, never a copy of its code: on this process's ranks, where torchrun started it, or on those of a pool.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import operator
import threading
from collections.abc import Mapping
from typing import Any

import torch
from diffusers.models.modeling_utils import ModelMixin
from diffusers.modular_pipelines.modular_pipeline import ModularPipelineBlocks
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ...parallel.mesh import all_ranks
from ...parallel.plan import ParallelPlan
from ...parallel.progress import Progress, finish
from ...parallel.ranks.seat import Seat
from ..doors import follow, order
from ..failures import told_by
from ..pools import WHOLE
from ..split_plans import is_denoiser, plan_of_class
from ..spreading.borders import OnStep
from ..spreading.handed import from_wire, once, to_wire, unchanged
from ..spreading.pipeline import Processes, Spread, spread
from ..spreading.vae import split_vae, why_not
from . import carried
from .assembled import without_bars
from .pooled import CallProgress, Calls, Pool

__all__ = ["Decode", "Denoise", "Encode"]
Made = tuple[dict[str, Any], dict[str, str]]  # values by name, and the kinds of keyword arguments that some belong to


class OnRanks(ModularPipelineBlocks):
    """A block that declares what the stock `block` does, and runs it on all ranks; copies of it share its pool."""

    asks = ""  # what the blocks ask that it can run
    plan: Any = ""
    on_step: OnStep | None = None

    def __init__(self, block: Any, pool: Pool | None = None) -> None:
        super().__init__()
        self.block: Any = block() if isinstance(block, type) else block
        self.pool = pool
        self._calls = Calls()
        self._handles: list[Spread] = []  # of runs under way in this process
        is_stock = isinstance(self.block, ModularPipelineBlocks) and not isinstance(self.block, OnRanks)
        if not is_stock or not self._asked:
            kind, given = type(self).__name__, type(self.block).__name__
            raise ValueError(f"{given} asks no {self.asks}; give {kind} a stock block of Modular Diffusers that does")

    # What it says of itself is what the block says.
    description = property(operator.attrgetter("block.description"))
    model_name = property(operator.attrgetter("block.model_name"))
    expected_components = property(operator.attrgetter("block.expected_components"))
    expected_configs = property(operator.attrgetter("block.expected_configs"))
    inputs = property(operator.attrgetter("block.inputs"))
    required_inputs = property(operator.attrgetter("block.required_inputs"))
    intermediate_outputs = property(operator.attrgetter("block.intermediate_outputs"))
    outputs = property(operator.attrgetter("block.outputs"))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # as diffusers makes one whenever it makes a pipeline
        copied = copy.copy(self)
        copied.block = copy.deepcopy(self.block, memo)
        return copied

    @torch.no_grad()
    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        given: dict[str, Any] = {}
        for each in self.block.inputs:
            found = state.get(each.name) if each.name else state.get_by_kwargs(each.kwargs_type)
            if found is not None:
                given[each.name or each.kwargs_type] = found
        if self.pool is None:
            pipe = copy.copy(components)
            pipe._blocks = self.block
            values, kinds = self.here(pipe, given)
        else:
            with self._calls.begin() as wish:
                values, kinds = self._on_pool(self.pool, components, given, wish)
        for name, value in values.items():
            state.set(name, value, kinds.get(name))
        return components, state

    def cancel(self) -> None:
        """From any thread: the run under way ends at its next step, by `Cancelled`."""
        self._calls.cancel()
        for each in list(self._handles):
            each.cancel()

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        """Collective, if this process has ranks: what the block makes, of a pipeline that has no other."""
        raise NotImplementedError

    @property
    def _asked(self) -> list[Any]:
        """The models that the block asks for what it does."""
        models = [each for each in self.block.expected_components if isinstance(each.type_hint, type)]
        return [each for each in models if issubclass(each.type_hint, nn.Module) and self._is_asked(each)]

    def _is_asked(self, spec: Any) -> bool:
        raise NotImplementedError

    def _num_ranks(self, pool: Pool, pipe: Any) -> int:
        return len(pool.devices)

    def _on_pool(self, pool: Pool, pipe: Any, given: Mapping[str, Any], wish: threading.Event) -> Made:
        models = {name: each for name, each in pipe.components.items() if isinstance(each, ModelMixin)}
        wanted = {name: getattr(pipe, name, None) for name in self.block.component_names}
        for name, each in wanted.items():
            if isinstance(each, nn.Module) and str(each.device) in {*pool.devices} - {"cpu"}:
                raise ValueError(f"{name} is on {each.device}, where a rank would hold it again; move it to the CPU")
        parts = {name: carried.plain_part(each) for name, each in wanted.items() if each is not None}
        shells = {name: carried.plain_part(each, is_whole=False) for name, each in models.items() if name not in parts}
        request = {
            "stage": type(self).__name__,
            "plan": str(self.plan),
            "class": carried.name_of(type(pipe)),
            "block": carried.plain_blocks(self.block),
            "parts": {**parts, **shells},
            "configs": {name: pipe.config.get(name) for name in pipe._config_specs},
            "given": to_wire(dict(given), carried.plain_part),
            "random": torch.get_rng_state(),
            "keys": carried.keys_written(),
            "doors": order(),
        }
        names = [carried.name_of(type(each)) for each in (pipe, *models.values())]
        found = pool.started([".pipelines.whole.blocks", *WHOLE, *names]).call(
            ".pipelines.whole.blocks:on_rank",
            request,
            CallProgress(self.on_step, wish),
            num_ranks=self._num_ranks(pool, pipe),
        )
        torch.set_rng_state(found["random"])
        for generator, state in zip(_generators(given), found["generators"], strict=True):
            generator.set_state(state)
        for name, state in found["states"].items():
            carried.with_state(getattr(pipe, name), state)
        return _on(pipe._execution_device, from_wire(found["made"], carried.made_part))


class Denoise(OnRanks):
    """The stock block that denoises, its transformer, guidance and all spread by a plan, exactly.

    `plan` is one such as `cfg=2,ulysses=2`, a number of ranks, or an `Accelerator`; without one, all ranks that there
    are share the tokens. With a `pool` ranks that it starts do the work, and keep the model; else the processes do that
    torchrun started, each of which runs the same pipeline. `on_step(done, total)` is called after each step.

    Raises ValueError for a block without a transformer, one whose class is not split by the plan, and a plan that does
    not fit the ranks.
    """

    asks = "transformer"

    def __init__(
        self,
        block: Any,
        plan: ParallelPlan | str | int | Processes = "",
        pool: Pool | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(block, pool)
        self.on_step = on_step
        self.plan = ParallelPlan.parse(plan) if isinstance(plan, str) and plan else plan
        if isinstance(self.plan, ParallelPlan) and self.plan.sequence > 1:
            for each in self._asked:
                plan_of_class(each.type_hint)
        if pool is not None:
            if not isinstance(self.plan, ParallelPlan | str):
                raise ValueError(f"a pool has its own number of ranks; give a plan such as ulysses={len(pool.devices)}")
            pool.fitting(self.plan)

    def _is_asked(self, spec: Any) -> bool:
        return is_denoiser(spec.name, spec.type_hint.__name__)

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        with spread(pipe, self.plan or all_ranks().size, on_step=self.on_step, border=border) as handle:
            self._handles.append(handle)
            try:
                return _run(pipe, given)
            finally:
                self._handles.remove(handle)


class Encode(OnRanks):
    """The stock block that encodes texts or pictures: once for all ranks, or on the first one of a pool."""

    asks = "encoder"

    def _is_asked(self, spec: Any) -> bool:
        return not is_denoiser(spec.name, spec.type_hint.__name__)

    def _num_ranks(self, pool: Pool, pipe: Any) -> int:
        return 1

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        if all_ranks().size == 1 or any(_generators(given)):
            return _run(pipe, given)
        encode = functools.partial(_run, pipe, given)
        return once(encode, all_ranks(), pipe._execution_device, is_all=unchanged(pipe))


class Decode(OnRanks):
    """The stock block that decodes latents, by rows or tiles on all ranks where the VAE's class is known to allow it;
    else on each, or on the first one of a pool."""

    asks = "VAE"

    def _is_asked(self, spec: Any) -> bool:
        return hasattr(spec.type_hint, "decode")

    def _num_ranks(self, pool: Pool, pipe: Any) -> int:
        return len(pool.devices) if self._split(pipe) else 1

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        with contextlib.ExitStack() as stack:
            for vae in self._split(pipe):
                stack.enter_context(split_vae(vae, all_ranks(), is_strict=False))
            return _run(pipe, given)

    def _split(self, pipe: Any) -> list[Any]:
        found = [getattr(pipe, each.name) for each in self._asked]
        return [vae for vae in found if vae is not None and why_not(type(vae).__name__, vae.config) is None]


def _run(pipe: Any, given: Mapping[str, Any]) -> Made:
    """What a pipeline's blocks make, and what they change of that which they are given."""
    state = pipe(**given)
    before = {
        **given,
        **{name: each for value in given.values() if type(value) is dict for name, each in value.items()},
    }
    names = {*pipe._blocks.intermediate_output_names, *before}
    values = {name: each for name, each in state.values.items() if name in names and each is not before.get(name)}
    kinds = {name: kind for kind, named in state.kwargs_mapping.items() for name in named if name in values}
    return values, kinds


def _generators(given: Any) -> list[torch.Generator]:
    return [each for each in pytree.tree_leaves(given) if isinstance(each, torch.Generator)]


def _on(device: Any, values: Any) -> Any:
    """Copies, beside which nothing of a message stays in memory."""
    return pytree.tree_map_only(Tensor, lambda each: each.to(device, copy=True), values)


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: what each rank of a pool does."""
    follow(request["doors"])
    carried.drop_others(request["keys"])
    progress.phase("loading the pipeline", is_loading=True)
    block = carried.made_blocks(request["block"])
    pipe = carried.class_of(request["class"])(blocks=block)
    pipe.register_to_config(**request["configs"])
    for name, plain in request["parts"].items():
        setattr(pipe, name, carried.made_part(plain, seat.device))
    without_bars(pipe)
    stage = {each.__name__: each for each in (Denoise, Encode, Decode)}[request["stage"]](block)
    stage.plan = request["plan"]
    given = _on(seat.device, from_wire(request["given"], carried.made_part))

    def border(done: int, total: int) -> None:
        finish(seat.device)
        progress.step(done, total)

    progress.phase("running the pipeline")
    doing, remedy = f"running {type(block).__name__}", "make it smaller or fewer at once, or use more devices"
    with told_by(seat.device, doing=doing, remedy=remedy), torch.random.fork_rng([]):  # an accelerator's numbers go on
        torch.set_rng_state(request["random"])
        made = stage.here(pipe, given, border)
        random = torch.get_rng_state()
    states = [name for name, each in request["parts"].items() if "state" in each]
    return {
        "made": to_wire(made, carried.plain_part),
        "random": random,
        "generators": [each.get_state() for each in _generators(given)],
        "states": {name: carried.state_of(getattr(pipe, name)) for name in states},
    }
