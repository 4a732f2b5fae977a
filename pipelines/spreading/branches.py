"""The branches of guidance of any pipeline: calls of its transformers, shared out over the groups of the cfg axis.

A pipeline asks a transformer several times in a step, or once with a doubled batch. Nothing in it is changed:

* *rows*: of a doubled batch each group computes its share, and all get all of it at once (`calls.py`).
* *turns*: of n calls each group computes its share; for the others it is given values that wait
  (`sections/waiting.py`), and the last call of the step fetches them. Which calls a step has is learnt from a step that
  every rank computed whole.

A call is *its own*, computed by all, where skipping it might be wrong: it takes or gives what is no tensor, number or
text (a cache that it fills), its transformer keeps something from step to step, or nothing like it was seen before.
"""

import functools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...parallel.agreement import any_says
from ...parallel.collectives import gather
from ...parallel.group import Group
from ...parallel.sharding.fingerprint import check_same
from ...parallel.sharding.sections.waiting import Outline, WaitingValues, finished, is_waited_for
from ...parallel.staging import bytes_of
from . import calls
from .calls import opaque, signature_of

Call = Callable[[Any], Any]
Mode = Literal["whole", "rows", "turns"]
NEAR = 100.0  # times what rounding may change: a difference that is told, because rounding may have grown to it


@dataclass(frozen=True)
class SeenCall:
    """A call of one step, as it was seen: which transformer, with what, and what came out."""

    module: str
    signature: Hashable  # of its arguments: shapes, number formats, texts; None where one of them is opaque
    # Of the tensors it gave, in order; None where it gave something else besides. Nothing, as of a sound that is not
    # asked for, is no tensor of it.
    outlines: tuple[Outline, ...] | None
    mode: Mode
    num_rows: int

    @property
    def may_turn(self) -> bool:
        """Whether one group can compute it for all."""
        return self.mode != "rows" and self.signature is not None and self.outlines is not None

    def described(self) -> Hashable:
        shapes = tuple((each.shape, each.dtype) for each in self.outlines) if self.outlines is not None else None
        return self.module, self.signature, shapes, self.mode


@dataclass
class Turn:
    """A call that one group computes for all."""

    owner: int
    outlines: tuple[Outline, ...]
    found: list[Tensor] = field(default_factory=list[Tensor])
    spec: Any = None


@dataclass
class KnownSteps:
    """What pipelines of one class have been seen to do; the same on every rank."""

    # By how a step begins, what it asked.
    steps: dict[Hashable, tuple[SeenCall, ...]] = field(default_factory=dict[Hashable, tuple[SeenCall, ...]])
    # By a call's module and signature, how its tensors are put together, and which of what it gave is nothing.
    specs: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    # By the same, the number of the way in which its rows are cut; -1 where none is right.
    way: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    # How far the nearest of these ways was from right, as `calls.apart` tells it.
    nearest: dict[Hashable, float] = field(default_factory=dict[Hashable, float])
    early: set[Hashable] = field(default_factory=set[Hashable])  # steps that look at a branch before they ask the next

    def mark(self) -> int:
        """A number that is another one where ranks know different things."""
        steps = [(key, [each.described() for each in asked]) for key, asked in self.steps.items()]
        parts = [sorted(map(repr, each)) for each in (steps, self.way.items(), self.early)]
        return zlib.crc32(repr(parts).encode())

    def forget(self) -> None:
        for each in (self.steps, self.specs, self.way, self.nearest, self.early):
            each.clear()


KNOWN: dict[str, KnownSteps] = {}


class SharedCalls:
    """The calls of a pipeline's transformers, on this rank."""

    def __init__(self, group: Group, title: str) -> None:
        self.group = group
        self.known = KNOWN.setdefault(title, KnownSteps())
        self.num_calls: Counter[Mode] = Counter()  # of this run, by how they were computed
        self.reasons: dict[str, None] = {}  # why calls of this run were not shared out, in order
        # A step of this run had something to share out, be it that this is done from the next one on.
        self.is_shared = False
        self._options: Hashable = None
        self._is_busy = False
        self._is_checked = False
        self._nearest = math.inf  # of the ways to share out the rows of the call under way that were not right
        self._clear_step()

    def begin(self, options: Hashable) -> None:
        """A run begins; `options` are those of guidance, `known` is the same on every rank."""
        self._options, self._is_checked = options, False
        self.num_calls.clear()
        self.reasons.clear()
        self.is_shared = False
        self._clear_step()

    def step_ends(self) -> bool:
        """Collective, where values wait: what was asked from the last end on was one step, if anything was."""
        if not self._seen:
            return False  # a second solver, of sound
        self._finish()
        if self._key is not None:
            self.known.steps[self._key] = tuple(self._seen)
        self._judge()
        self._clear_step()
        return True

    def _judge(self) -> None:
        """Say of the step that ends which calls had no others to be shared out with."""
        count, size = len(self._seen), self.group.size
        num_turns = sum(each.may_turn for each in self._seen)
        left = num_turns % size
        if count == 1 == left == self._seen[0].num_rows:
            self.reasons["a step asks the transformer for one branch"] = None
        elif count > 1 and left:
            self.reasons[f"of the {count} calls of a step {left} cannot be shared out over {size} groups"] = None
        self.is_shared = self.is_shared or num_turns >= size or any(each.mode == "rows" for each in self._seen)

    def call(
        self, name: str, compute: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, keeps: bool
    ) -> Any:
        """Collective: what `compute` gives, or values that wait for it. `keeps`: it knows earlier steps."""
        if self._is_busy:
            return compute(*args, **kwargs)  # a transformer within a transformer
        # It asks by a branch that is not here yet: then that has to come first, and the rest of the step all compute.
        if is_waited_for((args, kwargs)):
            self._finish()
        args, kwargs = finished((args, kwargs))
        self._check_first(args, kwargs)
        if keeps:
            self.reasons["the transformer keeps something from step to step"] = None
        signature = None if keeps or torch.is_grad_enabled() else self._signature((args, kwargs))
        if not self._seen:
            self._key = None if signature is None else (self._options, name, signature)
            self._expected = self.known.steps.get(self._key, ()) if self._key is not None else ()
            self._turns = self._shared_out()
        number = len(self._seen)
        if not self._is_as_expected(number, name, signature):
            self._finish()
            self._expected, self._turns = (), {}
        run = functools.partial(self._compute, compute)
        if (turn := self._turns.get(number)) is not None:
            return self._take_turn(number, turn, run, (args, kwargs))
        count = calls.num_rows(args, kwargs)
        if signature is not None and count > 1 and count % self.group.size == 0:
            found, mode = self._by_rows(run, (args, kwargs), count, (name, signature))
        else:
            if signature is not None and count > 1:
                self.reasons[f"a call has {count} rows, which do not go into {self.group.size} groups"] = None
            found, mode = run((args, kwargs)), "whole"
        self._see(name, signature, found, mode, count)
        return found

    # Turns

    def _shared_out(self) -> dict[int, Turn]:
        """The calls of the step that begins which groups take in turn; what is left over all compute."""
        if self._key in self.known.early:
            self.reasons["the pipeline looks at each branch before it asks for the next"] = None
            return {}
        calls = [(number, asked) for number, asked in enumerate(self._expected) if asked.may_turn]
        count, known = len(calls) - len(calls) % self.group.size, self.known.specs
        return {
            number: Turn(place % self.group.size, asked.outlines or (), spec=known[asked.module, asked.signature])
            for place, (number, asked) in enumerate(calls[:count])
        }

    def _is_as_expected(self, number: int, name: str, signature: Hashable) -> bool:
        if number >= len(self._expected):
            return not self._turns
        asked = self._expected[number]
        return (asked.module, asked.signature) == (name, signature)

    def _take_turn(self, number: int, turn: Turn, run: Call, tree: Any) -> Any:
        asked = self._expected[number]
        self._seen.append(asked)
        if self._waiting is None:
            self._waiting = WaitingValues(self._fetch)
        elif self._waiting.is_done:  # somebody has looked: from here on all compute
            self.known.early.add(self._key)
            self.num_calls["whole"] += 1
            return run(tree)
        self.num_calls["turns"] += 1
        if turn.owner == self.group.index:
            turn.found = [each for each in pytree.tree_leaves(run(tree)) if isinstance(each, Tensor)]
        self._asked.append(turn)
        # The last call of the step is answered with plain tensors: there is nothing left to ask meanwhile, and the
        # pipeline combines the branches next.
        if number == max(self._turns):
            self._waiting.finish()
            return _put_together(turn.found, turn.spec)
        waiting = self._waiting
        later = [waiting.later(outline, lambda i=i: turn.found[i]) for i, outline in enumerate(turn.outlines)]
        return _put_together(later, turn.spec)

    def _finish(self) -> None:
        if self._waiting is not None:
            self._waiting.finish()

    def _fetch(self) -> None:
        """Collective: what each group computed, in one gather of bytes."""
        group = self.group
        owned = [[turn for turn in self._asked if turn.owner == member] for member in range(group.size)]
        outlines = [[outline for turn in turns for outline in turn.outlines] for turns in owned]
        sizes = [1 + sum(outline.num_bytes for outline in each) for each in outlines]
        mine = [tensor for turn in owned[group.index] for tensor in turn.found]
        device = self._asked[0].outlines[0].device
        # Each rank's first byte says whether it has what the others expect. Who raised here instead would leave them in
        # the gather; so it sends as many bytes as were announced, and all raise together.
        is_right = [(each.shape, each.dtype) for each in mine] == [
            (each.shape, each.dtype) for each in outlines[group.index]
        ]
        pieces = [bytes_of(each) for each in mine]
        if not is_right:
            pieces = [torch.zeros(sizes[group.index] - 1, dtype=torch.uint8, device=device)]
        block = torch.cat([torch.tensor([not is_right], dtype=torch.uint8, device=device), *pieces])
        gathered = gather(block, sizes=sizes, group=group).split(sizes)
        if any(int(each[0]) for each in gathered):
            raise ValueError("the transformer gave a branch of guidance in another shape than before; leave cfg out")
        for turns, each, data in zip(owned, outlines, gathered, strict=True):
            pieces = iter(data[1:].split([outline.num_bytes for outline in each]))
            for turn in turns:
                turn.found = [next(pieces).clone().view(one.dtype).view(one.shape) for one in turn.outlines]

    # Rows

    def _by_rows(self, run: Call, tree: Any, count: int, key: Hashable) -> tuple[Any, Mode]:
        """Collective: the whole result of `count` rows, each group computing some, or all where that is not right."""
        ways, number = calls.ways(tree[1], count), self.known.way.get(key)
        if number is not None and number >= 0:
            return calls.join(run(calls.share(tree, count, self.group, ways[number])), count, self.group), "rows"
        given = calls.copied(tree)  # a transformer may write into what it is given, and the trials need it as it was
        whole = run(tree)
        if number is None:
            self._nearest = math.inf
            tried = (i for i, way in enumerate(ways) if self._is_right(run, given, way, count, whole))
            self.known.way[key] = number = next(tried, -1)
            self.known.nearest[key] = self._nearest
        if number < 0:
            near = self.known.nearest[key]
            told = f", the nearest {near:.1f} times as far as rounding may" if near < NEAR else ""
            self.reasons[f"no way to share out the {count} rows of a call gave the result of the whole{told}"] = None
        return whole, "rows" if number >= 0 else "whole"

    def _is_right(self, run: Call, given: Any, way: calls.RowReading, count: int, whole: Any) -> bool:
        """Collective: whether all groups get the whole result of the parts that this way gives them."""
        found: Any = None
        error: Exception | None = None
        try:
            found = run(calls.share(calls.copied(given), count, self.group, way))
        except Exception as problem:  # rows that do not fit: on this rank perhaps, and the others are to vote with it
            error = problem
        if any_says(error is not None, group=self.group, device=self._device):
            return False
        joined = calls.join(found, count, self.group)
        far = math.inf if calls.is_all(found, joined) else calls.apart(joined, whole)
        self._nearest = min(self._nearest, far)
        return not any_says(far > 1, group=self.group, device=self._device)

    # What was seen

    def _compute(self, compute: Callable[..., Any], tree: Any) -> Any:
        args, kwargs = tree
        self._is_busy = True
        try:
            return compute(*args, **kwargs)
        finally:
            self._is_busy = False

    def _see(self, name: str, signature: Hashable, found: Any, mode: Mode, count: int) -> None:
        self.num_calls[mode] += 1
        leaves, spec = pytree.tree_flatten(found)
        outlines, tensors = None, [each for each in leaves if isinstance(each, Tensor)]
        if all(isinstance(each, Tensor | None) for each in leaves):
            # As they come out of the exchange: their elements one after the other.
            plain = [(torch.empty(each.shape, dtype=each.dtype, device="meta"), each.device) for each in tensors]
            outlines = tuple(Outline.of(*each) for each in plain)
            self.known.specs[name, signature] = spec, [each is None for each in leaves]
        elif mode != "rows":
            self.reasons["a call gives something that is no tensor"] = None
        self._seen.append(SeenCall(name, signature, outlines, mode, count))

    def _signature(self, tree: Any) -> Hashable:
        found = next((kind for each in pytree.tree_leaves(tree) if (kind := opaque(each, tree[1]))), "")
        if found:
            self.reasons[f"a call takes {found}, which it may change"] = None
            return None
        return signature_of(tree)

    def _check_first(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Collective in the first call of a run: ValueError on every rank where groups were given different things."""
        if self._is_checked:
            return
        self._is_checked = True
        given = {**{f"argument {i + 1}": each for i, each in enumerate(args)}, **kwargs}
        tensors = [each for each in pytree.tree_leaves(given) if isinstance(each, Tensor)]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        check_same(given, self.group, title="the transformer", around=self.group)

    def _clear_step(self) -> None:
        self._key: Hashable = None
        self._expected: tuple[SeenCall, ...] = ()
        self._seen: list[SeenCall] = []
        self._turns: dict[int, Turn] = {}
        self._asked: list[Turn] = []  # the turns that have come
        self._waiting: WaitingValues | None = None


def _put_together(tensors: Iterable[Tensor], found: tuple[Any, Sequence[bool]]) -> Any:
    """What a call gave, of its tensors: how they lie, and where between them is nothing."""
    spec, are_nothing = found
    rest = iter(tensors)
    return pytree.tree_unflatten([None if is_nothing else next(rest) for is_nothing in are_nothing], spec)
