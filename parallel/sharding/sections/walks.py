"""A forward under way in one section: what a block that is met gives, and what becomes of what an own one gave.

Three of them: *wide*, where each block's outputs go to all sections; *tried*, where no block runs and what this
section's blocks look at is noted; *quick*, where own blocks run and send what others need.
"""

import functools
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...errors import LoomError
from .mail import Gave, Mail
from .waiting import Later, Outline, WaitingValues, finished

REMEDY = "use another plan than layers"
COMBINING = (torch.ops.aten.cat, torch.ops.aten.stack, torch.ops.aten.clone, torch.ops.aten._to_copy)
# A block, by its place in the order in which they run, and one of its outputs; behind the last block, the result.
Key = tuple[int, int]


class Done(LoomError):
    """This section's last block has run: what is left of the forward is the last section's."""

    code = "section-done"


@dataclass
class KnownCall:
    """What all ranks know of the calls of one kind."""

    owners: list[int] = field(default_factory=list[int])  # of the blocks in the order in which they ran
    gave: list[Gave] = field(default_factory=list[Gave])  # of each of them, and then of the transformer
    needs: list[list[Key]] = field(default_factory=list[list[Key]])  # of each section, of others

    def owner(self, place: int) -> int:
        """Who gives that; the result is the last section's."""
        return self.owners[min(place, len(self.owners) - 1)]

    def last_of(self, section: int) -> int:
        """The place of a section's last block; -1 if it runs none."""
        return max((place for place, owner in enumerate(self.owners) if owner == section), default=-1)


class Awaited(WaitingValues):
    """Values of one call that come from other sections, each when it is looked at; `needs` is what would have been
    looked at where a call is only tried."""

    def __init__(self, pending: list[weakref.ref[Later]], *, is_tried: bool) -> None:
        super().__init__(lambda: None)
        self._pending, self._is_tried = pending, is_tried
        self.is_over = False  # the forward has ended: what waits is its result
        self.needs: set[Any] = set()
        self._forget()

    def later(self, outline: Outline, make: Callable[[], Tensor], operands: Sequence[Any] = ()) -> Later:
        found = Later(outline, self, make)
        found.sources = frozenset().union(*(each.sources for each in operands if isinstance(each, Later)))
        self._pending.append(weakref.ref(found))
        return found

    def may_wait(self, func: Any) -> bool:
        # What combines branches waits, so that the next one is asked meanwhile. What else looks, as a decoder does, is
        # done with values: convolutions lay them out as no outline foretells.
        is_view = any(each.alias_info is not None for each in func._schema.returns)
        return not self.is_over or is_view or torch.Tag.pointwise in func.tags or func.overloadpacket in COMBINING

    def finished(self, value: Later) -> Tensor:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a value that another section computes is read in a thread that has not asked for it")
        if self._is_tried:
            self.needs |= value.sources
            return Outline.of(value).zeros()
        self._finish(lambda each: each.sources <= value.sources)
        return value.compute()

    def before_write(self, value: Later) -> None:
        self._finish(lambda each: bool(each.sources & value.sources) and each is not value)

    def _finish(self, is_wanted: Callable[[Later], bool]) -> None:
        # In the order in which they were made: each finds its operands computed, however long the chain is.
        for each in [each() for each in self._pending]:
            if each is not None and each.value is None and is_wanted(each):
                if self._is_tried:
                    self.needs |= each.sources
                else:
                    each.compute()
        self._forget()

    def _forget(self) -> None:
        self._pending[:] = [each for each in self._pending if (kept := each()) is not None and kept.value is None]


class Walk:
    """`meet` is called in the place of a block that does not run here, `ran` after one that does."""

    is_tried = False

    def __init__(self, mail: Mail, known: KnownCall, pending: list[weakref.ref[Later]], call: int = 0) -> None:
        self.mail, self.known, self.call, self.index = mail, known, call, mail.group.index
        self.place = -1  # of the block that was met last
        self.awaited = Awaited(pending, is_tried=self.is_tried)

    def meet(self, owner: int, given: Any) -> Any:
        """What the block gives, as values that wait."""
        return self.waiting(self.enter(owner))

    def ran(self, output: Any) -> None:
        """What an own block gave goes to others; nothing where it is only tried."""

    def enter(self, owner: int) -> int:
        """The place of the block that is met now."""
        self.place += 1
        if self.place >= len(self.known.owners) or self.known.owners[self.place] != owner:
            raise ValueError(f"{self.mail.title}: it runs other blocks than in the call before; {REMEDY}")
        return self.place

    def waiting(self, place: int) -> Any:
        """What is given at a place, as values that wait."""
        leaves, spec = self.known.gave[place]
        found = list(leaves)
        for leaf, outline in enumerate(leaves):
            if isinstance(outline, Outline):
                found[leaf] = self.awaited.later(outline, self.make(outline, (place, leaf)))
                found[leaf].sources = frozenset({(self.call, place, leaf)})
        return pytree.tree_unflatten(found, spec)

    def make(self, outline: Outline, key: Key) -> Callable[[], Tensor]:
        """What brings a value; where it is only tried none is asked for."""
        return outline.zeros

    def end(self) -> None:
        """After an own block."""
        if self.place == self.known.last_of(self.index) and self.index != self.known.owners[-1]:
            raise Done


class Wide(Walk):
    """Collective at each block."""

    def meet(self, owner: int, given: Any) -> Any:
        leaves, spec = self.note(owner, {})
        found = [self.mail.shared(None, each, owner) if isinstance(each, Outline) else each for each in leaves]
        return pytree.tree_unflatten(found, spec)

    def ran(self, output: Any) -> None:
        leaves, _ = self.note(self.index, self.mail.told(output))
        for x, outline in zip(pytree.tree_leaves(output), leaves, strict=True):
            if isinstance(x, Tensor):
                self.mail.shared(x, outline, self.index)

    def note(self, owner: int, told: Mapping[str, Any]) -> Gave:
        words = self.mail.hear({"place": len(self.known.owners), "owner": owner, **told})
        if len({(each.get("place"), each.get("owner")) for each in words}) > 1:  # seen by all alike
            raise ValueError(f"{self.mail.title}: sections ran its blocks in different orders; {REMEDY}")
        self.known.owners.append(owner)
        self.known.gave.append(self.mail.read(words[owner]))
        return self.known.gave[-1]


class Tried(Walk):
    """Nothing is sent."""

    is_tried = True

    def meet(self, owner: int, given: Any) -> Any:
        place = self.enter(owner)
        if owner == self.index:
            finished(given)
            self.end()
        return self.waiting(place)


class Quick(Walk):
    """What others need is sent; what they give comes if somebody looks."""

    def make(self, outline: Outline, key: Key) -> Callable[[], Tensor]:
        if key[0] < len(self.known.owners) and key not in self.known.needs[self.index]:
            return self.refuse
        return functools.partial(self.mail.received, self.mail.expect(self.known.owner(key[0]), outline, self.call))

    def ran(self, output: Any) -> None:
        place = self.enter(self.index)
        for to, keys in enumerate(self.known.needs):
            self.send(place, output, to, [leaf for each, leaf in keys if each == place and to != self.index])
        self.end()

    def send(self, place: int, output: Any, to: int, leaves: Sequence[int]) -> None:
        """Some of what was given at a place, to a section."""
        now = pytree.tree_leaves(output) if leaves else []
        for leaf in leaves:
            if form_of(now[leaf]) != form_of(self.known.gave[place][0][leaf]):
                self.refuse()
            self.mail.send(now[leaf], to)

    def refuse(self) -> Tensor:
        raise ValueError(f"{self.mail.title}: its blocks give or take something else than in the call before; {REMEDY}")


def form_of(each: Any) -> Hashable:
    return (tuple(each.shape), each.dtype) if isinstance(each, Tensor | Outline) else repr(each)
