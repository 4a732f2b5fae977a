"""Kill the page's worker and its server at random, stop and hold them; print what was lost, and what the page costs.

python tests/bench/worker_drill.py --seed 1        also --only figures,kills,servers,held,stopped --devices cpu,cpu
python tests/bench/worker_drill.py --only figures --tree /path/to/the/folder/of/another/latentloom

`figures` needs no worker, so that another commit's page can be measured by it: seconds of a first and a second run and
what the second took from caches, from an event to its state by HTTP, a cancel, and the memory of server and children.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from drills import machine
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
START_S, RUN_S, GONE_S = 180.0, 900.0, 30.0
STOP_S = 90.0
STEPS = 40
BETWEEN_S = 4.0
OVER = ("done", "failed", "cancelled")
NODES = '''
import time
from latentloom.nodes.graph.signature import read_spec
from latentloom.parallel.progress import Progress

def ticks(count: int, progress: Progress) -> int:
    """Steps with previews, 13 a second, each followed by a phase that says when."""
    import torch

    for done in range(1, count + 1):
        time.sleep(1 / 13)
        progress.step(done, count, lambda: torch.full((128, 128, 3), done % 256, dtype=torch.uint8))
        progress.phase(repr(time.time()))
    return count

def hold(digits: int) -> int:
    """One number, reckoned in C for longer than anybody waits."""
    round(5, -digits)
    return digits

NODES = {
    "drill_Ticks": read_spec(ticks, title="Ticks", category="drill", is_output=True, is_kept=False),
    "drill_Hold": read_spec(hold, title="Hold", category="drill", is_output=True, is_kept=False),
}
'''


@dataclass
class Page:
    """`latentloom ui` in a folder, which may be killed and started again."""

    folder: Path
    options: tuple[str, ...] = ()
    tree: str = ""
    port: int = field(default_factory=free_port)
    process: psutil.Popen | None = None

    def start(self) -> None:
        (nodes := self.folder / "nodes").mkdir(mode=0o700, exist_ok=True)
        (nodes / "drill.py").write_text(NODES)
        command = [sys.executable, "-P", "-m", "latentloom", "ui", "--port", str(self.port), "--nodes", str(nodes)]
        command += ["--data-dir", str(self.folder / "data"), "--output-dir", str(self.folder / "out"), *self.options]
        env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        if self.tree:
            env["PYTHONPATH"] = self.tree
        with (self.folder / "log.txt").open("a") as log:
            self.process = psutil.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert b" is at http" in line, (line, (self.folder / "log.txt").read_text()[-2000:])

    def ask(self, path: str, body: Any = None, *, timeout_s: float = 60.0) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/loom/{path}", data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            found = answer.read()
        return json.loads(found) if found[:1] in (b"{", b"[") else found

    def run(self, graph: Any) -> str:
        return self.ask("runs", {"graph": graph})["runs"][0]

    def until(self, id: str, holds: Callable[[Any], bool], *, every_s: float = 0.05) -> Any:
        end = time.monotonic() + RUN_S
        while not holds(run := self.ask(f"runs/{id}")):
            assert time.monotonic() < end, f"run {id} is {run['state']} after {RUN_S:.0f} s"
            time.sleep(every_s)
        return run

    def over(self, id: str) -> Any:
        return self.until(id, lambda run: run["state"] in OVER)

    def children(self) -> list[psutil.Process]:
        assert self.process is not None
        return self.process.children(recursive=True)

    def worker(self) -> psutil.Process | None:
        found = [each for each in self.children() if "ui.worker.program" in " ".join(_command(each))]
        return found[0] if found else None

    def pixels(self, run: Any) -> str:
        """A mark of what the run's picture shows."""
        [made] = [row for row in self.ask("results?limit=5") if row["run"] == run["id"]]
        return hashlib.sha256(Image.open(io.BytesIO(self.ask(f"files/{made['id']}"))).tobytes()).hexdigest()

    def end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def picture(seed: int, steps: int) -> Any:
    graph = json.loads((ROOT / "workflows" / "bobbin" / "first_picture.json").read_text())
    del graph["nodes"]["load_model"]["version"]  # that of the page that runs it
    graph["params"]["seed"]["default"] = seed
    graph["nodes"]["denoise"]["inputs"]["steps"] = steps
    return graph


def odd(type: str, **inputs: Any) -> Any:
    return {"format": 1, "name": "odd", "nodes": {"odd": {"type": type, "inputs": inputs}}}


def mib(processes: list[psutil.Process]) -> float:
    """Proportional, so that what they share counts once."""
    total = 0
    for each in processes:
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total / (1 << 20)


def gone(processes: list[psutil.Process]) -> float:
    """Seconds until all have ended; when the system's first process reaps those without a parent is its own affair."""
    start = time.monotonic()
    while alive := [each for each in processes if _lives(each)]:
        assert time.monotonic() < start + GONE_S, f"{alive} lived on"
        time.sleep(0.005)
    return time.monotonic() - start


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def figures(page: Page, chance: random.Random) -> None:
    assert page.process is not None
    print(f"memory before a run: {mib([page.process, *page.children()]):.0f} MiB")
    for words in ("first", "second"):
        start = time.monotonic()
        run = page.over(page.run(picture(7, 16)))
        cached = {name: node["cached"] for name, node in run["nodes"].items() if node["state"] == "cached"}
        print(f"{words} run: {run['state']} after {time.monotonic() - start:.2f} s, from caches: {cached}")
    page.over(page.run(picture(8, 16)))
    print(f"memory after three runs: {mib([page.process, *page.children()]):.0f} MiB")
    late: list[float] = []
    fetched: list[float] = []
    id, seen = page.run(odd("drill_Ticks", count=150)), ""
    while (run := page.ask(f"runs/{id}"))["state"] not in OVER:
        node = run["nodes"]["odd"]
        if node["phase"] and node["phase"] != seen:
            seen = node["phase"]
            late.append(time.time() - float(seen))
            page.ask(f"runs/{id}/previews/odd?s={node['preview']}")
            fetched.append(time.time() - float(seen))
        time.sleep(0.001)
    print(f"event to state by HTTP: {_spread(late)}; with its preview fetched: {_spread(fetched)}")
    ended: list[float] = []
    for number in range(7):
        id = page.run(picture(100 + number, 1000))
        page.until(id, lambda run: run["nodes"]["denoise"]["done"] > 2)
        start = time.monotonic()
        page.ask(f"runs/{id}/cancel", {})
        page.until(id, lambda run: run["state"] == "cancelled", every_s=0.005)
        ended.append(time.monotonic() - start)
    print(f"a cancel: {_spread(ended)}")


def _spread(seconds: list[float]) -> str:
    return f"median {1000 * statistics.median(seconds):.0f} ms, most {1000 * max(seconds):.0f} ms of {len(seconds)}"


def kills(page: Page, chance: random.Random, times: int) -> None:
    """Two deaths in each batch of three runs, so that none is given up; in the end each picture is made once more by a
    page that nobody kills.
    """
    made: dict[int, str] = {}
    deaths, longest = 0, 0.0
    while deaths < times:
        ids = {seed: page.run(picture(seed, STEPS)) for seed in range(len(made), len(made) + 3)}
        for _ in range(min(2, times - deaths)):
            time.sleep(chance.uniform(0.2, BETWEEN_S))
            if (worker := page.worker()) is not None:
                family = [worker, *worker.children(recursive=True)]
                worker.kill()
                longest = max(longest, gone(family))
                deaths += 1
        for seed, id in ids.items():
            made[seed] = _picture_of(page, id)
    print(f"worker killed {deaths} times: {len(made)} runs done, its ranks gone after {longest:.2f} s at most")
    _compare(page, made)


def _picture_of(page: Page, id: str) -> str:
    run = page.over(id)
    assert run["state"] == "done", (run["state"], run["error"])
    return page.pixels(run)


def _compare(page: Page, made: dict[int, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="worker-drill-") as folder:
        other = Page(Path(folder), page.options, page.tree)
        other.start()
        alike = sum(_picture_of(other, other.run(picture(seed, STEPS))) == mark for seed, mark in made.items())
        other.end()
    print(f"pictures as without: {alike} of {len(made)}")


def servers(page: Page, chance: random.Random) -> None:
    """Nine kills of the server with three runs in flight, each time started again."""
    made: dict[int, str] = {}
    longest = 0.0
    for _ in range(9):
        ids = {seed: page.run(picture(seed, STEPS)) for seed in range(1000 + len(made), 1003 + len(made))}
        time.sleep(chance.uniform(0.2, BETWEEN_S))
        assert page.process is not None
        family = page.children()
        page.process.kill()
        longest = max(longest, gone([page.process, *family]))
        page.start()
        for seed, id in ids.items():
            made[seed] = _picture_of(page, id)
    hidden = [str(each) for each in (page.folder / "out").rglob("*") if each.name.startswith(".")]
    empty = [str(each) for each in (page.folder / "out").rglob("*") if each.is_file() and not each.stat().st_size]
    print(f"server killed 9 times: {len(made)} of 27 runs done, all its children gone after {longest:.2f} s at most")
    print(f"hidden or empty files in the output: {hidden + empty}")
    _compare(page, made)


def held(page: Page, chance: random.Random) -> None:
    """A node that lets nothing else work, while others ask whether the server is there."""
    page.over(page.run(picture(1, 2)))
    id, start, answers = page.run(odd("drill_Hold", digits=900_000_000)), time.monotonic(), []
    after = page.run(picture(2, 2))
    while page.ask(f"runs/{id}")["state"] not in OVER:
        asked = time.monotonic()
        urllib.request.urlopen(f"http://127.0.0.1:{page.port}/health", timeout=60).read()
        answers.append(time.monotonic() - asked)
        time.sleep(0.05)
    run = page.ask(f"runs/{id}")
    print(f"held up: {run['state']} after {time.monotonic() - start:.1f} s, {run['error']!r}")
    print(f"/health meanwhile: {_spread(answers)}; the run after it: {page.over(after)['state']}")


def stopped(page: Page, chance: random.Random) -> None:
    assert page.process is not None
    page.over(page.run(picture(1, 2)))
    worker = page.worker()
    for words, process in (("server", page.process), ("worker", worker)):
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        time.sleep(STOP_S)
        process.send_signal(signal.SIGCONT)
        same = page.over(page.run(picture(len(words), 2)))["state"], page.worker() == worker
        print(f"{words} stopped for {STOP_S:.0f} s: then a run is {same[0]}, by the same worker: {same[1]}")


ALL = {"figures": figures, "kills": kills, "servers": servers, "held": held, "stopped": stopped}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(ALL))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=30, help="kills of the worker")
    parser.add_argument("--devices", default="", help="of the page, such as cpu,cpu")
    parser.add_argument("--tree", default="", help="the folder that holds another commit's latentloom")
    asked = parser.parse_args()
    print(f"{machine()}, seed {asked.seed}, devices {asked.devices or 'none'}, {asked.tree or 'this tree'}")
    options = ("--devices", asked.devices) if asked.devices else ()
    for name in asked.only.split(","):
        with tempfile.TemporaryDirectory(prefix="worker-drill-") as folder:
            page = Page(Path(folder), options, asked.tree)
            page.start()
            try:
                ALL[name](page, random.Random(asked.seed), **({"times": asked.times} if name == "kills" else {}))
            finally:
                page.end()


if __name__ == "__main__":
    main()
