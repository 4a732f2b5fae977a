"""The library in the page: find, rename, order, versions, sharing, and two tabs that save the same workflow."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from support.browser import Watch, call, card, choose, file_graph, say, toolbar, visit
from support.first_picture import FIRST


def keep(url: str, name: str) -> str:
    """A workflow in the library before the page is opened; its id."""
    return call(url, "workflows", {"graph": FIRST, "name": name})["id"]


def library(page: Page, search: str = "") -> Locator:
    page.keyboard.press("Control+o")
    dialog = page.get_by_role("dialog", name="Your workflows")
    dialog.get_by_role("searchbox").fill(search)
    return dialog


def open_kept(page: Page, name: str) -> None:
    library(page, name).get_by_role("button", name=name, exact=True).click()
    name_field(page, name)


def name_field(page: Page, name: str) -> None:
    expect(toolbar(page).get_by_role("textbox", name="Name")).to_have_value(name)


@pytest.mark.by_hand
def test_a_workflow_is_found_renamed_moved_and_deleted(page_server: Any, show: Callable[..., Page]) -> None:
    for name in ("Oak tree", "Old oak", "Birch"):
        keep(page_server.url, name)
    page = show()
    dialog = library(page, "oak")
    expect(dialog.get_by_role("listitem")).to_have_count(2)
    dialog.get_by_role("button", name="More about Old oak").click()
    page.get_by_role("menuitem", name="Rename").click()
    dialog.get_by_role("textbox", name="Name").fill("Young oak")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("button", name="Young oak", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="More about Oak tree").click()
    page.get_by_role("menuitem", name="Move to a folder").click()
    dialog.get_by_role("combobox").fill("Trees")
    dialog.get_by_role("button", name="Apply").click()
    dialog.get_by_role("searchbox").fill("")
    dialog.get_by_role("navigation", name="Folders").get_by_role("button", name="Trees").click()
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    dialog.get_by_role("button", name="More about Oak tree").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(dialog.get_by_text("Oak tree is deleted.")).to_be_visible()
    dialog.get_by_role("button", name="Undo").click()
    expect(dialog.get_by_role("button", name="Oak tree", exact=True)).to_be_visible()


@pytest.mark.by_hand
def test_an_older_version_is_looked_at_and_made_the_newest(page_server: Any, show: Callable[..., Page]) -> None:
    keep(page_server.url, "Versions")
    page = show()
    open_kept(page, "Versions")
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    prompt.fill("a second star")
    prompt.blur()
    page.keyboard.press("Control+s")
    expect(say(page, "Versions is saved.")).to_be_visible()
    choose(page, "File", "Versions")
    dialog = page.get_by_role("dialog", name="Versions of Versions")
    dialog.get_by_role("button", name="Changes of 2").click()
    expect(dialog.get_by_role("row").filter(has_text="prompt")).to_have_text(
        "encode_text.prompta red stara second star"
    )
    expect(dialog.get_by_text("Version 2 and Canvas do not differ")).to_be_visible()
    dialog.get_by_role("button", name="Restore version 1").click()
    expect(say(page, "Version 1 is the newest again, as version 3.")).to_be_visible()
    expect(prompt).to_have_value("a red star")


@pytest.mark.by_hand
def test_a_shared_link_opens_the_workflow_elsewhere(
    page_server: Any, show: Callable[..., Page], new_profile: Callable[..., BrowserContext]
) -> None:
    keep(page_server.url, "Shared")
    page = show()
    open_kept(page, "Shared")
    choose(page, "File", "Share")
    link = page.get_by_role("dialog", name="Share this workflow").get_by_role("textbox", name="Link")
    expect(link).to_have_value(re.compile(r"\?shared=\w+"))
    other = new_profile().new_page()
    visit(other, link.input_value())
    expect(card(other, "denoise")).to_be_visible()
    assert file_graph(other)["nodes"] == FIRST["nodes"]


def test_what_another_tab_saved_is_not_overwritten_without_a_question(
    page_server: Any, show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("409 .*loom/workflows")
    id = keep(page_server.url, "Conflict")
    page = show()
    open_kept(page, "Conflict")
    other = {"graph": FIRST | {"name": "Conflict", "description": "of the other tab"}, "base_version": 1}
    call(page_server.url, f"workflows/{id}", other, method="PUT")
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    prompt.fill("mine")
    prompt.blur()
    page.keyboard.press("Control+s")
    question = page.get_by_role("alertdialog", name="Saved elsewhere meanwhile")
    question.get_by_role("button", name="Save as copy").click()
    page.get_by_role("dialog", name="Save as a new workflow").get_by_role("button", name="Save", exact=True).click()
    expect(say(page, "Conflict (copy) is saved.")).to_be_visible()
    kept = {each["name"]: each["version"] for each in call(page_server.url, "workflows")}
    assert kept["Conflict"] == 2
    assert kept["Conflict (copy)"] == 1
