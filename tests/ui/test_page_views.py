"""The views beside the canvas: plan, gallery, simple form, models, and all of it in another language and on a phone."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from support.browser import MODEL_MS, PHONE, UNDER, Watch, card, file_graph, made, say, tab, toolbar
from support.first_picture import FIRST, small

# --- problems ---


@pytest.mark.by_hand
def test_a_button_mends_a_problem_and_what_is_reckoned_is_asked_before_it_runs(
    show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("400 .*loom/runs")
    graph = small()
    graph["nodes"]["empty_latents"]["inputs"] |= {"width": 100, "height": 77}
    page = show(graph=graph)
    page.get_by_role("tab", name="Problems").click()
    expect(page.get_by_text("1 error keeps it from running")).to_be_visible()
    tabs = page.get_by_role("complementary", name="Panels").get_by_role("tab")
    places = [each.bounding_box() for each in tabs.all()]
    page.get_by_role("button", name="Use 96 \u00d7 80").click()
    expect(page.get_by_text("No problems found")).to_be_visible()
    assert [each.bounding_box() for each in tabs.all()] == places  # though a count has gone
    field = card(page, "empty_latents").get_by_role("spinbutton", name="width")
    field.fill("1024")
    field.press("Enter")
    expect(page.get_by_text("1 estimate says that it may fail")).to_be_visible()
    toolbar(page).get_by_role("button", name="Run", exact=True).click()
    question = page.get_by_role("alertdialog")
    expect(question.get_by_role("button", name="Run anyway")).to_be_visible()
    question.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The workflow has a problem and was not run")).to_be_visible()


# --- gallery ---


@pytest.fixture(scope="module")
def two_results(page_server: Any) -> tuple[str, str]:
    graph = small(name="to_compare")
    one, two = ({"prompt": prompt, "seed": 31} for prompt in ("a red star", "a blue ring"))
    return made(page_server.url, graph, **one), made(page_server.url, graph, **two)


def in_gallery(page: Page, *results: str) -> None:
    """The gallery with these results chosen, to be compared."""
    tab(page, "Gallery").click()
    page.get_by_role("button", name="Select", exact=True).click()
    for result in results:
        page.get_by_test_id(f"result-{result}").get_by_role("checkbox").check()


@pytest.mark.by_hand
def test_two_results_are_compared_with_a_slider_that_keys_move(
    show: Callable[..., Page], two_results: tuple[str, str]
) -> None:
    page = show()
    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{two_results[0]}").get_by_role("button").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Compare with…").click()
    expect(say(page, "Select the result to compare it with, then press Compare.")).to_be_visible()
    assert page.get_by_role("region", name="Messages").evaluate(UNDER) == []
    page.get_by_test_id(f"result-{two_results[1]}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    dialog = page.get_by_role("dialog", name="Compare two results")
    differs = dialog.get_by_role("region", name="What differs").get_by_role(
        "row", name=re.compile("prompt", re.IGNORECASE)
    )
    expect(differs).to_contain_text("a red star")
    expect(differs).to_contain_text("a blue ring")
    slider = dialog.get_by_role("slider", name="Divider between A and B")
    expect(slider).to_have_attribute("aria-valuenow", "50")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuenow", "52")
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "0 % A")
    dialog.get_by_role("tab", name="Difference").click()
    expect(dialog.get_by_text(re.compile(r"Largest difference [1-9]\d*/255"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


@pytest.mark.by_hand
def test_a_result_tells_how_it_was_made_and_is_made_again_with_a_change(
    show: Callable[..., Page], two_results: tuple[str, str]
) -> None:
    page = show()
    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{two_results[0]}").get_by_role("button", name="Picture: ").click()
    dialog = page.get_by_role("dialog", name="to_compare")
    for fact in ("a red star", "31", "to_compare"):
        expect(dialog.get_by_text(fact, exact=True).first).to_be_visible()
    dialog.get_by_role("button", name="Run again with a change").click()
    dialog.get_by_role("combobox", name="Change").select_option("prompt")
    dialog.get_by_role("textbox", name="prompt").fill("a green cube")
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(say(page, "to_compare is done.")).to_be_visible(timeout=MODEL_MS)
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="a green cube").first).to_be_visible()


def test_a_result_is_found_and_deleted(page_server: Any, show: Callable[..., Page], watch: Watch) -> None:
    result = made(page_server.url, small(name="to_delete"), prompt="a purple cone")
    watch.foresee(f"404 .*/(results|files)/{result}")  # the open picture may hear of its end before it is closed
    page = show()
    tab(page, "Gallery").click()
    page.get_by_role("searchbox", name="Search results").fill("purple cone")
    expect(page.get_by_role("button", name="Picture: ")).to_have_count(1)
    page.get_by_test_id(f"result-{result}").get_by_role("button", name="Picture: ").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Yes").click()
    expect(say(page, "The result is deleted.")).to_be_visible()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    assert list(page_server.output_dir.rglob(f"*{result}*")) == []


@pytest.mark.by_hand
def test_a_sweep_fills_a_grid_that_is_downloaded_as_one_picture(show: Callable[..., Page]) -> None:
    page = show(graph=small(name="swept"))
    page.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run a sweep").click()
    dialog = page.get_by_role("dialog", name="Run a sweep")
    dialog.get_by_role("combobox", name="What to vary").click()
    page.get_by_role("option", name="seed").first.click()
    dialog.get_by_role("textbox", name="Values of seed").fill("1..2")
    expect(dialog.get_by_text("2 runs")).to_be_visible()
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(say(page, "2 runs are in the queue.")).to_be_visible()
    tab(page, "Gallery").click()
    page.get_by_role("navigation", name="Grids of sweeps").get_by_role("button", name=re.compile("^swept")).click()
    grid = page.get_by_role("dialog", name="Grid: swept")
    expect(grid.get_by_text("2 of 2 runs are over")).to_be_visible(timeout=MODEL_MS)
    expect(grid.get_by_role("button", name="Open the result of")).to_have_count(2)
    expect(grid.get_by_role("columnheader").or_(grid.get_by_role("rowheader"))).to_have_text(
        [re.compile("1$"), re.compile("2$")]
    )
    with page.expect_download() as download:
        grid.get_by_role("button", name="Download as one PNG").click()
    with Image.open(Path(download.value.path())) as picture:
        assert picture.width > 100


def in_sweep_dialog(page: Page) -> Locator:
    page.get_by_role("button", name="More ways to run").click()
    page.get_by_role("menuitem", name="Run a sweep").click()
    return page.get_by_role("dialog", name="Run a sweep")


@pytest.mark.by_hand
def test_a_sweep_keeps_what_was_typed_and_says_what_is_missing(show: Callable[..., Page]) -> None:
    page = show(graph=small(name="typed first"))
    dialog = in_sweep_dialog(page)
    run = dialog.get_by_role("button", name="Run", exact=True)
    dialog.get_by_role("button", name="Vary one more").click()
    expect(dialog.get_by_role("status")).to_have_text("Choose what to vary in row 2, or remove it.")
    expect(run).to_be_disabled()
    expect(run).to_have_attribute("title", "Choose what to vary in row 2, or remove it.")
    dialog.get_by_role("textbox", name="Values of").nth(1).fill("a red ring\na blue cube")
    dialog.get_by_role("combobox", name="What to vary").nth(1).click()
    page.get_by_role("option", name="prompt").first.click()
    expect(dialog.get_by_role("textbox", name="Values of prompt")).to_have_value("a red ring\na blue cube")
    expect(dialog.get_by_role("status")).to_have_text("8 runs")
    dialog.get_by_role("textbox", name="Values of seed").fill(" ")
    expect(dialog.get_by_role("status")).to_have_text("Give values for seed, such as 1..4 or a,b,c.")
    expect(run).to_be_disabled()


# --- simple, models, plan ---


def test_the_simple_view_is_filled_and_run(show: Callable[..., Page]) -> None:
    page = show(graph=small())
    tab(page, "Simple").click()
    view = page.get_by_role("region", name="Simple view")
    form = view.get_by_role("form", name="Settings")
    prompt = form.get_by_role("textbox", name="prompt", exact=True)
    prompt.fill("a yellow sphere")
    form.get_by_role("spinbutton", name="seed").fill("12")
    form.get_by_role("button", name="Run").click()
    expect(view.get_by_text("Done in")).to_be_visible(timeout=MODEL_MS)
    expect(view.get_by_role("img", name="a yellow sphere")).to_be_visible()
    view.get_by_role("button", name="Open in Build").click()
    expect(card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)).to_have_value("a yellow sphere")
    expect(card(page, "denoise").get_by_role("spinbutton", name="seed")).to_have_value("12")


@pytest.mark.by_hand
def test_simple_has_the_groups_and_shows_the_results_that_were_asked_for(show: Callable[..., Page]) -> None:
    graph = small(name="arranged")
    save = graph["nodes"]["save"]
    graph["nodes"]["spare"] = save | {"inputs": save["inputs"] | {"name": "spare"}}
    page = show(graph=graph)
    panels = page.get_by_role("complementary", name="Panels")
    panels.get_by_role("tab", name="Inspector").click()
    panels.get_by_role("region", name="Param prompt").get_by_role("button", name="Options").click()
    panels.get_by_role("textbox", name="Group").fill("What it shows")
    page.keyboard.press("Enter")
    panels.get_by_role("group", name="Results in Simple").get_by_role("checkbox", name="spare").uncheck()
    assert file_graph(page)["layout"]["spare"]["shown"] is False
    tab(page, "Simple").click()
    view = page.get_by_role("region", name="Simple view")
    form = view.get_by_role("form", name="Settings")
    expect(form.get_by_role("group", name="What it shows").get_by_role("textbox")).to_have_count(1)
    form.get_by_role("button", name="Run", exact=True).click()
    expect(view.get_by_text("Done in")).to_be_visible(timeout=MODEL_MS)
    expect(view.locator(".ll-outcomes img")).to_have_count(1)


@pytest.mark.by_hand
def test_the_models_view_lists_what_is_here_and_how_to_get_more(show: Callable[..., Page]) -> None:
    page = show()
    tab(page, "Models").click()
    view = page.get_by_role("region", name="Models")
    bobbin = view.get_by_role("listitem", name="builtin:bobbin")
    expect(bobbin).to_contain_text("ulysses")
    expect(bobbin).to_contain_text("Fits on")
    expect(view.get_by_role("meter", name="Memory in use on cpu")).to_be_visible()
    view.get_by_role("textbox", name="Model on the Hugging Face hub").fill("https://huggingface.co/Qwen/Qwen-Image")
    expect(view.get_by_text("latentloom models pull Qwen/Qwen-Image")).to_be_visible()
    view.get_by_role("searchbox", name="Search models").fill("no such model")
    expect(view.get_by_text("No model matches the search")).to_be_visible()


# --- the whole page ---


@pytest.mark.by_hand
def test_a_german_browser_gets_a_german_page(show: Callable[..., Page]) -> None:
    page = show(graph=FIRST, locale="de-DE")
    expect(page.get_by_role("tab", name="Läufe")).to_be_visible()
    expect(tab(page, "Galerie")).to_be_visible()


def test_the_page_works_on_a_phone(show: Callable[..., Page]) -> None:
    page = show(graph=small(name="on_a_phone"), **PHONE)
    expect(card(page, "denoise")).to_be_attached()
    page.get_by_role("button", name="Run", exact=True).tap()
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    page.get_by_role("button", name="Add node").first.tap()
    page.get_by_role("dialog", name="Add node").get_by_role("option", name="Seed").tap()
    expect(card(page, "seed")).to_be_attached()
    for view in ("Simple", "Gallery", "Models", "Build"):
        tab(page, view).tap()
        expect(tab(page, view)).to_have_attribute("aria-selected", "true")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["viewport"]["width"], view
    expect(toolbar(page)).to_be_in_viewport()


@pytest.mark.by_hand
def test_templates_are_where_people_start(show: Callable[..., Page]) -> None:
    page = show()
    page.get_by_role("button", name="Open a template").click()
    for name, told in (("Image to image", "Runs here"), ("FLUX.1 Kontext", "Needs the model black-forest-labs/")):
        listed = page.get_by_role("dialog", name="Templates").get_by_role("listitem").filter(has_text=name)
        expect(listed).to_contain_text(told)
    page.get_by_role("dialog", name="Templates").get_by_role(
        "button", name=re.compile("first.picture", re.IGNORECASE)
    ).click()
    expect(card(page, "denoise")).to_be_visible()
    assert file_graph(page) == {**FIRST, "meta": {"$seeds": ["$seed"]}}  # new for each run
