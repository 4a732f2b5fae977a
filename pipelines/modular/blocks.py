"""Our denoise, encode and decode as Modular Diffusers blocks: what `latentloom.blocks` is.

Each has a stock block of any model, declares what that declares, and so stands in its place among others. It runs that
block itself, never a copy of its code: on this process's ranks, where torchrun started it, or on those of a pool.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
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
from ..kept import BUDGET_BYTES, Kept, digests
from ..pools import WHOLE
from ..split_plans import is_denoiser, plan_of_class
from ..spreading.borders import OnStep
from ..spreading.handed import once, unchanged
from ..spreading.pipeline import Processes, Spread, spread
from ..spreading.vae import split_vae, why_not
from ..whole.assembled import without_bars
from ..whole.pooled import CallProgress, Pool
from .carried import (
    class_of,
    drop_others,
    keys_written,
    made_blocks,
    made_part,
    made_values,
    mark_of,
    name_of,
    plain_blocks,
    plain_parts,
    plain_values,
    state_of,
    with_state,
)

__all__ = ["Decode", "Denoise", "Encode"]
Made = tuple[dict[str, Any], dict[str, str]]  # values by name, and the kinds of keyword arguments that some belong to


class OnRanks(ModularPipelineBlocks):
    """A block that declares what the stock `block` does, and runs it on all ranks; copies of it share its pool."""

    asks, example = "", ""  # what a block asks that this can run, and the name of such a block

    def __init__(self, block: Any, *, pool: Pool | None = None) -> None:
        super().__init__()
        block = block() if isinstance(block, type) else block
        kind = type(self).__name__
        if not isinstance(block, ModularPipelineBlocks) or isinstance(block, OnRanks):
            raise ValueError(
                f"{kind} takes a stock block of Modular Diffusers, not a {type(block).__name__}; {self._give}"
            )
        self.block: Any = block
        self.pool = pool
        if not self._asked:
            raise ValueError(
                f"{kind} runs a block that asks {self.asks}, and {type(block).__name__} does not; {self._give}"
            )
        self._runs = _Runs()

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
        self._runs.wish.clear()
        values, kinds = self._made(components, given)
        for name, value in values.items():
            state.set(name, value, kinds.get(name))
        return components, state

    def cancel(self) -> None:
        """From any thread: the run under way ends at its next step, by `Cancelled`."""
        self._runs.cancel()

    @property
    def _give(self) -> str:
        return f"give one such as {self.example}()"

    @property
    def _asked(self) -> list[Any]:
        """The models that the block asks for what it does."""
        models = [each for each in self.block.expected_components if isinstance(each.type_hint, type)]
        return [each for each in models if issubclass(each.type_hint, nn.Module) and self._is_asked(each)]

    def _is_asked(self, spec: Any) -> bool:
        raise NotImplementedError

    def _made(self, components: Any, given: Mapping[str, Any]) -> Made:
        if self.pool is not None:
            return self._on_pool(self.pool, components, given)
        pipe = copy.copy(components)
        pipe._blocks = self.block
        return self.here(pipe, given)

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        """Collective, if this process has ranks: what the block makes in a pipeline of this block alone."""
        raise NotImplementedError

    # On a pool

    on_step: OnStep | None = None
    plan: Any = ""

    def _num_ranks(self, pool: Pool, pipe: Any) -> int:
        return len(pool.devices)

    def _on_pool(self, pool: Pool, pipe: Any, given: Mapping[str, Any]) -> Made:
        models = [type(each) for each in pipe.components.values() if isinstance(each, ModelMixin)]
        ranks = pool.started([".pipelines.modular.blocks", *WHOLE, *map(name_of, (type(pipe), *models))])
        request = {
            "stage": type(self).__name__,
            "plan": str(self.plan),
            "class": name_of(type(pipe)),
            "block": plain_blocks(self.block),
            "parts": plain_parts(pipe, self.block.component_names, pool.devices),
            "settings": {
                name: value for name, value in pipe.config.items() if isinstance(value, bool | int | float | str)
            },
            "given": plain_values(dict(given)),
            "random": torch.get_rng_state(),
            "keys": keys_written(),
            "doors": order(),
        }
        progress = CallProgress(self.on_step, self._runs.wish)
        found = ranks.call(
            ".pipelines.modular.blocks:on_rank", request, progress, num_ranks=self._num_ranks(pool, pipe)
        )
        torch.set_rng_state(found["random"])
        for generator, state in zip(_generators(given), found["generators"], strict=True):
            generator.set_state(state)
        for name, state in found["states"].items():
            with_state(getattr(pipe, name), state)
        return _on(pipe._execution_device, made_values(found["made"]))


class Denoise(OnRanks):
    """The stock block that denoises, its transformer, guidance and all spread by a plan, exactly.

    `plan` is one such as `cfg=2,ulysses=2`, a number of ranks, or an `Accelerator`; without one, all ranks that there
    are share the tokens. With a `pool` ranks that it starts do the work, and keep the model; else the processes do that
    torchrun started, each of which runs the same pipeline. `on_step(done, total)` is called after each step.

    Raises ValueError for a block without a transformer, one whose class is not split by the plan, and a plan that does
    not fit the ranks.
    """

    asks, example = "a transformer", "FluxDenoiseStep"

    def __init__(
        self,
        block: Any,
        plan: ParallelPlan | str | int | Processes = "",
        pool: Pool | None = None,
        *,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__(block, pool=pool)
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
        plan = self.plan or all_ranks().size
        with spread(pipe, plan, on_step=self.on_step, border=border) as handle, self._runs.among(handle):
            return _run(pipe, given)


class Encode(OnRanks):
    """The stock block that encodes texts or pictures: once for all ranks, or on the first one of a pool.

    What it made is kept, 256 MiB of it, and given again for the same inputs and weights; not where it draws.
    """

    asks, example = "an encoder", "FluxTextEncoderStep"

    def __init__(self, block: Any, pool: Pool | None = None) -> None:
        super().__init__(block, pool=pool)
        self._kept = Kept(BUDGET_BYTES)

    def _is_asked(self, spec: Any) -> bool:
        return not is_denoiser(spec.name, spec.type_hint.__name__)

    def _num_ranks(self, pool: Pool, pipe: Any) -> int:
        return 1

    def _on_pool(self, pool: Pool, pipe: Any, given: Mapping[str, Any]) -> Made:
        return self._known(pipe, given, functools.partial(super()._on_pool, pool, pipe, given))

    def here(self, pipe: Any, given: Mapping[str, Any], border: OnStep | None = None) -> Made:
        ranks = all_ranks()
        encode = functools.partial(self._known, pipe, given, functools.partial(_run, pipe, given))
        if ranks.size == 1 or any(_generators(given)):
            return encode()
        return once(encode, ranks, pipe._execution_device, is_all=unchanged(pipe))

    def _known(self, pipe: Any, given: Mapping[str, Any], make: Callable[[], Made]) -> Made:
        if "generator" in self.block.input_names:
            return make()
        parts = {name: part for name, part in pipe.components.items() if name in self.block.component_names}
        told = [(name, mark_of(each)) for name, each in parts.items()]
        key = hashlib.sha256(repr((told, digests(plain_values(dict(given))))).encode()).hexdigest()
        if (found := self._kept.get(key)) is not None:
            return _on(pipe._execution_device, made_values(found))
        made = make()
        self._kept.keep(key, plain_values(made))
        return made


class Decode(OnRanks):
    """The stock block that decodes latents, by rows or tiles on all ranks where the VAE's class is known to allow it;
    else on each, or on the first one of a pool."""

    asks, example = "a VAE", "FluxDecodeStep"

    def __init__(self, block: Any, pool: Pool | None = None) -> None:
        super().__init__(block, pool=pool)

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


class _Runs:
    """The runs under way of a block and its copies, to be cancelled."""

    def __init__(self) -> None:
        self.wish = threading.Event()
        self._handles: list[Spread] = []

    def cancel(self) -> None:
        self.wish.set()
        for each in list(self._handles):
            each.cancel()

    @contextlib.contextmanager
    def among(self, handle: Spread) -> Iterator[None]:
        self._handles.append(handle)
        try:
            yield
        finally:
            self._handles.remove(handle)


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


def _generators(given: Any) -> Iterator[torch.Generator]:
    return (each for each in pytree.tree_leaves(given) if isinstance(each, torch.Generator))


def _on(device: Any, values: Any) -> Any:
    """Copies: what lies in a message begins anywhere, and CPU kernels round by where memory begins."""
    return pytree.tree_map_only(Tensor, lambda each: each.to(device, copy=True), values)


STAGES = {"Denoise": Denoise, "Encode": Encode, "Decode": Decode}


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: what each rank of a pool does."""
    follow(request["doors"])
    drop_others(request["keys"])
    progress.phase("loading the pipeline", is_loading=True)
    block = made_blocks(request["block"])
    pipe = class_of(request["class"])(blocks=block)
    pipe.register_to_config(**request["settings"])
    for name, plain in request["parts"].items():
        setattr(pipe, name, made_part(plain, seat.device))
    without_bars(pipe)
    stage = Denoise(block, request["plan"]) if request["stage"] == "Denoise" else STAGES[request["stage"]](block)
    given = _on(seat.device, made_values(request["given"]))
    title = type(block).__name__

    def border(done: int, total: int) -> None:
        finish(seat.device)
        progress.step(done, total)

    progress.phase("running the pipeline")
    remedy = "make it smaller or fewer at once, or use more devices"
    with (
        told_by(seat.device, doing=f"running {title}", remedy=remedy),
        torch.random.fork_rng([seat.device] if seat.device.startswith("cuda") else []),
    ):
        torch.set_rng_state(request["random"])
        made = stage.here(pipe, given, border)
        random = torch.get_rng_state()
    return {
        "made": plain_values(made),
        "random": random,
        "generators": [each.get_state() for each in _generators(given)],
        "states": {name: state_of(getattr(pipe, name)) for name, each in request["parts"].items() if "state" in each},
    }
