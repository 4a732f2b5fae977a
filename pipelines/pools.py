"""This process's pools of ranks, one for each place (its devices): started with the first job, ended to make room."""

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..parallel.errors import OutOfMemory, RankFailed
from ..parallel.pool.pool import Pool
from ..parallel.pool.trial import Deadline
from ..parallel.progress import Progress
from ..parallel.ranks.seat import Seat
from .components.memory import Held, wanted_spares
from .components.store import store
from .families import FAMILIES
from .models.folder import components_of, read_index
from .values import Model, Place

ASK_S = 1.0


def loaded() -> list[Held]:
    """What this process and its ranks have loaded, one entry for each rank that holds a component.

    Ranks that work, or of several replicas, are left out.
    """
    answers = [answer for pool in POOLS.without_work() for answer in _asked(pool)]
    return [*store().held(), *(Held(**held) for answer in answers for held in answer)]


def on_rank(request: Mapping[str, Any], progress: Progress, seat: Seat) -> list[dict[str, Any]]:
    """What a rank answers when it is asked what it has loaded; called by name."""
    return [dataclasses.asdict(held) for held in store().held()]


def _asked(pool: Pool) -> list[Any]:
    """Nothing where a job came first, a rank is not there, or the pool was ended meanwhile."""
    states = pool.states()
    if pool.size < len(states) or pool.is_working or not all(state.is_ready for state in states):
        return []
    progress = Deadline(ASK_S, close=lambda: None, words="the ranks have other work")
    try:
        return pool.call_every(".pipelines.pools:on_rank", {}, progress, num_ranks=pool.size)
    except (RankFailed, OutOfMemory, ValueError):
        return []


def rank_counts() -> tuple[int, bool]:
    """How many of this process's ranks were replaced so far, and whether some cannot be. Takes no lock, and so no time:
    what is read of a rank was so a moment ago."""
    pools = list(POOLS.open.values())
    return POOLS.ended_restarts + sum(pool.restarts for pool in pools), any(pool.is_failing for pool in pools)


MAX_IDLE = 2  # pools kept warm without work; each holds processes, and what they have loaded

Key = tuple[tuple[str, ...], int]


class Pools:
    """The pools of this process. They start with their first job and end with it, or when others need their room."""

    def __init__(self) -> None:
        self.open: dict[Key, Pool] = {}  # the one used last at the end
        self.ended_restarts = 0  # of ranks of pools that are not open any more
        self._num_users: Counter[Pool] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def using(self, place: Place, preload: Callable[[], list[str]]) -> Iterator[Pool]:
        """The pool of a place's devices, its ranks warm or starting; it stays open at least so long. `preload` says
        what they import once, where they are not there yet.
        """
        with self._lock:
            pool = self._take(place, preload)
            self._num_users[pool] += 1
        try:
            yield pool
        finally:
            with self._lock:
                self._num_users[pool] -= 1
                if not self._num_users[pool]:
                    del self._num_users[pool]
                    self._end(self._idle()[:-MAX_IDLE])

    def without_work(self) -> list[Pool]:
        """The pools that nobody uses; any of them may be ended at any moment."""
        with self._lock:
            return [self.open[key] for key in self._idle()]

    def has_work(self) -> bool:
        with self._lock:
            return any(self._num_users.values())

    def close_idle(self) -> None:
        """End the pools that nobody uses, for their memory, and of the others the spare ranks, until their next job."""
        with self._lock:
            self._end(self._idle())
            for pool in self.open.values():
                pool.rest_spares()

    def close(self) -> None:
        """End all, also those in use."""
        with self._lock:
            self._end(list(self.open))

    def _take(self, place: Place, preload: Callable[[], list[str]]) -> Pool:
        key = (place.devices, place.replicas)
        pool = self.open.pop(key, None)
        if pool is None or pool.is_closed:
            self.ended_restarts += pool.restarts if pool is not None else 0
            accelerators = set(key[0]) - {"cpu"}  # what idle pools keep there would be in the way
            self._end([other for other in self._idle() if accelerators & set(other[0])])
            pool = Pool(key[0], replicas=key[1], preload=preload(), spare_ranks=wanted_spares())
        self.open[key] = pool
        return pool

    def _idle(self) -> list[Key]:
        """The pools that nobody uses, the least recently used first."""
        return [key for key, pool in self.open.items() if not self._num_users[pool]]

    def _end(self, keys: list[Key]) -> None:
        for key in keys:
            pool = self.open.pop(key)
            self.ended_restarts += pool.restarts
            pool.close()


POOLS = Pools()


# What a rank imports to run pipelines as a whole.
WHOLE = (".pipelines.whole.called", ".pipelines.whole.assembled", ".pipelines.spreading.pipeline")


def preloads(model: Model) -> list[str]:
    """What ranks will need for this model: imported once, before they are forked."""
    named = components_of(read_index(Path(model.folder)))
    known = [f"{library}:{class_name}" for library, class_name in named.values()]
    if not model.family:
        return [*WHOLE, *known]
    family = FAMILIES[model.family]
    blocks = f"diffusers:{family.pipelines[0]}"  # its module imports what the family's modular blocks do
    module = "wan" if family.name == "wan" else "by_blocks"
    return [".pipelines.stages", f".pipelines.families.{module}", "ftfy", blocks, *known]


def preloads_of(index: Mapping[str, Any]) -> list[str]:
    """The same for a whole pipeline of any class, by what `read_index` gave."""
    known = [f"{library}:{name}" for library, name in components_of(index).values() if library != "transformers"]
    return [*WHOLE, *known]
