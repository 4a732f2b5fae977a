"""Turns for passwords to be tried: guesses wait for each other, and nobody else for them."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from latentloom.ui.access.throttle import AT_ONCE, MAX_PLACES, MAX_STRANGERS, MAX_TRIES, Throttle


@dataclass
class Held:
    """Stands in for the clock: a wrong password takes until the test lets it go."""

    free: asyncio.Event = field(default_factory=asyncio.Event)
    num: int = 0
    most: int = 0

    async def sleep(self, seconds: float) -> None:
        self.num += 1
        self.most = max(self.most, self.num)
        await self.free.wait()
        self.num -= 1


class Tries:
    """Passwords for a throttle whose clock stands still."""

    def __init__(self) -> None:
        self.clock = Held()
        self.throttle = Throttle(self.clock.sleep)

    def start(self, name: str, address: str, *, is_right: bool = False, browser: str = "") -> asyncio.Task[bool]:
        async def tried() -> bool:
            return is_right

        answer = self.throttle.tried(tried, name=name, address=address, browser=browser)
        return asyncio.create_task(answer)

    async def enters(self, name: str, address: str, *, browser: str = "") -> bool:
        """With the right password, while the clock stands still."""
        await settled()
        entering = self.start(name, address, is_right=True, browser=browser)
        await settled()
        return entering.done() and entering.result()

    async def end(self, tries: list[asyncio.Task[bool]]) -> list[Any]:
        await settled()
        self.clock.free.set()
        return [getattr(got, "status_code", got) for got in await asyncio.gather(*tries, return_exceptions=True)]


def played(play: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    return functools.wraps(play)(lambda **given: asyncio.run(play(**given)))


async def settled() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


@played
async def test_who_guesses_at_one_address_keeps_nobody_out_at_another() -> None:
    tries = Tries()
    guesses = [tries.start("ann", "10.0.0.1") for _ in range(40)]
    assert await tries.enters("ann", "10.0.0.2")
    assert await tries.enters("bob", "10.0.0.3")
    assert await tries.end(guesses) == [False] * MAX_TRIES + [429] * (40 - MAX_TRIES)
    assert tries.clock.most == 1


@played
async def test_guesses_from_many_addresses_are_few_at_a_time_and_known_places_still_enter() -> None:
    tries = Tries()
    assert await tries.enters("ann", "10.9.0.1")
    guesses = [tries.start("ann", f"10.0.0.{number}") for number in range(100)]
    assert await tries.enters("ann", "10.9.0.1")  # she has logged in from there
    assert await tries.enters("ann", "10.0.0.1", browser="hers")
    assert await tries.enters("bob", "10.9.0.2")
    answers = await tries.end(guesses)
    assert (answers.count(False), answers.count(429)) == (MAX_TRIES, 100 - MAX_TRIES)
    assert tries.clock.most == AT_ONCE


@played
async def test_a_browser_that_is_known_waits_for_its_own_guesses_only() -> None:
    tries = Tries()
    guesses = [tries.start("ann", "10.0.0.1", browser="lost") for _ in range(3)]
    assert await tries.enters("ann", "10.0.0.1", browser="hers")
    assert not await tries.enters("ann", "10.0.0.1", browser="lost")
    assert await tries.end(guesses) == [False] * 3 and tries.clock.most == 1


@played
async def test_guesses_leave_nothing_behind_and_places_are_few() -> None:
    tries = Tries()
    guesses = [tries.start(f"nobody{number}", f"10.0.{number}.1") for number in range(MAX_STRANGERS + 50)]
    assert (await tries.end(guesses)).count(429) == 50
    for number in range(2 * MAX_PLACES):
        assert await tries.enters("ann", f"10.1.0.{number}")
    assert tries.throttle.queues == {} and tries.throttle.num_strangers == 0
    assert list(tries.throttle.places) == ["ann"] and len(tries.throttle.places["ann"]) == MAX_PLACES


@played
async def test_nobody_waits_for_a_turn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.ui.access.throttle.MAX_WAIT_S", 0.01)
    tries = Tries()
    guess = tries.start("ann", "10.0.0.1")
    with pytest.raises(HTTPException, match="wait half a minute"):
        await tries.start("ann", "10.0.0.1", is_right=True)
    assert await tries.end([guess]) == [False]
