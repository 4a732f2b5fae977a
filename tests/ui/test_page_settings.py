"""What people set for themselves, kept in their browser."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import toolbar


@pytest.mark.by_hand
def test_theme_language_and_keys_are_set_in_one_dialog_and_kept(
    show: Callable[..., Page], first: dict[str, Any]
) -> None:
    page = show(graph=first)
    toolbar(page).get_by_role("button", name="Settings").click()
    dialog = page.get_by_role("dialog", name="Settings")
    dialog.get_by_role("button", name="Dark").click()
    expect(page.locator("body.dark")).to_be_attached()
    change = dialog.get_by_role("button", name="Keyboard shortcuts: ?. Change")
    change.click()
    page.keyboard.press("Control+g")
    expect(dialog.get_by_text("Ctrl+G is taken by")).to_be_visible()
    page.keyboard.press("F8")
    expect(dialog.get_by_role("button", name="Keyboard shortcuts: F8. Change")).to_be_visible()
    dialog.get_by_role("button", name="Deutsch").click()
    dialog = page.get_by_role("dialog", name="Einstellungen")
    expect(dialog.get_by_text("Wie das System")).to_be_visible()
    page.reload()
    expect(page.locator("body.dark")).to_be_attached()
    expect(page.get_by_role("button", name="Einstellungen")).to_be_visible()
    page.keyboard.press("?")
    page.keyboard.press("F8")
    expect(page.get_by_role("dialog", name="Tastenkürzel").get_by_text("F8")).to_be_visible()
