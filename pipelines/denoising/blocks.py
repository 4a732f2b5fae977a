"""Diffusers' modular blocks, run by hand: given parts in, named values out, a call after every step.

Every use of a modular block goes through `run`, so that what has to be known about them is in one place: they look for
a VAE to learn the size of a latent, bring their own progress bars, and turn every `Exception` into a page of log.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch
from diffusers.modular_pipelines.modular_pipeline import (
    LoopSequentialPipelineBlocks,
    ModularPipeline,
    ModularPipelineBlocks,
    SequentialPipelineBlocks,
)
from diffusers.modular_pipelines.modular_pipeline_utils import InputParam
from torch import nn
from torch.nn.functional import interpolate

from ...parallel.errors import is_out_of_memory
from ..requests import first_step
from .inside import derive, derived
from .noise import Drawing
from .schedulers import UPWARD
from .tables import BLOCKS, OfSizes

if TYPE_CHECKING:
    from torch import Tensor

    from ..families.family import OnStep, Parts
    from ..values import Mask

# What a block says of itself, and of those within.
DECLARED = ("inputs", "intermediate_outputs", "expected_components", "expected_configs")

NO_BAR = SimpleNamespace(update=lambda *_: None)  # a progress bar that nobody sees


class Assembly:
    """Blocks put together once, to be run again and again and by several threads: nothing of a run is left in them.

    They are not to be changed afterwards; what a run brings with it is an input. `leaves` come at the end of each loop.
    """

    def __init__(self, block: ModularPipelineBlocks, **leaves: ModularPipelineBlocks) -> None:
        # init_pipeline copies the block: diffusers shares some sub-blocks between all pipelines of a process.
        self._pipeline = block.init_pipeline()
        self.block = cast(ModularPipelineBlocks, self._pipeline._blocks)
        self.title = type(block).__name__
        _count_steps(self.block)
        for each in _nested(self.block):
            if isinstance(each, LoopSequentialPipelineBlocks):
                vars(each)["progress_bar"] = lambda *_, **__: contextlib.nullcontext(NO_BAR)
                each.sub_blocks.update(leaves, step_border=StepBorder())
        # A block collects what it declares from those within whenever somebody looks, which each does as it runs. Of
        # FLUX's blocks that takes longer than all they compute; so it is read once.
        _settle(self.block)
        self.inputs = frozenset(str(each.name) for each in self.block.inputs if each.name)
        # What all of its blocks make, in order.
        self.outputs = tuple(str(each.name) for each in self.block.intermediate_outputs)
        specs = self.block.expected_components
        self._components = frozenset(str(each.name) for each in specs)
        self._own = frozenset(str(each.name) for each in specs if each.default_creation_method == "from_config")
        self._configs = frozenset(str(each.name) for each in self.block.expected_configs)

    def pipeline(self, parts: Parts) -> ModularPipeline:
        """A new pipeline of these blocks with these parts."""
        # A copy of the pipeline is enough for a run: it shares the blocks, and its parts are attributes of its own.
        modules = (each for each in parts.values() if isinstance(each, nn.Module))
        weight = next((weight for each in modules for weight in each.parameters()), None)
        kind = _on_device(type(self._pipeline), weight.device if weight is not None else torch.device("cpu"))
        pipeline = copy.copy(self._pipeline)
        pipeline.__class__ = kind
        own = vars(pipeline)
        # Parts are set as attributes, because update_components describes each for a file that we do not write.
        own.update((name, copy.deepcopy(own[name])) for name in self._own - parts.keys())
        own.update((name, shell) for name, shell in parts.get("shells", {}).items() if name not in parts)
        own.update((name, parts[name]) for name in self._components & parts.keys())
        index = parts.get("model_index", {})
        if known := self._configs & index.keys():
            pipeline.register_to_config(**{name: copy.deepcopy(index[name]) for name in known})
        return pipeline


@functools.cache
def assembled(make: Callable[[], ModularPipelineBlocks]) -> Assembly:
    """The blocks that this makes, put together once in a process: a class of diffusers, or a function of a family's."""
    return Assembly(make())


def run(
    assembly: Assembly,
    parts: Parts,
    *,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    on_step: OnStep | None = None,
    unpack: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Any]:
    """Run blocks with these parts and inputs, and give back the named outputs.

    `parts` may hold more than the blocks want; `parts["shells"]` stand for components that a stage has not loaded, such
    as the VAE, which tells the size of a latent. Entries of `parts["model_index"]` that the blocks ask for become the
    pipeline's own.
    `on_step` is called after every step of the blocks' loop; `unpack` turns the loop's latents into B C H W for it.
    With `handles` of sharded transformers among the parts, the branches of guiders are split.
    """
    unknown = inputs.keys() - assembly.inputs
    assert not unknown, f"{assembly.title} takes no {sorted(unknown)}"
    if handles := parts.get("handles"):
        handle = handles[-1]
        parts = {**parts, **{name: handle.guider(parts[name]) for name in ("guider", "guider_2") if name in parts}}
        if "audio_guider" in parts:
            parts = {**parts, "audio_guider": handle.guider_beside(parts["audio_guider"], parts["guider"])}
    ours: dict[str, Any] = {
        "on_step": on_step,
        "unpack": unpack,
        "asked_steps": inputs.get("num_inference_steps"),
        "asked_strength": inputs.get("strength", 1.0),
    }
    pipeline = assembly.pipeline(parts)
    try:
        state = pipeline(**inputs, **{name: ours[name] for name in ours.keys() & assembly.inputs})
    except Exception as error:
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise RuntimeError(f"diffusers' {assembly.title} failed: {reason}") from error
    return {name: state.get(name) for name in outputs}


class StepBorder(ModularPipelineBlocks):
    """The last block of a loop: tells `on_step` that a step is done. Second-order solvers take two turns a step."""

    @property
    def inputs(self) -> list[InputParam]:  # new ones each time: diffusers writes on those that it is given
        return [InputParam("on_step"), InputParam("unpack")]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor, **_: Any) -> tuple[Any, Any]:
        if state.on_step is None:
            return components, state
        turns, order = len(state.timesteps), components.scheduler.order
        is_last = i == turns - 1
        if is_last or (i + 1) % order == 0:
            total, unpack, estimate = -(-turns // order), state.unpack, _estimate(components.scheduler, state)
            latents = estimate if unpack is None else lambda: unpack(estimate())
            state.on_step(total if is_last else (i + 1) // order, total, latents)
        return components, state


class StepCount(ModularPipelineBlocks):
    """Follows a block that sets the timesteps, for solvers of higher order: some blocks then count turns as steps."""

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam("asked_steps"), InputParam("asked_strength")]

    def __call__(self, components: Any, state: Any) -> tuple[Any, Any]:
        steps, scheduler = state.get("asked_steps"), components.scheduler
        if steps is None or scheduler.order == 1:
            return components, state
        start = first_step(steps, state.get("asked_strength"))
        scheduler.set_begin_index(start * scheduler.order)
        state.set("timesteps", scheduler.timesteps[start * scheduler.order :])
        state.set("num_inference_steps", steps - start)
        return components, state


# ---- Masks. After every step what lies outside is replaced by the original, noised to the level that the next step
# begins with, and after the last step by the original itself: as diffusers' FluxInpaintPipeline,
# StableDiffusion3InpaintPipeline and QwenImageInpaintPipeline do, after Blended Latent Diffusion (Avrahami et al.,
# arXiv:2206.02779). They round the mask to 0 and 1; here a number between mixes the two, so that an edge can be soft.

# B pictures, S tokens, C channels, H W latent height and width


class KeepOutside(ModularPipelineBlocks):
    """The last but one block of a loop, before the step is told of. `painted` has the shape of the loop's latents."""

    @property
    def inputs(self) -> list[InputParam]:
        return [InputParam(each, required=True) for each in ("image_latents", "initial_noise", "painted")]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> tuple[Any, Any]:
        original = state.image_latents
        if i < len(state.timesteps) - 1:
            following = state.timesteps[i + 1 : i + 2]
            original = components.scheduler.scale_noise(original, following, state.initial_noise)
        mask = state.painted.to(state.latents)
        state.latents = (1 - mask) * original + mask * state.latents
        return components, state


def latent_mask(mask: Mask, shape: tuple[int, int, int], *, patch: int) -> Tensor:
    """B C H W of pictures of `shape` C H W, or B S C*patch*patch where the loop has a token for each square of latents.

    Of the pixels that a latent stands for the first counts, as in diffusers.
    """
    channels, rows, columns = shape
    grid = interpolate(mask.pixels[:, None], size=(rows, columns)).expand(-1, channels, -1, -1)  # B C H W
    if patch == 1:
        return grid
    squares = grid.unflatten(3, (-1, patch)).unflatten(2, (-1, patch))  # B C H/p p W/p p
    return squares.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


# ---- Blocks that are put together, and what they are made to know


def replaced(block: ModularPipelineBlocks, **leaves: ModularPipelineBlocks) -> ModularPipelineBlocks:
    """A copy of a block with leaves of its loops replaced by name: `replaced(FluxCoreDenoiseStep(), denoiser=...)`."""
    block = copy.deepcopy(block)
    for name, leaf in leaves.items():
        loops = [b for b in _nested(block) if isinstance(b, LoopSequentialPipelineBlocks) and name in b.sub_blocks]
        assert loops, f"no loop of {type(block).__name__} has a block called {name}"
        for loop in loops:
            loop.sub_blocks[name] = leaf
    return block


def made_by_config(block: ModularPipelineBlocks, name: str) -> Any:
    """The component of that name as diffusers makes it for a model that has none: by the config in the block's code."""
    specs = [spec for spec in block.expected_components if spec.name == name]
    return copy.deepcopy(specs[0]).create()


def _settle(block: ModularPipelineBlocks) -> None:
    """From now on these blocks know what they declare, those that make tables find them again, and those that draw do
    so in fp32."""
    # What all declare is read before the first is given its own: an outer block collects it from those within.
    told = [(each, {name: getattr(each, name) for name in DECLARED}) for each in _nested(block)]
    for each, declared in told:
        draws = not each.sub_blocks and any(taken.name == "generator" for taken in declared["inputs"])
        is_table = type(each).__name__ in BLOCKS
        derive(each, *(Drawing,) * draws, *(OfSizes,) * is_table, **declared)


@functools.lru_cache(maxsize=256)
def _on_device(kind: type, device: Any) -> type:
    """The pipeline's class, which knows where its parts are."""
    # Diffusers' own property looks for offloading at every module of all parts, each time that a block asks.
    where = property(lambda _: device)
    # A safety checker is asked by the stages (`guarded.py`), of whole videos; Cosmos 3's blocks would ask again.
    return derived(kind, _execution_device=where, device=where, requires_safety_checker=False)


def _count_steps(block: ModularPipelineBlocks) -> None:
    for each in list(_nested(block)):
        for name, inner in list(each.sub_blocks.items()) if isinstance(each, SequentialPipelineBlocks) else ():
            if not inner.sub_blocks and "timesteps" in inner.intermediate_output_names:
                each.sub_blocks.insert(f"{name}_count", StepCount(), list(each.sub_blocks).index(name) + 1)


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
