"""Many runs and results in the page: the queue's order, selections, long lists; what is gone or full is said."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser import MODEL_MS, Watch, begin_gradio, call, choose, made, say, tab, toolbar
from support.first_picture import picture_graph
from support.page_processes import LONG_STEPS

NUM_RESULTS = 500
A_DAY = 40
GIB = 1 << 30


def named(name: str, steps: int) -> dict[str, Any]:
    graph = picture_graph()
    graph["name"] = name
    graph["nodes"]["denoise"]["inputs"]["steps"] = steps
    return graph


@pytest.fixture(autouse=True)
def no_run_is_left(page_server: Any) -> Iterator[None]:
    yield
    call(page_server.url, "runs/cancel", {"runs": None})


@pytest.mark.by_hand
def test_runs_are_ordered_by_keys_put_off_and_cancelled_together(page_server: Any, show: Callable[..., Page]) -> None:
    for name in ("held", "alpha", "beta", "gamma", "delta"):
        call(page_server.url, "runs", {"graph": named(name, LONG_STEPS)})
    page = show()
    panel = page.get_by_role("complementary", name="Panels")
    waiting = panel.locator('[data-state="waiting"]')
    expect(waiting).to_have_count(4)
    expect(waiting.nth(1)).to_contain_text("2nd")
    expect(waiting.nth(1)).to_have_attribute("aria-posinset", "3")
    watch = waiting.filter(has_text="gamma").get_by_role("button", name=re.compile("Watch|Show"))
    watch.focus()
    page.keyboard.press("Alt+ArrowUp")
    expect(waiting.nth(1)).to_contain_text("gamma")
    expect(watch).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(waiting.filter(has_text="beta").get_by_role("button", name=re.compile("Watch|Show"))).to_be_focused()

    panel.get_by_role("button", name="Select", exact=True).click()
    for name in ("alpha", "gamma"):
        panel.get_by_role("checkbox", name=f"Select: {name}").check()
    bar = panel.get_by_role("toolbar", name="With the selected runs")
    expect(bar).to_contain_text("2 selected")
    choose(page, "When", "Run when idle")
    expect(waiting.nth(0)).to_contain_text("beta")
    expect(waiting.nth(2)).to_contain_text("when idle: 3rd")
    bar.get_by_role("button", name="Cancel", exact=True).click()
    expect(waiting).to_have_count(2)
    panel.get_by_role("button", name="Cancel all").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Yes").click()
    expect(waiting).to_have_count(0)
    expect(panel.locator('[data-state="running"]')).to_have_count(0)


@pytest.fixture
def open_with_routes(open_page: Callable[..., Page]) -> Iterator[Callable[..., Page]]:
    """As `open_page`; what the test answers in the server's place ends with it, though the tab is others', too."""
    opened: list[Page] = []

    def show(*args: Any, **options: Any) -> Page:
        opened.append(open_page(*args, **options))
        return opened[-1]

    yield show
    for page in opened:
        page.goto("about:blank")
        page.unroute_all(behavior="ignoreErrors")


@pytest.mark.by_hand
def test_of_a_long_gallery_only_what_is_in_sight_is_drawn_and_keys_reach_its_end(
    page_server: Any, open_with_routes: Callable[..., Page]
) -> None:
    made(page_server.url, named("pattern_of_many", 1))
    pattern = next(each for each in call(page_server.url, "results") if each["workflow_name"] == "pattern_of_many")
    rows = [
        {**pattern, "id": f"many{number:04}", "time": pattern["time"] - 86400 * number / A_DAY}
        for number in range(NUM_RESULTS)
    ]
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        found = re.search(r"before=many(\d+)", route.request.url)
        limit = int((re.search(r"limit=(\d+)", route.request.url) or [0, 60])[1])
        start = int(found[1]) - int(rows[0]["id"][4:]) + 1 if found else 0
        route.fulfill(json=rows[start : start + limit])

    page = open_with_routes(page_server.url)
    page.route(re.compile(r"/loom/results\?"), answer)
    page.route(re.compile(r"/loom/files/many"), lambda route: route.fulfill(status=204))
    tab(page, "Gallery").click()
    first = page.get_by_test_id("result-many0000")
    expect(first).to_have_attribute("aria-posinset", "1")
    first.get_by_role("button", name="Picture: ").focus()
    for _ in range(20):
        page.keyboard.press("End")
        if page.get_by_test_id(f"result-many{NUM_RESULTS - 1:04}").count():
            break
        page.wait_for_timeout(50)
    last = page.get_by_test_id(f"result-many{NUM_RESULTS - 1:04}")
    page.keyboard.press("End")
    expect(last.get_by_role("button", name="Picture: ")).to_be_focused()
    expect(last).to_be_in_viewport()
    assert page.locator(".ll-tile").count() < NUM_RESULTS / 2
    assert int(last.get_attribute("aria-setsize") or 0) > 0

    page.keyboard.press("PageUp")
    at = page.locator(".ll-tile:focus-within")
    key, before = at.get_attribute("data-key"), at.bounding_box()
    rows.pop(3)  # deleted above
    made(page_server.url, named("pattern_of_many", 1), seed=7)  # a result, so that the list is read again
    expect(page.get_by_test_id(f"result-{key}")).to_be_in_viewport()
    after = at.bounding_box()
    assert before is not None and after is not None
    assert at.get_attribute("data-key") == key and abs(after["y"] - before["y"]) < before["height"] + 20
    page.get_by_role("combobox", name="Workflow", exact=True).select_option("pattern_of_many")
    expect(page.get_by_test_id("result-many0000")).to_be_in_viewport()
    assert "workflow=pattern_of_many" in asked[-1]


def test_what_is_gone_full_or_away_is_said_and_the_draft_is_there(
    page_server: Any, open_with_routes: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("Failed to load resource")
    result = made(page_server.url, named("soon_deleted", 1))
    page = open_with_routes(page_server.url, graph=named("nearly_full", 2))
    kept = {"num_bytes": 19 * GIB, "most_bytes": 20 * GIB, "free_bytes": 90 * GIB, "kinds": []}
    kept["kinds"] = [
        {"kind": "results", "num_bytes": 19 * GIB, "count": 7, "most_count": 200_000, "is_counted": True},
        {"kind": "drafts", "num_bytes": 5000, "count": 1, "most_count": 200, "is_counted": True},
    ]
    page.route("**/loom/kept", lambda route: route.fulfill(json=kept))
    begin_gradio(page)
    choose(page, "File", "Storage")
    storage = page.get_by_role("dialog", name="Storage")
    expect(storage.get_by_role("note")).to_contain_text("You keep 19 GiB of 20 GiB.")
    expect(storage.get_by_role("listitem").first).to_contain_text("Pictures, videos and sounds")
    storage.get_by_role("button", name="Look through: Pictures, videos and sounds").click()
    page.get_by_test_id(f"result-{result}").get_by_role("button", name="Picture: ").click()
    call(page_server.url, f"results/{result}", method="DELETE")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("This result was deleted.")
    page.keyboard.press("Escape")

    full = {"error": "all that you keep takes 20.0 GiB of 20.0 GiB; delete some, then try again", "code": "no-room"}
    page.route("**/loom/drafts/*", lambda route: route.fulfill(status=507, json=full))
    tab(page, "Build").click()
    name = toolbar(page).get_by_role("textbox", name="Name")
    name.fill("kept all the same")
    name.press("Enter")
    expect(say(page, "The server did not keep the draft")).to_be_visible(timeout=MODEL_MS)
    page.unroute("**/loom/drafts/*")
    page.reload()
    expect(toolbar(page).get_by_role("textbox", name="Name")).to_have_value("kept all the same")
