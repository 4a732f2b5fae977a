"""A pseudo-language that brackets every text we have: what is read without brackets, nobody can translate."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from latentloom.parallel.machine.now import devices_now
from support.browser import MODEL_MS, begin_gradio, card, choose, made, on_canvas
from support.checkout import ROOT

FIRST, INPAINT = (
    json.loads((ROOT / f"workflows/bobbin/{name}.json").read_text()) for name in ("first_picture", "inpaint")
)
OPEN, CLOSE = "\u27e6", "\u27e7"
# What is read on the page: texts, names, tooltips; not what stands in fields, and no code.
SHOWN = """() => {
  const found = [];
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) walk(element.shadowRoot);
      if (!isSeen(element) || element.closest("code, option:not(:checked), style, script, .visually-hidden")) continue;
      for (const name of ["aria-label", "title", "placeholder", "alt", "aria-valuetext"]) {
        if (element.getAttribute(name)) found.push(element.getAttribute(name));
      }
      const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
      const text = own.map((node) => node.data).join("").trim();
      if (text) found.push(text);
    }
  };
  walk(document);
  return found;
}"""
OURS = re.compile(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")
NODES = "|".join(FIRST["nodes"] | INPAINT["nodes"])
# A node, one of its sockets, a part of a plan, a param.
NAMED = re.compile(rf"\b({NODES})(\.\w+)?|\b\w+=\d|\b(negative_)?prompt\b|\bseed\b")
KEYS = re.compile(r"\b([A-Z]|F\d+|Alt|Esc|Tab)\b")  # keys on which the same stands in all languages
WORKFLOWS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflows").rglob("*.json"))
# Models on the hub that workflows name.
HUB = re.compile(
    "|".join(sorted({*map(re.escape, re.findall(r'"([\w-]+/[\w.-]+)"', WORKFLOWS))}, key=len, reverse=True))
)
NO_WORDS = re.compile(r"\b(B|KiB|MiB|GiB|TiB|ms|\u00b5s|s|min|h|x)\b|[\W\d_]")
# Of models, packages and this machine, and what languages call themselves.
NAMES = """
builtin:bobbin bobbin FluxPipeline FluxImg2ImgPipeline Qwen/Qwen-Image FlowMatchEulerDiscreteScheduler flux latentloom
transformers diffusers safetensors tokenizers torch numpy pillow peft torchao python av CPU cpu fp32 cfg ulysses ring
tokenizer_2 tokenizer text_encoder_2 text_encoder transformer vae allgather weights text
Seed PNG JPEG WebP BMP English Deutsch
"""
THEIRS = (
    # of the workflow: its name, its nodes with their sockets, its prompt, its files, what it says of itself
    *("first_picture", "a red star", "picture.png", "picture", FIRST["description"], "part", "middle.png"),
    *(param["help"] for param in FIRST["params"].values()),
    *(str(ROOT / "pipelines/bobbin/model"), devices_now()[-1].title.partition(",")[0]),
    *NAMES.split(),
    *("React Flow attribution", "React Flow"),  # the library gives no way to word it
)


def bracketed(route: Route) -> None:
    """German with brackets round each paragraph, but for the values in it."""
    tables = json.loads((ROOT / "ui/static/loom.de.json").read_text(encoding="utf-8"))
    pseudo = {kind: {key: in_brackets(text) for key, text in table.items()} for kind, table in tables.items()}
    route.fulfill(json=pseudo)


def in_brackets(text: str) -> str:
    parts = re.split(r"(\n\n|\{\w+\})", text)
    return "".join(
        part if number % 2 or not part.strip() else f"{OPEN}{part}{CLOSE}" for number, part in enumerate(parts)
    )


def unbracketed(page: Page) -> list[str]:
    """Every text on the page now that the pseudo-language has not, and that is nobody else's."""
    left = []
    for text in page.evaluate(SHOWN):
        rest = text
        while (less := OURS.sub(" ", rest)) != rest:
            rest = less
        rest = HUB.sub(" ", rest)
        for theirs in sorted(THEIRS, key=len, reverse=True):
            rest = re.sub(rf"(?<!\w){re.escape(theirs)}(?!\w)", " ", rest)
        rest = KEYS.sub("", NAMED.sub("", rest))
        if NO_WORDS.sub("", rest):
            left.append(text)
    return sorted(set(left))


@pytest.mark.by_hand
def test_no_text_escapes_the_language_where_material_is_worked_on(
    start_page: Callable[..., Any], open_page: Callable[..., Page]
) -> None:
    server = start_page()
    graph = json.loads(json.dumps(INPAINT))
    values = {name: param["default"] for name, param in graph["params"].items()} | {"prompt": "a red star"}
    for node in graph["nodes"].values():
        set_by = {socket: value["param"] for socket, value in node["inputs"].items() if "param" in value}
        node["inputs"] |= {socket: values[param] for socket, param in set_by.items()}
    graph |= {"name": "first_picture", "description": "", "params": {}}
    results = [made(server.url, FIRST, seed=seed) for seed in (5, 6)]
    page = open_page(server.url, graph=graph, locale="de-DE")
    page.route("**/loom.de.json*", bracketed)
    page.reload()
    dialog = page.get_by_role("dialog")

    def screens() -> Iterator[str]:
        card(page, "load_mask").get_by_role("button", name=in_brackets("Malen")).click()
        expect(dialog.get_by_role("application")).to_be_focused()
        yield "painter"
        page.keyboard.press("Escape")
        choose(page, in_brackets("Weitere Arten auszuführen"), in_brackets("Mit vielen Werten ausführen…"))
        expect(dialog).to_contain_text(OPEN)
        yield "sweep"
        page.keyboard.press("Escape")
        on_canvas(page, "denoise").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Control+Shift+g")
        on_canvas(page, "part").focus()
        page.keyboard.press("Shift+Enter")
        expect(card(page, "denoise")).to_contain_text(in_brackets("von außen"))
        yield "inside"
        begin_gradio(page)
        page.locator("[data-tab-id=gallery]").click()
        page.get_by_role("button", name=in_brackets("Auswählen"), exact=True).click()
        for result in results:
            page.get_by_test_id(f"result-{result}").get_by_role("checkbox").check()
        page.get_by_role("button", name=in_brackets("Vergleichen"), exact=True).click()
        expect(dialog.get_by_role("table")).to_contain_text(OPEN)
        yield "compare"

    left = {screen: unbracketed(page) for screen in screens()}
    assert {screen: texts for screen, texts in left.items() if texts} == {}


@pytest.mark.by_hand
def test_no_text_escapes_the_language(start_page: Callable[..., Any], open_page: Callable[..., Page]) -> None:
    server = start_page()  # where no other test has left its names
    result = made(server.url, FIRST, prompt="a red star", seed=5)
    page = open_page(server.url, graph=FIRST, locale="de-DE")
    page.route("**/loom.de.json*", bracketed)
    page.reload()
    begin_gradio(page)
    expect(card(page, "denoise")).to_contain_text(OPEN)
    expect(page.locator("[data-tab-id=simple]")).to_contain_text(OPEN)  # Gradio begins later, with words of its own
    expect(page.get_by_text("Laden...")).to_have_count(0)
    panels = page.get_by_role("tablist").nth(1).get_by_role("tab")
    dialog = page.get_by_role("dialog")

    def screens() -> Iterator[str]:
        yield "build"
        for number, panel in enumerate(("runs", "plan", "inspector", "problems")):
            panels.nth(number).click()
            if panel == "plan":
                expect(page.locator(".ll-plan-chosen").first).to_be_visible()
            yield panel
        page.get_by_role("button", name=f"{OPEN}Knoten hinzufügen{CLOSE}").first.click()
        expect(page.get_by_role("dialog").get_by_role("listbox")).to_contain_text(OPEN)
        yield "palette"
        page.keyboard.press("Escape")
        card(page, "denoise").locator(".ll-node-title").click()
        yield "node help"
        for keys, name in (("?", "keys"), ("Control+o", "library"), ("Control+Shift+s", "save as")):
            on_canvas(page, "denoise").focus()
            page.keyboard.press(keys)
            expect(dialog).to_contain_text(OPEN)
            yield name
            page.keyboard.press("Escape")
        for item in ("Vorlagen…", "Speicherplatz"):
            choose(page, in_brackets("Datei"), in_brackets(item))
            expect(dialog.get_by_role("listitem").first).to_be_visible()
            if item == "Vorlagen…":
                expect(dialog).to_contain_text(in_brackets("Braucht das Modell "))
            yield item
            page.keyboard.press("Escape")
        page.get_by_role("button", name=in_brackets("Einstellungen")).click()
        expect(dialog).to_contain_text(OPEN)
        yield "settings"
        page.keyboard.press("Escape")
        page.keyboard.press("Control+f")
        page.keyboard.type("a red")
        expect(page.get_by_role("search").get_by_role("listitem")).not_to_have_count(0)
        yield "find"
        page.keyboard.press("Escape")
        page.keyboard.press("Control+Enter")
        expect(card(page, "save")).to_have_attribute("data-status", "done", timeout=MODEL_MS)
        expect(page.locator(".ll-toast").first).to_contain_text(OPEN)
        yield "toast"
        for view, there in (("simple", ".ll-simple-form"), ("gallery", ".ll-tile"), ("models", ".ll-model-list li")):
            page.locator(f"[data-tab-id={view}]").click()
            expect(page.locator(there).first).to_be_visible()
            yield view
            if view == "gallery":
                page.get_by_test_id(f"result-{result}").get_by_role("button").first.click()
                expect(page.get_by_role("dialog").get_by_role("img").first).to_be_visible()
                yield "result"
                page.keyboard.press("Escape")

    left = {screen: unbracketed(page) for screen in screens()}
    assert {screen: texts for screen, texts in left.items() if texts} == {}
