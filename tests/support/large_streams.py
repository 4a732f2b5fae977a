"""A FLUX-shaped model of 3 GB that is run within less: what it holds, and how long it takes beside what it must."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from support.ranks import Ranks

MB = 1_000_000
WIDTH = 640  # of a block: a double one then has 59 MB in fp32, a single one 25


def write(folder: Path) -> Path:
    """28 double and 56 single blocks of random weights, beside the tiny parts of a FLUX pipeline."""
    import torch
    from diffusers import FluxPipeline, FluxTransformer2DModel

    from support.tiny_models import FLUX, flux_parts

    torch.manual_seed(0)
    config = {
        **FLUX,
        "num_layers": 28,
        "num_single_layers": 56,
        "attention_head_dim": 64,
        "axes_dims_rope": (16, 24, 24),
    }
    parts = flux_parts()
    parts["transformer"] = FluxTransformer2DModel(**config, num_attention_heads=WIDTH // 64, guidance_embeds=True)
    FluxPipeline(**parts).save_pretrained(str(folder))
    return folder


def budget(*, tokens: int, limit: str, runs: int) -> int:
    """Prints a row for one rank and for two; 1 where a picture differs or more was held than may be."""
    from latentloom.pipelines.components.memory import read_bytes

    bad, most = 0, read_bytes(limit)
    with tempfile.TemporaryDirectory() as folder, Ranks(2) as ranks:
        where = str(write(Path(folder)))
        print(f"{tokens} tokens, --memory {limit}, medians of {runs} steps, a compute thread a rank")
        for plan in ("ulysses=1", "ulysses=2"):
            found = ranks.run("bodies.streamed_large:measure", where, plan, limit, tokens, runs, deadline_s=600)
            for rank, each in enumerate(each for each in found if each):
                bad += not each["same"] or each["peak_bytes"] > most
                print(_row(plan, rank, each), flush=True)
    return int(bad > 0)


def _row(plan: str, rank: int, found: dict[str, Any]) -> str:
    step, compute, copy = (statistics.median(found[name]) for name in ("step_s", "compute_s", "copy_s"))
    same = "equal to resident" if found["same"] else "OTHER THAN RESIDENT"
    stay = f"{found['resident']} of {found['blocks']} blocks of {found['model_bytes'] / MB:.0f} MB stay"
    private = f"at most +{found['peak_bytes'] / MB:.0f} MB of private memory ({found['looks']} looks)"
    took = f"step {step:.2f} s, compute {compute:.2f}, copy {copy:.2f}"
    shares = f"{step / max(compute, copy):.2f} of the larger, {step / (compute + copy):.2f} of both"
    return f"{plan} rank {rank}: {stay}, {private}, {same}; {took}: {shares}"
