"""Nodes from outside on the page: in the catalog, on the canvas with their own wires, and in the plan."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from latentloom.nodes.files.picture_files import read_metadata
from support.browser import call, card, file_graph, made, socket
from support.outside import install_example, workflow


@pytest.fixture(scope="module")
def outside_server(start_page: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The real page of a server that the example package is installed for, and that has a folder besides."""
    (folder := tmp_path_factory.mktemp("own")).chmod(0o755)
    (folder / "studio.py").write_text(
        "from latentloom import read_spec\n"
        "def shout(text: str = '') -> str:\n    return text.upper()\n"
        "NODES = {'studio_Shout': read_spec(shout, title='Shout', category='studio')}\n"
    )
    path = install_example(tmp_path_factory.mktemp("installed"))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(path), before or ""])
    try:
        return start_page("--nodes", str(folder))
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def graph() -> dict[str, Any]:
    return workflow("builtin:bobbin")


def test_the_servers_catalog_has_them_and_its_plan_is_right_for_their_canvas(outside_server: Any) -> None:
    catalog = call(outside_server.url, "catalog")
    nodes = {node["id"]: node for node in catalog["nodes"]}
    assert {"loom_example_Palette", "studio_Shout"} <= nodes.keys()
    assert {"loom_example_Palette", "list[float]"} <= set(catalog["types"])

    def planned(**canvas: Any) -> Any:
        plain = graph()
        if canvas:
            inputs = {"model": {"from": "load.model"}, **canvas}
            plain["nodes"]["canvas"] = {"type": "LoomEmptyLatents", "inputs": inputs}
        return call(outside_server.url, "plan", {"graph": plain})["nodes"][0]

    assert planned() == planned(width=160, height=160) and planned()["problem"] == ""
    assert planned()["ranks"] != planned(width=128, height=128)["ranks"]
    kinds = {problem["kind"] for problem in call(outside_server.url, "check", {"graph": graph()})["problems"]}
    assert kinds == {"unknown"}  # what the other package's node gives


@pytest.mark.by_hand
def test_the_canvas_draws_them_and_takes_their_wires_and_no_others(
    outside_server: Any, open_page: Callable[..., Page]
) -> None:
    plain = graph()
    del plain["nodes"]["tint"]["inputs"]["palette"]
    others = [name for name in plain["nodes"] if name not in ("palette", "tint")]
    plain["layout"] = {name: [40 + 320 * at, 800] for at, name in enumerate(others)}
    plain["layout"] |= {"palette": [40, 40], "tint": [400, 40]}  # both in view
    page = open_page(outside_server.url, graph=plain, has_touch=True)
    expect(card(page, "palette").get_by_text("Palette").first).to_be_visible()
    expect(socket(page, "palette", "Output", "swatch")).to_be_visible()
    socket(page, "palette", "Output", "swatch").tap()
    socket(page, "tint", "Input", "palette").tap()
    expect(page.locator(".ll-refusal").get_by_text("takes loom_example_Palette")).to_be_visible()
    socket(page, "palette", "Output", "palette").tap()
    socket(page, "tint", "Input", "palette").tap()
    assert file_graph(page)["nodes"]["tint"]["inputs"]["palette"] == {"from": "palette.palette"}
    assert file_graph(page)["nodes"]["tint"]["inputs"]["strengths"] == [0.25, 0.5]
    assert file_graph(page)["requires"] == {"loom-example": ">=1.0"}


def test_they_run_on_the_page_and_what_they_make_names_the_package(outside_server: Any) -> None:
    plain = graph()
    del plain["requires"]
    assert made(outside_server.url, plain)
    [picture] = outside_server.output_dir.rglob("swatch.png")
    assert json.loads(read_metadata(picture)["latentloom"])["requires"] == {"loom-example": ">=1.0"}
    text = json.loads(call(outside_server.url, "text", {"graph": plain})["text"])
    assert text["requires"] == {"loom-example": ">=1.0"}
