"""A model that a workflow asks for is looked at, fetched, cancelled and gone on with from the page."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from latentloom.pipelines.models.source import BUILTINS
from support.browser import MODEL_MS
from support.fake_hub import hub_in
from support.first_picture import picture_graph


@pytest.mark.by_hand
def test_a_missing_model_is_fetched_from_the_problem_that_names_it(
    start_page: Callable[..., Any], open_page: Callable[..., Page], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = picture_graph()
    graph["nodes"]["load_model"]["inputs"] |= {"source": "org/name", "revision": "v2"}
    origin = Path(shutil.copytree(BUILTINS["bobbin"], tmp_path / "origin"))
    (origin / "LICENSE.md").write_bytes(os.urandom(1 << 20))
    with hub_in(origin, tmp_path / "cache", monkeypatch) as hub:
        hub.stop_at = "LICENSE.md"
        server = start_page("--allow-downloads", folder=tmp_path, is_forked=False)
        page = open_page(server.url, graph=graph)
        page.get_by_role("tab", name="Problems").click()
        get = page.get_by_role("tabpanel").get_by_role("button", name="Get org/name")
        get.click(timeout=MODEL_MS)
        dialog = page.get_by_role("dialog", name="Get a model")
        field, look = dialog.get_by_role("textbox").first, dialog.get_by_role("button", name="Look at it")
        found = dialog.get_by_role("region", name="org/name")
        expect(field).to_have_value("org/name/tree/v2")
        with page.expect_response("**/loom/hub", timeout=MODEL_MS):
            look.click()
            field.fill("org/other")
        expect(look).to_be_enabled()
        expect(found).to_have_count(0)  # what was asked before is not shown under another name
        field.fill("org/name/tree/v2")
        look.click()
        expect(found).to_contain_text("Revisionv2", timeout=MODEL_MS)
        expect(found).to_contain_text("apache-2.0", timeout=MODEL_MS)
        expect(found).to_contain_text("Open to all.")
        found.get_by_role("button", name="Get it").click()
        row = dialog.get_by_role("listitem", name="org/name")
        expect(row).to_contain_text("512 KiB of", timeout=MODEL_MS)
        row.get_by_role("button", name="Cancel org/name").click()
        expect(row).to_contain_text("Cancelled")
        hub.go_on.set()
        row.get_by_role("button", name="Go on").click()
        expect(row).to_contain_text("Is here:", timeout=MODEL_MS)
        dialog.get_by_role("button", name="Close").click()
        expect(get).to_have_count(0, timeout=MODEL_MS)
        expect(page.get_by_text("No problems")).to_be_visible()
