"""Opened and arranged workflows can be read: text large enough, no wire behind a node, nothing on anything else.

`tests/bench/canvas_geometry.py` measures all of it at all sizes, and more graphs.
"""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import card
from support.canvas_geometry import LEAST_PX, SCRIPT, opened, shipped


@pytest.fixture
def page(page_server: Any, open_page: Callable[..., Page]) -> Page:
    page = open_page(page_server.url)
    page.evaluate(SCRIPT)
    return page


@pytest.mark.by_hand
def test_from_afar_nodes_are_titles_that_can_be_read(page: Page) -> None:
    opened(page, next(graph for graph in shipped() if graph["name"] == "prompt_grid"))
    page.get_by_role("button", name="Show all", exact=True).click()
    title = card(page, "denoise_1").locator(".ll-far-title")
    expect(title).to_be_visible()
    page.evaluate("geometry.still()")
    zoom = page.evaluate("geometry.measure().zoom")
    assert zoom < 0.75
    assert zoom * title.evaluate("(node) => parseFloat(getComputedStyle(node).fontSize)") >= LEAST_PX
    expect(card(page, "denoise_1").get_by_text("Steps", exact=True)).to_be_hidden()


@pytest.mark.by_hand
def test_the_wires_of_the_node_under_the_pointer_stand_out(page: Page) -> None:
    opened(page, next(graph for graph in shipped() if graph["name"] == "first_picture"))
    shade = "(path) => Number(getComputedStyle(path).strokeOpacity)"
    model, image = (
        page.locator(f'[data-id="e:{end}"] .react-flow__edge-path') for end in ("denoise.model", "save.image")
    )
    assert [wire.evaluate(shade) for wire in (model, image)] == [1, 1]
    card(page, "denoise").hover(position={"x": 60, "y": 20})
    expect(image).to_have_css("stroke-opacity", "0.16")
    assert model.evaluate(shade) == 1
