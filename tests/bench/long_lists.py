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

from page import PROBE, VIEWPORT, WAIT_MS, Line
from page_browser import answer, chromium, machine, served
from PIL import Image
from playwright.sync_api import Browser, Page

from latentloom.nodes.graph.graph import graph_from_plain
from latentloom.ui.live.state import MadeFile, RunRecord
from latentloom.ui.runs.records import RunRecords

LOCAL = "local"
DAY_S = 86400.0
A_DAY = 60
"""Runs of one day."""
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
    graph = graph_from_plain({"format": 1, "name": "many", "nodes": {}})
    for number in range(count):
        id, batch = f"{number:016x}", f"{number // 10:016x}"
        made_at = time.time() - DAY_S * (count - number) / A_DAY
        path = f"many/{id}.png"
        (output / "many").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), (number * 7 % 256, number * 13 % 256, number * 29 % 256)).save(output / path)
        made = MadeFile(
            id=f"r{number:015x}",
            node="save",
            kind="image",
            name=f"{id}.png",
            path=path,
            width=64,
            height=64,
            bytes=(output / path).stat().st_size,
            time=made_at,
            prompt=f"a star, number {number}",
            seed=number,
        )
        records.write(
            RunRecord(
                id=id,
                batch=batch,
                user=LOCAL,
                name=f"workflow {number % 5}",
                state="done" if number % 9 else "failed",
                error="" if number % 9 else "the prompt is too long by far for this model; make it shorter",
                created=made_at - 10,
                started=made_at - 9,
                ended=made_at,
                seconds=9.0,
                folder="many",
                made=(made,),
            )
        )
        if number % 10 == 0:
            records.write_graph(LOCAL, batch, graph)


def _gallery(browser: Browser, url: str, count: int) -> list[Line]:
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.add_init_script(PROBE)
    page.goto(url)
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
    lines = [Line(name="gallery: first picture, ms", value=1000 * (time.perf_counter() - start), limit=1500)]
    lines.append(_scrolled(page, ".ll-gallery", "gallery"))
    start = time.perf_counter()
    page.locator(".ll-tile-open").first.focus()
    _to_end(page, ".ll-gallery", f'[data-testid="result-r{0:015x}"]')
    lines.append(Line(name=f"gallery: to the oldest of {count}, ms", value=1000 * (time.perf_counter() - start)))
    lines.append(Line(name="gallery: tiles at the end", value=page.locator(".ll-tile").count(), limit=MAX_TILES))
    lines.append(Line(name="gallery: memory, MB", value=_memory(page)))
    context.close()
    return lines


def _queue(browser: Browser, url: str, count: int) -> list[Line]:
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.add_init_script(PROBE)
    page.goto(url)
    page.locator(".ll-run").first.wait_for(timeout=WAIT_MS)
    lines = [_scrolled(page, ".ll-side .ll-tab-panel", "queue")]
    start = time.perf_counter()
    _to_end(page, ".ll-side .ll-tab-panel", f'[data-testid="run-{0:016x}"]')
    lines.append(Line(name=f"queue: to the oldest of {count}, ms", value=1000 * (time.perf_counter() - start)))
    lines.append(Line(name="queue: rows at the end", value=page.locator(".ll-run").count(), limit=MAX_TILES))
    lines.append(Line(name="queue: memory, MB", value=_memory(page)))
    answer(context.request.get(f"{url}loom/me"))
    context.close()
    return lines


def _scrolled(page: Page, selector: str, what: str) -> Line:
    box = page.locator(selector).bounding_box()
    assert box is not None, f"{what} is not on the screen"
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.evaluate("probe.frames.length = 0")
    for _ in range(FRAMES):
        page.mouse.wheel(0, 120)
        page.wait_for_timeout(16)
    frames = page.evaluate("probe.frames.splice(0)")
    p95 = sorted(frames)[int(0.95 * len(frames))]
    return Line(
        name=f"{what}: median frame of scrolling, ms",
        value=statistics.median(frames),
        limit=25,
        note=f"p95 {p95:.0f} ms, {len(frames)} frames",
    )


def _to_end(page: Page, selector: str, last: str) -> None:
    """Until the oldest entry is there, which is loaded page by page."""
    end = time.monotonic() + WAIT_MS / 1000
    while page.locator(last).count() == 0:
        assert time.monotonic() < end, f"{last} does not come"
        page.locator(selector).evaluate("(room) => room.scrollTo(0, room.scrollHeight)")
        page.wait_for_timeout(16)


def _memory(page: Page) -> float:
    devtools: Any = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.collectGarbage")
    used = devtools.send("Runtime.getHeapUsage")["usedSize"]
    devtools.detach()
    return used / 1e6


if __name__ == "__main__":
    sys.exit(main())
