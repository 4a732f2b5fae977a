"""Any tiny pipeline spread over ranks, compared with one process: what ranks of the tests and of the bench run."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import latentloom
from latentloom.parallel.collectives import highest
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.mesh import mesh_for
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.process_groups import ballot
from latentloom.parallel.progress import SILENT, Progress
from latentloom.parallel.ranks.seat import Seat
from latentloom.pipelines.doors import order
from latentloom.pipelines.models.folder import read_index
from latentloom.pipelines.spreading import borders, vae
from latentloom.pipelines.spreading.branches import KNOWN
from latentloom.pipelines.spreading.handed import to_wire
from latentloom.pipelines.values import to_plain
from latentloom.pipelines.verify import farthest, size_of
from latentloom.pipelines.whole import pooled
from latentloom.pipelines.whole import verified as verify_whole
from latentloom.pipelines.whole.assembled import load_pipeline
from latentloom.pipelines.whole.called import asked, taken
from latentloom.pipelines.whole.verified import CallRecorder, apart, first_step, is_value
from zoo.pipelines import tiny_of
from zoo.pipelines.tiny import Tiny, build

NUDGE = 1e-7  # of the noise: what a free run is compared with, because later steps make small differences larger
TOLERANCE = 1e-5  # of what a run of several ranks makes: more is held against `NUDGE`
CANCEL_AT = 2  # the step after which a run is cancelled


def compare(rank: int, name: str, plan: str, is_brief: bool = False) -> dict[str, Any]:
    """Collective: one pipeline under one plan, and by itself.

    `difference`: the most that any transformer call differs, given the inputs of the run alone, of its largest value;
    `first`: likewise, of the calls of a free run's first step. `drift`: the most that a whole free run's result
    differs, and `nudge` the most that a change of the noise, up or down, does to it: the first rank changes it up, the
    second down; `is_brief`: only where it drifts, and the first rank alone tells whether all is restored.
    """
    torch.set_num_threads(1)
    KNOWN.clear()
    tiny, pipe = made(name)
    asked = CallRecorder(pipe)
    with asked.recorded() as alone:
        whole = run(pipe, tiny)
    steps: list[tuple[int, int]] = []
    before = mesh_for(ParallelPlan.parse(plan)).sent.sent_bytes
    handle = latentloom.spread(pipe, plan, on_step=lambda done, total: steps.append((done, total)))
    with counted(asked) as first_calls, asked.recorded() as free:
        first = run(pipe, tiny, rank)
    with counted(asked) as calls:
        second = run(pipe, tiny, rank)
    found = {
        "drift": max(distance(first, whole), distance(second, whole)),
        "mark": marked((first, second)),
        "calls": [len(alone), len(first_calls), len(calls)],
        "modes": handle.num_calls,
        "why": handle.why_whole(),
        "steps": [len(steps) // 2, *steps[-1]] if steps else [],
        "sent": mesh_for(ParallelPlan.parse(plan)).sent.sent_bytes - before,
        "difference": farthest(apart(asked.again(each), each.output) for each in alone).share,
        "first": first_step(free, alone, max(1, len(steps) // 2)).share,
    }
    handle.remove()
    nudge = (NUDGE, -NUDGE)[rank : rank + 1] if found["drift"] > TOLERANCE or not is_brief else ()
    found["nudge"] = max((nudged(pipe, tiny, asked, each, whole) for each in nudge), default=0.0)
    found["is_restored"] = (is_brief and rank > 0) or marked(run(pipe, tiny)) == marked(whole)
    found["cancelled"] = cancelled(pipe, tiny, plan, rank)
    return found


def made(name: str = "FluxPipeline") -> tuple[Tiny, Any]:
    tiny = tiny_of(name)
    return tiny, build(tiny)


def stepped(rank: int, name: str, plan: str) -> list[tuple[int, int]]:
    """Collective: the steps that one run tells."""
    (tiny, pipe), steps = made(name), list[tuple[int, int]]()
    with latentloom.spread(pipe, plan, on_step=lambda done, total: steps.append((done, total))):
        run(pipe, tiny)
    return steps


@contextmanager
def counted(asked: CallRecorder) -> Iterator[list[str]]:
    """The calls that this rank computes."""
    seen: list[str] = []
    hooks = [
        part.register_forward_pre_hook(lambda *_, name=name: seen.append(name)) for name, part in asked.parts.items()
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def nudged(pipe: Any, tiny: Tiny, asked: CallRecorder, nudge: float, whole: Mapping[str, Tensor]) -> float:
    with nudging(asked, nudge):
        return distance(run(pipe, tiny), whole)


@contextmanager
def nudging(asked: CallRecorder, nudge: float) -> Iterator[None]:
    """The first call within it is given values that differ by a factor."""
    seen: list[str] = []

    def before(_: Any, args: Any, kwargs: Any) -> Any:
        if seen:
            return None
        seen.append("nudged")
        return pytree.tree_map(lambda each: each * (1 + nudge) if is_value(each) else each, (args, kwargs))

    hooks = [part.register_forward_pre_hook(before, with_kwargs=True) for part in asked.parts.values()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


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
    given = {**tiny.call(), "generator": torch.Generator().manual_seed(0), "output_type": "np", **tiny.options}
    found = {name: value for name, value in asked(pipe, taken(pipe, given)).items() if _is_media(value)}
    return {name: torch.as_tensor(np.asarray(value, dtype=np.float32)) for name, value in found.items()}


def distance(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    assert one.keys() == other.keys() and one
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def marked(tree: Any) -> int:
    found = 0
    for leaf in pytree.tree_leaves(tree):
        found = zlib.crc32(leaf.contiguous().numpy().tobytes(), found)
    return found


def _is_media(value: Any) -> bool:
    if isinstance(value, list) and value:
        return _is_media(value[0])
    return isinstance(value, np.ndarray | Tensor)


def refused(rank: int, plan: Any) -> None:
    _, pipe = made()
    before = {id(part): type(part) for part in (pipe, *pipe.components.values())}
    try:
        latentloom.spread(pipe, plan)
    finally:
        assert before == {id(part): type(part) for part in (pipe, *pipe.components.values())}


def asked_once(rank: int, name: str, plan: str) -> tuple[str, int]:
    """What it raises, and after how many forwards of its transformer."""
    tiny, pipe = made(name)
    with latentloom.spread(pipe, plan), counted(CallRecorder(pipe)) as calls:
        try:
            run(pipe, tiny)
        except ValueError as error:
            return str(error), len(calls)
    return "", len(calls)


def planned(rank: int, count: int) -> tuple[str, str]:
    with latentloom.spread(made()[1], count) as handle:
        return str(handle.plan), type(handle.pipe).__name__


def other_seeds(rank: int) -> None:
    tiny, pipe = made()
    with latentloom.spread(pipe, "cfg=2"):
        pipe(**tiny.call(), generator=torch.Generator().manual_seed(rank))


def without_generator(rank: int) -> dict[str, Any]:
    tiny, pipe = made()
    torch.manual_seed(rank)
    alone = pipe(**tiny.call(), output_type="np").images
    torch.manual_seed(rank)
    with latentloom.spread(pipe, "cfg=2"):
        spread = pipe(**tiny.call(), output_type="np").images
    return {"alone": alone, "spread": spread}


def encoded(rank: int) -> int:
    """How often this rank ran the text encoder."""
    tiny, pipe = made()
    seen: list[int] = []
    with latentloom.spread(pipe, "ulysses=2"):
        pipe.text_encoder_2.register_forward_pre_hook(lambda *_: seen.append(1))
        pipe(**{**tiny.call(), "true_cfg_scale": 1.0, "negative_prompt": None})
    return len(seen)


def refused_text(rank: int) -> None:
    tiny, pipe = made()
    with latentloom.spread(pipe, "ulysses=2"):
        pipe(**{**tiny.call(), "max_sequence_length": 9000})


def voted(rank: int, folder: str) -> tuple[int, list[tuple[int, int]]]:
    """How often a rank of a pool votes in a run, and its steps."""
    steps: list[tuple[int, int]] = []
    votes: list[int] = []

    def vote(wish: int, group: Any = None) -> int:
        votes.append(wish)
        return highest(wish, ballot())

    class Steps(Progress):
        def step(self, done: int, total: int, preview: Any = None) -> None:
            steps.append((done, total))

    call = {**tiny_of("FluxFillPipeline").call(), "output_type": "np"}
    whole = {"source": folder, "dtype": "fp32"}
    request = {"doors": order(), "whole": whole, "plan": "ulysses=2", "arguments": to_wire(call)}
    with patch.object(borders, "highest", vote):
        pooled.on_rank(request, Steps(), Seat(rank=rank, num_ranks=2, device="cpu"))
    return len(votes), steps


def tiled(rank: int) -> dict[str, Any]:
    """A picture decoded in tiles, as it is alone and as it is spread, and how often that was told."""
    tiny, pipe = made()
    untiled = run(pipe, tiny)
    pipe.vae.tile_latent_min_size, pipe.vae.tile_sample_min_size = 4, 32
    pipe.vae.enable_tiling()
    alone = run(pipe, tiny)
    with patch.object(vae.logger, "warning") as warning, latentloom.spread(pipe, "ulysses=2"):
        spread = [run(pipe, tiny) for _ in range(2)]
    return {
        "tiled": max(distance(each, alone) for each in spread),
        "untiled": distance(untiled, alone),
        "told": warning.call_count,
        "is_restored": pipe.vae.use_tiling,
    }


def verified(rank: int, folder: str, size: str, plans: str, spoilt: bool = False) -> list[dict[str, Any]]:
    """What `latentloom verify` runs on a rank; `spoilt`: the second one's weights are others."""
    width, height = size_of(size)
    kind = read_index(Path(folder))["_class_name"]
    request = {
        "doors": order(),
        "source": folder,
        "pipeline": kind,
        "dtype": "fp32",
        "width": width,
        "height": height,
        "plans": to_plain([ParallelPlan.parse(plan) for plan in plans.split()]),
    }

    def load(*args: Any, **options: Any) -> Any:
        pipe = load_pipeline(*args, **options)
        if rank and spoilt:
            for weight in pipe.transformer.parameters():
                weight.data = weight.data * 1.01
        return pipe

    with patch.object(verify_whole, "load_pipeline", load):
        return verify_whole.on_rank(request, SILENT, Seat(rank=rank, num_ranks=2, device="cpu"))
