"""What else the canvas can do: touch, reroutes, comments, modes, several nodes at once, the outline."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import MODEL_MS, Watch, card, drag, enter, file_graph, middle, on_canvas, socket
from support.first_picture import FIRST, picture_graph


def unwired() -> dict[str, Any]:
    """The first-picture workflow without the wire to the conditioning."""
    graph = picture_graph()
    graph["nodes"]["denoise"]["inputs"] |= {"steps": 2}
    del graph["nodes"]["denoise"]["inputs"]["conditioning"]
    return graph


@pytest.mark.by_hand
def test_sockets_are_wired_by_two_taps(show: Callable[..., Page]) -> None:
    page = show(graph=unwired(), has_touch=True)
    output = socket(page, "encode_text", "Output", "conditioning")
    output.tap()
    socket(page, "denoise", "Input", "sampling").tap()
    expect(page.locator(".ll-refusal").get_by_text("sampling takes Sampling")).to_be_visible()
    output.tap()
    socket(page, "denoise", "Input", "conditioning").tap()
    inputs = file_graph(page)["nodes"]["denoise"]["inputs"]
    assert inputs["conditioning"] == {"from": "encode_text.conditioning"}
    assert "sampling" not in inputs


@pytest.mark.by_hand
def test_a_wire_is_taken_off_and_put_elsewhere_by_its_end(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    x, y = middle(socket(page, "save", "Input", "image"))
    page.mouse.move(x - 14, y)  # beside the socket: from the socket itself a new wire begins
    page.mouse.down()
    page.mouse.move(x - 30, y + 40, steps=5)
    page.mouse.up()
    assert "image" not in file_graph(page)["nodes"]["save"].get("inputs", {})


def test_a_linked_input_gives_its_wire_and_escape_puts_it_back(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    end = socket(page, "denoise", "Input", "conditioning")
    x, y = middle(end)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 40, y + 90, steps=4)
    page.keyboard.press("Escape")
    page.mouse.up()
    assert file_graph(page)["nodes"] == FIRST["nodes"]
    expect(page.get_by_role("dialog", name="Add node")).to_have_count(0)
    nowhere = page.locator(".react-flow__pane").evaluate(
        """(pane) => { const { left, top, width, height } = pane.getBoundingClientRect(), root = pane.getRootNode();
          for (let y = top + height - 20; y > top; y -= 20)
            for (let x = left + width - 20; x > left; x -= 20) if (root.elementFromPoint(x, y) === pane) return [x, y];
        }"""
    )
    drag(page, end, tuple(nowhere))
    expect(page.get_by_role("dialog", name="Add node")).to_have_count(0)  # it does not ask for another node
    assert "conditioning" not in file_graph(page)["nodes"]["denoise"]["inputs"]


@pytest.mark.by_hand
def test_copies_go_to_the_pointer_and_cover_nothing(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    on_canvas(page, "encode_text").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+c")
    page.mouse.move(*middle(card(page, "denoise")))
    page.keyboard.press("Control+v")
    copy = card(page, "encode_text_2")
    expect(copy).to_be_visible()
    box, other = copy.bounding_box(), card(page, "denoise").bounding_box()
    assert box is not None
    assert other is not None
    cards = page.locator(".react-flow__node-card").evaluate_all(
        """(all) => { const boxes = all.map((each) => each.getBoundingClientRect());
          return boxes.filter((a, i) => boxes.some((b, j) => i < j &&
            a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length; }"""
    )
    assert cards == 0
    assert abs(box["x"] - other["x"]) < 500
    assert abs(box["y"] - other["y"]) < 500
    corner = page.get_by_test_id("canvas").bounding_box()
    assert corner is not None
    x, y = corner["x"] + 300, corner["y"] + corner["height"] - 20  # left of and below the middle
    page.mouse.move(x, y)
    page.keyboard.press("Control+v")
    box = card(page, "encode_text_3").bounding_box()
    assert box is not None
    assert abs(box["x"] + box["width"] / 2 - x) < 40
    assert abs(box["y"] + box["height"] / 2 - y) < 300  # below the row that reaches there


def test_a_reroute_changes_where_a_wire_goes_and_not_what_it_does(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    start = middle(socket(page, "decode", "Output", "image"))
    end = middle(socket(page, "save", "Input", "image"))
    page.mouse.dblclick((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    expect(page.locator(".react-flow__node-reroute")).to_have_count(1)
    graph = file_graph(page)
    assert graph["nodes"] == FIRST["nodes"]
    assert list(graph["layout"]["$via"]) == ["save.image"]


def test_comments_and_groups_are_kept_in_the_file(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    page.get_by_role("toolbar", name="Canvas tools").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Add comment").click()
    page.get_by_role("textbox", name="Comment").fill("Try other seeds")
    on_canvas(page, "denoise").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+g")
    layout = file_graph(page)["layout"]
    assert [note["text"] for note in layout["$notes"]] == ["Try other seeds"]
    assert len(layout["$groups"]) == 1


def test_the_outline_edits_the_same_graph(show: Callable[..., Page]) -> None:
    page = show(graph=unwired())
    page.get_by_role("button", name="Outline").click()
    tree = page.get_by_role("tree", name="Outline")
    expect(tree.get_by_role("treeitem")).to_have_count(len(FIRST["nodes"]))
    expect(tree.get_by_role("treeitem").first).to_contain_text("Load Model")
    line = tree.get_by_role("treeitem").nth(3)
    expect(line).to_contain_text("Denoise")
    line.get_by_role("button", name="Connect").click()
    enter(page, "conditioning")
    enter(page, "")
    expect(line).to_contain_text("Encode Text")
    assert file_graph(page)["nodes"]["denoise"]["inputs"]["conditioning"] == {"from": "encode_text.conditioning"}


@pytest.mark.by_hand
def test_several_nodes_are_edited_at_once(show: Callable[..., Page]) -> None:
    graph = picture_graph()
    graph["nodes"]["other"] = {
        "type": "LoomEmptyLatents",
        "inputs": {"model": {"from": "load_model.model"}, "width": 32},
    }
    graph["layout"]["other"] = [376, 700]
    page = show(graph=graph)
    for node in ("empty_latents", "other"):
        on_canvas(page, node).focus()
        page.keyboard.press("Shift+Space")
    panel = page.get_by_role("complementary", name="Panels")
    panel.get_by_role("tab", name="Inspector").click()
    width = panel.get_by_role("spinbutton", name="width")
    expect(width).to_have_attribute("placeholder", "several values")
    width.fill("48")
    width.press("Enter")
    nodes = file_graph(page)["nodes"]
    assert [nodes[name]["inputs"]["width"] for name in ("empty_latents", "other")] == [48, 48]


def test_a_run_to_a_node_leaves_the_rest_out(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    card(page, "encode_text").get_by_role("button", name="Menu of Encode Text").click()
    page.get_by_role("menuitem", name="Run to here").click()
    expect(card(page, "encode_text")).to_have_attribute("data-status", re.compile("done|cached"), timeout=MODEL_MS)
    expect(card(page, "save")).to_have_attribute("data-status", re.compile("idle|skipped"))


def test_a_muted_workflow_is_not_run_and_says_why(show: Callable[..., Page], watch: Watch) -> None:
    watch.foresee("400 .*loom/(runs|plan|check)")
    page = show(graph=FIRST)
    on_canvas(page, "load_model").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+m")
    expect(card(page, "load_model")).to_contain_text("muted")
    assert file_graph(page)["nodes"]["load_model"]["mode"] == "mute"
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("region", name="Messages").get_by_role("alert")).to_be_visible()
    expect(card(page, "save")).to_have_attribute("data-status", "idle")


def test_fields_take_what_their_socket_takes(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    denoise = card(page, "denoise")
    steps = denoise.get_by_role("spinbutton", name="steps")
    expect(steps).to_have_attribute("placeholder", "auto: 16")  # the model's own, where the file says 0
    steps.fill("99999")
    steps.press("Enter")
    expect(denoise.get_by_role("alert")).to_contain_text("0 to 10000 is allowed")
    denoise.get_by_role("slider", name="guidance, slider").press("ArrowRight")
    denoise.get_by_role("button", name="Advanced").click()
    denoise.get_by_role("combobox", name="step cache").select_option(index=1)
    denoise.get_by_role("button", name="Another seed").click()
    graph = file_graph(page)
    inputs = graph["nodes"]["denoise"]["inputs"]
    assert inputs["steps"] == 10000
    assert inputs["guidance"] > 0
    assert inputs["step_cache"] != "none"
    assert graph["params"]["seed"]["default"] != 7


@pytest.mark.by_hand
def test_letters_go_into_the_comment_that_is_chosen(show: Callable[..., Page]) -> None:
    graph = picture_graph()
    graph["layout"]["$notes"] = [{"id": "n", "text": "", "color": "yellow", "rect": [400, 620, 220, 120]}]
    page = show(graph=graph)
    page.locator('[data-id="c:n"]').focus()
    page.keyboard.press("Space")
    page.keyboard.type("look")
    expect(page.get_by_role("textbox", name="Comment")).to_have_value("look")
    layout = file_graph(page)["layout"]
    assert layout.pop("$notes")[0]["text"] == "look"
    assert layout == {name: at for name, at in graph["layout"].items() if name != "$notes"}


@pytest.mark.by_hand
def test_letters_after_a_node_was_added_go_into_its_text_until_something_else_is_chosen(
    show: Callable[..., Page],
) -> None:
    page = show(graph=FIRST)
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("/")
    enter(page, "encode text")
    expect(on_canvas(page, "encode_text_2")).to_be_focused()
    page.keyboard.type("little owl")
    prompt = card(page, "encode_text_2").get_by_role("textbox", name="prompt", exact=True)
    expect(prompt).to_have_value("little owl")
    on_canvas(page, "denoise").focus()
    page.keyboard.press("Space")
    page.keyboard.press("o")
    expect(page.get_by_role("tree", name="Outline")).to_be_visible()  # letters are shortcuts again
    assert file_graph(page)["nodes"]["encode_text_2"]["inputs"]["prompt"] == "little owl"


# Notes whether the view moves, and is dragged, whenever that changes.
MARKS = """(canvas) => {
  window.marks = [];
  const note = () => window.marks.push(["data-moving", "data-dragged"].map((name) => canvas.hasAttribute(name)));
  new MutationObserver(note).observe(canvas, { attributeFilter: ["data-moving", "data-dragged"] });
}"""


@pytest.mark.by_hand
def test_a_drag_right_after_a_zoom_covers_what_lies_below_it_until_it_ends(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST)
    canvas = page.get_by_test_id("canvas")
    x, y = middle(canvas)
    page.mouse.move(x, y)
    canvas.evaluate(MARKS)
    page.mouse.wheel(0, -60)
    page.wait_for_function("window.marks.some(([moves, drags]) => moves && !drags)")
    page.mouse.wheel(0, 60)
    page.mouse.down(button="middle")
    page.mouse.move(x + 40, y + 20, steps=4)
    page.wait_for_function("window.marks.some(([moves, drags]) => moves && drags)")
    page.mouse.up(button="middle")
    expect(canvas).not_to_have_attribute("data-dragged", "")
    expect(canvas).not_to_have_attribute("data-moving", "")
