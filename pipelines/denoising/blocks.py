"""Diffusers' modular blocks, run by hand: given parts in, named values out, a call after every step.

Every use of a modular block goes through `run`, so that what has to be known about them is in one place: they look for
a VAE to learn the size of a latent, bring their own progress bars, and turn every `Exception` into a page of log.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from diffusers.modular_pipelines.modular_pipeline import (
    LoopSequentialPipelineBlocks,
    ModularPipeline,
    ModularPipelineBlocks,
)
from torch import nn

from ...parallel.errors import is_out_of_memory
from . import quiet  # noqa: F401 (imported for what it silences)
from .schedulers import UPWARD

if TYPE_CHECKING:
    from torch import Tensor

    from ..families.family import OnStep, Parts


def run(
    block: ModularPipelineBlocks,
    parts: Parts,
    *,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    on_step: OnStep | None = None,
    unpack: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Any]:
    """Run a block with these parts and inputs, and give back the named outputs.

    `parts` may hold more than the block wants; `parts["shells"]` stand for components that a stage has not loaded, such
    as the VAE, which tells the size of a latent. Entries of `parts["model_index"]` that the block asks for become the
    pipeline's own.
    `on_step` is called after every step of the block's loop; `unpack` turns the loop's latents into B C H W for it.
    With a `handle` of a sharded transformer among the parts, the branches of guiders are split.
    """
    unknown = inputs.keys() - {parameter.name for parameter in block.inputs}
    assert not unknown, f"{type(block).__name__} takes no {sorted(unknown)}"
    handle = parts.get("handle")
    if handle is not None:
        parts = {**parts, **{name: handle.guider(parts[name]) for name in ("guider", "guider_2") if name in parts}}
        if "audio_guider" in parts:
            parts = {**parts, "audio_guider": handle.guider_beside(parts["audio_guider"], parts["guider"])}
    pipeline = _pipeline(block, parts)
    if getattr(parts.get("scheduler"), "order", 1) > 1 and "num_inference_steps" in inputs:
        _count_steps(pipeline, steps=inputs["num_inference_steps"], strength=inputs.get("strength", 1.0))
    for each in _nested(cast(ModularPipelineBlocks, pipeline._blocks)):
        if isinstance(each, LoopSequentialPipelineBlocks):
            each.set_progress_bar_config(disable=True)
            if on_step is not None:
                each.sub_blocks["step_border"] = StepBorder(on_step, unpack or _as_it_is)
    try:
        state = pipeline(**inputs)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RuntimeError(f"diffusers' {type(block).__name__} failed: {reason}") from error
    return {name: state.get(name) for name in outputs}


class StepBorder(ModularPipelineBlocks):
    """The last block of a loop: tells `on_step` that a step is done. Second-order solvers take two turns a step."""

    def __init__(self, on_step: OnStep, unpack: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.on_step = on_step
        self.unpack = unpack

    def __call__(self, components: Any, state: Any, i: int, t: Tensor, **_: Any) -> tuple[Any, Any]:
        turns, order = len(state.timesteps), components.scheduler.order
        is_last = i == turns - 1
        if is_last or (i + 1) % order == 0:
            total = -(-turns // order)
            estimate = _estimate(components.scheduler, state)
            self.on_step(total if is_last else (i + 1) // order, total, lambda: self.unpack(estimate()))
        return components, state


class StepCount(ModularPipelineBlocks):
    """Follows the block that sets the timesteps, for solvers of higher order: some blocks then count turns as steps."""

    def __init__(self, steps: int, strength: float) -> None:
        super().__init__()
        self.steps = steps
        self.start = int(steps - min(steps * strength, steps))
        """The step to begin with; `strength` leaves the earlier ones out. Rounded as diffusers does."""

    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        first_turn = self.start * components.scheduler.order
        components.scheduler.set_begin_index(first_turn)
        state.set("timesteps", components.scheduler.timesteps[first_turn:])
        state.set("num_inference_steps", self.steps - self.start)
        return components, state


def replaced(block: ModularPipelineBlocks, **leaves: ModularPipelineBlocks) -> ModularPipelineBlocks:
    """A copy of a block with leaves of its loops replaced by name: `replaced(FluxCoreDenoiseStep(), denoiser=...)`."""
    block = copy.deepcopy(block)
    for name, leaf in leaves.items():
        loops = [b for b in _nested(block) if isinstance(b, LoopSequentialPipelineBlocks) and name in b.sub_blocks]
        assert loops, f"no loop of {type(block).__name__} has a block called {name}"
        for loop in loops:
            loop.sub_blocks[name] = leaf
    return block


def extended(block: ModularPipelineBlocks, **leaves: ModularPipelineBlocks) -> ModularPipelineBlocks:
    """A copy of a block with more leaves, by name, at the end of each of its loops."""
    block = copy.deepcopy(block)
    for each in _nested(block):
        if isinstance(each, LoopSequentialPipelineBlocks):
            each.sub_blocks.update(leaves)
    return block


@functools.cache
def blocks_of(pipeline: str) -> ModularPipelineBlocks:
    """The blocks of a modular pipeline of diffusers, by the name of its class; to be copied before it is changed."""
    import diffusers

    kind = getattr(diffusers, pipeline)
    name = kind.default_blocks_name
    package = importlib.import_module(kind.__module__.rpartition(".")[0])
    return (getattr(diffusers, name, None) or getattr(package, name))()


def made_by_config(block: ModularPipelineBlocks, name: str) -> Any:
    """The component of that name as diffusers makes it for a model that has none: by the config in the block's code."""
    specs = [spec for spec in block.expected_components if spec.name == name]
    return copy.deepcopy(specs[0]).create()


def _pipeline(block: ModularPipelineBlocks, parts: Parts) -> ModularPipeline:
    # init_pipeline copies the block: diffusers shares some sub-blocks between all pipelines of a process. Parts are set
    # as attributes, because update_components describes each for a file that we do not write.
    pipeline = block.init_pipeline()
    modules = (each for each in parts.values() if isinstance(each, nn.Module))
    if (weight := next((weight for each in modules for weight in each.parameters()), None)) is not None:
        pipeline.__class__ = _on_device(type(pipeline), weight.device)
    wanted = {str(spec.name) for spec in block.expected_components}
    for name in wanted & parts.keys():
        setattr(pipeline, name, parts[name])
    for name, shell in parts.get("shells", {}).items():
        if name not in parts:
            setattr(pipeline, name, shell)
    index = parts.get("model_index", {})
    known = {str(spec.name) for spec in block.expected_configs} & index.keys()
    pipeline.register_to_config(**{name: index[name] for name in known})
    return pipeline


@functools.lru_cache(maxsize=256)
def _on_device(kind: type, device: Any) -> type:
    """The pipeline's class, which knows where its parts are: diffusers' own looks for offloading at every module of
    them, each time that a block asks."""
    where = property(lambda _: device)
    return type(kind.__name__, (kind,), {"_execution_device": where, "device": where, "__module__": kind.__module__})


def _count_steps(pipeline: ModularPipeline, *, steps: int, strength: float) -> None:
    for each in list(_nested(cast(ModularPipelineBlocks, pipeline._blocks))):
        for index, (name, inner) in enumerate(list(each.sub_blocks.items())):
            if not inner.sub_blocks and "timesteps" in inner.intermediate_output_names:
                each.sub_blocks.insert(f"{name}_count", StepCount(steps, strength), index + 1)


def _nested(block: ModularPipelineBlocks) -> Iterator[ModularPipelineBlocks]:
    yield block
    for inner in block.sub_blocks.values():
        yield from _nested(inner)


def _estimate(scheduler: Any, state: Any) -> Callable[[], Tensor]:
    """The finished latents as these foretell them: a flow's straight line from here to no noise."""
    foretold = getattr(state, "noise_pred_video", None)
    if foretold is not None:  # LTX-2's guiders combine finished latents
        return lambda: foretold
    latents, flow = state.latents, getattr(state, "noise_pred", None)
    if flow is not None and flow.shape == (1, *latents.shape):
        flow = flow[0]  # of one sequence of tokens
    if flow is None or flow.shape != latents.shape:
        return lambda: latents
    sigmas, index = scheduler.sigmas, scheduler.step_index  # read only if asked: reading waits for the device
    sign = 1 if type(scheduler).__name__ in UPWARD else -1
    return lambda: latents + sign * float(sigmas[index]) * flow


def _as_it_is(latents: Tensor) -> Tensor:
    return latents
