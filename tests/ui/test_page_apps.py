"""Apps in the page: published by one user, run by another on a phone who sees nothing else, and taken back."""

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import BrowserContext, expect

from support.browser import MODEL_MS, PHONE, Watch, choose, log_in, visit
from support.checkout import ROOT

INPAINT = json.loads((ROOT / "workflows/bobbin/inpaint.json").read_text())
INPAINT["nodes"]["denoise"]["inputs"]["steps"] = 2


def test_an_app_is_run_by_another_user_who_sees_nothing_else_until_it_is_revoked(
    guarded: Any, new_profile: Callable[..., BrowserContext], watch: Watch
) -> None:
    watch.foresee("401", "404 .*loom/apps")
    ann = new_profile().new_page()
    ann.request.post(f"{guarded.url}login", form={"username": "ann", "password": "secret-of-ann"})
    kept = ann.request.post(f"{guarded.url}loom/workflows", data={"graph": INPAINT, "name": "ring_app"}).json()
    opened = {"graph": INPAINT | {"name": "ring_app"}, "workflow_id": kept["id"], "base_version": 1}
    ann.request.put(f"{guarded.url}loom/drafts/app", data=opened)
    visit(ann, guarded.url)
    choose(ann, "File", "Publish as an app")
    dialog = ann.get_by_role("dialog", name="Publish as an app")
    dialog.get_by_role("button", name="Publish version 1").click()
    link = dialog.get_by_role("textbox", name="Link to the app ring_app").input_value()

    bob = new_profile(**PHONE).new_page()
    log_in(bob, link, "bob", "secret-of-bob")
    app = bob.get_by_role("main", name="App")
    expect(app.get_by_role("heading", name="Ring app")).to_be_visible(timeout=MODEL_MS)
    app.get_by_role("button", name="Paint", exact=True).click()
    painter = bob.get_by_role("dialog", name="Paint a mask")
    expect(painter.get_by_role("application", name="Mask of 128 x 128 pixels")).to_be_visible()
    expect(painter.get_by_role("status")).to_contain_text("59 % painted")  # read by the channel that the workflow names
    bob.keyboard.press("Escape")
    app.get_by_role("textbox", name="prompt", exact=True).fill("a blue ring")
    app.get_by_role("button", name="Run", exact=True).click()
    expect(app.get_by_role("img", name="a blue ring")).to_be_visible(timeout=MODEL_MS)
    for role, name in (("tab", None), ("combobox", None), ("button", "File"), ("button", "Open in Build")):
        expect(bob.get_by_role(role, name=name)).to_have_count(0)
    expect(bob.get_by_test_id("canvas")).to_have_count(0)
    results = [page.request.get(f"{guarded.url}loom/results").json() for page in (ann, bob)]
    assert [[each["prompt"] for each in made] for made in results] == [[], ["a blue ring"]]

    dialog.get_by_role("button", name="Revoke the link to ring_app").click()
    ann.get_by_role("alertdialog").get_by_role("button", name="Revoke").click()
    expect(dialog.get_by_role("button", name="Publish version 1")).to_be_visible()
    bob.reload()
    expect(app.get_by_text("there is no app under this link any more")).to_be_visible(timeout=MODEL_MS)
