"""How long a run will take yet: what was predicted of its nodes, corrected as their steps are done.

A denoise's steps take what was predicted until a few are measured, and then those; how far off the prediction was holds
for the decoding that follows, too. What nobody knows stays unknown: nothing is made up.
"""

import time
from collections.abc import Collection, Hashable, Mapping
from statistics import fmean, median
from typing import Literal

from ...parallel.progress import Foreseen
from ...pipelines.values import Conditioning, Image, Latents, Video
from .schedule import Schedule

# Steps to be timed, after the one that warms up, before they alone tell of the rest: one may be a hiccup.
TRUSTED_STEPS = 2
# Of what steps took to what was predicted, as far as it is carried over to what follows.
LEAST_RATIO, MOST_RATIO = 0.5, 2.0

Work = Literal["steps", "text", "decoding", ""]


class Pace:
    """One node that uses the device: what it does there, and its steps."""

    def __init__(self, work: Work = "", denoises: tuple[str, ...] = (), kind: Hashable = None) -> None:
        """`denoises` are those whose text it reads, or whose latents it decodes. `kind`, of a denoise, is the same for
        those that differ in seed and prompt alone, which take as long."""
        self.work, self.denoises, self.kind = work, denoises, kind
        self.foreseen: Foreseen | None = None
        self.done = self.total = 0
        self.is_loading = self.has_loaded = self.is_under_way = self.is_over = False
        # When the node, its last phase or its last step began.
        self.since = time.perf_counter()
        # Of each step since the last phase began, without the first, before which is loading and compiling.
        self._seconds: list[float] = []
        self._is_first = True

    def phase(self, *, is_loading: bool) -> None:
        self.is_loading, self.since = is_loading, time.perf_counter()
        self.has_loaded = self.has_loaded or is_loading
        self._is_first, self._seconds = True, []

    def step(self, done: int, total: int) -> float:
        """A step is done; the seconds that it took."""
        now = time.perf_counter()
        seconds, self.since = now - self.since, now
        if not self._is_first:
            self._seconds.append(seconds / max(1, done - self.done))
        self._is_first, self.is_loading = False, False
        self.done, self.total = done, total
        return seconds

    def paused(self, seconds: float) -> None:
        """So long the step that goes on waited for somebody who looks."""
        self.since += seconds

    @property
    def predicted(self) -> Foreseen | None:
        """What was foreseen, where its seconds may be told."""
        return None if self.foreseen is None or self.foreseen.is_assumed else self.foreseen

    @property
    def measured_s(self) -> float | None:
        """Of a step, once one that was warm is done."""
        return median(self._seconds) if self._seconds else None

    @property
    def step_s(self) -> float | None:
        """How long a step that is left will take."""
        measured, known = self.measured_s, len(self._seconds) / TRUSTED_STEPS
        if self.predicted is None:
            return fmean(self._seconds) if known >= 1 else None
        if measured is None or known >= 1:
            return self.predicted.step_s if measured is None else measured
        return known * measured + (1 - known) * self.predicted.step_s

    @property
    def left_s(self) -> float | None:
        """Until the last step is done, as it was after the last one; None where nothing tells, or none is left."""
        total = self.total or (self.foreseen.steps if self.foreseen else 0)
        left = total - self.done
        return None if self.step_s is None or left <= 0 else left * self.step_s

    @property
    def ratio(self) -> float:
        """What steps take to what was predicted, for what follows them."""
        if self.predicted is None or self.step_s is None or not self.predicted.step_s:
            return 1.0
        return min(MOST_RATIO, max(LEAST_RATIO, self.step_s / self.predicted.step_s))


class Outlook:
    """What is left of a run's work on the device. Written by threads of nodes, each its own."""

    def __init__(self, due: Mapping[str, Pace] | None = None) -> None:
        # Those that are due apart: threads of other nodes add their paces while one goes through these.
        self._due, self._paces = dict(due or {}), dict(due or {})

    def pace(self, node: str) -> Pace:
        return self._paces.setdefault(node, Pace())

    def beside(self, denoise: str, work: Work) -> list[str]:
        """The nodes that encode a denoise's text, or decode what it makes."""
        return [name for name, each in self._due.items() if each.work == work and denoise in each.denoises]

    def began(self, node: str) -> None:
        pace = self.pace(node)
        pace.since, pace.is_under_way = time.perf_counter(), True

    def ended(self, node: str) -> None:
        self.pace(node).is_over = True

    def left_s(self) -> float | None:
        """Seconds until the device has done all of it; None where some of it is not known, or nothing is left."""
        names = [name for name, each in self._due.items() if not (each.is_over or 0 < each.total <= each.done)]
        known = [seconds for name in names if (seconds := self.node_left_s(name)) is not None]
        return sum(known) if known and len(known) == len(names) else None

    def node_left_s(self, node: str) -> float | None:
        """Seconds until one node has done its work; None too where it has taken longer than was predicted."""
        pace, now = self.pace(node), time.perf_counter()
        is_under_way = pace.is_under_way or node not in self._due
        if pace.is_loading:
            return None
        if pace.work == "steps" or pace.total:
            if not is_under_way:
                known = self._known(node)
                return known.foreseen.steps * known.step_s if known.foreseen and known.step_s else None
            if pace.left_s is None or pace.step_s is None:
                return None
            return pace.left_s - min(now - pace.since, pace.step_s)
        told = [(known.predicted, known.ratio) for known in map(self._known, pace.denoises) if known.predicted]
        if not told or len(told) < len(pace.denoises):
            return None
        if pace.work == "text":
            seconds = max(predicted.text_s for predicted, _ in told)
        else:
            seconds = sum(ratio * predicted.decode_s for predicted, ratio in told)
        left = seconds - (now - pace.since if is_under_way else 0.0)
        return left if left > 0 else None

    def _known(self, denoise: str) -> Pace:
        """The pace that tells of a denoise: its own, else that of one of its kind that has begun."""
        own = self.pace(denoise)
        if own.foreseen is not None or own.kind is None:
            return own
        alike = (pace for pace in self._due.values() if pace.kind == own.kind)
        return next((pace for pace in alike if pace.foreseen is not None), own)


def outlook_of(needs: Schedule, todo: Mapping[str, None]) -> Outlook:
    """Of the nodes that are to run."""
    denoising = {name: None for name in needs.sources if needs.nodes[name].spec.denoises is not None}
    return Outlook({name: _due(name, needs, denoising) for name in todo if needs.nodes[name].spec.uses_device})


def _due(name: str, needs: Schedule, denoising: Collection[str]) -> Pace:
    node, made = needs.nodes[name], {output.type for output in needs.nodes[name].spec.outputs}
    if name in denoising:
        varied = {
            socket.name
            for socket in node.spec.inputs
            if socket.type == Conditioning.__name__ or "seed" in (socket.widget, socket.name)
        }
        values = [(socket, repr(value)) for socket, value in node.values.items() if socket not in varied]
        links = [(socket, needs.keys[link.node]) for socket, link in node.links.items() if socket not in varied]
        return Pace("steps", kind=(node.spec.id, *sorted(values), *sorted(links)))
    if Conditioning.__name__ in made:
        return Pace("text", tuple(other for other in denoising if name in needs.sources[other]))
    takes = {socket.name for socket in node.spec.inputs if socket.type == Latents.__name__}
    denoises = tuple(link.node for socket, link in node.links.items() if socket in takes and link.node in denoising)
    return Pace("decoding", denoises) if denoises and made & {Image.__name__, Video.__name__} else Pace("")
