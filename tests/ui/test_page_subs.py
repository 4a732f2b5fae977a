"""Sub-workflows on the page: fold, go through a list, run, publish, unfold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from support.browser import MODEL_MS, card, file_graph, on_canvas

if TYPE_CHECKING:
    from playwright.sync_api import Page

INSIDE = ("encode_text", "empty_latents", "denoise", "decode", "save")


def test_folded_nodes_go_through_a_list_and_unfold(
    page_server: Any, open_page: Callable[..., Page], first: dict[str, Any]
) -> None:
    page = open_page(page_server.url, graph=first)
    for name in INSIDE:
        on_canvas(page, name).focus()
        page.keyboard.press("Shift+Space")
    page.keyboard.press("Control+Shift+G")
    part = card(page, "part")
    expect(part).to_be_visible()
    expect(page.get_by_text("5 folded into one")).to_be_attached()
    folded = file_graph(page)
    assert {*folded["nodes"]} == {"load_model", "part"} and {*folded["subs"]["part"]["nodes"]} == {*INSIDE}

    page.get_by_role("complementary", name="Panels").get_by_role("tab", name="Inspector").click()
    page.get_by_role("combobox", name="Input", exact=True).select_option("prompt")
    lines = page.get_by_role("textbox", name="Lines")
    lines.fill("a red star\na blue ring")
    lines.blur()
    expect(part).to_contain_text("each of: a red star, a blue ring")
    page.keyboard.press("Control+Enter")
    expect(part).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    expect(part.get_by_role("button", name="Open the result")).to_have_count(2)

    part.click(button="right", position={"x": 60, "y": 12})
    page.get_by_role("menuitem", name="Publish to my palette").click()
    expect(page.get_by_text("part is in your palette now")).to_be_visible()
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("/")
    page.get_by_role("group", name="my parts").get_by_role("option", name="part").click()
    expect(card(page, "part_2")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(card(page, "part_2")).to_have_count(0)

    part.click(position={"x": 60, "y": 12})
    page.get_by_role("combobox", name="Input", exact=True).select_option("")
    part.click(button="right", position={"x": 60, "y": 12})
    page.get_by_role("menuitem", name="Unfold into its nodes").click()
    for name in INSIDE:
        expect(card(page, name)).to_have_count(1)
    assert "subs" not in file_graph(page)
