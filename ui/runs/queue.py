"""Whose run is next: users take turns, run by run, and each one's own runs keep his order.

The next is of the user who has waited longest since one of his began. What may wait until the machine is idle goes once
nothing else waits; what was under way when the server ended goes before all.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..contract.run import Priority
from ..live.state import RunRecord

OWN_ORDER: tuple[Priority, ...] = ("next", "normal", "idle")


class RunQueue:
    """Every change is handed to `keep`, as all ids in order, before it holds; not for several threads at a time."""

    def __init__(self, keep: Callable[[Sequence[str]], None]) -> None:
        self._keep = keep
        self.waiting: tuple[RunRecord, ...] = ()  # as they were put in: only their priorities follow
        self._turns: dict[str, int] = {}  # by user: the number of the turn in which a run of his began last
        self._numbers = itertools.count(1)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.waiting)

    def add(self, runs: Iterable[RunRecord]) -> None:
        """Behind the user's others."""
        self._change([*self.waiting, *runs])

    def take(self) -> None:
        # nothing is kept of it: the run's own record says that it began
        first, *rest = self.waiting
        if not first.is_back:
            self._turns[first.user] = next(self._numbers)
        self.waiting = tuple(rest)

    def remove(self, ids: Collection[str]) -> None:
        if not {each.id for each in self.waiting}.isdisjoint(ids):
            self._change([each for each in self.waiting if each.id not in ids])

    def move(self, id: str, before: str | None, user: str) -> None:
        """In front of another of the user's, or behind all of them, with the priority of the one that was there."""
        mine = [each for each in self.waiting if each.user == user]
        moved = next(each for each in mine if each.id == id)
        mine.remove(moved)
        if mine:
            at = next((place for place, each in enumerate(mine) if each.id == before), len(mine))
            priority = mine[min(at, len(mine) - 1)].priority
            mine.insert(at, moved.model_copy(update={"priority": priority}))
            self._change([*(each for each in self.waiting if each.user != user), *mine])

    def set_priority(self, ids: Collection[str], priority: Priority) -> None:
        self._change(
            each.model_copy(update={"priority": priority}) if each.id in ids else each for each in self.waiting
        )

    def _change(self, waiting: Iterable[RunRecord]) -> None:
        found = in_turns(list(waiting), self._turns)
        self._keep([each.id for each in found])
        self.waiting = tuple(found)


def in_turns(waiting: Sequence[RunRecord], turns: Mapping[str, int]) -> list[RunRecord]:
    """In the order in which they will begin; `turns` is when each user's last began, and those without one go first."""
    found = [each for each in waiting if each.is_back]
    # The turns are played forward, round by round: whose last one is longest ago goes first.
    last = dict(turns)
    numbers = itertools.count(max(last.values(), default=0) + 1)
    came: dict[str, int] = {}  # of users who have had no turn as yet, who came first
    for place, each in enumerate(waiting):
        if not each.is_back:
            came.setdefault(each.user, place)
    for is_idle in (False, True):
        own: dict[str, list[RunRecord]] = {}
        for each in sorted(waiting, key=lambda each: OWN_ORDER.index(each.priority)):
            if not each.is_back and (each.priority == "idle") == is_idle:
                own.setdefault(each.user, []).append(each)
        users = sorted(own, key=lambda user: (last.get(user, 0), came[user]))
        for each in filter(None, itertools.chain(*itertools.zip_longest(*(own[user] for user in users)))):
            found.append(each)
            last[each.user] = next(numbers)
    return found
