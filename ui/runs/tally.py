"""What all runs of this server did since it began, counted for whoever watches it; nothing of users or prompts."""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ...nodes.execution.events import Event
from ...nodes.execution.watch import ENDS
from ...pipelines.costs.ran import parts
from ..live.state import RunRecord

BUCKETS_S = (1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)


@dataclass
class Seconds:
    """How often something took time, and how much in all; of some how often it took at most so long."""

    count: int = 0
    sum_s: float = 0.0
    buckets: Counter[float] = field(default_factory=Counter)  # those that ended within the first bound that fits

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum_s += seconds
        self.buckets[next((bound for bound in BUCKETS_S if seconds <= bound), float("inf"))] += 1


class Tally:
    """Threads share it; read it while `lock` is held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ended: Counter[tuple[str, str]] = Counter()  # runs, by state and code
        self.begun_again = 0  # runs whose worker died
        self.waited, self.took = Seconds(), Seconds()
        self.stages: defaultdict[str, Seconds] = defaultdict(Seconds)  # by the type of the node
        self.cached: Counter[str] = Counter()  # nodes that were not made, by where their results were
        self.sent_bytes = 0  # between ranks
        self.predicted: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds, and taken, by part
        self._sent: dict[tuple[str, str], int] = {}  # by nodes under way: who spreads tells all of it each time

    def begin(self, run: RunRecord) -> None:
        with self.lock:
            self.waited.add(max(0.0, (run.started or run.created) - run.created))

    def end(self, run: RunRecord) -> None:
        with self.lock:
            self.ended[run.state, run.code] += 1
            if run.started is not None:
                self.took.add(run.seconds)

    def begin_again(self) -> None:
        with self.lock:
            self.begun_again += 1

    def hear(self, event: Event, type: str) -> None:
        """What a node of this type told."""
        with self.lock:
            if event.kind == "spread":
                self._sent[event.run, event.node] = sum(rank.sent_bytes for rank in event.ranks)
            elif event.kind == "cached":
                self.cached[event.message] += 1
            elif event.kind == "took" and event.foreseen is not None and event.took is not None:
                for part, predicted, taken in parts(event.foreseen, event.took):
                    self.predicted[part][0] += predicted
                    self.predicted[part][1] += taken
            elif event.kind in ENDS:
                self.sent_bytes += self._sent.pop((event.run, event.node), 0)
                if event.kind == "finished":
                    self.stages[type].add(event.seconds)
