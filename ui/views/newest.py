"""Questions that take long: of each page only the newest is answered, and who asks the same shares the latest answer.

An edit asks anew before the answer about the one before is there. That one is then not begun any more, or ends at the
next node. Answers are worked out in threads of their own, so that neither the event loop nor other routes wait; those
of one user take turns, so that his pages keep no other user waiting.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from ...parallel.errors import Cancelled
from ..errors import Superseded

T = TypeVar("T")
# Works an answer out; calls what it is given before each node, which raises `Cancelled` once nobody waits for it.
Ask = Callable[[Callable[[], None]], T]
NUM_THREADS = 4
OF_ONE_USER = 2  # answers that are worked out for one user at a time


class Newest:
    """Belongs to the event loop of the pages. `close` it."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="check")
        # What says that a newer question came, by user, page and what is asked.
        self._asked: dict[tuple[str, str, str], threading.Event] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by user, while he asks

    async def answer(self, ask: Ask[T], *, user: str, page: str, about: str) -> T:
        """Raises `Superseded` where the page asks anew about the same; one without a name never does."""
        key, is_old = (user, page, about), threading.Event()
        if page and (older := self._asked.get(key)) is not None:
            older.set()
        self._asked[key] = is_old

        def go_on() -> None:
            if is_old.is_set():
                raise Cancelled

        turns = self._turns.setdefault(user, asyncio.Semaphore(OF_ONE_USER))
        try:
            async with turns:
                go_on()
                return await asyncio.get_running_loop().run_in_executor(self._threads, ask, go_on)
        except Cancelled:
            raise Superseded("the workflow was edited since, and the newer one is looked at instead") from None
        finally:
            if self._asked.get(key) is is_old:
                del self._asked[key]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Latest(Generic[T]):
    """Threads share it. Who asks while an answer is made waits for it, also who wants a new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[object, float, T] | None = None  # of what, since when, and the answer

    def of(self, what: object, make: Callable[[], T], *, fresh_s: float) -> T:
        """What was begun at most so long ago, or while this waited; else it is made now."""
        oldest = time.monotonic() - fresh_s
        with self._lock:
            if self._last is None or self._last[0] != what or self._last[1] < oldest:
                began = time.monotonic()
                self._last = what, began, make()
            return self._last[2]

    def last(self, what: object) -> T | None:
        last = self._last
        return last[2] if last is not None and last[0] == what else None
