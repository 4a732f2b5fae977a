"""Any tiny pipeline spread over ranks, compared with one process: what ranks of the tests and of the bench run."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import latentloom
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from zoo.pipelines import TINY
from zoo.pipelines.tiny import build

OUTPUT = ("images", "frames", "videos", "audio", "audios", "video", "sound")
NUDGE = 1e-7
"""Of the noise: what a free run is compared with, because later steps make small differences larger."""


class Calls:
    """What the pipeline's transformers were given and gave, in order."""

    def __init__(self, pipe: Any) -> None:
        self.parts = {
            name: part
            for name, part in pipe.components.items()
            if isinstance(part, torch.nn.Module) and name.partition("_")[0] in ("transformer", "unconditional")
        }
        self.seen: list[tuple[str, Any, Any]] = []

    def watch(self, *, nudge: float = 0.0) -> Any:
        """Until the function that it gives is called; `nudge`s the first argument of the first call by a factor."""
        self.seen.clear()

        def before(name: str) -> Any:
            def hook(module: Any, args: Any, kwargs: Any) -> Any:
                if self.seen or not nudge:
                    return None
                return pytree.tree_map(lambda x: x * (1 + nudge) if _is_value(x) else x, (args, kwargs))

            return hook

        def after(name: str) -> Any:
            def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
                self.seen.append((name, _copy((args, kwargs)), _copy(output)))

            return hook

        hooks = [part.register_forward_pre_hook(before(name), with_kwargs=True) for name, part in self.parts.items()]
        hooks += [part.register_forward_hook(after(name), with_kwargs=True) for name, part in self.parts.items()]

        def end() -> list[tuple[str, Any, Any]]:
            for hook in hooks:
                hook.remove()
            return list(self.seen)

        return end


def compare(rank: int, name: str, plan: str) -> dict[str, Any]:
    """Collective: one pipeline under one plan, and by itself."""
    torch.set_num_threads(1)
    tiny = TINY[name]
    pipe = build(tiny)
    calls = Calls(pipe)
    end = calls.watch()
    whole = run(pipe, tiny, 0)
    reference = end()
    end = calls.watch(nudge=NUDGE)
    nudged = run(pipe, tiny, 0)
    end()
    steps: list[tuple[int, int]] = []
    before = 0 if plan == "ulysses=1" else mesh_for(ParallelPlan.parse(plan)).sent.sent_bytes
    handle = latentloom.spread(pipe, plan, on_step=lambda done, total: steps.append((done, total)))
    counts = dict.fromkeys(calls.parts, 0)
    hooks = [_counting(part, module, counts) for part, module in calls.parts.items()]
    first = run(pipe, tiny, rank)
    num_first, counts = sum(counts.values()), dict.fromkeys(counts, 0)
    for hook in hooks:
        hook.remove()
    hooks = [_counting(part, module, counts) for part, module in calls.parts.items()]
    second = run(pipe, tiny, rank)
    for hook in hooks:
        hook.remove()
    found = {
        "drift": max(distance(first, whole), distance(second, whole)),
        "nudge": distance(nudged, whole),
        "mark": marked((first, second)),
        "num_first": num_first,
        "num_second": sum(counts.values()),
        "num_whole": len(reference),
        "modes": handle.num_calls,
        "why": handle.why_whole(),
        "steps": steps[-1] if steps else None,
        "sent": handle.mesh.sent.sent_bytes - before,
        "difference": each_call(calls, reference),
    }
    handle.remove()
    found["is_restored"] = marked(run(pipe, tiny, 0)) == marked(whole)
    return found


def each_call(calls: Calls, reference: list[tuple[str, Any, Any]]) -> float:
    """Collective: the largest difference of any call, given the reference run's own inputs, of its largest value."""
    worst = 0.0
    for name, (args, kwargs), output in reference:
        with torch.no_grad():
            got = torch.nn.Module.__call__(calls.parts[name], *_copy(args), **_copy(kwargs))
        pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(output), strict=True)
        for one, other in ((a, b) for a, b in pairs if _is_value(b)):
            largest = max(1.0, float(other.abs().max()))
            worst = max(worst, float((one - other).abs().max()) / largest)
    return worst


def run(pipe: Any, tiny: Any, seed: int) -> dict[str, Tensor]:
    """The result of one run, by what the pipeline calls it. `seed` is the default generator's, which some draw from."""
    torch.manual_seed(seed)
    made = pipe(**tiny.call(), **{"generator": torch.Generator().manual_seed(0), "output_type": "np", **tiny.options})
    return {
        name: torch.as_tensor(np.asarray(value, dtype=np.float32)) for name, value in made.items() if _is_media(value)
    }


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def marked(tree: Any) -> int:
    found = 0
    for leaf in pytree.tree_leaves(tree):
        found = zlib.crc32(leaf.contiguous().numpy().tobytes(), found)
    return found


def _counting(name: str, module: Any, counts: dict[str, int]) -> Any:
    def count(*_: Any) -> None:
        counts[name] += 1

    return module.register_forward_pre_hook(count)


def _copy(tree: Any) -> Any:
    return pytree.tree_map(copy.deepcopy, tree)


def _is_value(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 0


def _is_media(value: Any) -> bool:
    if isinstance(value, list) and value:
        return _is_media(value[0])
    return isinstance(value, np.ndarray | Tensor)
