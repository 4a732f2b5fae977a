"""A list of jobs made by two processes, without and with kills, beside one sweep of the same; and in shares.

python tests/bench/jobs.py [--rows 300] [--steps 12] [--kills 5] [--seed 0] [--only one,two,killed,shares]

About ten minutes. Rows are of three workflows: a picture, a picture of a picture, and a text. `one` is a sweep over
all, beside another one; `two` makes the list in two processes at once, `killed` ends each of them `--kills` times by
SIGKILL and starts it again with `--resume`, `shares` makes a third after the other. All have to give the files of
`one`, each made once, and none torn. Exit 1 where they do not, or where `two` takes more than 1.15 times the processor
seconds of `one`. What one takes with the machine to itself is told besides: that says something of an idle machine.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.checkout import ROOT

MOST = 1.15
BOBBIN = ROOT / "workflows" / "bobbin"
TEXT = {
    "format": 1,
    "name": "text",
    "params": {"seed": {"type": "int", "default": 1}},
    "nodes": {
        "vary": {
            "type": "LoomVaryText",
            "version": 1,
            "inputs": {"text": "a {red|green|blue} {star|ring|cube}", "seed": {"param": "seed"}},
        }
    },
    "outputs": {"text": {"from": "vary.text"}},
}
COMMAND = (sys.executable, "-m", "latentloom", "run", "--no-cache", "--json")
NAMES = ("picture", "again", "text")


@dataclass
class Life:
    """One process from its start to its end; what it made, by the points that it told."""

    process: subprocess.Popen[str]
    made: list[int] = field(default_factory=list[int])
    states: Counter[str] = field(default_factory=Counter[str])
    cpu_s: float = 0.0
    code: int = 0

    def watch(self, kill_after: int, delay_s: float) -> None:
        """Until it ends; it is killed so many seconds after so many results of its own, if that is not 0."""
        assert self.process.stdout
        for line in self.process.stdout:
            told = json.loads(line)
            if told["kind"] != "result":
                continue
            self.states[told["state"]] += 1
            if told["state"] == "ok":
                self.made.append(told["point"])
                if len(self.made) == kill_after:
                    threading.Timer(delay_s, self.process.kill).start()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.code, self.cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        self.process.returncode = self.code


def start(folder: Path, *arguments: str) -> Life:
    return Life(
        subprocess.Popen([*COMMAND, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=log(folder), text=True)
    )


def log(folder: Path) -> Any:
    return (folder / "log").open("a")


def finished(folder: Path, *arguments: str, kills: Sequence[tuple[int, float]] = ()) -> list[Life]:
    """The lives of one worker: one that ends by itself, after those that were killed."""
    lives: list[Life] = []
    for kill_after, delay_s in (*kills, (0, 0.0)):
        lives.append(start(folder, *arguments))
        lives[-1].watch(kill_after, delay_s)
        if lives[-1].code >= 0:
            break
    return lives


def workers(folder: Path, *commands: Sequence[str], kills: int = 0, seed: int = 0) -> list[Life]:
    """All lives of these commands, one worker each, at the same time."""
    found: list[Life] = []

    def work(number: int, command: Sequence[str]) -> None:
        chance = random.Random(seed + number)
        ends = [(chance.randint(3, 15), chance.uniform(0, 0.2)) for _ in range(kills)]
        found.extend(finished(folder, *command, kills=ends))

    threads = [threading.Thread(target=work, args=each) for each in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def prepare(folder: Path, rows: int, steps: int) -> None:
    """Three workflows with a param `seed`, and a list of all of them with each seed."""
    for name, file in {"picture": "first_picture", "again": "image_to_image"}.items():
        plain = json.loads((BOBBIN / f"{file}.json").read_text())
        plain["nodes"]["denoise"]["inputs"]["steps"] = steps
        (folder / f"{name}.json").write_text(json.dumps(plain))
    shutil.copy(BOBBIN / "picture.png", folder)
    (folder / "text.json").write_text(json.dumps(TEXT))
    jobs = [
        {"workflow": f"{name}.json", "params": {"seed": seed}} for name in NAMES for seed in range(1, rows // 3 + 1)
    ]
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))


def results(out: Path) -> dict[str, tuple[str, ...]]:
    """What each folder holds by its manifest: hashes of files that are whole, or the text; `torn` where one is not."""
    found: dict[str, tuple[str, ...]] = {}
    for manifest in out.rglob("manifest.json"):
        told = json.loads(manifest.read_text())
        parts = [told["state"]]
        for each in told["outputs"]:
            if "path" in each:
                sha256 = hashlib.sha256((manifest.parent / each["path"]).read_bytes()).hexdigest()
                parts.append(sha256 if sha256 == each["sha256"] else "torn")
            else:
                parts.append(str(each["value"]))
        found[manifest.parent.relative_to(out).as_posix()] = tuple(parts)
    return found


def told(name: str, lives: Sequence[Life], out: Path, wanted: dict[str, tuple[str, ...]], rows: int) -> bool:
    """One line of what became of the rows; whether all are there, each once."""
    found, made = results(out), Counter(point for life in lives for point in life.made)
    usual = ("manifest.json", "picture.png", "repainted.png", ".latentloom.lock")
    stray = [path for path in out.rglob("*") if path.is_file() and path.name not in usual]
    twice = [point for point, count in made.items() if count > 1]
    wrong = [folder for folder, parts in found.items() if wanted and wanted.get(folder) != parts]
    killed = sum(life.code < 0 for life in lives)
    is_good = len(found) == rows and not twice and not wrong and all(life.code in (0, -9) for life in lives)
    print(
        f"{name:<8} {len(found)} results of {rows}, {len(made)} told as made, {len(twice)} twice, {len(wrong)} torn or "
        f"other, {killed} kills, {len(stray)} files left over, {sum(life.cpu_s for life in lives):.1f} processor s",
        flush=True,
    )
    return is_good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--steps", type=int, default=12, help="of a picture")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="one,two,killed,shares")
    chosen = parser.parse_args()
    only, rows, is_good = chosen.only.split(","), chosen.rows // 3 * 3, True
    with tempfile.TemporaryDirectory() as name:
        folder, wanted = Path(name), dict[str, tuple[str, ...]]()
        prepare(folder, rows, chosen.steps)
        one_s, began = 0.0, time.monotonic()
        if "one" in only:
            files = [f"{name}.json" for name in NAMES]
            sweep = [*files, "--sweep", f"seed=1..{rows // 3}", "--out"]
            alone_s = sum(life.cpu_s for life in workers(folder, [*sweep, "alone"]))
            lives = workers(folder, [*sweep, "one"], [*sweep, "beside"])  # as busy a machine as that of `two`
            one_s = sum(life.cpu_s for life in lives) / len(lives)
            is_good = told("one", lives[:1], folder / "one", {}, rows) and results(folder / "beside").keys() != {}
            print(f"         {one_s:.1f} processor s in the mean of it and of another one at the same time", flush=True)
            print(f"         {alone_s:.1f} processor s of a sweep with the machine to itself", flush=True)
            wanted = results(folder / "one")
        for name, kills in {"two": 0, "killed": chosen.kills}.items():
            if name not in only:
                continue
            command = ["--jobs", "jobs.jsonl", "--resume", "--out", name]
            lives = workers(folder, command, command, kills=kills, seed=chosen.seed)
            is_good &= told(name, lives, folder / name, wanted, rows)
            if name == "two" and one_s:
                ratio = sum(life.cpu_s for life in lives) / one_s
                is_good &= ratio <= MOST
                print(f"         {ratio:.3f} of one's processor seconds; at most {MOST}")
                print(f"         {ratio * one_s / alone_s:.3f} of those of a sweep with the machine to itself")
        if "shares" in only:
            shares = [["--jobs", "jobs.jsonl", "--shard", f"{index}/3", "--out", "shares"] for index in range(3)]
            lives = [life for share in shares for life in workers(folder, share)]
            is_good &= told("shares", lives, folder / "shares", wanted, rows)
            print("         of", ", ".join(str(len(life.made)) for life in lives))
        print(f"{time.monotonic() - began:.0f} s, {'good' if is_good else 'NOT GOOD'}")
        if not is_good:
            print((folder / "log").read_text()[-3000:])
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
