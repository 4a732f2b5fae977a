"""What a rank does to test transformers that are kept spread and compiled between denoises."""

import contextlib
import gc
import itertools
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo
import torch._inductor.config
from diffusers.models.transformers.transformer_flux import FluxPosEmbed
from torch import Tensor
from torch._dynamo.utils import counters

from bodies.requests import request_of
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.sharding import captured, compiled, shard
from latentloom.parallel.sharding.graphs import kept, turns
from latentloom.pipelines import stages
from latentloom.pipelines.components import store as store_module
from latentloom.pipelines.components.loans import condition_of
from latentloom.pipelines.components.store import store
from latentloom.pipelines.fusing import products
from support.tapes import Tapes
from support.told import Told

ALONE = "ulysses=1"


@contextmanager
def counted_graphs() -> Iterator[list[int]]:
    """The number of operators of each graph that is made within; none is compiled."""
    made: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        made.append(len(graph.graph.nodes))
        return graph.forward

    torch._dynamo.reset()
    kept.forget()
    with patch.object(compiled, "in_turn", backend):
        yield made
    torch._dynamo.reset()
    kept.forget()


def denoise_compiled(rank: int, models: Sequence[Mapping[str, Any]], plans: Sequence[str]) -> dict[str, Any]:
    """Two models, three sizes and each plan, the first twice, compiled: how far from one compiled process, and the
    graphs made."""
    store().clear()
    wanted: dict[tuple[str, int], Tensor] = {}
    found: dict[str, Any] = {"graphs": [], "differences": []}
    with counted_graphs() as made:
        for plan, size in itertools.product((ALONE, *plans, plans[0]), range(3)):
            model = models[size % 2]
            got = _denoised(model, size, plan)
            found["differences"].append(_apart(got, wanted.setdefault((str(model["folder"]), size), got)))
            found["graphs"].append((plan, len(made)))
    store().clear()
    return found


def denoise_traced(rank: int, request: Mapping[str, Any], plans: Sequence[str]) -> list[tuple[str, float, int, int]]:
    """Of each plan, compiled: how far it is from one process that is not, its graphs, and where they were broken."""
    wanted, found = stages.denoise(dict(request)).tensor, []
    model = {**request["model"], "engine": "inductor"}
    for plan in plans:
        with counted_graphs() as made:
            counters.clear()
            got = stages.denoise({**request, "model": model, "plan": ParallelPlan.parse(plan)}).tensor
            found.append((plan, _apart(got, wanted), len(made), sum(counters["graph_break"].values())))
    return found


def denoise_fused(
    rank: int, model: Mapping[str, Any], plans: Sequence[str], is_traced: bool
) -> tuple[list[tuple[str, float, int]], bool]:
    """Of each plan, with an engine and products fused: how far two denoises of other sizes are from one process
    without, and how many products stand; and whether all go when something else needs the memory."""
    store().clear()
    wanted = [_denoised(model, size) for size in range(2)]
    found, engine = [], {**model, "engine": "inductor"}
    made: list[weakref.ref[products.JoinedProduct]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(products, "DEVICES", ("cpu",)))
        stack.enter_context(patch.object(products, "JoinedProduct", _noted(made)))
        if is_traced:
            stack.enter_context(counted_graphs())
        else:
            stack.enter_context(patch.object(compiled.Forwards, "compile", lambda *_, **__: None))
        for plan in plans:
            apart = max(_apart(_denoised(engine, n, plan), wanted[n]) for n in range(2))
            gc.collect()
            found.append((plan, apart, sum(each() is not None for each in made)))
        store().give_way()
        gc.collect()
    return found, all(each() is None for each in made)


def _noted(made: list[weakref.ref[products.JoinedProduct]]) -> type[products.JoinedProduct]:
    class Noted(products.JoinedProduct):
        def __init__(self, layers: Any) -> None:
            super().__init__(layers)
            made.append(weakref.ref(self))

    return Noted


def denoise_by_inductor(rank: int, model: Mapping[str, Any], plan: str, home: str) -> tuple[float, int, list[str]]:
    """How far two steps compiled for good, under a plan, are from one process that is not compiled; the graphs that
    this rank had to compile, and the folders for them."""
    store().clear()
    torch._dynamo.reset()
    kept.forget()
    turns._folder.cache_clear()
    counters.clear()
    request = _request(model, 0)
    # Without vector instructions, each of which inductor would try in a process that imports torch.
    plain = torch._inductor.config.patch({"cpp.vec_isa_ok": False})
    with patch.dict(os.environ, {"XDG_CACHE_HOME": home}), plain:
        os.environ.pop(turns.VARIABLE, None)
        got = stages.denoise({**request, "plan": ParallelPlan.parse(plan)}).tensor
    turns._folder.cache_clear()
    wanted = stages.denoise({**request, "model": {**model, "engine": "eager"}}).tensor
    folders = [each.name for each in Path(home, "latentloom").iterdir()]
    return _apart(got, wanted), counters["inductor"]["fxgraph_cache_miss"], folders


def compile_for_good(rank: int, model: Mapping[str, Any], plans: Sequence[str]) -> dict[str, Any]:
    """Each plan by inductor, at two sizes: how far from one compiled process, what was found on the disk or not, and
    the programs started."""
    programs: list[str] = []
    sys.addaudithook(lambda event, args: programs.append(str(args[1])) if event == "subprocess.Popen" else None)
    counters.clear()
    begin = time.monotonic()
    wanted = [_denoised(model, size) for size in range(2)]
    differences = {plan: max(_apart(_denoised(model, n, plan), wanted[n]) for n in range(2)) for plan in plans}
    return {
        "seconds": time.monotonic() - begin,
        "differences": differences,
        "graphs": counters["stats"]["unique_graphs"],
        "found": {part: dict(counters[part]) for part in ("aot_autograd", "inductor")},
        "programs": programs,
    }


def denoise_again(rank: int, model: Mapping[str, Any], plan: str, other: str) -> list[tuple[str, int, int, float]]:
    """One denoise of FLUX after the other: what each was, how many transformers were sharded for it, how often angles
    were made, and how far it is from one process."""
    store().clear()
    found: list[tuple[str, int, int, float]] = []
    wanted = [_denoised(model, size) for size in range(2)]
    spied = patch.object(FluxPosEmbed, "forward", autospec=True, side_effect=FluxPosEmbed.forward)
    with patch.object(shard, "install", side_effect=shard.install) as installed, spied as made:
        for what, size, by, more in (
            ("first", 0, plan, {}),
            ("again", 0, plan, {}),
            ("another size", 1, plan, {}),
            ("another plan", 0, other, {}),
            ("back", 0, plan, {}),
            ("with a cache", 0, plan, {"step_cache": "first_block"}),
            ("without", 0, plan, {}),
            ("alone", 0, ALONE, {}),
            ("once more", 0, plan, {}),
        ):
            before, made.call_count = installed.call_count, 0
            got = _denoised(model, size, by, **more)
            difference = 0.0 if more else _apart(got, wanted[size])
            found.append((what, installed.call_count - before, made.call_count, difference))
    return found


def denoise_captured(rank: int, model: Mapping[str, Any], plans: Sequence[str]) -> list[tuple[list[float], list[int]]]:
    """Of each plan, with tapes for graphs: how far two denoises of a size and one of another are from one process
    without, and how often each tape was replayed."""
    store().clear()
    found = []
    wanted = [_captured(model, size, graphs="off") for size in range(2)]
    for plan in plans:
        with _tapes() as made:
            got = [(size, _captured(model, size, plan)) for size in (0, 0, 1)]
        found.append(([_apart(x, wanted[size]) for size, x in got], _replays(made)))
    store().clear()
    return found


def denoise_compiled_and_captured(rank: int, model: Mapping[str, Any], plan: str) -> tuple[bool, list[int], list[int]]:
    """Whether compiled steps that are replayed have the bits of those that are not; how often tapes were replayed, and
    the graphs that were compiled by then."""
    store().clear()
    compiled_model = {**model, "engine": "inductor"}
    with counted_graphs() as graphs, _tapes() as made:
        wanted = _captured(compiled_model, 0, plan, graphs="off")
        counts = [len(graphs)]
        got = _captured(compiled_model, 0, plan)
        counts.append(len(graphs))
    store().clear()
    return torch.equal(got, wanted), _replays(made), counts


def denoise_captured_unasked(
    rank: int, model: Mapping[str, Any], plan: str
) -> tuple[list[bool], list[list[int]], bool]:
    """As on a device that has graphs: whether denoises have the bits of one without, how often tapes were replayed so
    far, and whether all are dropped once transformers give way. In the last the second rank has no memory for one."""
    store().clear()
    wanted, equal, replays = _captured(model, 2, plan, graphs="off"), list[bool](), list[list[int]]()
    unasked = patch.object(store_module, "condition_of", lambda *given: replace(condition_of(*given), graphs="auto"))
    with _tapes() as made, unasked, patch.object(captured, "_known", {}):
        for steps in (4, 4, 6):
            got = _captured(model, 2, plan, steps=steps)
            equal.append(torch.equal(got, wanted) == (steps == 4))
            replays.append(_replays(made))
        store().give_way()
        is_dropped = all(tape.is_reset for tapes in made for tape in tapes.made)
        with patch.object(Tapes, "free_bytes", lambda _: 0 if rank else 1 << 40):
            equal.append(torch.equal(_captured(model, 2, plan, steps=4), wanted))
            replays.append(_replays(made))
    store().clear()
    return equal, replays, is_dropped


def _captured(model: Mapping[str, Any], size: int, plan: str = ALONE, *, graphs: str = "on", steps: int = 4) -> Tensor:
    return _denoised({**model, "graphs": graphs}, size, plan, steps=steps, guidance=1.0)


@contextmanager
def _tapes() -> Iterator[list[Tapes]]:
    made: list[Tapes] = []
    with patch.object(captured, "Cuda", lambda device: made.append(Tapes(device)) or made[-1]):
        yield made


def _replays(made: Sequence[Tapes]) -> list[int]:
    return [tape.num_replays for tapes in made for tape in tapes.made]


def denoise_after_a_cancel(rank: int, model: Mapping[str, Any], plan: str) -> bool:
    """Whether a kept transformer gives the same bits before and after a denoise that was cancelled."""
    request = {**_request(model, 0), "plan": ParallelPlan.parse(plan)}
    before = stages.denoise(request).tensor
    try:
        stages.denoise(request, Told(cancel_after=1))
    except Cancelled:
        return torch.equal(before, stages.denoise(request).tensor)
    return False


def denoise_after_one_was_dropped(rank: int, model: Mapping[str, Any], plan: str) -> bool:
    """Whether a transformer gives the same bits after the first rank alone has dropped its own for something else."""
    before = _denoised(model, 0, plan)
    if rank == 0:
        store().give_way()
    return torch.equal(before, _denoised(model, 0, plan))


def denoise_for_different_seeds(rank: int, model: Mapping[str, Any], plan: str) -> list[str]:
    """What each rank is told in a second denoise, and whether a third is fine."""
    told = []
    for seed in (5, 5 + rank, 5):
        try:
            _denoised(model, 0, plan, seed=seed)
            told.append("")
        except ValueError as error:
            told.append(str(error))
    return told


def _denoised(model: Mapping[str, Any], size: int, plan: str = ALONE, **more: Any) -> Tensor:
    return stages.denoise({**_request(model, size), "plan": ParallelPlan.parse(plan), **more}).tensor


def _apart(got: Tensor, wanted: Tensor) -> float:
    """Of the largest value."""
    return float((got - wanted).abs().max() / wanted.abs().max())


def _request(model: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Of text and picture, size 1 changes one length and size 2 both."""
    return request_of(model, width=(48, 80, 64)[size], text_length=(32, 32, 33)[size], guidance=2.0)
