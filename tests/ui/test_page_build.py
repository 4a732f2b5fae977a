"""Building a workflow in the page: by mouse, by keyboard, wrong wires, undo, copies, saving."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import (
    call,
    card,
    choose,
    drag,
    enter,
    file_graph,
    file_text,
    middle,
    on_canvas,
    rest,
    say,
    socket,
    tab,
)
from support.first_picture import FIRST


def meaning(graph: dict[str, Any]) -> dict[str, Any]:
    """What a workflow does: without its name, its layout and its texts for people."""
    return {
        "params": {name: param["default"] for name, param in graph["params"].items()},
        "nodes": {
            name: {"type": node["type"], "inputs": node.get("inputs", {})} for name, node in graph["nodes"].items()
        },
        "outputs": [link["from"] for link in graph["outputs"].values()],
    }


def as_built(graph: dict[str, Any]) -> dict[str, Any]:
    """The first-picture workflow with the name that the page gives its last node."""
    text = json.dumps(graph).replace('"save"', '"save_image"').replace('"save.files"', '"save_image.files"')
    built = json.loads(text)
    for node in ("load_model", "save_image"):  # given in the file although they are the defaults
        built["nodes"][node]["inputs"] = {
            name: value for name, value in built["nodes"][node]["inputs"].items() if isinstance(value, dict)
        }
    return built


# --- by mouse ---


def test_the_first_picture_is_built_with_the_mouse(show: Callable[..., Page]) -> None:
    page = show()
    expect(page.get_by_text("This workflow is empty")).to_be_visible()
    at = places(page)
    page.mouse.dblclick(*at[0, 0])
    pick(page, "Load Model")
    expect(card(page, "load_model")).to_be_visible()
    page.get_by_role("button", name="Zoom out").click()
    rest(page)
    drag(page, card(page, "load_model").get_by_text("Load Model"), at[0, 0])
    model = socket(page, "load_model", "Output", "model")
    pull(page, model, at[1, 0], "Encode Text")
    pull(page, model, at[1, 1], "Empty Latents")
    pull(page, socket(page, "encode_text", "Output", "conditioning"), at[2, 0], "Denoise")
    drag(page, model, socket(page, "denoise", "Input", "model"))
    drag(page, socket(page, "empty_latents", "Output", "latents"), socket(page, "denoise", "Input", "latents"))
    pull(page, socket(page, "denoise", "Output", "latents"), at[3, 0], "Decode")
    drag(page, model, socket(page, "decode", "Input", "model"))
    pull(page, socket(page, "decode", "Output", "image"), at[3, 1], "Save Image")
    for node, field in (("encode_text", "prompt"), ("encode_text", "negative prompt"), ("denoise", "seed")):
        card(page, node).get_by_text(field, exact=True).first.click(button="right")
        page.get_by_role("menuitem", name=f"Make {field} a param").click()
    card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True).fill("a red star")
    card(page, "denoise").get_by_role("spinbutton", name="seed").fill("7")
    page.mouse.click(*at[0, 1])
    tab(page, "Inspector").click()
    choose(page, "Declare an output", "Save Image · files")

    assert meaning(file_graph(page)) == meaning(as_built(FIRST))
    card(page, "denoise").get_by_role("spinbutton", name="steps").fill("1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(card(page, "save_image")).to_have_attribute("data-status", re.compile("done|cached"))


def places(page: Page) -> dict[tuple[int, int], tuple[float, float]]:
    """Four columns and two rows on the canvas."""
    box = page.get_by_test_id("canvas").bounding_box()
    assert box is not None
    return {
        (column, row): (box["x"] + 80 + column * 235, box["y"] + 80 + row * 330)
        for column in range(4)
        for row in range(2)
    }


def pull(page: Page, start: Locator, to: tuple[float, float], node: str) -> None:
    """Drag a wire to an empty place and choose the node that goes there."""
    page.mouse.move(*middle(start))
    page.mouse.down()
    page.mouse.move(*to, steps=5)
    page.mouse.up()
    pick(page, node)


def pick(page: Page, node: str) -> None:
    page.get_by_role("dialog", name="Add node").get_by_role("option", name=node).first.click()


# --- by keyboard ---


@pytest.mark.by_hand
def test_the_first_picture_is_built_with_the_keyboard(show: Callable[..., Page]) -> None:
    page = show()
    go_to(page, page.get_by_role("button", name="Add node").first)
    page.keyboard.press("Enter")
    enter(page, "load model")
    for node, wires in (
        ("encode text", ["model"]),
        ("empty latents", ["model"]),
        ("denoise", ["model", "conditioning", "latents"]),
        ("decode", ["model", "latents"]),
        ("save image", ["image"]),
    ):
        page.keyboard.press("/")
        enter(page, node)
        name = node.replace(" ", "_")
        expect(on_canvas(page, name)).to_be_focused()
        for wire in wires:
            page.keyboard.press("Enter")
            # the input: where an output has the same name, it comes first
            enter(page, wire, down=1 if (name, wire) == ("denoise", "latents") else 0)
            enter(page, "denoise" if (name, wire) == ("decode", "latents") else "")  # where it comes from
            expect(on_canvas(page, name)).to_be_focused()
    panels = page.get_by_role("complementary", name="Panels")
    go_to(page, panels.get_by_role("tab", name="Queue"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    for name, values in (("encode_text", {"prompt": "a red star", "negative prompt": ""}), ("denoise", {"seed": "7"})):
        go_to(page, on_canvas(page, name), back=True)
        page.keyboard.press("Space")
        for field, value in values.items():
            go_to(page, panels.get_by_role("button", name=f"Make {field} a param"))
            page.keyboard.press("Enter")
            go_to(page, panels.get_by_label(re.compile(rf"^{field} \(", re.IGNORECASE)).first, back=True)
            page.keyboard.type(value)
    go_to(page, on_canvas(page, "denoise"), back=True)
    page.keyboard.press("Escape")
    go_to(page, panels.get_by_role("button", name="Declare an output"))
    page.keyboard.press("Enter")
    page.keyboard.type("save image")
    page.keyboard.press("Enter")

    assert meaning(file_graph(page)) == meaning(as_built(FIRST))
    page.keyboard.press("Control+Enter")
    expect(card(page, "save_image")).to_have_attribute("data-status", re.compile("done|cached"))


def go_to(page: Page, target: Locator, *, back: bool = False) -> None:
    """Press Tab until the target has the focus, as people without a mouse do."""
    element = target.element_handle()  # to find it anew each time takes longer than all else
    for _ in range(200):
        if element.evaluate("element => element.matches(':focus')"):
            return
        page.keyboard.press("Shift+Tab" if back else "Tab")
    raise AssertionError(f"Tab does not lead to {target}")


# --- wires that cannot be ---


WRONG_WIRES = {
    "model gives Model, and conditioning takes Conditioning": ("load_model Output model", "denoise Input conditioning"),
    "A node cannot feed itself": ("denoise Output latents", "denoise Input latents"),
    "Both ends are inputs": ("denoise Input sampling", "save Input image"),
}


def test_a_wrong_wire_is_refused_with_the_reason(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    before = file_text(page)
    for reason, (start, end) in WRONG_WIRES.items():
        said = page.get_by_test_id("canvas").locator(".ll-refusal").get_by_text(reason)
        page.mouse.move(*middle(socket(page, *start.split())))
        page.mouse.down()
        page.mouse.move(*middle(socket(page, *end.split())), steps=5)
        expect(said).to_be_visible()  # while it is dragged
        page.mouse.up()
        expect(said).to_be_visible()  # and after
        assert file_text(page) == before


# --- copies ---


def test_copies_go_from_one_workflow_to_another(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    on_canvas(page, "encode_text").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+c")
    choose(page, "File", "New")
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("Control+v")
    expect(card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)).to_have_value("a red star")


# --- saving ---


def test_save_asks_for_a_name_once_and_keeps_versions(page_server: Any, show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Save as a new workflow")
    dialog.get_by_label("Name").fill("Saved star")
    dialog.get_by_label("Name").press("Enter")
    expect(say(page, "Saved star is saved.")).to_be_visible()
    expect(page.get_by_role("img", name="Not saved yet")).to_have_count(0)
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    prompt.fill("1 star")
    prompt.blur()
    expect(page.get_by_role("img", name="Not saved yet")).to_be_visible()
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("Control+s")
    expect(page.get_by_role("img", name="Not saved yet")).to_have_count(0)
    kept = next(each for each in call(page_server.url, "workflows") if each["name"] == "Saved star")
    assert kept["version"] == 2
    graph = call(page_server.url, f"workflows/{kept['id']}")["graph"]
    assert graph["params"]["prompt"]["default"] == "1 star"
    assert graph["nodes"] == FIRST["nodes"]
