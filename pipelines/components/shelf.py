"""What a process has loaded, each memory within its budget, and who uses it now, in which condition."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...parallel.mesh import Mesh
from ...parallel.plan import ParallelPlan
from ...parallel.ranks.heap import give_back_rest
from ..models.describe import why_no_graphs
from ..values import Engine, Graphs, Lora, Model, StepCache
from .memory import Held, default_budget, spare_bytes

if TYPE_CHECKING:
    from ..spreading.transformer import Handle
    from .prepared import Prepared

logger = logging.getLogger("latentloom")


@dataclass
class StoredComponent:
    component: Any
    num_bytes: int
    place: str  # the device it is on
    last_use: int
    loras: tuple[Lora, ...] = ()
    # Where this rank shares a transformer's weights with others: the mesh for which it is good, and the handle.
    share: tuple[Mesh, Handle] | None = None
    prepared: Prepared | None = None  # how a transformer is spread and compiled now

    @property
    def graph_bytes(self) -> int:
        """What CUDA graphs hold of the device, beside the weights."""
        return 0 if self.prepared is None else self.prepared.num_bytes

    def unprepare(self) -> None:
        """As it was loaded."""
        if self.prepared is not None:
            self.prepared.end()
            self.prepared = None


class Shelf:
    """Loaded components by what describes them. Its lock is held by whoever changes what is there."""

    def __init__(self, budget_bytes: int | None) -> None:
        self._budget_bytes = budget_bytes
        self._entries: dict[tuple[Any, ...], StoredComponent] = {}
        self._num_ranks_here = 1
        self._lock = threading.RLock()  # held while components are loaded, never while somebody waits for a loan
        self._loans = Loans()

    def held(self) -> list[Held]:
        """What is here now and has weights; does not wait for a load under way."""
        return [
            Held(folder=key[0], component=key[2], device=entry.place, num_bytes=entry.num_bytes)
            for key, entry in list(self._entries.items())
            if hasattr(entry.component, "parameters")
        ]

    def share_host(self, num_ranks: int) -> None:
        """So many ranks, this one among them, load components into this machine's memory: each takes its part."""
        self._num_ranks_here = num_ranks

    def clear(self) -> None:
        """Forget everything; memory is free once callers let go of what they hold."""
        with self._lock:
            for key in list(self._entries):
                self._drop(key)

    def give_way(self) -> None:
        """Drop what may be dropped, for something else that this process loads: neither shares of weights nor loans."""
        with self._lock:
            for key, entry in list(self._entries.items()):
                if entry.share is None and not self._loans.is_lent(key):
                    self._drop(key)

    @property
    def num_bytes(self) -> int:
        """What the components here take, all memories together."""
        return sum(entry.num_bytes for entry in list(self._entries.values()))

    def _make_room(self, place: str, num_bytes: int, keep: set[tuple[Any, ...]], working_bytes: int) -> None:
        """For components to be loaded, and what is then computed beside them."""
        # Graphs of what is kept hold what is computed beside it, or make way for that themselves.
        working_bytes -= sum(self._entries[key].graph_bytes for key in keep & self._entries.keys())
        budget = self._budget_bytes
        if budget is None:
            budget = default_budget(place) / (1 if place.startswith("cuda") else self._num_ranks_here)
        budget -= max(0, working_bytes - spare_bytes(place))
        candidates = [
            key
            for key, entry in self._entries.items()
            if entry.place == place and key not in keep and not entry.share and not self._loans.is_lent(key)
        ]
        candidates.sort(key=lambda key: self._entries[key].last_use)
        # Graphs of all before weights of one: they are captured again in a step, weights are read from a disk.
        for let_go in (self._forget_graphs, self._drop):
            for key in candidates:
                if self._used_bytes(place) + num_bytes <= budget:
                    return
                let_go(key)
        if num_bytes and self._used_bytes(place) + num_bytes > budget:
            needed = (self._used_bytes(place) + num_bytes) / 2**30
            logger.warning(
                "components need %.1f GiB on %s, more than its budget of %.1f", needed, place, budget / 2**30
            )

    def _used_bytes(self, place: str) -> int:
        held = [entry for entry in self._entries.values() if entry.place == place]
        return sum(entry.num_bytes + entry.graph_bytes for entry in held)

    def _forget_graphs(self, key: tuple[Any, ...]) -> None:
        prepared = self._entries[key].prepared
        if prepared is not None:
            prepared.forget_graphs()

    def _drop(self, key: tuple[Any, ...]) -> None:
        entry = self._entries.pop(key)
        if not self._loans.is_lent(key):
            entry.unprepare()
        place, is_share = entry.place, entry.share is not None
        del entry
        if is_share:
            gc.collect()  # its hooks hold each other
        self._release(place)

    def _unprepare(self, keys: Sequence[tuple[Any, ...]]) -> None:
        with self._lock:
            for key in keys:
                if key in self._entries:
                    self._entries[key].unprepare()

    def _drop_shares(self, keep: set[tuple[Any, ...]]) -> None:
        """Forget the shares of other models and plans: whatever the budgets, so that all ranks do the same."""
        for key in [key for key, entry in self._entries.items() if entry.share and key not in keep]:
            self._drop(key)

    def _release(self, place: str) -> None:
        """Give memory back to the driver, which waits for the whole device: not while another thread computes on it.
        Torch itself does so when it finds no other. On a CPU small weights leave holes in the heap.
        """
        if place == "cpu":
            give_back_rest()
        if place.startswith("cuda") and not self._loans.are_others_at_work():
            import torch

            torch.cuda.empty_cache()


# ---- Who uses which components now: several threads at a time in one condition, in the order in which they asked.
#
# A *condition* is what a use changes of a component: which LoRAs are on it, whether its weights are shared, whether
# hooks are. Threads that want the same one need not wait for each other.

ASK_S = 0.1  # between looks at whether a waiting job was cancelled; a loan that ends is heard of at once
ONE_RANK = ParallelPlan()  # the plan of a stage that one rank does, or this process

Wanted = Mapping[Hashable, Hashable]  # {component: the condition it has to be in while it is used}


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a use asks of a component beyond its weights; of those that are no transformer only the LoRAs."""

    loras: tuple[Lora, ...] = ()
    plan: ParallelPlan = ONE_RANK
    engine: Engine = "eager"
    graphs: Graphs = "off"  # whether forwards are replayed as CUDA graphs; with auto where that pays, and memory allows
    step_cache: StepCache = "none"

    @property
    def is_alone(self) -> bool:
        """Whether hooks hang on the transformer meanwhile, or buffers stand for its inputs: they know of one use."""
        return self.plan.num_ranks > 1 or self.step_cache != "none" or self.graphs != "off"


def condition_of(model: Model, plan: ParallelPlan, step_cache: StepCache) -> Condition:
    """In which condition this use wants a transformer."""
    graphs = model.graphs
    # where the model leaves it to us: off what has no graphs, or none that could be replayed
    if graphs == "auto" and not model.device.startswith("cuda"):
        graphs = "off"
    if graphs == "auto" and (reason := why_no_graphs(model, plan, has_step_cache=step_cache != "none")):
        _say_once(reason)
        graphs = "off"
    return Condition(loras=model.loras, plan=plan, engine=model.engine, graphs=graphs, step_cache=step_cache)


@functools.cache
def _say_once(reason: str) -> None:
    logger.info("steps run without CUDA graphs: %s", reason)


def unshared() -> Hashable:
    """A condition that nobody shares."""
    return object()


class Loans:
    """Threads that want a component in one condition use it together; one that wants another waits until they are done.

    All of a request is given at once or nothing is, and a thread that holds a loan asks for no other, so that two that
    hold what the other wants cannot be. Who asked first goes first, where both cannot, so that no stream of others
    keeps a request waiting.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # The condition of each component in use, and how many use it.
        self._lent: dict[Hashable, tuple[Hashable, int]] = {}
        self._num_held = 0
        self._asking: list[Wanted] = []  # who waits for a component, in the order in which they asked
        self._mine = threading.local()  # `is_held`: whether this thread holds a loan

    @contextlib.contextmanager
    def of(self, wanted: Wanted, check: Callable[[], None]) -> Iterator[None]:
        """Within it nobody has these components in another condition; `check` may raise, to end the wait."""
        assert not getattr(self._mine, "is_held", False), (
            "a thread that holds a loan asks for another, which could wait for one that waits for it; "
            "end the first, or ask in another thread"
        )
        with self._changed:
            self._asking.append(wanted)
        try:
            while not self._got(wanted):
                check()  # outside: it may take locks of its own
        finally:
            with self._changed:
                self._asking = [each for each in self._asking if each is not wanted]
                self._changed.notify_all()
        self._mine.is_held = True
        try:
            yield
        finally:
            self._mine.is_held = False
            with self._changed:
                self._num_held -= 1
                for name, condition in wanted.items():
                    num_users = self._lent.pop(name)[1] - 1
                    if num_users:
                        self._lent[name] = (condition, num_users)
                self._changed.notify_all()

    def is_lent(self, name: Hashable) -> bool:
        return name in self._lent

    def are_others_at_work(self) -> bool:
        """Whether another thread holds a loan, or is just getting what it asked for."""
        with self._changed:
            return self._num_held > getattr(self._mine, "is_held", False)

    def _got(self, wanted: Wanted) -> bool:
        """Whether they are lent from now on, since nobody who holds a loan, or has asked before, wants one of these in
        another condition; otherwise it has waited for a moment."""
        with self._changed:
            held = {name: condition for name, (condition, _) in self._lent.items()}
            earlier = itertools.takewhile(lambda each: each is not wanted, self._asking)
            if any(each.get(name, wish) != wish for each in (held, *earlier) for name, wish in wanted.items()):
                self._changed.wait(ASK_S)
                return False
            self._num_held += 1
            for name, condition in wanted.items():
                self._lent[name] = (condition, self._lent.get(name, (condition, 0))[1] + 1)
            return True
