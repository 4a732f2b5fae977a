"""A pseudo-language that brackets every text we have: what is read without brackets, nobody can translate."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from support.browser import MODEL_MS, Watch, card
from support.checkout import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

OPEN, CLOSE = "\u27e6", "\u27e7"
SHOWN = """() => {
  const found = [];
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) walk(element.shadowRoot);
      if (!isSeen(element) || element.closest("code, option:not(:checked), style, script")) continue;
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
"""What is read on the page: texts, names, tooltips; not what stands in fields, and no code."""
OURS = re.compile(f"{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}")
NO_WORDS = re.compile(r"\b(B|KiB|MiB|GiB|TiB|ms|\u00b5s|s|min|h|x)\b|[\W\d_]")
THEIRS = (
    *("Pseudo", "bobbin", "builtin", "latentloom", "English", "Deutsch", "React Flow"),
    *("CPU", "cpu", "Intel", "Xeon", "R", "Processor", "AMD", "EPYC", "GHz"),
)
"""Of the user, of a model, of the machine, and names of languages in themselves."""


def bracketed(route: Route) -> None:
    tables = json.loads((ROOT / "ui/static/loom.de.json").read_text(encoding="utf-8"))
    pseudo = {kind: {key: f"{OPEN}{text}{CLOSE}" for key, text in table.items()} for kind, table in tables.items()}
    route.fulfill(json=pseudo)


def unbracketed(page: Page, *theirs: str) -> list[str]:
    """Every text of ours on the page now that the pseudo-language has not."""
    left = []
    for text in page.evaluate(SHOWN):
        rest = text
        while (less := OURS.sub(" ", rest)) != rest:
            rest = less
        for known in sorted((*THEIRS, *theirs), key=len, reverse=True):
            rest = rest.replace(known, " ")
        if NO_WORDS.sub("", rest):
            left.append(f"{text!r}: {rest.strip()!r}")
    return sorted(set(left))


def test_no_text_escapes_the_language(page_server: Any, open_page: Callable[..., Page], watch: Watch) -> None:
    graph = json.loads((ROOT / "workflows/bobbin/first_picture.json").read_text())
    graph["name"] = "Pseudo"
    graph["nodes"]["denoise"]["inputs"]["steps"] = 2
    page = open_page(page_server.url, locale="de-DE")
    page.route("**/loom.de.json*", bracketed)
    page.reload()
    from support.browser import put_draft, visit
    import sys
    out = {}
    def look(name):
        page.wait_for_timeout(700)
        out[name] = unbracketed(page, *graph["nodes"], "first_picture")
    page.wait_for_timeout(1500); look("empty")
    put_draft(page_server.url, graph); page.reload(); page.wait_for_timeout(2500); look("build")
    def t(sel): return page.locator(sel)
    tabs = page.get_by_role("tab")
    print([x.text_content() for x in tabs.all()])
    for name in ("Plan", "Probleme", "Eigenschaften"):
        try:
            page.get_by_role("tab", name=name).first.click(timeout=2000); look("tab " + name)
        except Exception as e: print("no tab", name)
    page.locator(".react-flow__pane").first.dblclick(position={"x": 300, "y": 20}); look("palette"); page.keyboard.press("Escape")
    page.locator('[data-id="n:denoise"] .ll-node-title').click(); look("node inspector")
    page.get_by_role("button", name="Starten").first.click() if page.get_by_role("button", name="Starten").count() else print([b.get_attribute("aria-label") or b.text_content() for b in page.get_by_role("button").all()][:60])
    page.wait_for_timeout(300); look("running")
    page.wait_for_timeout(9000); look("done")
    json.dump(out, open("/tmp/words/out.json", "w"), indent=1, ensure_ascii=False)
