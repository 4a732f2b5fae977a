"""Turns for passwords to be tried: guesses wait for each other, and whoever guesses not does not wait for them.

A try passes one or two queues. A wrong password holds its turns for `WRONG_S`, the right one for no time, so each queue
gives away at most as many answers a second as passwords may be tried in it at once:

    from a browser that has logged in as this user     a queue of the browser's
    from an address that has                           the queue of the address
    from elsewhere                                     the queue of the address, then the user's, for all strangers

So one address learns one answer a second and does not fill a user's queue, many addresses learn four, and neither keeps
out a user at a place that is known. A queue exists while somebody stands in it: guesses leave nothing behind.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

WRONG_S = 1.0  # how long a wrong password takes
AT_ONCE = 4  # passwords for one user that strangers may have tried at once, each from another address
MAX_TRIES = 20  # in one queue
MAX_STRANGERS = 1000  # tries under way in all, those from known browsers aside
MAX_WAIT_S = 30.0  # for a turn: somebody before may himself wait for a user's queue
MAX_PLACES = 16  # addresses that are remembered of a user

Key = tuple[str, ...]


@dataclass
class _Queue:
    turns: asyncio.Semaphore
    num_tries: int = 0


@dataclass
class Throttle:
    """For the tasks of one event loop."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    queues: dict[Key, _Queue] = field(default_factory=dict)
    # The last addresses from which each user has logged in.
    places: dict[str, OrderedDict[str, None]] = field(default_factory=dict)
    num_strangers: int = 0

    async def tried(self, is_right: Callable[[], Awaitable[bool]], *, name: str, address: str, browser: str) -> bool:
        """Whether it is, when its turn has come; `browser` has logged in as `name`, or is empty. Raises 429."""
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(MAX_WAIT_S):
                    for key, width in self._way(name, address, browser):
                        await held.enter_async_context(self._turn(key, width))
            except TimeoutError:
                raise _too_many() from None
            if not await is_right():
                # with its turns held: that is what makes the others wait
                await self.sleep(WRONG_S)
                return False
        self._remember(name, address)
        return True

    def _way(self, name: str, address: str, browser: str) -> list[tuple[Key, int]]:
        if browser:
            return [(("browser", name, browser), 1)]
        if address in self.places.get(name, ()):
            return [(("address", address), 1)]
        return [(("address", address), 1), (("user", name), AT_ONCE)]

    @asynccontextmanager
    async def _turn(self, key: Key, width: int) -> AsyncIterator[None]:
        queue = self.queues.get(key) or _Queue(asyncio.Semaphore(width))
        is_stranger = key[0] == "address"
        if queue.num_tries >= MAX_TRIES or (is_stranger and self.num_strangers >= MAX_STRANGERS):
            raise _too_many()
        self.queues[key] = queue
        queue.num_tries += 1
        self.num_strangers += is_stranger
        try:
            async with queue.turns:
                yield
        finally:
            queue.num_tries -= 1
            self.num_strangers -= is_stranger
            if not queue.num_tries:
                del self.queues[key]

    def _remember(self, name: str, address: str) -> None:
        places = self.places.setdefault(name, OrderedDict())
        places[address] = None
        places.move_to_end(address)
        while len(places) > MAX_PLACES:
            places.popitem(last=False)


def _too_many() -> HTTPException:
    return HTTPException(
        429, "many passwords are being tried from your address or for this name; wait half a minute, then log in"
    )
