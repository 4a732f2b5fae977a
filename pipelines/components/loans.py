"""Who uses which components now: several threads at a time in one condition, in the order in which they asked.

A *condition* is what a use changes of a component: which LoRAs are on it, whether its weights are shared, whether hooks
are. Threads that want the same one need not wait for each other.
"""

import contextlib
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...parallel.mesh import Mesh
from ...parallel.plan import ParallelPlan
from ..models.component_files import ComponentFiles
from ..models.describe import why_no_graphs
from ..values import Engine, Graphs, Lora, Model, StepCache
from .memory import is_quantized

logger = logging.getLogger("latentloom")

ASK_S = 0.1  # between looks at whether a waiting job was cancelled; a loan that ends is heard of at once
ONE_RANK = ParallelPlan()  # the plan of a stage that one rank does, or this process

Key = tuple[Any, ...]  # what describes a loaded component
Wanted = Mapping[Hashable, Hashable]  # {component: the condition it has to be in while it is used}


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a use asks of a component beyond its weights; of those that are no transformer only the LoRAs."""

    loras: tuple[Lora, ...] = ()
    plan: ParallelPlan = ONE_RANK
    engine: Engine = "eager"
    graphs: Graphs = "off"  # whether forwards are replayed as CUDA graphs; with auto where that pays, and memory allows
    step_cache: StepCache = "none"


def condition_of(model: Model, plan: ParallelPlan, step_cache: StepCache) -> Condition:
    """In which condition this use wants a transformer."""
    graphs = model.graphs
    # where the model leaves it to us: off what has no graphs, or none that could be replayed
    if graphs == "auto" and not model.device.startswith("cuda"):
        graphs = "off"
    if graphs == "auto" and (reason := why_no_graphs(model, plan, has_step_cache=step_cache != "none")):
        _say_once("steps run without CUDA graphs: %s", reason)
        graphs = "off"
    return Condition(loras=model.loras, plan=plan, engine=model.engine, graphs=graphs, step_cache=step_cache)


_say_once = functools.cache(logger.info)


def unshared() -> Hashable:
    """A condition that nobody shares."""
    return object()


@dataclass(frozen=True)
class Use:
    """What one call does with a model: in which condition it wants the transformer, on which mesh, if on one, how many
    bytes of the device it needs beside, and which components have no room there and rest on the host."""

    model: Model
    mesh: Mesh | None
    condition: Condition
    working_bytes: int = 0
    rests: frozenset[str] = frozenset()

    @property
    def shares(self) -> ParallelPlan | None:
        """The plan by which the ranks of the mesh hold the weights between them, if they do."""
        return self.mesh.plan if self.mesh is not None and self.mesh.plan.num_shares > 1 else None

    def key(self, name: str) -> Key:
        model = self.model
        quantization = model.quantization if is_quantized(name) else "none"
        shares = (self.shares,) if is_transformer(name) else ()
        return (model.folder, model.fingerprint, name, model.dtype, model.device, quantization, *shares)

    def contents(self, name: str) -> str:
        """All that the numbers in a component depend on, whatever its device."""
        loras = [(lora.sha256, lora.adapter) for lora in self.model.loras]
        return repr((*(each for each in self.key(name) if each != self.model.device), loras))

    def is_alone(self, name: str) -> bool:
        """Whether nobody else may use this component meanwhile: its blocks come from the host, or hooks hang on the
        transformer, or buffers stand for its inputs, which know of one use."""
        how = self.condition
        is_changed = how.plan.num_ranks > 1 or how.step_cache != "none" or how.graphs != "off"
        return name in self.rests or (is_transformer(name) and is_changed)

    def wanted(self, names: Iterable[str]) -> dict[Hashable, Hashable]:
        """In which condition these components are wanted, as `Loans` is asked for them."""
        from .lora import TAKERS

        wanted: dict[Hashable, Hashable] = {}
        for name in names:
            if self.is_alone(name):
                wanted[self.key(name)] = unshared()
            elif is_transformer(name):
                wanted[self.key(name)] = self.condition
            else:
                wanted[self.key(name)] = Condition(loras=self.model.loras if name in TAKERS else ())
        if self.model.is_compiled and any(map(is_transformer, names)):
            # torch.compile promises nothing of threads: its flags of tracing are the process's
            wanted["torch.compile"] = unshared()
        return wanted


def may_rest(files: ComponentFiles, use: Use) -> bool:
    """Whether a component can rest on the host and be streamed. Not what ranks share out, nor what is built into an
    engine; nor what transformers quantizes on a GPU, which knows its device."""
    if files.kind != "model":
        return False
    if is_transformer(files.name):
        return use.shares is None and use.condition.engine != "tensorrt"
    is_packed = use.model.quantization != "none" and is_quantized(files.name)
    return not (is_packed and use.model.device.startswith("cuda"))


def is_transformer(name: str) -> bool:
    """Whether a component of this name is asked in each step."""
    return name.startswith("transformer")


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
