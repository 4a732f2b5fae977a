"""What all runs of this server did since it began, counted for whoever watches it; nothing of users or prompts."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from ...nodes.execution.events import Event
from ...nodes.execution.watch import ENDS
from ...pipelines.costs.ran import parts
from ..live.state import RunRecord

# What is only counted: by its name the labels of its numbers, and what they say.
COUNTS = {
    "runs": ("state code", "Runs that are over, by how they ended and the code of their error."),
    "runs_begun_again": ("", "Runs whose worker died, and that began again."),
    "cached_nodes": ("where", "Nodes that were not made, by where their results were."),
    "sent_bytes": ("", "What ranks sent to each other."),
    "predicted_seconds": ("part", "What was predicted for the parts of denoises that had a prediction."),
    "taken_seconds": ("part", "What was taken by the parts of denoises that had a prediction."),
}
BOUNDS_S = (1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)
ALL = "+Inf"


@dataclass
class Seconds:
    """How much time something took in all, and how often it took at most so long, by the labels of Prometheus."""

    sum_s: float = 0.0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*map(str, BOUNDS_S), ALL), 0))

    def add(self, seconds: float) -> None:
        self.sum_s += seconds
        for label in self.counts:
            self.counts[label] += seconds <= float(label)


class Tally:
    """Threads share it; read it while `lock` is held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.counts = {name: defaultdict[tuple[str, ...], float](int) for name in COUNTS}
        self.waited, self.took = Seconds(), Seconds()
        self.stages: defaultdict[str, Seconds] = defaultdict(Seconds)  # by the type of the node
        self._sent: dict[tuple[str, str], int] = {}  # by nodes under way: who spreads tells all of it each time

    def begin(self, run: RunRecord) -> None:
        with self.lock:
            self.waited.add(max(0.0, (run.started or run.created) - run.created))

    def end(self, run: RunRecord) -> None:
        with self.lock:
            self.counts["runs"][run.state, run.code or "ok"] += 1
            if run.started is not None:
                self.took.add(run.seconds)

    def begin_again(self) -> None:
        with self.lock:
            self.counts["runs_begun_again"][()] += 1

    def hear(self, event: Event, type: str) -> None:
        """What a node of this type told."""
        with self.lock:
            if event.kind == "spread":
                self._sent[event.run, event.node] = sum(rank.sent_bytes for rank in event.ranks)
            elif event.kind == "cached":
                self.counts["cached_nodes"][event.message,] += 1
            elif event.kind == "took" and event.foreseen is not None and event.took is not None:
                for part, predicted, taken in parts(event.foreseen, event.took):
                    self.counts["predicted_seconds"][part,] += predicted
                    self.counts["taken_seconds"][part,] += taken
            elif event.kind in ENDS:
                self.counts["sent_bytes"][()] += self._sent.pop((event.run, event.node), 0)
                if event.kind == "finished":
                    self.stages[type].add(event.seconds)
