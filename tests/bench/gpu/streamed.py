"""What streaming costs on one card: a step with all blocks there, with some, and with none, beside the copies alone."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.gpu.measuring import Bench, head, num_syncs, row, took
from bench.shadow_rank import FLUX, Subject, forward, inputs, made
from latentloom.pipelines.components.resting import Resting

LIMIT_BYTES = 8 * 10**9
# Blocks as wide as MiniMax H3's, 1.3 GB in bf16, and as many tokens as 5 s of its 672 x 384 pixels have.
WIDE = Subject(
    **{
        **vars(FLUX),
        "grid": (37, 42, 24),
        "config": {"num_layers": 12, "num_single_layers": 1, "num_attention_heads": 33, "guidance_embeds": True},
    }
)
MODELS = {"flux-1024": FLUX, "h3-wide": WIDE}


def streamed(bench: Bench) -> bool:
    """Bits are those of blocks that are there; the share of the copies that hides is told, and the most memory held."""
    head("model", "resident", "GB at most", "step ms", "all there ms", "copies ms", "hidden", "syncs", "same bits")
    found = [_rows(name, subject, bench) for name, subject in MODELS.items()]
    return all(found)


def _rows(name: str, subject: Subject, bench: Bench) -> bool:
    model = _with_own_weights(made(subject, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny), subject)
    given = inputs(subject, model, device=bench.device, dtype=bench.dtype, is_tiny=bench.is_tiny)

    def one_step() -> torch.Tensor:
        return forward(model, given)

    wanted, whole = one_step().clone(), took(one_step, bench, runs=3, warm=1).ms
    row(name, "all", _peak(one_step, bench), whole, whole, 0.0, "", num_syncs(one_step, bench), "")
    resting, good = Resting(model.cpu(), name, str(bench.device)), True
    every = sum(resting.sizes) + resting.outside_bytes
    for room in (0.0, 0.5 * every, LIMIT_BYTES if not bench.is_tiny else 0.8 * every):
        resting.begin(max(room, resting.least_bytes))
        step = took(one_step, bench, runs=3, warm=1).ms
        copies = took(functools.partial(_copies, resting), bench, runs=3, warm=1).ms
        hidden = f"{max(0.0, 1 - max(0.0, step - whole) / copies):.0%}" if copies else ""
        same = torch.equal(one_step(), wanted)
        syncs = num_syncs(one_step, bench)
        row(name, resting.num_resident, _peak(one_step, bench), step, whole, copies, hidden, syncs, same)
        resting.end()
        good = good and same
    resting.free()
    return good


def _with_own_weights(model: nn.Module, subject: Subject) -> nn.Module:
    """Each block gets weights of its own: `made` lets blocks of a kind share them."""
    for name in subject.lists:
        blocks = getattr(model, name)
        for index in range(1, len(blocks)):
            blocks[index] = copy.deepcopy(blocks[index])
    return model


def _copies(resting: Resting) -> None:
    """All blocks that a step brings, one after the other, with nothing computed."""
    streamed: Any = resting._streamed
    for turn, index in enumerate(streamed._next):
        slot = turn % len(streamed._slots)
        streamed._mover.bring(slot, streamed._layouts[index])
        streamed._mover.wait(slot)
        streamed._mover.used(slot)
    streamed._holds = [None] * len(streamed._slots)


def _peak(one_step: Callable[[], object], bench: Bench) -> float:
    if not bench.is_gpu:
        return 0.0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(bench.device)
    one_step()
    bench.wait()
    return torch.cuda.max_memory_allocated(bench.device) / 1e9
