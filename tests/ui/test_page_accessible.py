"""What axe finds in every view, light and dark: nothing serious."""

import json
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin
from playwright.sync_api import Locator, Page, expect

from support.browser import MODEL_MS, PHONE, Watch, card, choose, drop_file, made, on_canvas, say, tab, toolbar
from support.checkout import ROOT

FIRST, INPAINT = (
    json.loads((ROOT / f"workflows/bobbin/{name}.json").read_text()) for name in ("first_picture", "inpaint")
)
FIND = """async (part) => {
  const { violations, passes } = await axe.run(part, { resultTypes: ["violations"], preload: { assets: ["media"] } });
  if (!passes.length) throw new Error("axe looked at nothing");
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = (id) => ({ target, failureSummary }) => `${id}: ${JSON.stringify(target)} ${failureSummary}`;
  return serious.flatMap(({ id, nodes }) => nodes.map(told(id)));
}"""


@pytest.fixture(scope="module")
def axe(web: Path) -> str:
    """axe-core's script, of the version that the lock file names."""
    return (web / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results(page_server: Any) -> None:
    graph = json.loads(json.dumps(FIRST))
    graph["nodes"]["denoise"]["inputs"]["steps"] = 2
    for prompt in ("a red star", "a blue ring"):
        made(page_server.url, graph, prompt=prompt)


def serious(part: Page | Locator) -> list[str]:
    """In all of the page, or in what is new on it."""
    return part.evaluate(FIND) if isinstance(part, Locator) else part.locator(":root").evaluate(FIND)


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.by_hand)])
def test_axe_finds_nothing_serious_in_any_view(show: Callable[..., Page], axe: str, results: None, theme: str) -> None:
    page = show(graph=FIRST, query=f"?__theme={theme}", color_scheme=theme)
    expect(card(page, "denoise")).to_be_visible()
    assert page.locator(".ll-dark").count() == (theme == "dark")
    page.evaluate(axe)
    page.keyboard.press("Alt+n")
    expect(page.get_by_text("This workflow is empty")).to_be_visible()
    found = {"first open": serious(page.locator(".ll-canvas-empty"))}
    page.keyboard.press("Alt+PageUp")
    page.keyboard.press("Control+f")
    page.keyboard.type("model")
    expect(page.get_by_role("search", name="Find").get_by_role("listitem")).not_to_have_count(0)
    found["canvas, tabs and find"] = serious(page)
    page.keyboard.press("Escape")
    for name in ("Settings", "Keyboard shortcuts"):
        toolbar(page).get_by_role("button", name=name).click()
        found[name] = serious(page.get_by_role("dialog", name=name))
        page.keyboard.press("Escape")
    card(page, "empty_latents").get_by_role("button", name="Shape of the picture").click()
    found["size"] = serious(page.get_by_role("dialog", name="Shape of the picture"))
    page.keyboard.press("Escape")
    for panel in ("Queue", "Plan", "Inspector", "Problems"):
        panels = page.get_by_role("complementary", name="Panels")
        panels.get_by_role("tab", name=panel).click()
        expect(page.get_by_text("Looking at devices and models")).to_have_count(0, timeout=MODEL_MS)
        found[panel] = serious(panels)
    tab(page, "Simple").click()
    expect(page.get_by_role("form", name="Settings")).to_be_visible()
    found["simple"] = serious(page)
    tab(page, "Gallery").click()
    expect(page.get_by_role("button", name="Picture: ").first).to_be_visible()
    found["gallery"] = serious(page)
    page.get_by_role("button", name="Picture: ").first.click()
    expect(page.get_by_role("button", name="Run again with a change")).to_be_visible()
    found["a result"] = serious(page.get_by_role("dialog"))
    page.keyboard.press("Escape")
    tab(page, "Models").click()
    expect(page.get_by_role("listitem", name="builtin:bobbin")).to_be_visible(timeout=MODEL_MS)
    found["models"] = serious(page)
    assert {view: problems for view, problems in found.items() if problems} == {}


@pytest.mark.by_hand
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_dialog(
    show: Callable[..., Page], axe: str, results: None, watch: Watch, theme: str
) -> None:
    watch.foresee("400 .*loom/open")  # of a picture that is no workflow
    graph = json.loads(json.dumps(INPAINT))
    graph["nodes"]["crop"] = {"type": "LoomCropImage", "inputs": {"image": {"from": "load_image.image"}}}
    page = show(graph=graph, query=f"?__theme={theme}", color_scheme=theme)
    expect(card(page, "crop")).to_be_visible()
    page.evaluate(axe)
    found = {}

    def look(name: str, title: str | re.Pattern[str]) -> Locator:
        dialog = page.get_by_role("alertdialog" if name == "question" else "dialog", name=title)
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role("progressbar").or_(dialog.locator(".ll-spinner"))).to_have_count(0)
        found[name] = serious(dialog)
        return dialog

    page.keyboard.press("Control+Shift+s")
    look("save as", "Save as a new workflow").get_by_role("button", name="Save", exact=True).click()
    expect(say(page, "inpaint is saved.")).to_be_visible()
    for item, title in (("Share", "Share this workflow"), ("Versions", "Versions of inpaint"), ("Storage", "Storage")):
        choose(page, "File", item)
        look(item, title)
        page.keyboard.press("Escape")
    choose(page, "More ways to run", "Run a sweep")
    look("sweep", "Run a sweep")
    page.keyboard.press("Escape")
    card(page, "load_mask").get_by_role("button", name="Paint", exact=True).click()
    expect(page.get_by_role("application", name="Mask of")).to_be_focused()
    look("painter", "Paint a mask")
    page.keyboard.press("Escape")
    on_canvas(page, "crop").focus()
    page.keyboard.press("Space")
    page.get_by_role("tab", name="Inspector").click()
    page.get_by_role("button", name="Choose the part").click()
    expect(page.get_by_role("button", name="Lower right corner")).to_be_visible()
    look("frame", "Choose a part")
    page.keyboard.press("Escape")
    foreign, chunks = BytesIO(), PngImagePlugin.PngInfo()
    chunks.add_text("parameters", "a blue ring\nSteps: 9, Sampler: Euler a, CFG scale: 7, Seed: 4711, Size: 96x80")
    Image.new("RGB", (32, 24), "teal").save(foreign, "PNG", pnginfo=chunks)
    canvas = page.get_by_test_id("canvas")
    drop_file(page, canvas, name="fox.png", content=foreign.getvalue(), media_type="image/png")
    look("foreign picture", "A picture made by A1111")
    page.keyboard.press("Escape")
    on_canvas(page, "denoise").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Control+Shift+g")
    on_canvas(page, "part").focus()
    page.keyboard.press("Shift+Enter")
    expect(page.get_by_role("navigation", name="Where you are in the workflow")).to_be_visible()
    found["inside"] = serious(page)
    page.keyboard.press("Alt+w")
    look("question", "Save your changes?").get_by_role("button", name="Cancel").click()
    tab(page, "Gallery").click()
    page.get_by_role("button", name="Select", exact=True).click()
    for number in range(2):
        page.get_by_role("button", name="Picture: ").nth(number).click()
    page.get_by_role("button", name="Compare", exact=True).click()
    look("compare", "Compare two results").get_by_role("tab", name="Difference").click()
    look("difference", "Compare two results")
    assert {view: problems for view, problems in found.items() if problems} == {}
    assert len(found) == 12


@pytest.mark.by_hand
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_popups_and_on_a_phone(show: Callable[..., Page], axe: str, theme: str) -> None:
    page = show(graph=FIRST, query=f"?__theme={theme}", color_scheme=theme, **PHONE)
    page.evaluate(axe)
    expect(card(page, "denoise")).to_be_attached()
    found = {"phone": serious(page)}
    page.get_by_role("button", name="Add node").first.click()
    found["palette"] = serious(page.get_by_role("dialog", name="Add node"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Outline").click()
    expect(page.get_by_role("tree", name="Outline")).to_be_visible()
    found["outline"] = serious(page)
    page.get_by_role("button", name="File", exact=True).click()
    found["menu"] = serious(page.get_by_role("menu"))
    page.get_by_role("menuitem", name="Templates").click()
    expect(page.get_by_role("dialog", name="Templates").get_by_role("button").nth(2)).to_be_visible()
    found["templates"] = serious(page.get_by_role("dialog", name="Templates"))
    page.keyboard.press("Escape")
    page.keyboard.press("Control+o")
    found["library"] = serious(page.get_by_role("dialog", name="Your workflows"))
    assert {view: problems for view, problems in found.items() if problems} == {}
