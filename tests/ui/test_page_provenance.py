"""What made a result, what differs, what of it is used again, and where results are kept: in the page."""

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, PngImagePlugin
from playwright.sync_api import Page, expect

from support.browser import MODEL_MS, Watch, call, card, drop_file, file_graph, say, tab, toolbar
from support.first_picture import FIRST, small
from support.toy_server import until

A1111 = """a blue ring
Negative prompt: grey
Steps: 9, Sampler: Euler a, CFG scale: 7, Seed: 4711, Size: 96x80, Model: dream"""


@pytest.mark.by_hand
def test_a_sweep_over_steps_and_seed_is_told_compared_marked_and_found(
    page_server: Any, open_page: Callable[..., Page]
) -> None:
    url, graph = page_server.url, small(name="both swept")
    graph["nodes"]["denoise"]["inputs"]["steps"] = 0
    sweep = {"graph": graph, "sweep": ["denoise.steps=1,2", "seed=51,52"]}
    runs = call(url, "runs", sweep)["runs"]
    until(lambda: all(call(url, f"runs/{run}")["state"] == "done" for run in runs))
    page = open_page(url)
    tab(page, "Gallery").click()
    search = page.get_by_role("searchbox", name="Search results")
    search.fill('workflow:"both swept" steps:1..2')
    tiles = page.get_by_role("button", name="Picture: ")
    expect(tiles).to_have_count(4, timeout=MODEL_MS)
    by_run = {each["run"]: each["id"] for each in call(url, "results")}
    page.get_by_role("button", name="Select", exact=True).click()
    for run in (runs[0], runs[3]):  # steps 1 and seed 51, steps 2 and seed 52
        page.get_by_test_id(f"result-{by_run[run]}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    rows = page.get_by_role("region", name="What differs").get_by_role("row")
    expect(rows.filter(has_text="denoise.steps")).to_have_text(re.compile("denoise.steps12$"))
    expect(rows.filter(has_text="seed")).to_have_text(re.compile("seed5152$"))
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Tags and boards").click()
    for what, name in (("Add a tag", "best ring"), ("Add to a board", "Rings")):
        field = page.get_by_role("combobox", name=what)
        field.fill(name)
        field.press("Enter")
        expect(page.get_by_role("button", name=f"Take away {name}")).to_be_visible()
    page.get_by_role("button", name="Done selecting").click()
    page.get_by_test_id(f"result-{by_run[runs[0]]}").get_by_role("button", name="Star", exact=True).click()
    search.fill('tag:"best ring" board:rings')
    expect(tiles).to_have_count(2)
    page.get_by_role("button", name="Only those with a star").click()
    expect(tiles).to_have_count(1)
    page.get_by_role("button", name="Only those with a star").click()
    search.fill("")
    page.get_by_role("combobox", name="Board", exact=True).select_option(label="Rings (2)")
    expect(tiles).to_have_count(2)

    tiles.last.click()
    dialog = page.get_by_role("dialog", name="both swept")
    expect(dialog.get_by_role("button", name="Star", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(dialog.locator(".ll-fact").filter(has_text="denoise.steps")).to_have_text("denoise.steps1")
    dialog.get_by_text("All values, node by node").click()
    every = dialog.locator(".ll-facts-all .ll-fact")
    expect(every.filter(has_text=re.compile(r"^guidance[\d.]+ chosen by the run$"))).to_be_visible()
    expect(dialog.locator(".ll-fact").filter(has_text="Family")).to_contain_text("flux, fp32")
    dialog.get_by_text(re.compile(r"Files \(\d+\)")).click()
    dialog.get_by_role("button", name="Read the files for their sha256").click()
    expect(dialog.get_by_text(re.compile("^sha256 [0-9a-f]{64}$")).first).to_be_visible()
    for board in call(url, "boards"):
        call(url, f"boards/{board['id']}", method="DELETE")


@pytest.mark.by_hand
def test_a_picture_opens_over_the_canvas_and_its_values_come_back_to_it(
    show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("404 .*loom/results")  # one that was deleted
    page = show(graph=small(name="recalled"))
    toolbar(page).get_by_role("button", name="Run", exact=True).click()
    picture = card(page, "save").get_by_role("button", name="Open the result")
    picture.click(timeout=MODEL_MS)
    dialog = page.get_by_role("dialog", name="recalled")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(card(page, "save")).to_be_visible()
    expect(tab(page, "Build")).to_have_attribute("aria-selected", "true")

    seed = card(page, "denoise").get_by_role("spinbutton", name="seed")
    steps = card(page, "denoise").get_by_role("spinbutton", name="steps")
    steps.fill("5")
    steps.press("Enter")
    picture.click()
    dialog.get_by_role("button", name="Compare with the canvas").click()
    differs = page.get_by_role("dialog", name="This result and the canvas")
    expect(differs.get_by_role("row").filter(has_text="denoise.steps")).to_have_text("denoise.steps25")
    differs.get_by_role("button", name="Use all values").click()
    expect(steps).to_have_value("2")
    page.keyboard.press("Control+z")
    expect(steps).to_have_value("5")
    expect(seed).to_have_count(1)

    page.route("**/loom/results/*", lambda route: route.fulfill(status=404, json={"error": "gone", "code": "not-here"}))
    picture.click()  # as if somebody had deleted it just now
    expect(say(page, "This result was deleted. Run the workflow again")).to_be_visible()
    page.unroute("**/loom/results/*")
    picture.click()
    dialog.get_by_role("button", name="Use on the canvas").click()
    page.get_by_role("menuitem", name="Use as input").click()
    expect(card(page, "load_image")).to_be_in_viewport(ratio=0.9)
    say(page, "The result is an input").locator("..").get_by_role("button", name="Make it image to image").click()
    nodes = file_graph(page)["nodes"]
    assert nodes["load_image"]["inputs"]["path"].endswith(".png") and "empty_latents" not in nodes
    assert nodes["encode_image"]["inputs"]["image"] == {"from": "load_image.image"}


@pytest.mark.by_hand
def test_a_picture_of_another_program_tells_how_it_was_made_and_gives_its_values(
    show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("400 .*loom/open")  # it is no workflow
    chunks, content = PngImagePlugin.PngInfo(), BytesIO()
    chunks.add_text("parameters", A1111)
    Image.new("RGB", (32, 24), "teal").save(content, "PNG", pnginfo=chunks)
    page = show(graph=FIRST)
    canvas = page.get_by_test_id("canvas")

    def use(name: str) -> None:
        drop_file(page, canvas, name="fox.png", content=content.getvalue(), media_type="image/png")
        dialog = page.get_by_role("dialog", name="A picture made by A1111")
        expect(dialog.locator(".ll-fact").filter(has_text="Sampler")).to_contain_text("Euler a")
        dialog.get_by_role("button", name=name).click()
        expect(dialog).to_have_count(0)

    for name in ("Use the prompt", "Use the seed", "Use the size"):
        use(name)
    expect(say(page, "The size is on the canvas.")).to_be_visible()
    graph = file_graph(page)
    assert graph["params"]["prompt"]["default"] == "a blue ring" and graph["params"]["seed"]["default"] == 4711
    assert graph["nodes"]["empty_latents"]["inputs"]["width"] == 96
    use("Add a Load Image node")
    expect(card(page, "load_image")).to_be_visible()
