"""What a run tells its watchers: one small frozen event per change, the same for a command line, a page and a host."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ...parallel.progress import Foreseen, RankWork
from ...pipelines.costs.ran import Took, foreseen_to_plain, took_to_plain

if TYPE_CHECKING:
    from torch import Tensor

Ends = Literal["finished", "failed", "cancelled", "skipped"]
OfRun = Literal["shared_out", "run_started", "run_finished", "run_failed", "run_cancelled"]
OfNode = Literal["started", "phase", "progress", "preview", "spread", "foreseen", "took", "saved", "cached"]
Kind = Literal[OfRun, OfNode, Ends]


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """One change. `node` is empty for events of the whole run; times are seconds. `shared_out` comes once before a
    sweep whose devices are put into groups by prediction: into `total` of them, and `message` says why."""

    kind: Kind
    run: str
    point: int = 0  # of a sweep, from 1 on; 0 where nobody counts
    workflow: str = ""  # the file, of several that are run one after another
    node: str = ""
    time_s: float = 0.0  # since the run began
    done: int = 0
    total: int = 0
    # A phase's name, a failure's sentence, why a node was skipped or taken from the cache, the path of a file, or in
    # words what a denoise is predicted to take, or took.
    message: str = ""
    is_loading: bool = False  # with a phase: it waits for a disk, also where what was lost is loaded again
    is_again: bool = False  # with a phase: work that was lost with a rank, a machine or memory begins once more
    code: str = ""  # what a failure is, for programs (parallel/errors.py)
    frees_device: bool = False  # with a node's end: no other one of the run is going to use the device
    seconds: float = 0.0  # how long a finished node took, or the step that is done
    # How long the node takes yet; None where neither a prediction nor its steps tell, and where nothing is left.
    left_s: float | None = None
    # How long the run works on the device yet; None where that is not known of each of its nodes.
    run_left_s: float | None = None
    preview: Tensor | None = None  # uint8 H W 3
    ranks: tuple[RankWork, ...] = ()  # what each rank did, by the plan in `message`
    # With `foreseen`, before a denoise's first step, and with `took`, before the run's end.
    foreseen: Foreseen | None = None
    took: Took | None = None
    # With `run_started` of a sweep: where it writes, and with which values.
    folder: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_plain(self) -> dict[str, Any]:
        """Without the preview and without fields that say nothing."""
        plain = {name: value for name, value in vars(self).items() if name not in ("preview", "frees_device")}
        plain["overrides"] = dict(self.overrides)
        plain["ranks"] = [dataclasses.asdict(rank) for rank in self.ranks]
        plain["foreseen"] = foreseen_to_plain(self.foreseen) if self.foreseen and not self.took else None
        plain["took"] = took_to_plain(self.foreseen, self.took) if self.foreseen and self.took else None
        return {
            k: round(v, 4) if isinstance(v, float) else v
            for k, v in plain.items()
            if v not in ("", 0, 0.0, [], {}, None)
        }


Sink = Callable[[Event], None]  # called from the thread that runs the node; must return at once
