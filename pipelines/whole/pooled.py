"""A pipeline on ranks that this process starts itself: `latentloom.Pool("cuda*4").spread("org/model")(prompt="...")`.

Each rank loads the pipeline from its folder, spreads it (`pipeline.py`) and keeps it; arguments go there and results
come back as plain data. A dead rank is replaced, and the run tried once more.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...parallel.errors import Cancelled
from ...parallel.machine.machine import parse_devices
from ...parallel.plan import ParallelPlan
from ...parallel.pool.pool import Pool as Ranks
from ...parallel.progress import Preview, Progress
from ...parallel.ranks.seat import Seat
from ..components.memory import wanted_spares
from ..doors import follow, order
from ..models.describe import pick_dtype
from ..models.folder import read_index
from ..models.source import resolve_source
from ..pools import preloads_of
from ..spreading.borders import OnStep
from ..spreading.handed import from_wire, to_wire
from ..values import from_plain


class Pool(contextlib.AbstractContextManager["Pool"]):
    """Devices that work together: `cuda*4`, `cpu*2`, or `cuda:0,cuda:2`. Close it, or use it as a context."""

    def __init__(self, devices: str = "all") -> None:
        self.devices = parse_devices(devices)
        self._ranks: Ranks | None = None
        self._lock = threading.Lock()

    def spread(self, source: Path | str, plan: ParallelPlan | str = "", *, dtype: str = "auto") -> PooledPipeline:
        """The pipeline of a model folder or pulled hub id, on all devices of the pool.

        `plan` is one for as many ranks as there are devices; without it the heads are shared out as far as they
        divide, and keys and values for the rest. `dtype` is fp32, bf16, fp16, or auto: fp32 on a CPU, else bf16.
        Raises ValueError for what is no pipeline of diffusers'.
        """
        found = resolve_source(str(source))
        index = read_index(found.folder)
        number = pick_dtype(dtype, device=self.devices[0])
        named = self.fitting(plan)
        return PooledPipeline(self, {"source": found.id, "dtype": number}, str(named), preloads_of(index))

    def fitting(self, plan: ParallelPlan | str) -> ParallelPlan | str:
        """The plan, read, or "" where none is given. Raises ValueError for one of another number of ranks."""
        named = ParallelPlan.parse(plan) if isinstance(plan, str) and plan else plan
        if isinstance(named, ParallelPlan) and named.num_ranks != len(self.devices):
            raise ValueError(
                f"plan {named} uses {named.num_ranks} ranks, but the pool has {len(self.devices)} devices; "
                f"give a plan for {len(self.devices)}, or none"
            )
        return named

    def close(self) -> None:
        """End the ranks."""
        with self._lock:
            if self._ranks is not None:
                self._ranks.close()
            self._ranks = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def started(self, preload: list[str]) -> Ranks:
        """Its ranks, which import these names first if they are started now."""
        with self._lock:
            if self._ranks is None or self._ranks.is_closed:
                self._ranks = Ranks(self.devices, preload=preload, spare_ranks=wanted_spares())
            return self._ranks


class PooledPipeline:
    """Called as the pipeline itself is; what comes back has the names of its output class, and
    `sampling_rate` beside a sound."""

    def __init__(self, pool: Pool, whole: Mapping[str, Any], plan: str, preload: list[str]) -> None:
        self.pool, self._whole, self._plan, self._preload = pool, whole, plan, preload
        self._calls = Calls()

    def __call__(
        self,
        prompt: str | Sequence[str] | None = None,
        *,
        on_step: OnStep | None = None,
        cancel: threading.Event | None = None,
        **arguments: Any,
    ) -> SimpleNamespace:
        """The prompt, and all else by name: texts, numbers, pictures, tensors, arrays, lists of them, and a generator
        on the CPU, of which each rank draws the same numbers. Calls from several threads wait for each other. Setting
        `cancel`, before this call or in it, ends it at its next step, and no other. Raises ValueError for what the
        pipeline refuses, `RankFailed`, `OutOfMemory`, and `Cancelled`.
        """
        given = arguments if prompt is None else {"prompt": prompt, **arguments}
        with self._calls.begin() as wish:
            ranks, num_ranks = self.pool.started(self._preload), len(self.pool.devices)
            progress = CallProgress(on_step, wish, *([] if cancel is None else [cancel]))
            return SimpleNamespace(**call_on(ranks, self._whole, given, progress, plan=self._plan, num_ranks=num_ranks))

    def cancel(self) -> None:
        """From any thread: every call that has begun ends at its next step; later ones do not."""
        self._calls.cancel()


class Calls:
    """Those under way. Each has a wish of its own, which no other call takes back."""

    def __init__(self) -> None:
        self._wishes: list[threading.Event] = []

    @contextlib.contextmanager
    def begin(self) -> Iterator[threading.Event]:
        self._wishes.append(wish := threading.Event())
        try:
            yield wish
        finally:
            self._wishes.remove(wish)

    def cancel(self) -> None:
        for each in list(self._wishes):
            each.set()


class CallProgress(Progress):
    def __init__(self, on_step: OnStep | None, *wishes: threading.Event) -> None:
        self._on_step, self._wishes = on_step, wishes

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        if self._on_step is not None:
            self._on_step(done, total)

    def check(self) -> None:
        if any(each.is_set() for each in self._wishes):
            raise Cancelled


def call_on(
    ranks: Any, whole: Mapping[str, Any], given: Mapping[str, Any], progress: Progress, *, plan: str, num_ranks: int
) -> dict[str, Any]:
    """What a pipeline gives on ranks of this process or of a cluster; `whole` is plain, and has no device."""
    request = {"whole": whole, "plan": plan, "arguments": to_wire(given), "doors": order()}
    return from_wire(ranks.call(".pipelines.whole.pooled:on_rank", request, progress, num_ranks=num_ranks))


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: what each rank does."""
    from .called import Whole, call

    follow(request["doors"])
    whole = from_plain(Whole, {**request["whole"], "device": seat.device})
    plan = request["plan"] or seat.num_ranks
    return to_wire(call(whole, from_wire(request["arguments"]), progress, plan=plan))
