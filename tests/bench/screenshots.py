"""Take a screenshot of every view, light and dark, on a desktop and on a phone, from the real page.

    python tests/bench/screenshots.py FOLDER [--only build gallery] [--devices cpu*2] [--plan ulysses=2]

Needs playwright and Chromium (CHROMIUM=/path/to/it). The pictures are made by the built-in model while it runs. The
README shows `running-light-poster.png`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from page_browser import answer, chromium, served, share
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.browser import forget_drafts
from support.lora_files import write_pair

FIRST = json.loads((Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json").read_text())
PROMPTS = ("a red star", "a blue sphere", "a green cone", "a yellow cube")
DEVICES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1440, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "device_scale_factor": 2,
    },
    "poster": {"viewport": {"width": 1680, "height": 1000}},
}
SCREENS = ("desktop", "phone")
THEMES = ("light", "dark")
RUN_S = 300
WAIT_MS = 60_000
SETTLE_MS = 600
LONG_STEPS = 60  # of the run that is caught in the middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", nargs="*", default=list(VIEWS), choices=list(VIEWS))
    parser.add_argument("--devices", default="cpu*2")
    parser.add_argument("--plan", default="ulysses=2")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as models, ExitStack() as stack:
        _write_loras(Path(models))
        options = ("--devices", args.devices, "--plan", args.plan, "--models-dir", models)
        url = stack.enter_context(served(Path(data), ("-m", "latentloom", "ui", *options)))
        browser = stack.enter_context(chromium())
        _fill(browser, url)
        shots = [*itertools.product(THEMES, SCREENS, args.only)]
        if "running" in args.only:
            shots.append(("light", "poster", "running"))
        for seed, (theme, device, view) in enumerate(shots):
            _shoot(browser, url, view=view, theme=theme, device=device, seed=seed, folder=args.folder)
    return 0


def _write_loras(folder: Path) -> None:
    """One with a picture and words that fits bobbin, one that may, and one of another model."""
    words = {"modelspec.trigger_phrase": "glz cup", "modelspec.title": "Glazed cups"}
    write_pair(folder / "glaze.safetensors", metadata=words)
    write_pair(folder / "sketch.safetensors", "lora_unet_a", metadata={"ss_base_model_version": "flux1"})
    write_pair(folder / "wide.safetensors", shape=(8, 8))
    picture = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "picture.png"
    shutil.copy(picture, folder / "glaze.png")


def _fill(browser: Browser, url: str) -> None:
    """Something in the library and in the gallery."""
    api = browser.new_context().request
    for template in answer(api.get(f"{url}loom/templates"))[:4]:
        answer(api.post(f"{url}loom/workflows", data={"graph": template["graph"]}))
    for prompt in PROMPTS:
        answer(api.post(f"{url}loom/runs", data={"graph": FIRST, "overrides": {"prompt": prompt}}))
    sweep = ["prompt=a red star,a blue ring", "seed=1..4"]
    answer(api.post(f"{url}loom/runs", data={"graph": FIRST, "sweep": sweep}))
    _rest(api, url)


def _rest(api: Any, url: str) -> None:
    """Wait until nothing runs."""
    end = time.monotonic() + RUN_S
    while any(run["state"] in ("waiting", "running") for run in answer(api.get(f"{url}loom/runs"))):
        if time.monotonic() > end:
            sys.exit(f"the runs did not end within {RUN_S} s")
        time.sleep(1)


def _long(seed: int) -> dict[str, Any]:
    """With a seed that no picture was made with yet: a run that is not in the cache."""
    graph = json.loads(json.dumps(FIRST))
    graph["nodes"]["denoise"]["inputs"]["steps"] = LONG_STEPS
    graph["params"]["seed"]["default"] = 100 + seed
    return graph


def _with_lora(seed: int) -> dict[str, Any]:
    graph = _long(seed)
    for node in graph["nodes"].values():
        if node["inputs"].get("model") == {"from": "load_model.model"}:
            node["inputs"]["model"] = {"from": "lora.model"}
    graph["nodes"]["lora"] = {"type": "LoomLoadLora", "inputs": {"model": {"from": "load_model.model"}, "path": ""}}
    return graph | {"layout": {}}


def _wrong(seed: int) -> dict[str, Any]:
    """With something of each kind that the check tells."""
    graph = _long(seed)
    graph["nodes"]["empty_latents"]["inputs"] |= {"width": 100, "height": 77}
    graph["nodes"]["large"] = {"type": "LoomEmptyLatents", "inputs": {"model": {"from": "load_model.model"}}}
    graph["nodes"]["large"]["inputs"] |= {"width": 1024, "height": 1024}
    graph["nodes"]["again"] = json.loads(json.dumps(graph["nodes"]["denoise"]))
    graph["nodes"]["again"]["inputs"]["latents"] = {"from": "large.latents"}
    graph["nodes"]["absent"] = {"type": "LoomLoadModel", "inputs": {"source": "Qwen/Qwen-Image"}}
    graph["nodes"]["absent_text"] = {
        "type": "LoomEncodeText",
        "inputs": {"model": {"from": "absent.model"}, "prompt": "a red star"},
    }
    graph["outputs"] = {"again": {"from": "again.latents"}, "text": {"from": "absent_text.conditioning"}}
    return graph


def _shoot(browser: Browser, url: str, *, view: str, theme: str, device: str, seed: int, folder: Path) -> None:
    context = browser.new_context(color_scheme=theme, locale="en-US", **DEVICES[device])
    forget_drafts(url)  # else the page asks whether to keep it
    _rest(context.request, url)  # what another picture began
    page = context.new_page()
    page.on("pageerror", lambda error: print(f"{view} {theme} {device}: {error}", file=sys.stderr))
    if view in FROM_LINK:
        graph = {"problems": _wrong, "loras": _with_lora}.get(view, _long)(seed)
        page.goto(f"{share(context.request, url, graph)}&__theme={theme}")
    else:
        if view == "app":
            _open_saved(context.request, url)
        page.goto(f"{url}?__theme={theme}")
    expect(page.get_by_role("tab", name="Gallery")).to_be_visible(timeout=WAIT_MS)
    VIEWS[view](page)
    page.wait_for_timeout(SETTLE_MS)
    path = folder / f"{view}-{theme}-{device}.png"
    page.screenshot(path=path)
    print(path, flush=True)
    context.close()


def _open_saved(api: Any, url: str) -> None:
    """The next page begins with a workflow that is in the library."""
    kept = answer(api.post(f"{url}loom/workflows", data={"graph": FIRST}))
    answer(api.put(f"{url}loom/drafts/app", data={"graph": FIRST, "workflow_id": kept["id"], "base_version": 1}))


def _build(page: Page) -> None:
    expect(page.get_by_test_id("node-denoise")).to_be_visible(timeout=WAIT_MS)


def _running(page: Page) -> None:
    """Caught when the picture can be made out in the preview."""
    _build(page)
    page.get_by_role("button", name="Run", exact=True).click()
    bar = page.get_by_test_id("node-denoise").get_by_role("progressbar")
    end = time.monotonic() + RUN_S
    while int(bar.get_attribute("aria-valuenow", timeout=WAIT_MS) or 0) < 0.8 * LONG_STEPS:
        assert time.monotonic() < end, "the run did not get that far"
        page.wait_for_timeout(50)


def _plan(page: Page) -> None:
    _build(page)
    page.get_by_role("tab", name="Plan").click()


def _machine(page: Page) -> None:
    """The plan for a machine that is not this one, beside all others."""
    _plan(page)
    page.get_by_role("combobox", name="Planned for").fill("8xH100-nvlink")
    page.keyboard.press("Enter")
    expect(page.get_by_text("8 x H100")).to_be_visible(timeout=WAIT_MS)
    page.get_by_text("All plans beside each other").click()
    page.get_by_role("table", name="All plans beside each other").get_by_role("row").last.scroll_into_view_if_needed()


def _problems(page: Page) -> None:
    _build(page)
    page.get_by_role("tab", name="Problems").click()
    expect(page.get_by_role("button", name="Use 96 \u00d7 80")).to_be_visible(timeout=WAIT_MS)


def _start(page: Page) -> None:
    """Before anything is opened."""
    expect(page.get_by_text("This workflow is empty")).to_be_visible(timeout=WAIT_MS)


def _settings(page: Page) -> None:
    _start(page)
    button = page.get_by_role("button", name="Settings")
    if not button.is_visible():  # on a phone it is in the menu
        page.get_by_role("button", name="File", exact=True).click()
        button = page.get_by_role("menuitem", name="Settings")
    button.click()
    expect(page.get_by_role("dialog")).to_be_visible()


def _help(page: Page) -> None:
    _build(page)
    page.locator('[data-id="n:denoise"]').focus()
    page.keyboard.press("F1")
    expect(page.get_by_role("dialog")).to_be_visible()


def _app(page: Page) -> None:
    """What people see behind the link of a published app, after a run."""
    _build(page)
    page.get_by_role("button", name="File", exact=True).click()
    page.get_by_role("menuitem", name="Publish as an app").click()
    dialog = page.get_by_role("dialog", name="Publish as an app")
    dialog.get_by_role("button", name="Publish version 1").click()
    page.goto(dialog.get_by_role("textbox", name="Link to the app").first.input_value())
    app = page.get_by_role("main", name="App")
    app.get_by_role("button", name="Run", exact=True).click()
    expect(app.get_by_role("img", name="a red star")).to_be_visible(timeout=WAIT_MS)


def _library(page: Page) -> None:
    _build(page)
    page.keyboard.press("Control+o")


def _simple(page: Page) -> None:
    _build(page)
    page.get_by_role("tab", name="Simple").click()
    expect(page.get_by_role("form", name="Settings")).to_be_visible(timeout=WAIT_MS)


def _gallery(page: Page) -> None:
    page.get_by_role("tab", name="Gallery").click()
    expect(_tiles(page).first).to_be_visible(timeout=WAIT_MS)


def _detail(page: Page) -> None:
    _gallery(page)
    _tiles(page).first.click()
    expect(page.get_by_role("button", name="Open its workflow")).to_be_visible()


def _compare(page: Page) -> None:
    _gallery(page)
    page.get_by_role("button", name="Select", exact=True).click()
    _tiles(page).nth(0).click()
    _tiles(page).nth(1).click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("slider")).to_be_visible()


def _grid(page: Page) -> None:
    _gallery(page)
    page.get_by_role("navigation", name="Grids of sweeps").get_by_role("button").first.click()
    expect(page.get_by_role("button", name="Download as one PNG")).to_be_enabled()


def _models(page: Page) -> None:
    page.get_by_role("tab", name="Models").click()
    expect(page.get_by_text("bobbin").first).to_be_visible(timeout=WAIT_MS)


def _card(page: Page) -> None:
    """All that a model's card tells."""
    _models(page)
    for summary in page.get_by_role("listitem").filter(has_text="bobbin").first.locator("summary").all():
        summary.click()
    page.wait_for_timeout(SETTLE_MS)


def _loras(page: Page) -> None:
    _build(page)
    page.get_by_test_id("node-lora").get_by_role("combobox", name="path").click()
    expect(page.get_by_role("option").filter(has_text="glz cup")).to_be_visible(timeout=WAIT_MS)


def _tiles(page: Page) -> Any:
    return page.get_by_role("button", name="Picture: ")


VIEWS: dict[str, Callable[[Page], None]] = {
    "start": _start,
    "build": _build,
    "running": _running,
    "plan": _plan,
    "machine": _machine,
    "problems": _problems,
    "library": _library,
    "simple": _simple,
    "gallery": _gallery,
    "detail": _detail,
    "compare": _compare,
    "grid": _grid,
    "models": _models,
    "card": _card,
    "loras": _loras,
    "help": _help,
    "settings": _settings,
    "app": _app,
}
# Views of the workflow in the editor.
FROM_LINK = ("build", "running", "plan", "machine", "problems", "library", "simple", "help", "loras")


if __name__ == "__main__":
    sys.exit(main())
