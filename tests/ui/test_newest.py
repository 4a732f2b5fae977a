"""A page that asks while it is edited: the newest question wins, and nobody else waits for it."""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from latentloom.ui.errors import Superseded
from latentloom.ui.views.newest import Newest

NODES, NODE_S = 20, 0.01
ENDED: list[str] = []


def slow(name: str) -> Callable[[Callable[[], None]], str]:
    """A walk over nodes that take their time."""

    def ask(go_on: Callable[[], None]) -> str:
        for _ in range(NODES):
            go_on()
            time.sleep(NODE_S)
        ENDED.append(name)
        return name

    return ask


async def longest_pause(until: "asyncio.Future[list[object]]") -> float:
    longest, last = 0.0, time.monotonic()
    while not until.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


async def edit_quickly(newest: Newest) -> tuple[list[object], str, float]:
    """What 20 quick edits of one page were answered, what another user was meanwhile, and the loop's longest pause."""
    asked = []
    for number in range(20):
        asked.append(asyncio.ensure_future(newest.answer(slow(str(number)), user="ada", page="p", about="check")))
        await asyncio.sleep(NODE_S)
    other = asyncio.ensure_future(newest.answer(slow("other"), user="bob", page="p", about="check"))
    answers = asyncio.gather(*asked, return_exceptions=True)
    pause = await longest_pause(answers)
    return await answers, await other, pause


def test_of_twenty_quick_edits_the_last_is_answered_and_the_loop_is_free() -> None:
    ENDED.clear()
    with closing(Newest()) as newest:
        answers, other, pause = asyncio.run(edit_quickly(newest))
    assert answers[-1] == "19" and all(isinstance(answer, Superseded) for answer in answers[:-1])
    assert other == "other" and len(ENDED) <= 3  # two of the page's at most, and the other user's
    assert pause < NODES * NODE_S


def test_pages_and_questions_of_other_kinds_do_not_end_each_other() -> None:
    async def ask(newest: Newest) -> list[str]:
        kinds = [("one", "check"), ("one", "plan"), ("two", "check"), ("", "check"), ("", "check")]
        return await asyncio.gather(
            *(
                newest.answer(lambda go_on: go_on() or "told", user="ada", page=page, about=about)
                for page, about in kinds
            )
        )

    with closing(Newest()) as newest:
        assert asyncio.run(ask(newest)) == ["told"] * 5


def test_what_goes_wrong_is_told_to_who_asked() -> None:
    def ask(go_on: Callable[[], None]) -> str:
        raise ValueError("no workflow; give one")

    with closing(Newest()) as newest, pytest.raises(ValueError, match="give one"):
        asyncio.run(newest.answer(ask, user="ada", page="p", about="check"))
