"""Give the product thousands of hostile files, as a stranger would send them, and count what each one costs and does.

python tests/bench/hostile_files.py --count 10000 --seed 1        also: --only KIND, --index N --only KIND to repeat one

Workflow files, pictures, videos, sounds, model folders, LoRAs, headers of safetensors and GGUF files, paths and names,
what small nodes are asked (formulas, patterns, texts, sizes): each from `--seed` and its number alone. They are read by
warm processes that run the command line, or what a stage calls. Exits with 1 where a file ran code, changed or
opened something elsewhere, printed a traceback, took longer than `--limit-s` or more than `--limit-mib` above the
idle process, or hung.
"""

import argparse
import json
import os
import platform
import queue
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("hostile_worker.py")
# Of a hundred files.
SHARES = {
    "workflow": 29,
    "light": 12,
    "picture": 22,
    "video": 4,
    "audio": 3,
    "model": 9,
    "lora": 7,
    "header": 2,
    "gguf": 1,
    "comfyui": 3,
    "small": 8,
}
GOOD = ("ok", "refused", "failed in one sentence")
FRESH_AFTER = 1000  # files after which a worker is exchanged for a new one
HANG_S = 60.0
START_S = 600.0

Row = dict[str, Any]


@dataclass
class Worker:
    """A warm process that takes a line for each file and gives one back."""

    folder: Path
    seed: int

    def __post_init__(self) -> None:
        self.done = 0
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.folder), str(self.seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        if self._line(START_S) is None:
            raise SystemExit("the worker did not start; run tests/bench/hostile_worker.py by hand to see why")

    def ask(self, kind: str, index: int) -> Row:
        """What the file did; a worker that hangs or dies is a finding too."""
        self.done += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([kind, index]) + "\n")
        line = self._line(HANG_S)
        if line is None:
            died = self.process.poll()
            self.process.kill()
            self.process.wait()
            outcome = "hung" if died is None else f"died ({died})"
            return {"kind": kind, "index": index, "outcome": outcome, "seconds": HANG_S, "mib": 0.0, "what": ""}
        return json.loads(line)

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _line(self, timeout_s: float) -> str | None:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return None
        return self.process.stdout.readline() or None


def kinds(count: int, only: str) -> list[tuple[str, int]]:
    """(kind, number) of each file, in turns, so that a shorter run has the same mix."""
    if only:
        return [(only, index) for index in range(count)]
    turn = [kind for kind, share in SHARES.items() for _ in range(share)]
    turn = [turn[index * 37 % len(turn)] for index in range(len(turn))]
    seen: Counter[str] = Counter()
    rows = []
    for index in range(count):
        kind = turn[index % len(turn)]
        rows.append((kind, seen[kind]))
        seen[kind] += 1
    return rows


def rows(files: Sequence[tuple[str, int]], folder: Path, *, seed: int, jobs: int) -> Iterator[Row]:
    """What each file did, as it is known; `jobs` processes take turns."""
    left, told = iter(files), queue.SimpleQueue[Row]()

    def work(number: int) -> None:
        own = folder / str(number)
        own.mkdir()
        worker = Worker(own, seed)
        for kind, index in left:  # a step of an iterator over a list is one to all threads
            if worker.done >= FRESH_AFTER or worker.process.poll() is not None:
                worker.close()
                worker = Worker(own, seed)
            told.put(worker.ask(kind, index))
        worker.close()

    with ThreadPoolExecutor(jobs) as threads:
        working = [threads.submit(work, number) for number in range(jobs)]
        for _ in files:
            yield next_of(told, working)
        for each in working:
            each.result()


def next_of(told: queue.SimpleQueue[Row], working: Sequence[Future[None]]) -> Row:
    while True:
        try:
            return told.get(timeout=1.0)
        except queue.Empty:
            for each in working:
                if each.done():
                    each.result()  # raises what ended it


def faults(row: Row, *, limit_s: float, limit_mib: float) -> list[str]:
    found = [f"code or place: {offence}" for offence in row.get("offences", ())]
    if row["outcome"] not in GOOD:
        found.append(row["outcome"] + (f": {row['said'][:200]}" if row.get("said") else ""))
    if row["seconds"] > limit_s:
        found.append(f"{row['seconds']:.1f} s")
    if row["mib"] > limit_mib:
        found.append(f"{row['mib']:.0f} MiB")
    return found


def main() -> int:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--count", type=int, default=10_000)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--only", choices=list(SHARES), default="")
    command.add_argument("--index", type=int, help="one file, by its number")
    command.add_argument("--jobs", type=int, default=2, help="processes at a time")
    command.add_argument("--limit-s", type=float, default=5.0)
    command.add_argument("--limit-mib", type=float, default=1024.0)
    asked = command.parse_args()
    files = [(asked.only, asked.index)] if asked.index is not None else kinds(asked.count, asked.only)
    print(
        f"{len(files)} files, seed {asked.seed}, {os.cpu_count()} cores, {platform.processor() or platform.machine()}"
    )
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    slowest: dict[str, float] = defaultdict(float)
    largest: dict[str, float] = defaultdict(float)
    idle, bad, start = [], [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        for row in rows(files, Path(name), seed=asked.seed, jobs=asked.jobs):
            kind = row["kind"]
            outcomes[kind][row["outcome"]] += 1
            slowest[kind] = max(slowest[kind], row["seconds"])
            largest[kind] = max(largest[kind], row["mib"])
            idle.append(row.get("idle_mib", 0.0))
            if found := faults(row, limit_s=asked.limit_s, limit_mib=asked.limit_mib):
                bad.append(row)
                print(f"  {kind} {row['index']} ({row['what'][:120]}): {'; '.join(found)[:600]}", flush=True)
            if asked.index is not None:
                print(json.dumps(row, indent=2))
    print(f"{'kind':<10} {'files':>6} {'slowest':>9} {'memory':>10}  outcomes")
    for kind, counts in outcomes.items():
        told = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
        print(f"{kind:<10} {counts.total():>6} {slowest[kind]:>7.2f} s {largest[kind]:>6.0f} MiB  {told}")
    took = f"{time.monotonic() - start:.0f} s with {asked.jobs} at a time"
    print(f"{len(files)} files in {took}, processes of at most {max(idle):.0f} MiB when idle: {len(bad)} found wanting")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
