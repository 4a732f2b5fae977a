"""Sub-workflows on the page: fold, go through a list, run, publish, unfold; open inside, edit, come back."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from latentloom.nodes.graph.graph import graph_to_plain
from support.browser import MODEL_MS, call, card, file_graph, on_canvas, tab
from support.folded import paintings

INSIDE = ("encode_text", "empty_latents", "denoise", "decode", "save")


@pytest.mark.by_hand
def test_folded_nodes_go_through_a_list_and_unfold(
    page_server: Any, show: Callable[..., Page], first: dict[str, Any]
) -> None:
    page = show(graph=first)
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
    for kept in call(page_server.url, "workflows"):  # no other test's palette has it
        call(page_server.url, f"workflows/{kept['id']}", method="DELETE")

    part.click(position={"x": 60, "y": 12})
    page.get_by_role("combobox", name="Input", exact=True).select_option("")
    part.click(button="right", position={"x": 60, "y": 12})
    page.get_by_role("menuitem", name="Unfold into its nodes").click()
    for name in INSIDE:
        expect(card(page, name)).to_have_count(1)
    assert "subs" not in file_graph(page)


@pytest.mark.by_hand
def test_a_sub_workflow_is_opened_edited_and_run_inside_and_its_list_is_a_line_for_each_in_simple(
    show: Callable[..., Page],
) -> None:
    graph = graph_to_plain(paintings(("a red star", "a blue ring")))
    paint = graph["nodes"]["paint"]
    graph["nodes"]["more"] = {"type": "sub:paint", "version": 1, "inputs": {**paint["inputs"], "prompt": "a cube"}}
    page = show(graph=graph)
    card(page, "paint").locator(".ll-node-icon").dblclick()
    place = page.get_by_role("navigation", name="Where you are in the workflow")
    expect(place).to_contain_text("Used by 2 nodes: what you change here changes all of them.")
    assert page.evaluate(UNCOVERED, place.element_handle())
    expect(card(page, "denoise")).to_contain_text("from outside")

    width = card(page, "canvas").get_by_role("spinbutton").first
    width.fill("90")
    page.keyboard.press("Enter")
    expect(card(page, "canvas").get_by_role("img", name="90 x 96 is no size")).to_be_visible()
    panels = page.get_by_role("complementary", name="Panels")
    panels.get_by_role("tab", name="Inspector").click()
    panels.get_by_role("region", name="Param steps").get_by_role("button", name="Options").click()
    panels.get_by_role("textbox", name="Name").fill("count")
    page.keyboard.press("Enter")
    place.get_by_role("button", name="paintings").click()
    expect(card(page, "paint").get_by_role("img", name="90 x 96 is no size")).to_be_visible()
    edited = file_graph(page)
    assert edited["subs"]["paint"]["nodes"]["canvas"]["inputs"]["width"] == 90
    assert all("count" in edited["nodes"][name]["inputs"] for name in ("paint", "more"))

    panels.get_by_role("tab", name="Problems").click()
    panels.get_by_role("button", name="90 x 96 is no size").first.click()
    expect(width).to_be_focused()
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(width).to_have_value("96")
    page.keyboard.press("Control+Enter")
    expect(card(page, "denoise")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    page.keyboard.press("Escape")  # lets go of the node that the problem is of
    page.keyboard.press("Escape")
    expect(place).to_have_count(0)
    expect(on_canvas(page, "paint")).to_be_focused()

    for name, left in (("more", 1), ("paint", 0)):
        on_canvas(page, name).focus()
        page.keyboard.press("Space")
        page.keyboard.press("Delete")
        if not left:  # it stands for some seconds only
            expect(page.get_by_text("Paint is used by no node any more")).to_be_visible()
        assert len(file_graph(page).get("subs", {})) == left
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("Control+z")
    assert "paint" in file_graph(page)["subs"]

    tab(page, "Simple").click()
    page.get_by_role("button", name="Add one").click()
    page.get_by_role("textbox", name="element 3").fill("a green cube")
    page.get_by_role("button", name="Remove element 1").click()
    expect(page.get_by_role("textbox", name="element 1")).to_have_value("a blue ring")
    expect(page.get_by_role("textbox", name="element 2")).to_have_value("a green cube")


UNCOVERED = """(bar) => {
  const { left, top, width, height } = bar.getBoundingClientRect();
  return bar.contains(bar.getRootNode().elementFromPoint(left + width / 2, top + height / 2)) && height > 20;
}"""
