"""Who uses which components now: several threads at a time in one condition, in the order in which they asked.

A *condition* is what a use changes of a component: which LoRAs are on it, whether its weights are shared, whether hooks
are. Threads that want the same one need not wait for each other.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping

ASK_S = 0.1
"""Between looks at whether a waiting job was cancelled; a loan that ends is heard of at once."""

Wanted = Mapping[Hashable, Hashable]
"""{component: the condition it has to be in while it is used}."""


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
        self._lent: dict[Hashable, tuple[Hashable, int]] = {}
        """The condition of each component in use, and how many use it."""
        self._num_held = 0
        self._asking: list[Wanted] = []
        """Who waits for a component, in the order in which they asked."""
        self._mine = threading.local()
        """`is_held`: whether this thread holds a loan."""

    @contextlib.contextmanager
    def of(self, wanted: Wanted, check: Callable[[], None]) -> Iterator[None]:
        """Within it nobody has these components in another condition; `check` may raise, to end the wait."""
        assert not getattr(self._mine, "is_held", False), (
            "a thread that holds a loan asks for another, which could wait for one that waits for it; "
            "end the first, or ask in another thread"
        )
        self._take(wanted, check)
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

    def _take(self, wanted: Wanted, check: Callable[[], None]) -> None:
        with self._changed:
            self._asking.append(wanted)
        try:
            while True:
                with self._changed:
                    if self._is_free(wanted):
                        self._num_held += 1
                        for name, condition in wanted.items():
                            self._lent[name] = (condition, self._lent.get(name, (condition, 0))[1] + 1)
                        return
                    self._changed.wait(ASK_S)
                check()  # outside: it may take locks of its own
        finally:
            with self._changed:
                self._asking = [each for each in self._asking if each is not wanted]
                self._changed.notify_all()

    def _is_free(self, wanted: Wanted) -> bool:
        """Whether nobody who holds a loan, or has asked before, wants one of these in another condition."""
        held = {name: condition for name, (condition, _) in self._lent.items()}
        earlier = itertools.takewhile(lambda each: each is not wanted, self._asking)
        return all(
            each.get(name, condition) == condition for each in (held, *earlier) for name, condition in wanted.items()
        )
