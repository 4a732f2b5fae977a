"""Print how fast the page is: 300 nodes, panning and zooming, from an event to the screen, eight tabs on one run.

    python tests/bench/page.py [--nodes 300] [--seconds 15] [--tabs 8]
    python tests/bench/page.py --against FOLDER [--rounds 5]

`--against` opens pages of two commits in turn, and compares their medians: FOLDER holds the other one's package, as
`git worktree add FOLDER/latentloom COMMIT` makes it.

Needs playwright and Chromium (CHROMIUM=/path/to/it). The server is the real one with one more node, which tells of 13
steps a second, each with a preview (`page_nodes/bench.py`). Chromium draws in software. What is measured where:

- readable: from the start of the navigation until a node of first_picture is in view with a title of 11 pixels: in a
  browser without a past, after a reload, by a shared link;
- interactive: from the start of the navigation until all nodes are there and frames come in time again;
- a frame: the time between two animation frames while the wheel zooms and a drag pans;
- event to pixel: from the moment of the event in the server (`t` of the message that tells of it) until the frame that
  shows the new step on the node's card has been painted; server and browser share the machine's clock;
- a stall: the longest time in which a tab that watches the run showed nothing new.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page_browser import answer, chromium, machine, served, share
from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.browser import forget_drafts, put_draft

PROBE = (Path(__file__).parent / "page_probe.js").read_text()
ROOT = Path(__file__).parents[2]
NODES = "tests/bench/page_nodes"
OLD_HOST = "tests/bench/page_host.py"  # what commits had in its place that made runs in the server
EVENTS_PER_S = 13
SETTLE_S = 2.0
MOST_MS = {"interactive": 1300.0, "frame": 20.0, "latency": 100.0}
MOST_SHARE = {"interactive": 1.1, "readable": 0.8}  # of what the other commit takes
WAIT_MS = 60_000
VIEWPORT: Any = {"width": 1440, "height": 900}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the table. Times are milliseconds; `limit` None: told, not judged."""

    name: str
    value: float
    limit: float | None = None
    note: str = ""

    @property
    def is_kept(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"{self.limit:g}"
        return f"| {self.name} | {self.value:.0f} | {limit} | {'yes' if self.is_kept else 'NO'} | {self.note} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long a run is watched")
    parser.add_argument("--tabs", type=int, default=8)
    parser.add_argument("--against", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5, help="how often both are opened, with --against")
    args = parser.parse_args()
    if args.against:
        return _compare(args)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder), _command(ROOT)) as url, chromium() as browser:
        print(f"{machine(browser)}\n\n| | measured | at most | kept | |\n| --- | --- | --- | --- | --- |", flush=True)
        for measure in (_large_workflow, _tabs):
            for line in measure(browser, url, args):
                lines.append(line)
                print(line, flush=True)
    return 0 if all(line.is_kept for line in lines) else 1


def _compare(args: argparse.Namespace) -> int:
    """Both servers run all the time; each round opens the same of one and then of the other."""
    taken: dict[str, list[tuple[float, float]]] = {}
    roots = ROOT, args.against / "latentloom"
    with ExitStack() as stack:
        urls = []
        for package, root in zip((None, args.against), roots, strict=True):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            urls.append(stack.enter_context(served(folder, _command(root), package=package)))
        browser = stack.enter_context(chromium())
        first = [json.loads(next(root.glob("workflows/**/first_picture.json")).read_text()) for root in roots]
        large = [large_graph(args.nodes, seconds=args.seconds, ticks=_ticks(root)) for root in roots]
        for _ in range(args.rounds):
            ours, theirs = (_times(browser, *each) for each in zip(urls, first, large, strict=True))
            for name, value in ours.items():
                taken.setdefault(name, []).append((value, theirs[name]))
        print(f"{machine(browser)}; medians of {args.rounds} rounds, in turn")
    print("\n| | this, ms | the other, ms | share | at most | kept |\n| --- | --- | --- | --- | --- | --- |")
    is_kept = True
    for name, pairs in taken.items():
        here, there = (statistics.median(side) for side in zip(*pairs, strict=True))
        limit = MOST_SHARE[name.split(",")[0]]
        is_kept &= here <= limit * there
        kept = "yes" if here <= limit * there else "NO"
        print(f"| {name} | {here:.0f} | {there:.0f} | {here / there:.2f} | {limit} | {kept} |")
    return 0 if is_kept else 1


def _times(browser: Browser, url: str, first: dict[str, Any], large: dict[str, Any]) -> dict[str, float]:
    """Milliseconds until first_picture can be read, three ways, and until the large workflow answers."""
    times: dict[str, float] = {}

    def readable(how: str, page: Page) -> None:
        page.wait_for_function("probe.readable !== null", timeout=WAIT_MS)
        times[f"readable, {how}"] = page.evaluate("probe.readable")
        page.wait_for_timeout(1000 * SETTLE_S)  # until all else is drawn, too

    for is_shared in (False, True):
        context = browser.new_context(viewport=VIEWPORT)
        forget_drafts(url)  # older pages ask what becomes of one
        if not is_shared:
            put_draft(url, first)
        link = share(context.request, url, first) if is_shared else url
        page = context.new_page()
        page.add_init_script(f"{PROBE}\nrequestAnimationFrame(probe.waitForText)")
        page.goto(link)
        readable("by a shared link" if is_shared else "cold", page)
        if not is_shared:
            page.reload()
            readable("reloaded", page)
        context.close()
    context = browser.new_context(viewport=VIEWPORT)
    forget_drafts(url)
    page = _open(context, share(context.request, url, large), nodes=len(large["nodes"]))
    times[f"interactive, {len(large['nodes'])} nodes"] = page.evaluate("probe.interactive")
    page.wait_for_timeout(1000 * SETTLE_S)
    context.close()
    return times


def _large_workflow(browser: Browser, url: str, args: argparse.Namespace) -> list[Line]:
    context = browser.new_context(viewport=VIEWPORT)
    link = share(context.request, url, large_graph(args.nodes, seconds=args.seconds))
    page = _open(context, link, nodes=args.nodes)
    opened = page.evaluate("probe.interactive")
    page.wait_for_timeout(1000 * SETTLE_S)
    lines = [Line(name=f"{args.nodes} nodes interactive, ms", value=opened, limit=MOST_MS["interactive"])]
    lines += _frames(page, "nothing runs")
    page.get_by_role("button", name="Show all", exact=True).click()  # a node out of sight is not drawn
    page.get_by_role("button", name="Run", exact=True).click()
    page.locator('[data-testid="node-ticks"][data-status="running"]').wait_for(timeout=WAIT_MS)
    page.evaluate("probe.watch('ticks')")
    page.wait_for_timeout(1000 * args.seconds / 2)
    lines += _latency(page.evaluate("probe.latencies.splice(0)"), page.evaluate("probe.messages.splice(0)"))
    lines += _frames(page, "while it runs")
    context.close()
    return lines


def _frames(page: Page, when: str) -> list[Line]:
    box = page.get_by_test_id("canvas").bounding_box()
    assert box is not None, "the canvas is not on the screen"
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.evaluate("probe.frames.length = 0")
    for step in range(60):
        page.mouse.wheel(0, -60 if step < 30 else 60)
        page.wait_for_timeout(16)
    zooming = page.evaluate("probe.frames.splice(0)")
    # The middle button pans wherever it is pressed; the left one would move the node that lies there.
    page.mouse.down(button="middle")
    for step in range(60):
        turn = step if step < 30 else 60 - step
        page.mouse.move(middle[0] + 8 * turn, middle[1] + 4 * turn)
        page.wait_for_timeout(16)
    page.mouse.up(button="middle")
    panning = page.evaluate("probe.frames.splice(0)")
    return [
        frame_line(f"{what}, {when}: median frame, ms", each) for what, each in (("zoom", zooming), ("pan", panning))
    ]


def frame_line(name: str, frames: list[float], limit: float = MOST_MS["frame"]) -> Line:
    note = f"p95 {sorted(frames)[int(0.95 * len(frames))]:.0f} ms, {len(frames)} frames"
    return Line(name=name, value=statistics.median(frames), limit=limit, note=note)


def _latency(latencies: list[float], messages: list[float]) -> list[Line]:
    if len(latencies) < 10:
        sys.exit(f"only {len(latencies)} steps were seen on the node's card; the run was not watched")
    note = f"p95 {sorted(latencies)[int(0.95 * len(latencies))]:.0f} ms, {len(latencies)} steps"
    span_s = (messages[-1] - messages[0]) / 1000
    rate = (len(messages) - 1) / span_s
    told, most = f"of {EVENTS_PER_S} steps and previews each", MOST_MS["latency"]
    return [
        Line(name="event to pixel: median, ms", value=statistics.median(latencies), limit=most, note=note),
        Line(name="socket messages a second", value=rate, limit=12.5, note=told),
    ]


def _tabs(browser: Browser, url: str, args: argparse.Namespace) -> list[Line]:
    """All tabs of one browser, as a person has them, so that they share its connections."""
    context = browser.new_context(viewport=VIEWPORT)
    seconds = args.seconds + 40 * args.tabs  # longer than all tabs take to open; it is cancelled in the end
    graph = large_graph(6, seconds=seconds)
    forget_drafts(url)  # else every tab opens the large workflow
    run = answer(context.request.post(f"{url}loom/runs", data={"graph": graph}))["runs"][0]
    link = share(context.request, url, graph)
    pages, live_ms = [], []
    for _ in range(args.tabs):
        start = time.perf_counter()
        page = context.new_page()
        page.add_init_script(PROBE)
        page.goto(url if pages else link)  # the other tabs begin with what the first one has
        page.locator(f'[data-testid="run-{run}"][data-state="running"]').wait_for(timeout=WAIT_MS)
        live_ms.append(1000 * (time.perf_counter() - start))
        pages.append(page)
    for page in pages:
        page.evaluate("run => probe.watchRun(run)", run)
    pages[0].wait_for_timeout(1000 * args.seconds)
    stalls = [page.evaluate("probe.longestGap()") for page in pages]
    asked = [page.evaluate("probe.ask()") for page in pages]
    context.request.post(f"{url}loom/runs/{run}/cancel", data={})
    context.close()
    worst = {"longest stall of any": stalls, "slowest answer to a request": asked}
    return [
        Line(name=f"tab {args.tabs} shows the run after, ms", value=live_ms[-1], note=f"tab 1: {live_ms[0]:.0f} ms"),
        *(
            Line(
                name=f"{args.tabs} tabs: {name}, ms",
                value=max(values),
                limit=2000,
                note=", ".join(f"{value:.0f}" for value in values),
            )
            for name, values in worst.items()
        ),
    ]


def _open(context: Any, link: str, *, nodes: int) -> Page:
    page = context.new_page()
    page.add_init_script(PROBE)
    page.add_init_script(f"probe.waitFor({nodes})")
    page.goto(link)
    page.wait_for_function("probe.interactive !== null", timeout=WAIT_MS)
    return page


def _command(root: Path) -> tuple[str, ...]:
    old = root / OLD_HOST
    return (str(old),) if old.is_file() else ("-m", "latentloom", "ui", "--nodes", str(root / NODES))


def _ticks(root: Path) -> str:
    return "BenchTicks" if (root / OLD_HOST).is_file() else "bench_Ticks"


def large_graph(num_nodes: int, *, seconds: float, ticks: str = "bench_Ticks") -> dict[str, Any]:
    """Rows of real nodes, wired as for a picture each, and the one that ticks; only that one has to run."""
    nodes: dict[str, Any] = {
        "ticks": {"type": ticks, "inputs": {"seconds": seconds, "per_second": float(EVENTS_PER_S)}}
    }
    num_rows = (num_nodes - 1 + 4) // 5
    layout: dict[str, list[int]] = {"ticks": [4320, 520 * (num_rows // 8)]}  # in a gap near the middle
    for row in range(num_rows):
        for column, (name, node) in enumerate(_row(row).items()):
            if len(nodes) < num_nodes:
                nodes[name] = node
                layout[name] = [360 * (column + 1) + 2160 * (row % 4), 520 * (row // 4)]
    return {"format": 1, "name": "bench", "nodes": nodes, "layout": layout}


def _row(row: int) -> dict[str, Any]:
    def link(source: str) -> dict[str, str]:
        return {"from": f"{source.replace('.', f'_{row}.')}"}

    model = {"model": link("load.model")}
    sent = {**model, "conditioning": link("encode.conditioning"), "latents": link("empty.latents"), "seed": row}
    made = {
        "load": ("LoomLoadModel", {"source": "builtin:bobbin"}),
        "encode": ("LoomEncodeText", {**model, "prompt": f"a red star, number {row}"}),
        "empty": ("LoomEmptyLatents", model),
        "denoise": ("LoomDenoise", sent),
        "decode": ("LoomDecode", {**model, "latents": link("denoise.latents")}),
    }
    return {f"{name}_{row}": {"type": type, "inputs": inputs} for name, (type, inputs) in made.items()}


if __name__ == "__main__":
    sys.exit(main())
