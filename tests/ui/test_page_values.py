"""Values as they will be in a run: how many tokens a text is, and sizes that a model takes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.browser import call, card, file_graph, on_canvas, tab, toolbar
from support.first_picture import picture_graph
from support.lora_files import write_pair


@pytest.mark.by_hand
def test_a_prompt_tells_its_tokens_and_what_is_not_read_on_card_inspector_and_form(
    page_server: Any, show: Callable[..., Page]
) -> None:
    graph = picture_graph(name="many words")
    counts = call(page_server.url, "tokens", {"graph": graph})["tokens"]["encode_text"]["prompt"]
    assert [each["limit"] for each in counts] == [40, 77]
    page = show(graph=graph)
    field = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    shown = card(page, "encode_text").locator(".ll-tokens").first
    expect(shown).to_contain_text(f"{counts[0]['num_tokens']} / 40", timeout=60_000)
    before = card(page, "encode_text").bounding_box()
    field.fill("a red circle above a blue square " * 6 + "lighthouse")
    expect(shown).to_have_class(re.compile("ll-tokens-cut"), timeout=20_000)
    expect(card(page, "encode_text").locator("u")).to_have_text([*["circle", "above", "square"] * 6, "lighthouse"])
    field.fill(graph["params"]["prompt"]["default"])
    expect(shown).not_to_have_class(re.compile("ll-tokens-cut"), timeout=20_000)
    assert card(page, "encode_text").bounding_box() == before
    field.fill("red " * 60 + "lighthouse")
    on_canvas(page, "encode_text").focus()
    page.get_by_role("tab", name="Inspector").click()
    inspector = page.get_by_role("complementary").locator(".ll-tokens mark")
    expect(inspector.first).to_have_text(re.compile("red lighthouse$"), timeout=20_000)
    tab(page, "Simple").click()
    form = page.get_by_role("region", name="Simple view").get_by_role("form", name="Settings")
    expect(form.locator(".ll-tokens mark")).to_have_text(re.compile("red lighthouse$"), timeout=20_000)


@pytest.mark.by_hand
def test_a_size_is_picked_by_shape_and_megapixels_on_card_inspector_and_form(show: Callable[..., Page]) -> None:
    graph = picture_graph(name="many sizes")
    graph["params"] |= {"wide": {"type": "int", "default": 128}, "high": {"type": "int", "default": 128}}
    graph["nodes"]["empty_latents"]["inputs"] |= {"width": {"param": "wide"}, "height": {"param": "high"}}
    page = show(graph=graph)
    sides = [card(page, "empty_latents").get_by_role("spinbutton", name=name) for name in ("width", "height")]
    card(page, "empty_latents").get_by_role("button", name="Shape of the picture").click()
    picker = page.get_by_role("dialog", name="Shape of the picture")
    expect(picker).to_contain_text("(0.016 megapixels), sides are multiples of 16. At most 160 pixels")
    picker.get_by_role("button", name="3:2").click()
    picker.get_by_role("button", name="Swap width and height").click()
    expect(sides[1]).to_have_value("160")
    area = picker.get_by_role("spinbutton", name="Megapixels")
    area.fill("0.004")
    area.press("Enter")
    expect(sides[0]).to_have_value("48")
    expect(sides[1]).to_have_value("80")
    picker.get_by_role("button", name="1:1").press("Escape")
    expect(picker).to_have_count(0)
    on_canvas(page, "empty_latents").focus()
    page.get_by_role("tab", name="Inspector").click()
    page.get_by_role("complementary").get_by_role("button", name="4:3").click()
    expect(sides[0]).to_have_value("64")
    tab(page, "Simple").click()
    form = page.get_by_role("region", name="Simple view").get_by_role("form", name="Settings")
    form.get_by_role("button", name="16:9").click()
    expect(form.get_by_role("spinbutton", name="wide")).to_have_value("80")
    expect(form.get_by_role("spinbutton", name="high")).to_have_value("48")


@pytest.mark.by_hand
def test_a_lora_is_picked_and_its_words_and_another_lora_are_one_step_each(
    start_page: Callable[..., Any], open_page: Callable[..., Page], tmp_path: Path
) -> None:
    write_pair(tmp_path / "glaze.safetensors", metadata={"modelspec.trigger_phrase": "glz cup"})
    write_pair(tmp_path / "wide.safetensors", shape=(8, 8))
    graph = picture_graph(name="glazed", layout={})
    takers = [
        node for node in graph["nodes"].values() if node.get("inputs", {}).get("model") == {"from": "load_model.model"}
    ]
    for node in takers:
        node["inputs"]["model"] = {"from": "lora.model"}
    graph["nodes"]["lora"] = {"type": "LoomLoadLora", "version": 1, "inputs": {"model": {"from": "load_model.model"}}}
    prompt = graph["params"]["prompt"]["default"]
    page = open_page(start_page("--models-dir", str(tmp_path)).url, graph=graph)
    card(page, "lora").get_by_role("combobox", name="path").click()
    options = card(page, "lora").get_by_role("listbox").get_by_role("option")
    expect(options).to_have_count(2)
    first, second = options.nth(0), options.nth(1)
    expect(first).to_contain_text("fits · 3.3 KiB · rank 4 · glz cup")
    expect(second).to_contain_text("Does not fit: it changes 'transformer_blocks.0.attn.to_q' as one of 8 x 8")
    expect(second).to_have_class(re.compile("ll-option-off"))
    first.click()
    word = card(page, "lora").get_by_role("button", name="glz cup")
    expect(word).to_have_attribute("aria-pressed", "false")
    word.click()
    expect(word).to_have_attribute("aria-pressed", "true")
    field = card(page, "encode_text").get_by_role("textbox", name="prompt", exact=True)
    expect(field).to_have_value(f"{prompt}, glz cup")
    toolbar(page).get_by_role("button", name="Undo: Put “glz cup” into the prompt").click()
    expect(field).to_have_value(prompt)
    card(page, "lora").get_by_text("Load LoRA").click(button="right")
    page.get_by_role("menuitem", name="Add another LoRA").click()
    expect(card(page, "load_lora")).to_be_visible()
    nodes = file_graph(page)["nodes"]
    assert nodes["load_lora"]["inputs"] == {"model": {"from": "lora.model"}}
    assert [node["inputs"]["model"]["from"] for node in nodes.values() if "model" in node.get("inputs", {})].count(
        "load_lora.model"
    ) == len(takers)
    toolbar(page).get_by_role("button", name="Undo: Add another LoRA").click()
    expect(card(page, "load_lora")).to_have_count(0)
