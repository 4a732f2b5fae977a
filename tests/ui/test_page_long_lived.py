"""A page that is open for hours, made short: tabs by the dozen, hundreds of nodes, servers that die; then wires."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from latentloom.nodes.graph.graph import graph_to_plain
from support.browser import Watch, call, card, drag, drop_file, file_graph, rest, say, socket
from support.folded import paintings

NUM_TABS, NUM_NODES = 40, 300


def plain(name: str, count: int = 0) -> dict[str, Any]:
    """Two nodes that nothing links, and as many linked ones besides."""
    nodes: dict[str, Any] = {"load_model": {"type": "LoomLoadModel"}, "empty_latents": {"type": "LoomEmptyLatents"}}
    layout: dict[str, Any] = {"load_model": [0, 0], "empty_latents": [400, 0]}
    for number in range(count):
        nodes[f"n{number}"] = {"type": "LoomEmptyLatents", "inputs": {"model": {"from": "load_model.model"}}}
        layout[f"n{number}"] = [400 * (number % 20), 500 + 500 * (number // 20)]
    return {"format": 1, "name": name, "nodes": nodes, "layout": layout}


def opened(page: Page, graph: dict[str, Any]) -> None:
    content = json.dumps(graph).encode()
    drop_file(page, page.get_by_test_id("canvas"), name="w.json", content=content, media_type="application/json")
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_value(graph["name"])
    rest(page)


def wire_is_drawn(page: Page) -> None:
    drag(page, socket(page, "load_model", "Output", "model"), socket(page, "empty_latents", "Input", "model"))
    assert file_graph(page)["nodes"]["empty_latents"]["inputs"]["model"] == {"from": "load_model.model"}


@pytest.mark.by_hand  # a minute
def test_after_restarts_many_tabs_and_hundreds_of_nodes_wires_can_be_drawn(
    start_page: Callable[..., Any], open_page: Callable[..., Page], watch: Watch, tmp_path: Path
) -> None:
    watch.foresee("Failed to load resource", "WebSocket connection", "ERR_")  # while the server is away
    server = start_page(folder=tmp_path)
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    page = open_page(server.url)
    tabs = page.get_by_role("tablist", name="Open workflows").get_by_role("tab")
    for number in range(NUM_TABS):
        graph = graph_to_plain(paintings()) if number % 10 == 5 else plain(f"w{number}", NUM_NODES * (number == 20))
        opened(page, {**graph, "name": f"w{number}"})
        if number:  # of one there is no bar
            expect(tabs.last).to_be_in_viewport()
        if number % 10 == 5:
            card(page, "paint").locator(".ll-node-icon").dblclick()
            expect(card(page, "denoise")).to_be_visible()
            page.keyboard.press("Escape")
        if number in (15, 30):
            server.process.kill()
            server.process.wait()
            expect(say(page, "The server does not answer")).to_be_visible()
            server = start_page(folder=tmp_path, port=port)
            page.evaluate("dispatchEvent(new Event('online'))")
            expect(say(page, "The server was started again")).to_be_visible()
    expect(tabs).to_have_count(NUM_TABS)
    for name in ("w0", "w20", "w39"):
        page.get_by_role("button", name="All open workflows").click()
        page.get_by_role("menuitem", name=name, exact=True).click()
        rest(page)
        expect(page.get_by_role("tab", name=name, exact=True)).to_be_in_viewport(
            ratio=0.99
        )  # widths are fractions of a pixel
        wire_is_drawn(page)
    assert len(call(server.url, "drafts")) == NUM_TABS
