"""Files in the page: the same pixels from the command line, pictures that carry their workflow, and hostile files."""

import json
import os
import urllib.request
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect

from latentloom.nodes.files.audio_files import write_audio
from support.browser import (
    MODEL_MS,
    Watch,
    call,
    card,
    choose,
    drag,
    drop_file,
    file_graph,
    file_text,
    rest,
    say,
    tab,
    toolbar,
)
from support.checkout import ROOT
from support.first_picture import FIRST, small
from support.page_processes import Nursery
from support.toy_server import png

SCRIPT = '<img src=x onerror="window.wasRun = 1"><script>window.wasRun = 1</script>${window.wasRun = 1}{{7*7}}'


def pixels(content: bytes) -> bytes:
    with Image.open(BytesIO(content)) as picture:
        return picture.convert("RGB").tobytes()


def drop(page: Page, content: bytes, name: str = "workflow.json", media_type: str = "application/json") -> None:
    drop_file(page, page.get_by_test_id("canvas"), name=name, content=content, media_type=media_type)


def test_the_saved_file_makes_the_same_pixels_on_the_command_line(
    page_server: Any, show: Callable[..., Page], nursery: Nursery, tmp_path: Path
) -> None:
    page = show(graph=small(name="same_pixels"))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    (tmp_path / "saved.json").write_text(file_text(page), encoding="utf-8")
    result = next(each for each in call(page_server.url, "results") if each["workflow_name"] == "same_pixels")
    with urllib.request.urlopen(f"{page_server.url}loom/files/{result['id']}", timeout=30) as answer:
        shown = pixels(answer.read())

    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    log = tmp_path / "log.txt"
    with nursery.start("run", "saved.json", "--out", "made", cwd=tmp_path, env=env, log=log) as process:
        process.stdout.read()
        assert process.wait(200) == 0, log.read_text()
    made = list((tmp_path / "made").rglob("*.png"))
    assert [pixels(path.read_bytes()) for path in made] == [shown]


def test_a_picture_that_is_dropped_opens_the_workflow_that_made_it(page_server: Any, show: Callable[..., Page]) -> None:
    run = call(page_server.url, "runs", {"graph": small(name="in_the_picture"), "overrides": {"prompt": "a blue ring"}})
    page = show()
    tab(page, "Gallery").click()
    found = page.get_by_role("button", name="a blue ring").first
    expect(found).to_be_visible(timeout=MODEL_MS)
    result = next(each for each in call(page_server.url, "results") if each["run"] == run["runs"][0])
    with urllib.request.urlopen(f"{page_server.url}loom/files/{result['id']}", timeout=30) as answer:
        content = answer.read()
    tab(page, "Build").click()
    drop(page, content, "picture.png", "image/png")
    expect(card(page, "denoise")).to_be_visible()
    assert file_graph(page)["nodes"].keys() == FIRST["nodes"].keys()
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    expect(prompt).to_have_value("a blue ring")


def test_closing_unsaved_work_asks_and_saving_it_first_closes_it(page_server: Any, show: Callable[..., Page]) -> None:
    page = show(graph=small(name="never named"))
    choose(page, "File", "Close")
    question = page.get_by_role("alertdialog", name="Save your changes?")
    expect(question).to_contain_text("it stays a draft, which Open… lists")
    question.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog", name="Save as a new workflow")
    dialog.get_by_role("button", name="Cancel").click()
    expect(card(page, "denoise")).to_be_visible()  # it was not saved, so it is not closed
    page.keyboard.press("Alt+w")
    question.get_by_role("button", name="Save", exact=True).click()
    dialog.get_by_label("Name").fill("Named at last")
    dialog.get_by_label("Name").press("Enter")
    expect(page.locator(".react-flow__node-card")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert "Named at last" in [each["name"] for each in call(page_server.url, "workflows")]
    assert [each["key"] for each in call(page_server.url, "drafts")] == ["start"]  # of the browser before


def test_what_is_not_saved_is_among_the_drafts(show: Callable[..., Page]) -> None:
    page = show(graph=small(name="left behind"))
    choose(page, "File", "Close")
    page.get_by_role("alertdialog").get_by_role("button", name="Close without saving").click()
    expect(page.locator(".react-flow__node-card")).to_have_count(0)
    choose(page, "File", "Open…")
    page.get_by_role("tab", name="Drafts").or_(page.get_by_text("Drafts (")).first.click()
    page.get_by_role("button", name="left behind", exact=True).click()
    expect(page.locator(".react-flow__node-card")).to_have_count(len(FIRST["nodes"]))


@pytest.mark.by_hand
def test_several_workflows_are_open_each_with_its_own_edits_view_and_draft(show: Callable[..., Page]) -> None:
    page = show(graph=small(name="one"))
    prompt = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    tabs = page.get_by_role("tablist", name="Open workflows").get_by_role("tab")
    expect(tabs).to_have_count(0)  # of one there is no bar
    page.get_by_test_id("canvas").focus()
    page.keyboard.press("Alt+n")
    expect(tabs).to_have_text(["one", "untitled"])
    choose(page, "File", "Templates")
    page.get_by_role("button", name="Compare guidance").click()
    expect(tabs).to_have_text(["one", "compare_guidance"])
    rest(page)
    page.get_by_role("button", name="Zoom out").click()
    rest(page)
    seen = page.locator(".react-flow__viewport").get_attribute("style")
    page.keyboard.press("Alt+PageUp")
    prompt.fill("a blue ring")
    page.keyboard.press("Alt+PageDown")  # what is typed belongs to where it was typed
    expect(card(page, "denoise")).to_have_count(0)
    expect(prompt).not_to_have_value("a blue ring")
    page.keyboard.press("Alt+PageUp")
    expect(prompt).to_have_value("a blue ring")
    page.get_by_role("button", name="Undo").click()
    expect(prompt).to_have_value("a red star")
    page.keyboard.press("Alt+PageDown")
    expect(card(page, "denoise")).to_have_count(0)
    expect(page.locator(".react-flow__viewport")).to_have_attribute("style", seen or "")
    drag(page, tabs.last, tabs.first)
    expect(tabs).to_have_text(["compare_guidance", "one"])
    page.reload()
    expect(tabs).to_have_text(["compare_guidance", "one"])
    expect(tabs.first).to_have_attribute("aria-selected", "true")
    tabs.last.click()
    expect(prompt).to_have_value("a red star")
    page.set_viewport_size({"width": 760, "height": 700})
    for number in range(4):
        content = json.dumps({"format": 1, "name": f"w{number}", "nodes": {"seed": {"type": "LoomSeed"}}}).encode()
        drop_file(page, page.get_by_test_id("canvas"), name="w.json", content=content, media_type="application/json")
        expect(tabs).to_have_count(3 + number)
    expect(tabs.last).to_be_in_viewport(ratio=1)
    choose(page, "All open workflows", "compare_guidance")
    expect(tabs.first).to_have_attribute("aria-selected", "true")
    expect(tabs.first.get_by_text("idance", exact=True)).to_be_in_viewport(ratio=1)  # by which names differ


@pytest.mark.by_hand
def test_a_plain_picture_or_sound_may_become_a_node(show: Callable[..., Page], watch: Watch, tmp_path: Path) -> None:
    watch.foresee("400 .*loom/open")  # it is no workflow
    page = show(graph=FIRST)
    drop(page, png(32, 24), "teal.png", "image/png")
    page.get_by_role("dialog", name="Use this picture?").get_by_role("button", name="Add a Load Image node").click()
    expect(card(page, "load_image")).to_be_visible()
    assert file_graph(page)["nodes"]["load_image"]["inputs"]["path"].endswith(".png")
    write_audio(torch.zeros(1, 800), tmp_path / "bell.wav", rate=8000, metadata={})
    drop(page, (tmp_path / "bell.wav").read_bytes(), "bell.wav", "audio/wav")
    page.get_by_role("dialog", name="Use this sound?").get_by_role("button", name="Add a Load Audio node").click()
    expect(card(page, "load_audio")).to_be_visible()
    assert file_graph(page)["nodes"]["load_audio"]["inputs"]["path"].endswith("-bell.wav")


@pytest.mark.by_hand
def test_a_sound_is_dropped_on_its_node_and_played_wherever_it_is_shown(
    show: Callable[..., Page], tmp_path: Path
) -> None:
    write_audio(torch.rand(1, 16000) - 0.5, tmp_path / "bell.wav", rate=8000, metadata={})
    load = {"type": "LoomLoadAudio", "inputs": {"start": 1.5, "path": ""}}
    save = {"type": "LoomSaveAudio", "inputs": {"audio": {"from": "load.audio"}, "name": "half"}}
    page = show(graph={"format": 1, "name": "bell", "nodes": {"load": load, "save": save}})
    field = card(page, "load").get_by_role("button", name="path: Drop a sound here")
    drop_file(page, field, name="bell.wav", content=(tmp_path / "bell.wav").read_bytes(), media_type="audio/wav")
    expect(card(page, "load").get_by_label("bell.wav")).to_have_js_property("duration", 2)
    page.get_by_role("button", name="Run", exact=True).click()
    made = card(page, "save").get_by_label("Sound of Save Audio")
    expect(made).to_have_js_property("duration", 0.5, timeout=MODEL_MS)
    card(page, "save").get_by_role("button", name="Open the result of Save Audio").click()
    shown = page.get_by_role("dialog").get_by_label("Sound: half.flac")
    shown.evaluate("(sound) => sound.play()")
    expect(shown).to_have_js_property("ended", True)
    expect(page.get_by_role("dialog")).to_contain_text("8,000 Hz")


@pytest.mark.by_hand
def test_earlier_pictures_are_chosen_again_and_deleted(page_server: Any, show: Callable[..., Page]) -> None:
    for color in ("teal", "orange"):
        headers = {"X-Name": f"{color}-sea.png"}
        sent = urllib.request.Request(f"{page_server.url}loom/uploads", png(32, 24, color), headers)
        urllib.request.urlopen(sent, timeout=30).close()
    page = show(graph=small(nodes={**FIRST["nodes"], "load": {"type": "LoomLoadImage"}}))
    earlier = card(page, "load").get_by_role("button", name="Pictures sent before")
    earlier.click()
    dialog = page.get_by_role("dialog", name="Your pictures")
    dialog.get_by_role("button", name="Delete orange-sea.png").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Yes").click()
    expect(dialog.get_by_role("button", name="Use orange-sea.png")).to_have_count(0)
    dialog.get_by_role("button", name="Use teal-sea.png").click()
    expect(dialog).to_have_count(0)
    assert file_graph(page)["nodes"]["load"]["inputs"]["path"].endswith("-teal-sea.png")
    assert [row["path"] for row in call(page_server.url, "uploads") if "orange-sea" in row["path"]] == []


def test_numbers_that_a_browser_would_round_are_saved_as_they_were(show: Callable[..., Page]) -> None:
    graph = small(meta={"ticket": 12345678901234567890, "text": "12345678901234567890", "more": [-(2**63)]})
    graph["params"]["seed"] = {"type": "int", "default": 2**64 - 1, "min": -(2**63), "max": 2**64 - 1}
    page = show()
    drop(page, json.dumps(graph).encode())
    expect(card(page, "denoise")).to_be_visible()
    saved = file_graph(page)
    assert (saved["meta"], saved["params"]["seed"]) == (graph["meta"], graph["params"]["seed"])
    expect(page.get_by_role("spinbutton", name="seed").first).to_have_value(str(2**64 - 1))


def test_a_workflow_goes_to_the_disk_and_back_byte_for_byte(show: Callable[..., Page]) -> None:
    text = (ROOT / "workflows/bobbin/first_picture.json").read_text(encoding="utf-8")
    page = show()
    with page.expect_file_chooser() as chooser:
        choose(page, "File", "Open from disk")
    chooser.value.set_files(ROOT / "workflows/bobbin/first_picture.json")
    expect(card(page, "denoise")).to_be_visible()
    assert file_text(page) == text


# --- hostile files ---


HOSTILE = {
    "no workflow": (b'{"hello": "world"}', '"format" is missing'),
    "broken": (b'{"format": 1, "nodes": {', "is not JSON that we read"),
    "deep": (b"[" * 100_000, "it nests more than 32 levels"),
    "wrong types": (b'{"format": 1, "name": 5, "nodes": ["a"]}', "Input should be a valid dictionary"),
    "newer": (json.dumps(small() | {"format": 99}).encode(), "the file has format 99"),
    "huge": (json.dumps(small(description="x" * 5_000_000)).encode(), "larger than 4194304 bytes"),
}


def test_hostile_files_are_refused_in_a_sentence_each_and_the_work_stays(
    show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("400 .*loom/open")
    page = show(graph=FIRST)
    before = file_text(page)
    messages = page.get_by_role("region", name="Messages")
    for name, (content, says) in HOSTILE.items():
        drop(page, content, f"{name}.json")
        expect(messages.get_by_role("alert").filter(has_text=says)).to_be_visible()
        expect(messages).not_to_contain_text("Traceback")
        messages.get_by_role("button", name="Dismiss").first.click()
    assert file_text(page) == before


def test_a_picture_that_is_cut_off_is_refused(show: Callable[..., Page], watch: Watch) -> None:
    watch.foresee("400 .*loom/(open|foreign|uploads)")
    page = show(graph=FIRST)
    drop(page, b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "star.png", "image/png")
    page.get_by_role("dialog", name="Use this picture?").get_by_role("button", name="Add a Load Image node").click()
    expect(page.get_by_role("region", name="Messages").get_by_role("alert")).to_be_visible()
    expect(page.locator(".react-flow__node-card")).to_have_count(len(FIRST["nodes"]))


def test_a_circle_in_a_file_is_shown_explained_and_never_run(
    page_server: Any, show: Callable[..., Page], watch: Watch
) -> None:
    watch.foresee("400 .*loom/runs")
    graph = small(name="circle")
    graph["nodes"]["upscale"] = {"type": "LoomUpscaleLatents", "inputs": {"latents": {"from": "denoise.latents"}}}
    graph["nodes"]["denoise"]["inputs"]["latents"] = {"from": "upscale.latents"}
    page = show()
    drop(page, json.dumps(graph).encode())
    expect(card(page, "upscale")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    problem = page.get_by_role("complementary", name="Panels").get_by_text("it needs its own result")
    expect(problem).to_be_visible()
    assert [run for run in call(page_server.url, "runs") if run["name"] == "circle"] == []


def test_unknown_nodes_are_kept_and_explained(show: Callable[..., Page], watch: Watch) -> None:
    watch.foresee("400 .*loom/runs")
    graph = small()
    graph["nodes"]["strange"] = {"type": "StrangeNode", "inputs": {"depth": 3, "model": {"from": "load_model.model"}}}
    page = show()
    drop(page, json.dumps(graph).encode())
    expect(card(page, "strange")).to_contain_text("The node type StrangeNode is not installed here")
    assert file_graph(page)["nodes"]["strange"]["inputs"] == graph["nodes"]["strange"]["inputs"]
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("complementary", name="Panels").get_by_text("StrangeNode").first).to_be_visible()


def test_script_in_a_file_is_text(show: Callable[..., Page]) -> None:
    graph = small(name=SCRIPT, description=SCRIPT)
    graph["nodes"]["denoise"]["title"] = SCRIPT
    graph["params"]["prompt"] |= {"default": SCRIPT, "help": SCRIPT}
    graph["layout"]["$groups"] = [{"id": "g", "title": SCRIPT, "color": SCRIPT, "rect": [0, 0, 300, 200]}]
    graph["layout"]["$notes"] = [{"id": "n", "text": SCRIPT, "color": "red", "rect": [0, 300, 300, 200]}]
    page = show()
    drop(page, json.dumps(graph).encode())
    expect(card(page, "denoise").get_by_text(SCRIPT, exact=True)).to_be_visible()
    expect(toolbar(page).get_by_role("textbox", name="Name")).to_have_value(SCRIPT)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
    expect(say(page, "is done")).to_be_visible()
    for view in ("Gallery", "Simple", "Models", "Build"):
        tab(page, view).click()
    page.get_by_role("button", name="Open the result of Save Image").click()
    expect(page.get_by_role("dialog").get_by_text(SCRIPT).first).to_be_visible()
    assert page.evaluate("window.wasRun") is None
