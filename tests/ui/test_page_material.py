"""Pictures as material: a mask painted by keys and by mouse, and what an inpaint with it keeps."""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from playwright.sync_api import expect

from support.browser import MODEL_MS, call, card, middle, tab, toolbar
from support.checkout import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

INPAINT = json.loads((ROOT / "workflows/bobbin/inpaint.json").read_text())


def sent(url: str, picture: Image.Image, name: str = "a.png") -> str:
    """The path of an upload."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    asked = urllib.request.Request(f"{url}loom/uploads", file.getvalue(), {"X-Name": name})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read())["path"]


def picture_at(address: str) -> Image.Image:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return Image.open(io.BytesIO(answer.read())).copy()


def test_a_mask_is_painted_by_keys_and_mouse_and_an_inpaint_keeps_every_byte_outside(
    page_server: Any, open_page: Callable[..., Page]
) -> None:
    url = page_server.url
    source = Image.linear_gradient("L").resize((96, 96)).convert("RGB")
    graph = json.loads(json.dumps(INPAINT))
    graph["params"]["image"]["default"], graph["params"]["mask"]["default"] = sent(url, source), ""
    graph["params"]["blur"]["default"] = 0
    graph["nodes"]["denoise"]["inputs"]["steps"] = 2
    page = open_page(url, graph=graph)
    paint = card(page, "load_mask").get_by_role("button", name="Paint", exact=True)
    paint.click()
    painter = page.get_by_role("dialog", name="Paint a mask")
    stage, told = painter.get_by_role("application", name="Mask of 96 x 96 pixels"), painter.get_by_role("status")
    expect(stage).to_be_focused()
    painter.get_by_role("combobox", name="Step").select_option("16")
    painter.get_by_role("slider", name="Size").fill("20")
    stage.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.down(" ")
    page.keyboard.press("ArrowRight")
    page.keyboard.up(" ")
    expect(told).to_have_text("x 48, y 48. 7 % painted")
    page.keyboard.press("Escape")  # by mistake
    expect(painter).to_be_hidden()
    paint.click()
    expect(painter.get_by_text("The strokes that you had not used yet are back")).to_be_visible()
    expect(told).to_contain_text("7 % painted")

    x, y = middle(stage)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 150, steps=4)
    page.mouse.up()
    expect(told).not_to_contain_text("7 %")
    page.keyboard.press("Control+z")
    expect(told).to_contain_text("7 %")
    painter.get_by_role("slider", name="Edge").fill("6")
    painter.get_by_role("button", name="Feather").click()
    painter.get_by_role("button", name="Use this mask").click()
    expect(painter).to_be_hidden()
    toolbar(page).get_by_role("button", name="Run", exact=True).click()
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)

    newest = call(url, "uploads?kind=image&limit=1")[0]["path"]
    mask = np.asarray(picture_at(f"{url}loom/uploads/{newest}"))
    result = call(url, "results?limit=1")[0]["id"]
    made, before = np.asarray(picture_at(f"{url}loom/files/{result}")), np.asarray(source)
    assert mask.shape == (96, 96) and mask[48, 40] == 255 and set(np.unique(mask)) > {0, 255}
    rows, columns = np.nonzero(mask)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 63, 16, 63)  # brush, and 6 of feather
    assert np.array_equal(made[mask == 0], before[mask == 0])
    assert abs(made[mask == 255].astype(int) - before[mask == 255]).mean() > 5

    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{result}").click()
    page.get_by_role("button", name="Paint a mask").click()
    page.get_by_role("application").click()
    page.get_by_role("button", name="Use this mask").click()
    expect(card(page, "load_mask_2").get_by_role("button", name="Paint", exact=True)).to_be_visible()
    page.keyboard.press("Control+z")
    expect(card(page, "load_mask_2")).to_be_hidden()
    expect(card(page, "load_image_2")).to_be_hidden()
