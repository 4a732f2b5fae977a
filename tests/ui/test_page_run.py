"""Running in the page: progress, cancel, and a server that keeps the runs whatever becomes of the page or of itself."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import MODEL_MS, UNDER, Watch, call, card, on_canvas, say, tab, toolbar, visit
from support.canvas_geometry import SCRIPT, faults
from support.checkout import ROOT
from support.first_picture import picture_graph
from support.page_processes import LONG_STEPS, SOME_STEPS


def steps(count: int, **params: Any) -> dict[str, Any]:
    """The first-picture workflow with so many steps."""
    graph = picture_graph()
    graph["nodes"]["denoise"]["inputs"]["steps"] = count
    for name, value in params.items():
        graph["params"][name]["default"] = value
    return graph


@pytest.fixture(autouse=True)
def no_run_is_left(page_server: Any) -> Iterator[None]:
    yield
    for run in call(page_server.url, "runs"):
        if run["state"] in ("waiting", "running"):
            call(page_server.url, f"runs/{run['id']}/cancel", {})


def start(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def bar(page: Page) -> Locator:
    return card(page, "denoise").get_by_role("progressbar")


def is_at_work(page: Page) -> None:
    """The denoising is shown as running, and further than at its start."""
    expect(card(page, "denoise")).to_have_attribute("data-status", "running", timeout=MODEL_MS)
    expect(bar(page)).to_have_attribute("aria-valuenow", re.compile(r"^[1-9]"), timeout=MODEL_MS)


def entry(page: Page, state: str) -> Locator:
    """Runs in the queue's list that are in a state."""
    return page.get_by_role("complementary", name="Panels").locator(f'[data-state="{state}"]')


def ids(entries: Locator) -> list[str | None]:
    return [each.get_attribute("data-testid") for each in entries.all()]


def test_a_run_shows_progress_preview_and_picture(show: Callable[..., Page]) -> None:
    page = show(graph=steps(SOME_STEPS, seed=101))
    page.evaluate(SCRIPT)
    page.evaluate("geometry.still().then(geometry.follow)")
    start(page)
    is_at_work(page)
    preview = card(page, "denoise").get_by_role("img", name="Preview of Denoise")
    expect(preview).to_be_visible()
    expect(preview).to_have_js_property("complete", True)
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    expect(say(page, "first_picture is done.")).to_be_visible()
    expect(preview).to_have_count(0)  # what came of it, sharp, stands in its place
    expect(card(page, "denoise").get_by_role("button", name="Open the result of Denoise")).to_be_visible()
    assert page.evaluate("geometry.moved()") == []
    # the canvas goes to the result meanwhile, and texts are as large as it is near
    assert faults(page.evaluate("geometry.still().then(geometry.measure)")) == []
    card(page, "save").get_by_role("button", name="Open the result of Save Image in the gallery").click()
    picture = page.get_by_role("dialog").locator("img").first
    expect(picture).to_be_visible()
    assert picture.evaluate("async (img) => { await img.decode(); return img.naturalWidth; }") > 0


@pytest.mark.by_hand
def test_what_is_changed_after_a_run_no_longer_looks_done_and_the_rest_is_kept(
    page_server: Any, show: Callable[..., Page]
) -> None:
    page = show(graph=steps(1, seed=110))
    page.evaluate(SCRIPT)
    page.evaluate("geometry.still().then(geometry.follow)")
    start(page)
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    card(page, "encode_text").get_by_role("textbox", name="negative prompt").fill("blue")
    on_canvas(page, "save").focus()
    changed = page.get_by_test_id("canvas").get_by_text("Changed since this run")
    expect(changed).to_have_count(4)  # the text, and what it feeds: denoise, decode, save
    expect(card(page, "load_model")).not_to_contain_text("Changed")
    card(page, "save").get_by_role("button", name="Open the result of Save Image in the gallery").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("canvas")).to_be_visible()  # back where one came from
    start(page)
    expect(changed).to_have_count(0)
    expect(page).to_have_title(re.compile("first_picture · latentloom$"))
    icon = page.request.get(f"{page_server.url}favicon.ico")
    assert (icon.status, icon.body()) == (200, (ROOT / "ui/static/icon.svg").read_bytes())
    expect(card(page, "empty_latents")).to_have_attribute("data-status", "cached")
    expect(card(page, "empty_latents").locator(".ll-node-words")).to_have_text(re.compile(r"\w+ \w+"))
    expect(card(page, "denoise")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    assert page.evaluate("geometry.moved()") == []  # not where it was cached, changed, or is shown elsewhere


def test_a_run_is_cancelled(show: Callable[..., Page]) -> None:
    page = show(graph=steps(LONG_STEPS, seed=103))
    start(page)
    is_at_work(page)
    page.get_by_role("button", name="Cancel run", exact=True).click()
    expect(card(page, "denoise")).to_have_attribute("data-status", "cancelled")
    expect(say(page, "first_picture was cancelled.")).to_be_visible()
    expect(entry(page, "running")).to_have_count(0)
    expect(page.get_by_role("button", name="Cancel run", exact=True)).to_be_disabled()


def test_a_run_goes_on_without_its_tab_and_is_there_when_it_is_back(
    page_server: Any, show: Callable[..., Page]
) -> None:
    page = show(graph=steps(SOME_STEPS, seed=106))
    profile = page.context
    start(page)
    is_at_work(page)
    page.close()
    page = profile.new_page()
    visit(page, page_server.url)
    expect(card(page, "denoise")).to_have_attribute("data-status", re.compile("running|done"))
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)


def test_two_tabs_watch_one_run_and_each_has_its_own_draft(page_server: Any, show: Callable[..., Page]) -> None:
    first = show(graph=steps(LONG_STEPS, seed=107))
    second = first.context.new_page()
    visit(second, page_server.url)
    prompt = card(second, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    prompt.fill("a blue ring")
    start(first)
    is_at_work(first)
    second.get_by_role("button", name="Show first_picture on the canvas").first.click()
    is_at_work(second)
    second.get_by_role("button", name="Cancel run", exact=True).click()
    expect(card(first, "denoise")).to_have_attribute("data-status", "cancelled")
    expect(card(first, "encode_text").get_by_role("textbox", name="prompt", exact=True)).to_have_value("a red star")
    expect(prompt).to_have_value("a blue ring")


@pytest.mark.by_hand
def test_seven_tabs_watch_one_run_and_none_stalls(page_server: Any, show: Callable[..., Page]) -> None:
    """Browsers allow six HTTP/1.1 connections to a server, so nothing may hold one."""
    page = show(graph=steps(LONG_STEPS, seed=108))
    start(page)
    is_at_work(page)
    tabs = [page.context.new_page() for _ in range(6)]
    for each in tabs:
        each.goto(page_server.url)
    for each in [page, *tabs]:
        is_at_work(each)


SIZES = ({"width": 1440, "height": 900}, {"width": 1280, "height": 720}, {"width": 390, "height": 844})
IN_VIEW = """picture => {
  const [seen, room] = [picture, picture.closest(".ll-canvas")].map((each) => each.getBoundingClientRect());
  return seen.top >= room.top && seen.bottom <= room.bottom && seen.left >= room.left && seen.right <= room.right;
}"""


@pytest.mark.by_hand
def test_each_run_of_a_template_makes_another_picture_which_is_in_view_until_its_seed_is_locked(
    page_server: Any, open_page: Callable[..., Page]
) -> None:
    url, there = page_server.url, {run["id"] for run in call(page_server.url, "runs")}

    def made() -> list[dict[str, Any]]:
        return [call(url, f"runs/{run['id']}") for run in call(url, "runs") if run["id"] not in there]

    page = open_page(url)
    page.get_by_role("button", name="First Picture").click()
    messages, picture = page.get_by_role("region", name="Messages"), card(page, "save").locator("img")
    steps = card(page, "denoise").get_by_role("spinbutton", name="steps")
    steps.fill("1")
    steps.press("Enter")
    for size in SIZES:
        page.set_viewport_size(size)
        visit(page, url)
        start(page)
        expect(messages.get_by_text("is done.")).to_be_visible(timeout=MODEL_MS)
        picture.evaluate(
            f"async picture => {{ while (!({IN_VIEW})(picture)) await new Promise(requestAnimationFrame) }}"
        )
        assert messages.evaluate(UNDER) == []
    seeds = {run["graph"]["params"]["seed"]["default"] for run in made()}
    assert len(seeds) == 3 and 7 not in seeds

    page.set_viewport_size(SIZES[0])
    visit(page, url)
    card(page, "denoise").get_by_role("button", name="Keep this seed").click()
    last, before = picture.get_attribute("src"), card(page, "denoise").locator(".ll-made img").get_attribute("src")
    start(page)
    expect(say(page, "Nothing has changed since the last run")).to_be_visible()
    assert card(page, "denoise").locator(".ll-made img").get_attribute("src") == before
    assert len(made()) == 3
    messages.get_by_role("button", name="Run with a new seed").click()
    expect(picture).not_to_have_attribute("src", str(last), timeout=MODEL_MS)
    assert made()[0]["graph"]["params"]["seed"]["default"] not in seeds


def test_a_server_that_is_started_again_has_lost_nothing_and_the_page_says_so(
    start_page: Callable[..., Any], open_page: Callable[..., Page], watch: Watch, tmp_path: Path
) -> None:
    watch.foresee("Failed to load resource", "WebSocket connection", "ERR_")  # while it is away
    server = start_page(folder=tmp_path)
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    page = open_page(server.url, graph=steps(2))
    start(page)
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    card(page, "denoise").get_by_role("spinbutton", name="steps").fill(str(LONG_STEPS))
    for _ in range(3):
        start(page)
    expect(entry(page, "running")).to_have_count(1)
    expect(entry(page, "waiting")).to_have_count(2)
    order = ids(entry(page, "running")) + ids(entry(page, "waiting"))
    server.process.kill()  # no farewell
    server.process.wait()
    expect(say(page, "The server does not answer")).to_be_visible()
    toolbar(page).get_by_role("textbox", name="Name").fill("while it was away")
    toolbar(page).get_by_role("textbox", name="Name").press("Enter")

    start_page(folder=tmp_path, port=port)
    page.evaluate("dispatchEvent(new Event('online'))")  # so that it does not wait before it tries again
    expect(say(page, "The server was started again")).to_be_visible()
    expect(page.get_by_role("region", name="Messages").locator(".ll-toast")).to_have_count(1)  # of what came back
    expect(entry(page, "running")).to_have_count(1)
    expect(entry(page, "waiting")).to_have_count(2)
    assert ids(entry(page, "running")) + ids(entry(page, "waiting")) == order
    expect(entry(page, "done")).to_have_count(1)
    page.reload()
    expect(toolbar(page).get_by_role("textbox", name="Name")).to_have_value("while it was away")
    tab(page, "Gallery").click()
    expect(page.get_by_role("button", name="Picture: ")).to_have_count(1)
