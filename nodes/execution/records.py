"""What became of a run and of each of its nodes.

They are what a run gives back, in memory; `manifest.py` writes them down.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...parallel.progress import Foreseen, RankWork
from ...pipelines.costs.ran import Took, foreseen_to_plain, took_to_plain
from .failure import NodeFailed
from .models_used import ModelFacts

MOST_BITS = 1 << 13  # of a whole number that is told: Python writes no more than 4,300 digits
State = Literal["ok", "failed", "cancelled", "skipped"]
Cached = Literal["no", "memory", "disk", "unneeded"]


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """What became of one node. `cached` is "unneeded" where everything that it feeds was cached."""

    key: str
    state: State
    cached: Cached = "no"
    seconds: float = 0.0
    # Zero where it was not measured: nodes that use no device. With ranks, of the one that needed most.
    peak_memory_bytes: int = 0
    plan: str = ""  # how the node's work was spread over ranks; empty where it was not
    ranks: tuple[RankWork, ...] = ()  # what each rank did for a stage, or this process; empty where the node runs none
    # Its plain inputs as they were in the run; at the socket of a wire that is left open, what then holds.
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Those of them that were written as 0, "" or "auto", or that the run's own devices came before.
    stand_ins: tuple[str, ...] = ()
    model: ModelFacts | None = None  # the model that it gave
    # What a denoise was predicted to take; None where nothing was. The next is what it took, where it ended well.
    foreseen: Foreseen | None = None
    took: Took | None = None
    recoveries: tuple[str, ...] = ()  # why its work began once more, each time: a rank, a machine or memory was lost
    files: tuple[str, ...] = ()
    message: str = ""
    code: str = ""  # what a failure is, for programs (parallel/errors.py)

    def meant(self) -> dict[str, Any]:
        return {name: self.values[name] for name in self.stand_ins}

    def prediction(self) -> dict[str, Any]:
        """`foreseen` and `took` as plain data; empty where nothing was predicted."""
        if self.foreseen is None:
            return {}
        took = {} if self.took is None else {"took": took_to_plain(self.foreseen, self.took)}
        return {"foreseen": foreseen_to_plain(self.foreseen), **took}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run made, and what became of each node that it needed, in order."""

    run: str
    state: Literal["ok", "failed", "cancelled"]
    outputs: Mapping[str, Any]
    nodes: Mapping[str, NodeRecord]
    seconds: float
    failure: NodeFailed | None = None
    replicas: int = 1  # groups of devices that worked on separate runs, this one's among them
    # Those that were chosen for denoises, by node; what the results carry.
    plans: Mapping[str, str] = field(default_factory=dict[str, str])
    # Of nodes that were unfolded: the element and the path, in words.
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    # Of nodes whose pictures are a batch of several nodes' pictures: those nodes, in order.
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def plain_outputs(self) -> dict[str, Any]:
        """Those outputs that are text, numbers, truths, and lists and dicts of them, as JSON holds them."""
        found: dict[str, Any] = {}
        for name, value in self.outputs.items():
            with contextlib.suppress(TypeError, RecursionError):
                found[name] = _plain(value)
        return found

    def part_of(self, node: str, index: int) -> str:
        """The node that gave the picture of a node's file of this index; "" where that is not known."""
        parts = self.parts.get(node, ())
        return parts[index] if len(parts) == len(self.nodes[node].files) else ""


def _plain(value: Any) -> Any:
    """As JSON holds it: without NaN and infinities, which are their names. Raises TypeError for all else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value).encode(errors="backslashreplace").decode()  # half a character is none in a file
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() <= MOST_BITS:
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {_plain(key): _plain(each) for key, each in value.items()}
    raise TypeError(type(value))


def has_torch() -> bool:
    """Whether this process has loaded it: what needs it first waits for that."""
    return "torch" in sys.modules


def devices_in_use() -> list[str]:
    """Those whose memory is measured: GPUs, else this process's own, the CPU."""
    # looking at CUDA must not start it, nor import torch
    if not has_torch():
        return ["cpu"]
    import torch  # waits where a node beside this one is not yet through with importing it

    if not torch.cuda.is_initialized():
        return ["cpu"]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
