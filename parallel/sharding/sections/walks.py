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

from .mail import Due, Mail, described, outlined
from .waiting import Later, Outline, WaitingValues, finished

REMEDY = "use another plan than layers"
# Of one block's call, and of its outputs one: which of them cross is told by these.
Key = tuple[int, int]


class Done(Exception):
    """This section's last block has run: what is left of the forward is the last section's."""


@dataclass
class KnownCall:
    """What all ranks know of the calls of one kind."""

    owners: list[int] = field(default_factory=list[int])  # of the blocks in the order in which they ran
    # Of each of them what it gave: leaves, outlines among them, and how they lie.
    gave: list[tuple[list[Any], pytree.TreeSpec]] = field(default_factory=list[Any])
    result: tuple[list[Any], pytree.TreeSpec] | None = None
    needs: list[list[Key]] = field(default_factory=list[list[Key]])  # of each section, of others

    @property
    def last(self) -> int:
        """The section that ends the forward."""
        return self.owners[-1]

    def last_of(self, section: int) -> int:
        """The last block of a section, by its place in the order; -1 if it runs none."""
        return max((place for place, owner in enumerate(self.owners) if owner == section), default=-1)


class Awaited(WaitingValues):
    """Values of one call that come from other sections, each when it is looked at. `needs` is where a call is only
    tried: what would have been looked at."""

    def __init__(self, pending: list[weakref.ref[Later]], *, is_tried: bool = False) -> None:
        super().__init__(lambda: None)
        self._pending, self._is_tried = pending, is_tried
        self.needs: set[Any] = set()
        self._forget()

    def later(self, outline: Outline, make: Callable[[], Tensor], operands: Sequence[Any] = ()) -> Later:
        found = Later(outline, self, make)
        found.sources = frozenset().union(*(each.sources for each in operands if isinstance(each, Later)))
        self._pending.append(weakref.ref(found))
        return found

    def finished(self, value: Later) -> Tensor:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a value that another section computes is read in a thread that has not asked for it")
        if not self._is_tried:
            return value.compute()
        self.needs |= value.sources
        return Outline.of(value).zeros()

    def before_write(self, value: Later) -> None:
        for each in [each() for each in self._pending]:
            if each is not None and each.value is None and each is not value and each.sources & value.sources:
                each.finished()
        self._forget()

    def _forget(self) -> None:
        self._pending[:] = [each for each in self._pending if (kept := each()) is not None and kept.value is None]


class Walk:
    """A forward under way: what a block that is met gives, and what becomes of what one of this section gave."""

    is_tried = False

    def __init__(self, mail: Mail, known: KnownCall, pending: list[weakref.ref[Later]], call: int = 0) -> None:
        self.mail, self.known, self.call = mail, known, call
        self.index = mail.group.index
        self.place = -1  # of the block that was met last
        self.awaited = Awaited(pending, is_tried=self.is_tried)

    def meet(self, owner: int, given: Any) -> Any:
        raise NotImplementedError

    def ran(self, output: Any) -> None:
        raise NotImplementedError

    def enter(self, owner: int) -> int:
        """The place of the block that is met now."""
        self.place += 1
        owners = self.known.owners
        if self.place >= len(owners) or owners[self.place] != owner:
            raise ValueError(f"{self.mail.title}: it runs other blocks than in the call before; {REMEDY}")
        return self.place

    def waiting(self, place: int) -> Any:
        """What the block at a place gives, as values that wait."""
        leaves, spec = self.known.gave[place]
        owner = self.known.owners[place]
        return pytree.tree_unflatten(
            [self.awaited_from(owner, each, (place, leaf)) for leaf, each in enumerate(leaves)], spec
        )

    def awaited_from(self, owner: int, outline: Any, key: Key) -> Any:
        if not isinstance(outline, Outline):
            return outline
        later = self.awaited.later(outline, self.make(owner, outline, key))
        later.sources = frozenset({(self.call, *key)})
        return later

    def make(self, owner: int, outline: Outline, key: Key) -> Callable[[], Tensor]:
        raise NotImplementedError

    def end(self) -> None:
        if self.place == self.known.last_of(self.index) and self.index != self.known.last:
            raise Done


class Wide(Walk):
    """Collective at each block: its outputs go to all."""

    def meet(self, owner: int, given: Any) -> Any:
        words = self.mail.hear({"place": len(self.known.owners)})
        self.note(words, owner)
        leaves, spec = self.known.gave[-1]
        found = [self.mail.shared(None, each, owner) if isinstance(each, Outline) else each for each in leaves]
        return pytree.tree_unflatten(found, spec)

    def ran(self, output: Any) -> None:
        told = described(output, self.mail.title)
        words = self.mail.hear({"place": len(self.known.owners), "gave": told})
        self.note(words, self.index)
        for x, outline in zip(pytree.tree_leaves(output), self.known.gave[-1][0], strict=True):
            if isinstance(x, Tensor):
                self.mail.shared(x, outline, self.index)

    def note(self, words: Sequence[Mapping[str, Any]], owner: int) -> None:
        if "gave" not in words[owner] or len({each.get("place") for each in words}) > 1:
            raise ValueError(f"{self.mail.title}: sections ran its blocks in different orders; {REMEDY}")
        self.known.owners.append(owner)
        self.known.gave.append(pytree.tree_flatten(outlined(words[owner]["gave"], self.mail.device)))


class Tried(Walk):
    """No block runs, and nothing is sent: what this section's blocks look at is noted."""

    is_tried = True

    def meet(self, owner: int, given: Any) -> Any:
        place = self.enter(owner)
        if owner == self.index:
            finished(given)
            self.end()
        return self.waiting(place)

    def make(self, owner: int, outline: Outline, key: Key) -> Callable[[], Tensor]:
        return lambda: torch.empty(0)  # it is never asked


class Quick(Walk):
    """Own blocks run and send what others need; those of others give what will come, if somebody looks."""

    def __init__(self, mail: Mail, known: KnownCall, pending: list[weakref.ref[Later]], call: int) -> None:
        super().__init__(mail, known, pending, call)
        self.needs = frozenset(known.needs[self.index])
        self.due: Due | None = None  # of the value that is made now

    def meet(self, owner: int, given: Any) -> Any:
        return self.waiting(self.enter(owner))

    def make(self, owner: int, outline: Outline, key: Key) -> Callable[[], Tensor]:
        if key not in self.needs and key[0] < len(self.known.owners):
            return functools.partial(self.missing, key)
        due = self.mail.expect(owner, outline, self.call)
        self.due = due
        return functools.partial(self.mail.received, owner, due.number)

    def awaited_from(self, owner: int, outline: Any, key: Key) -> Any:
        self.due = None
        later = super().awaited_from(owner, outline, key)
        due: Due | None = self.due
        if due is not None:
            due.wanted = weakref.ref(later)
        return later

    def missing(self, key: Key) -> Tensor:
        raise ValueError(f"{self.mail.title}: it looks at more blocks than in the call before; {REMEDY}")

    def ran(self, output: Any) -> None:
        place = self.enter(self.index)
        now = pytree.tree_leaves(output)
        for to, keys in enumerate(self.known.needs):
            for each, leaf in keys:
                if each == place and to != self.index:
                    if form_of(now[leaf]) != form_of(self.known.gave[place][0][leaf]):
                        raise ValueError(
                            f"{self.mail.title}: a block gives another shape than in the call before; {REMEDY}"
                        )
                    self.mail.send(now[leaf], to)
        self.end()


def form_of(each: Any) -> Hashable:
    return (tuple(each.shape), each.dtype) if isinstance(each, Tensor | Outline) else str(each)
