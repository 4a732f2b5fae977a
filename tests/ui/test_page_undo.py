"""Undo in the page: random edits back to the start, and forth again."""

import random
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page

from support.browser import card, enter, file_text, toolbar
from support.first_picture import FIRST

MOST = 100  # steps that a button takes back before it counts as one without an end
MERGED = 6  # at most: an edit that goes on with the one just before it is one step with it


@pytest.mark.parametrize("num_edits", [8, pytest.param(56, marks=pytest.mark.by_hand)])
def test_undo_takes_back_random_edits_and_redo_makes_them_again(show: Callable[..., Page], num_edits: int) -> None:
    page = show(graph=FIRST)
    start = file_text(page)
    dice = random.Random(6)
    for number in range(num_edits):
        dice.choice(EDITS)(page, number)
    end = file_text(page)
    assert end != start
    num_steps = press_until_disabled(page, "Undo", "Control+z")
    assert num_edits - MERGED <= num_steps <= num_edits
    assert file_text(page) == start
    assert press_until_disabled(page, "Redo", "Control+y") == num_steps
    assert file_text(page) == end


def press_until_disabled(page: Page, button: str, keys: str) -> int:
    """How often it could be pressed."""
    found = toolbar(page).get_by_role("button", name=button)
    page.get_by_test_id("canvas").focus()
    for count in range(MOST):
        if found.is_disabled():
            return count
        page.keyboard.press(keys)
    raise AssertionError(f"{button} has no end")


def some_node(page: Page, number: int) -> Locator:
    """One of the nodes, focused and alone selected."""
    nodes = page.locator(".react-flow__node-card")
    node = nodes.nth(number % nodes.count())
    node.focus()
    page.keyboard.press("Space")
    return node


def add(page: Page, number: int) -> None:
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("/")
    enter(page, ("seed", "join text", "decode", "empty latents", "comment")[number % 5])


def press(keys: str) -> Callable[[Page, int], None]:
    """An edit of one node."""

    def edit(page: Page, number: int) -> None:
        some_node(page, number)
        page.keyboard.press(keys)

    return edit


def move(page: Page, number: int) -> None:
    """By one step; merged with the same move just before, so another node is moved each time."""
    some_node(page, number)
    page.keyboard.press(("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown")[number % 4])


def rename(page: Page, number: int) -> None:
    name = toolbar(page).get_by_role("textbox", name="Name")
    name.fill(f"random {number}")
    name.press("Enter")


def write(page: Page, number: int) -> None:
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    if prompt.count() == 0:  # folded
        return rename(page, number)
    prompt.fill(f"{number} stars")
    prompt.blur()
    return None


duplicate, fold, mute, bypass, group = map(press, ("Control+d", ".", "Control+m", "Control+b", "Control+g"))


def delete(page: Page, number: int) -> None:
    """A copy, so that the first nodes stay."""
    copies = page.locator(".react-flow__node-card").filter(has=page.locator('[data-testid$="_2"], [data-testid$="_3"]'))
    if copies.count() == 0:
        return duplicate(page, number)
    copies.first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Delete")
    return None


EDITS = (add, duplicate, move, fold, mute, bypass, group, rename, write, delete)
