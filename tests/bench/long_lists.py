"""Print how fast the page is with 2,000 results and 2,000 runs: first paint, frames of scrolling, memory.

    python tests/bench/long_lists.py [--results 2000] [--rounds 3]

Needs playwright and Chromium (CHROMIUM=/path/to/it), which draws in software. The server is the real one; it finds the
records of runs that were never made, each with one small picture, and older and older. What is measured:

- the first picture: from the press on the tab Gallery until a picture of it has been painted;
- a frame: the time between two animation frames while the wheel scrolls, 120 px at a time, through what is loaded;
- the whole list: from its top to the oldest result by the key End alone, with all that is loaded on the way;
- tiles and rows in the page: how many of them there are at its end, whatever was loaded;
- memory: what Chromium's script engine keeps after a collection.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page import PROBE, VIEWPORT, WAIT_MS, Line, frame_line
from page_browser import chromium, machine, served
from PIL import Image
from playwright.sync_api import Browser, Page

from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.ui.live.state import MadeFile, RunRecord
from latentloom.ui.runs.records import RunRecords

LOCAL = "local"
DAY_S = 86400.0
A_DAY = 60  # runs of one day
MAX_TILES = 250
FRAMES = 90


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder, args.results)
        with served(folder) as url, chromium() as browser:
            print(
                f"{machine(browser)}\n\n| | measured | at most | kept | |\n| --- | --- | --- | --- | --- |", flush=True
            )
            rounds = [_gallery(browser, url, args.results) for _ in range(args.rounds)]
            rounds = [one + _queue(browser, url, args.results) for one in rounds]
            for same in zip(*rounds, strict=True):
                median = statistics.median(line.value for line in same)
                lines.append(Line(name=same[0].name, value=median, limit=same[0].limit, note=same[0].note))
                print(lines[-1], flush=True)
    return 0 if all(line.is_kept for line in lines) else 1


def make_runs(folder: Path, count: int) -> None:
    """Records and pictures of so many runs that are over, as the server would have left them."""
    records, output = RunRecords(folder / "data"), folder / "output"
    (output / "many").mkdir(parents=True)
    graph = graph_from_plain({"format": 1, "name": "many", "nodes": {}})
    for number in range(count):
        id, batch = f"{number:016x}", f"{number // 10:016x}"
        made_at = time.time() - DAY_S * (count - number) / A_DAY
        path = f"many/{id}.png"
        Image.new("RGB", (64, 64), (number * 7 % 256, number * 13 % 256, number * 29 % 256)).save(output / path)
        size, shown = (output / path).stat().st_size, {"prompt": f"a star, number {number}", "seed": number}
        where = {"id": f"r{number:015x}", "node": "save", "kind": "image", "name": f"{id}.png", "path": path}
        made = MadeFile(**where, **shown, width=64, height=64, bytes=size, time=made_at)
        error = "" if number % 9 else "the prompt is too long by far for this model; make it shorter"
        times = {"created": made_at - 10, "started": made_at - 9, "ended": made_at, "seconds": 9.0}
        of = {"id": id, "batch": batch, "user": LOCAL, "name": f"workflow {number % 5}", "folder": "many"}
        records.write(RunRecord(**of, **times, state="failed" if error else "done", error=error, made=(made,)))
        if number % 10 == 0:
            records.write_graph(LOCAL, batch, graph)


def _opened(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport=VIEWPORT).new_page()
    page.add_init_script(PROBE)
    page.goto(url)
    return page


def _gallery(browser: Browser, url: str, count: int) -> list[Line]:
    page = _opened(browser, url)
    page.get_by_test_id("canvas").wait_for(timeout=WAIT_MS)
    page.wait_for_timeout(1000)
    start = time.perf_counter()
    page.get_by_role("tab", name="Gallery", exact=True).click()
    page.wait_for_function(
        """() => [...document.querySelectorAll('*')].some((host) => {
          const picture = host.shadowRoot?.querySelector('.ll-tile img');
          return picture?.complete && picture.naturalWidth > 0;
        })""",
        timeout=WAIT_MS,
    )
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    first = Line(name="gallery: first picture, ms", value=1000 * (time.perf_counter() - start), limit=1500)
    scrolled = _scrolled(page, ".ll-gallery", "gallery")
    start = time.perf_counter()
    page.locator(".ll-tile-open").first.focus()
    result = f'[data-testid="result-r{0:015x}"]'
    return [first, scrolled, *_to_end(page, ".ll-gallery", result, "gallery: tiles", ".ll-tile", count, start)]


def _queue(browser: Browser, url: str, count: int) -> list[Line]:
    page, side = _opened(browser, url), ".ll-side .ll-tab-panel"
    page.locator(".ll-run").first.wait_for(timeout=WAIT_MS)
    run = f'[data-testid="run-{0:016x}"]'
    return [
        _scrolled(page, side, "queue"),
        *_to_end(page, side, run, "queue: rows", ".ll-run", count, time.perf_counter()),
    ]


def _scrolled(page: Page, selector: str, what: str) -> Line:
    box = page.locator(selector).bounding_box()
    assert box is not None, f"{what} is not on the screen"
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.evaluate("probe.frames.length = 0")
    for _ in range(FRAMES):
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(16)
    return frame_line(f"{what}: median frame of scrolling, ms", page.evaluate("probe.frames.splice(0)"), limit=25)


def _to_end(page: Page, selector: str, last: str, what: str, entry: str, count: int, start: float) -> list[Line]:
    """Until the oldest entry is there, which is loaded page by page; what is in the page then. Closes it."""
    end = time.monotonic() + WAIT_MS / 1000
    while page.locator(last).count() == 0:
        assert time.monotonic() < end, f"{last} does not come"
        page.locator(selector).evaluate("(room) => room.scrollTo(0, room.scrollHeight)")
        page.wait_for_timeout(16)
    room = what.partition(":")[0]
    told = [
        Line(name=f"{room}: to the oldest of {count}, ms", value=1000 * (time.perf_counter() - start)),
        Line(name=f"{what} at the end", value=page.locator(entry).count(), limit=MAX_TILES),
        Line(name=f"{room}: memory, MB", value=_memory(page)),
    ]
    page.context.close()
    return told


def _memory(page: Page) -> float:
    devtools: Any = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.collectGarbage")
    used = devtools.send("Runtime.getHeapUsage")["usedSize"]
    devtools.detach()
    return used / 1e6


if __name__ == "__main__":
    sys.exit(main())
