"""Any tiny pipeline spread over ranks, compared with one process: what ranks of the tests and of the bench run."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import latentloom
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.spreading.branches import KNOWN
from latentloom.pipelines.spreading.waiting import finished
from zoo.pipelines import TINY
from zoo.pipelines.tiny import Tiny, build

NUDGE = 1e-7
"""Of the noise: what a free run is compared with, because later steps make small differences larger."""
CANCEL_AT = 2
"""The step after which a run is cancelled."""


def compare(rank: int, name: str, plan: str) -> dict[str, Any]:
    """Collective: one pipeline under one plan, and by itself.

    `difference`: the most that any transformer call differs, given the inputs of the run alone, of its largest value;
    `first`: likewise, of the calls of a free run's first step. `drift`: the most that a whole free run's result
    differs, and `nudge` the most that a change of the noise, up or down, does to it.
    """
    torch.set_num_threads(1)
    KNOWN.clear()
    tiny = TINY[name]
    pipe = build(tiny)
    asked = Asked(pipe)
    with asked.recorded() as alone:
        whole = run(pipe, tiny)
    nudged: list[dict[str, Tensor]] = []
    for nudge in (NUDGE, -NUDGE):
        with asked.recorded(nudge=nudge):
            nudged.append(run(pipe, tiny))
    steps: list[tuple[int, int]] = []
    before = mesh_for(ParallelPlan.parse(plan)).sent.sent_bytes
    handle = latentloom.spread(pipe, plan, on_step=lambda done, total: steps.append((done, total)))
    with asked.counted() as first_calls, asked.recorded() as free:
        first = run(pipe, tiny, rank)
    with asked.counted() as calls:
        second = run(pipe, tiny, rank)
    found = {
        "drift": max(distance(first, whole), distance(second, whole)),
        "nudge": max(distance(each, whole) for each in nudged),
        "mark": marked((first, second)),
        "calls": [len(alone), len(first_calls), len(calls)],
        "modes": handle.num_calls,
        "why": handle.why_whole(),
        "steps": [len(steps) // 2, *steps[-1]] if steps else [],
        "sent": mesh_for(ParallelPlan.parse(plan)).sent.sent_bytes - before,
        "difference": max(apart(asked.again(each), each.output) for each in alone),
        "first": first_step(free, alone, max(1, len(steps) // 2)),
    }
    handle.remove()
    found["is_restored"] = marked(run(pipe, tiny)) == marked(whole)
    found["cancelled"] = cancelled(pipe, tiny, plan, rank)
    return found


@dataclass(frozen=True)
class Call:
    """One call of a transformer."""

    part: str
    inputs: Any
    """Positional and named; None where they wait."""
    output: Any
    """What the pipeline was given, which may wait."""
    processors: dict[nn.Module, Any]
    """Attention processors of the pipeline's own, as in perturbed attention guidance."""


class Asked:
    """What the pipeline asks its transformers."""

    def __init__(self, pipe: Any) -> None:
        self.parts = {
            name: part
            for name, part in pipe.components.items()
            if isinstance(part, nn.Module) and name.partition("_")[0] in ("transformer", "unconditional")
        }
        self.processors = {each: found for part in self.parts.values() for each, found in _processors(part).items()}

    @contextmanager
    def recorded(self, *, nudge: float = 0.0) -> Iterator[list[Call]]:
        """The calls within it; `nudge` changes the first one's latents by that factor."""
        seen: list[Call] = []
        kinds = {name: type(part) for name, part in self.parts.items()}
        for name, part in self.parts.items():
            part.__class__ = _recording(name, kinds[name], seen, nudge, self.processors)
        try:
            yield seen
        finally:
            for name, part in self.parts.items():
                part.__class__ = kinds[name]

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The calls that this rank computes."""
        seen: list[str] = []
        hooks = [
            part.register_forward_pre_hook(lambda *_, name=name: seen.append(name)) for name, part in self.parts.items()
        ]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def again(self, call: Call) -> Any:
        """Collective: the same call of the transformer as it is now, computed by every group of guidance."""
        args, kwargs = _copy(call.inputs)
        with torch.no_grad(), _with_processors(call.processors):
            return nn.Module.__call__(self.parts[call.part], *args, **kwargs)


def _processors(part: nn.Module) -> dict[nn.Module, Any]:
    return {each: each.processor for each in part.modules() if hasattr(each, "processor")}


@contextmanager
def _with_processors(processors: Mapping[nn.Module, Any]) -> Iterator[None]:
    before: dict[Any, Any] = {each: each.processor for each in processors}
    try:
        for each in before:
            each.processor = processors[each]
        yield
    finally:
        for each, processor in before.items():
            each.processor = processor


def _recording(name: str, kind: type, seen: list[Call], nudge: float, usual: Mapping[nn.Module, Any]) -> type:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if nudge and not seen:
            args, kwargs = pytree.tree_map(lambda each: each * (1 + nudge) if _is_value(each) else each, (args, kwargs))
        given = None if _waits((args, kwargs)) else _copy((args, kwargs))
        output = kind.__call__(self, *args, **kwargs)
        own = {each: found for each, found in _processors(self).items() if found is not usual.get(each)}
        seen.append(Call(name, given, output if _waits(output) else _copy(output), own))
        return output

    return type(kind.__name__, (kind,), {"__call__": call, "__module__": kind.__module__})


def first_step(free: list[Call], alone: list[Call], num_steps: int) -> float:
    """How far apart the calls of the first step are: as many as a step has on average.

    A guider asks on each rank for its own branches only: then the first is compared with that which is nearest.
    """
    wanted = [call.output for call in alone[: max(1, len(alone) // num_steps)]]
    found = [finished(call.output) for call in free[: len(wanted)]]
    if len(free) < len(alone):
        return min(apart(found[0], each) for each in wanted)
    return max(apart(one, other) for one, other in zip(found, wanted, strict=True))


def cancelled(pipe: Any, tiny: Tiny, plan: str, rank: int) -> bool:
    """Collective: whether a run that one rank cancels ends on this one after that step."""
    done: list[int] = []

    def on_step(number: int, total: int) -> None:
        done.append(number)
        if rank == 0 and len(done) == CANCEL_AT:
            handle.cancel()

    with latentloom.spread(pipe, plan, on_step=on_step) as handle:
        try:
            run(pipe, tiny)
        except Cancelled:
            return len(done) == CANCEL_AT
    return False


def run(pipe: Any, tiny: Tiny, seed: int = 0) -> dict[str, Tensor]:
    """The result of one run, by what the pipeline calls it. `seed` is the default generator's, which some draw from."""
    torch.manual_seed(seed)
    made = pipe(**tiny.call(), **{"generator": torch.Generator().manual_seed(0), "output_type": "np", **tiny.options})
    made = made if isinstance(made, Mapping) else {"result": made}  # SANA-WM's refiner gives frames alone
    found = {name: value for name, value in made.items() if _is_media(value)}
    return {name: torch.as_tensor(np.asarray(value, dtype=np.float32)) for name, value in found.items()}


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def apart(found: Any, wanted: Any) -> float:
    """The largest difference of two outputs, of the largest value wanted."""
    pairs = list(zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True))
    pairs = [(a, b) for a, b in pairs if _is_value(b)]
    return max(float((a - b).abs().max()) / max(1.0, float(b.abs().max())) for a, b in pairs)


def marked(tree: Any) -> int:
    found = 0
    for leaf in pytree.tree_leaves(tree):
        found = zlib.crc32(leaf.contiguous().numpy().tobytes(), found)
    return found


def _waits(tree: Any) -> bool:
    return any(type(each) is not Tensor for each in pytree.tree_leaves(tree) if isinstance(each, Tensor))


def _copy(tree: Any) -> Any:
    return pytree.tree_map(copy.deepcopy, tree)


def _is_value(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 0


def _is_media(value: Any) -> bool:
    if isinstance(value, list) and value:
        return _is_media(value[0])
    return isinstance(value, np.ndarray | Tensor)


def refused(rank: int, plan: Any) -> None:
    pipe = build(TINY["FluxPipeline"])
    before = {id(part): type(part) for part in (pipe, *pipe.components.values())}
    try:
        latentloom.spread(pipe, plan)
    finally:
        assert before == {id(part): type(part) for part in (pipe, *pipe.components.values())}


def planned(rank: int, count: int) -> tuple[str, str]:
    with latentloom.spread(build(TINY["FluxPipeline"]), count) as handle:
        return str(handle.plan), type(handle.pipe).__name__


def other_seeds(rank: int) -> None:
    tiny = TINY["FluxPipeline"]
    pipe = build(tiny)
    with latentloom.spread(pipe, "cfg=2"):
        pipe(**tiny.call(), generator=torch.Generator().manual_seed(rank))


def without_generator(rank: int) -> dict[str, Any]:
    tiny = TINY["FluxPipeline"]
    pipe = build(tiny)
    torch.manual_seed(rank)
    alone = pipe(**tiny.call(), output_type="np").images
    torch.manual_seed(rank)
    with latentloom.spread(pipe, "cfg=2"):
        spread = pipe(**tiny.call(), output_type="np").images
    return {"alone": alone, "spread": spread}


def encoded(rank: int) -> int:
    """How often this rank ran the text encoder."""
    tiny = TINY["FluxPipeline"]
    pipe = build(tiny)
    seen: list[int] = []
    with latentloom.spread(pipe, "ulysses=2"):
        pipe.text_encoder_2.register_forward_pre_hook(lambda *_: seen.append(1))
        pipe(**{**tiny.call(), "true_cfg_scale": 1.0, "negative_prompt": None})
    return len(seen)


def refused_text(rank: int) -> None:
    tiny = TINY["FluxPipeline"]
    pipe = build(tiny)
    with latentloom.spread(pipe, "ulysses=2"):
        pipe(**{**tiny.call(), "max_sequence_length": 9000})
