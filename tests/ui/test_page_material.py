"""Pictures, videos and sounds as material: masks painted and what an inpaint keeps, frames, players with marks."""

import io
import json
import re
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect

from latentloom.nodes.files.audio_files import write_audio
from latentloom.nodes.files.video_files import write_video
from latentloom.ui.store.uploads import inputs_folder
from support.browser import MODEL_MS, call, card, file_graph, made, middle, say, tab, toolbar
from support.checkout import ROOT

INPAINT = json.loads((ROOT / "workflows/bobbin/inpaint.json").read_text())

STYLES = "all => all.map((each) => each.getAttribute('style'))"


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

    below = page.locator(".react-flow__viewport, .react-flow__node")
    lay = below.evaluate_all(STYLES)
    x, y = middle(stage)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 150, steps=4)
    page.mouse.up()
    painter.get_by_role("heading").hover()
    page.mouse.wheel(0, 200)
    assert below.evaluate_all(STYLES) == lay  # the node whose dialog this is would have gone with the brush
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
    painted, before = np.asarray(picture_at(f"{url}loom/files/{result}")), np.asarray(source)
    assert mask.shape == (96, 96) and mask[48, 40] == 255 and set(np.unique(mask)) > {0, 255}
    rows, columns = np.nonzero(mask)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (32, 63, 16, 63)  # brush, and 6 of feather
    assert np.array_equal(painted[mask == 0], before[mask == 0])
    assert abs(painted[mask == 255].astype(int) - before[mask == 255]).mean() > 5

    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{result}").click()
    page.get_by_role("button", name="Paint a mask").click()
    page.get_by_role("application").click()
    page.get_by_role("button", name="Use this mask").click()
    expect(card(page, "load_mask_2").get_by_role("button", name="Paint", exact=True)).to_be_visible()
    page.keyboard.press("Control+z")
    expect(card(page, "load_mask_2")).to_be_hidden()
    expect(card(page, "load_image_2")).to_be_hidden()


@pytest.mark.by_hand
def test_a_frame_sets_the_part_that_is_cut_out_by_keys_by_mouse_and_by_numbers(
    page_server: Any, show: Callable[..., Page]
) -> None:
    path = sent(page_server.url, Image.new("RGB", (160, 96), "teal"))
    nodes = {
        "load_image": {"type": "LoomLoadImage", "version": 1, "inputs": {"path": path}},
        "crop": {"type": "LoomCropImage", "version": 1, "inputs": {"image": {"from": "load_image.image"}}},
        "save": {"type": "LoomSaveImage", "version": 1, "inputs": {"image": {"from": "crop.image"}}},
    }
    page = show(graph={"format": 1, "name": "part", "nodes": nodes})
    card(page, "crop").get_by_text("Crop Image").click()
    page.get_by_role("tab", name="Inspector").click()
    page.get_by_role("button", name="Choose the part").click()
    dialog = page.get_by_role("dialog", name="Choose a part")
    dialog.get_by_role("button", name="Left border").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(dialog.get_by_role("status")).to_have_text("128 x 96 pixels")
    below = page.locator(".react-flow__viewport, .react-flow__node")
    lay = below.evaluate_all(STYLES)
    x, y = middle(dialog.get_by_role("button", name="Lower right corner"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 90, y - 90, steps=3)
    page.mouse.up()
    page.mouse.wheel(0, 200)
    assert below.evaluate_all(STYLES) == lay
    dialog.get_by_role("spinbutton", name="Height").fill("48")
    dialog.get_by_role("button", name="Use this frame").click()
    inputs = file_graph(page)["nodes"]["crop"]["inputs"]
    assert (inputs["left"], inputs["top"], inputs["height"]) == (32, 0, 48)
    assert inputs["width"] % 16 == 0 and inputs["width"] < 128
    toolbar(page).get_by_role("button", name="Undo: Frame").click()
    assert "left" not in file_graph(page)["nodes"]["crop"]["inputs"]


@pytest.mark.by_hand
def test_a_video_is_stepped_marked_and_taken_as_material_and_keeps_its_poster(
    page_server: Any, open_page: Callable[..., Page]
) -> None:
    url, inputs = page_server.url, inputs_folder(page_server.data_dir, "local")
    greys = torch.tensor([20, 60, 100, 140, 180, 220], dtype=torch.uint8)
    inputs.mkdir(parents=True, exist_ok=True)
    clip = inputs / f"{'0' * 16}-clip.mp4"
    write_video(greys[:, None, None, None].expand(-1, 64, 96, 3), clip, fps=4, quality=10, metadata={})
    load = {"type": "LoomLoadVideo", "version": 1, "inputs": {"path": clip.name}}
    save = {"type": "LoomSaveVideo", "version": 1, "inputs": {"video": {"from": "load.video"}}}
    result = made(url, {"format": 1, "name": "clip", "nodes": {"load": load, "save": save}})
    page = open_page(url)
    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{result}").click()
    player = page.get_by_role("group", name="Video player")
    told = player.get_by_role("status")
    player.get_by_role("button", name="One frame on (.)").click()
    page.keyboard.press("i")
    page.keyboard.press(".")
    page.keyboard.press(".")
    page.keyboard.press("o")
    expect(told).to_have_text("Frame 4 of 6, 0.9 s of 1.5 s, part from 0.4 s to 0.9 s")
    page.keyboard.press("Home")
    expect(told).to_contain_text("Frame 2 of 6")
    page.keyboard.press("End")
    player.get_by_role("button", name="Make this frame the poster").click()
    expect(say(page, "Frame 4 stands for the video now")).to_be_visible()
    shown = picture_at(f"{url}loom/files/{result}/thumb?poster=3").convert("L").getpixel((48, 32))
    assert abs(shown - 140) <= 4
    expect(page.get_by_test_id(f"result-{result}").locator("img")).to_have_attribute("src", re.compile(r"poster=3$"))
    player.get_by_role("button", name="Use this frame as a picture").click()
    expect(card(page, "load_image")).to_be_visible()
    newest = call(url, "uploads?kind=image&limit=1")[0]["path"]
    assert abs(picture_at(f"{url}loom/uploads/{newest}").convert("L").getpixel((48, 32)) - 140) <= 4
    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{result}").click()
    player.get_by_role("button", name="One frame on (.)").click()
    page.keyboard.press("i")
    player.get_by_role("button", name="Use the marked part").click()
    expect(card(page, "load_video")).to_be_visible()
    part = file_graph(page)["nodes"]["load_video"]["inputs"]
    assert (part["path"].endswith("-video.mp4"), part["start"], part["frames"]) == (True, 1, 5)


@pytest.mark.by_hand
def test_a_sound_is_seen_wound_and_marked_and_its_part_is_an_input(
    page_server: Any, open_page: Callable[..., Page]
) -> None:
    url, inputs = page_server.url, inputs_folder(page_server.data_dir, "local")
    inputs.mkdir(parents=True, exist_ok=True)
    sound = torch.cat([torch.zeros(1, 8000), torch.sin(torch.arange(8000) / 3)[None]], 1)
    write_audio(sound, inputs / f"{'0' * 16}-bell.wav", rate=8000, metadata={})
    load = {"type": "LoomLoadAudio", "version": 1, "inputs": {"path": f"{'0' * 16}-bell.wav"}}
    save = {"type": "LoomSaveAudio", "version": 1, "inputs": {"audio": {"from": "load.audio"}}}
    result = made(url, {"format": 1, "name": "bell", "nodes": {"load": load, "save": save}})
    page = open_page(url)
    tab(page, "Gallery").click()
    page.get_by_test_id(f"result-{result}").click()
    wave = page.get_by_role("slider", name="Position")
    ink = "(canvas, part) => canvas.getContext('2d').getImageData(part * canvas.width, 2, 1, 1).data[3]"
    expect(wave.locator("canvas")).to_be_visible()
    page.wait_for_function("canvas => canvas.width > 300", arg=wave.locator("canvas").element_handle())
    assert wave.locator("canvas").evaluate(ink, 0.25) == 0  # silence
    box = wave.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    expect(wave).to_have_attribute("aria-valuetext", "1 s of 2 s")
    page.keyboard.press("i")
    page.keyboard.press("End")
    page.keyboard.press(",")
    page.keyboard.press("o")
    expect(wave).to_have_attribute("aria-valuetext", "1.9 s of 2 s, part from 1 s to 1.9 s")
    page.get_by_role("button", name="Use the marked part").click()
    expect(card(page, "load_audio")).to_be_visible()
    inputs_now = file_graph(page)["nodes"]["load_audio"]["inputs"]
    assert abs(inputs_now["start"] - 1) < 0.02 and abs(inputs_now["duration"] - 0.9) < 0.02
