"""Measure the canvas over all shipped workflows and 40 made-up graphs: smallest text, wires behind nodes, overlaps.

    python tests/bench/canvas_geometry.py [--graphs 40] [--sizes 1440x900 1280x720 phone] [--no-runs] [--relay]

Needs playwright and Chromium (CHROMIUM=/path/to/it). Each workflow is opened and then arranged, in one tab; made-up
ones have no layout. Those of the built-in model run as well: nothing may move or grow meanwhile. One line for each
fault. `--relay` writes the arranged layouts of 1280x720 into what is shipped.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page_browser import chromium, served
from playwright.sync_api import Page

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # for `support`, as pytest has it

from support.canvas_geometry import SCRIPT, SIZES, arranged, faults, generated, made, opened, shipped  # noqa: E402
from support.checkout import ROOT  # noqa: E402

SETTLED_MS = 1500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--no-runs", action="store_true")
    parser.add_argument("--relay", action="store_true")
    args = parser.parse_args()
    graphs = shipped() + [generated(seed) for seed in range(args.graphs)]
    num_faults = 0
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as url, chromium() as browser:
        page = _page(browser, url)
        if args.relay:
            _relay(page)
            return 0
        for size in args.sizes:
            width, height = SIZES[size]
            page.set_viewport_size({"width": width, "height": height})
            started, least, num_wires = time.perf_counter(), float("inf"), 0
            for graph in graphs:
                for how, found in (("opened", opened(page, graph)), ("arranged", arranged(page))):
                    told = faults(found)
                    if found["cut"] and size != "phone" and (how == "arranged" or "layout" not in graph):
                        told.append(f"cut off in the first row: {found['cut'][:3]}")
                    for fault in told:
                        print(f"{size}, {graph['name']} {how}: {fault}", flush=True)
                    num_faults += len(told)
                    least, num_wires = min(least, found["smallest"]), num_wires + found["num_wires"]
            spent = time.perf_counter() - started
            print(
                f"{size}: {len(graphs)} graphs, {num_wires} wires, smallest text {least:.1f} px, {spent:.0f} s",
                flush=True,
            )
        if not args.no_runs:
            num_faults += _run(page)
    print(f"{num_faults} faults")
    return 1 if num_faults else 0


def _page(browser: Any, url: str) -> Page:
    context = browser.new_context(viewport={"width": 1280, "height": 720}, locale="en-US")
    page = context.new_page()
    page.add_init_script(SCRIPT)
    page.goto(url)
    page.get_by_test_id("canvas").wait_for(timeout=60_000)
    return page


def _run(page: Page) -> int:
    width, height = SIZES["1440x900"]
    page.set_viewport_size({"width": width, "height": height})
    num_faults = 0
    for graph in (each for each in shipped() if "builtin:bobbin" in json.dumps(each)):
        opened(page, graph)
        page.wait_for_timeout(SETTLED_MS)
        found = made(page)
        told = faults(found) + [f"moved or grew: {name}" for name in found["moved"]]
        for fault in told:
            print(f"{graph['name']}, run: {fault}", flush=True)
        print(f"{graph['name']} ran, {len(told)} faults", flush=True)
        num_faults += len(told)
    return num_faults


def _relay(page: Page) -> None:
    for path in sorted((ROOT / "workflows").glob("*/*.json")):
        text = path.read_text()
        graph = json.loads(text)
        opened(page, graph)
        page.wait_for_timeout(SETTLED_MS)  # what is told of models and values has come
        boxes = arranged(page)["boxes"]
        places = [
            f'    "{name}": [{round(boxes[f"n:{name}"][0])}, {round(boxes[f"n:{name}"][1])}]' for name in graph["nodes"]
        ]
        block = '"layout": {\n' + ",\n".join(places) + "\n  }"
        path.write_text(re.sub(r'"layout": \{[^{}]*\}', block, text))
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
