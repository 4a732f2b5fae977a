"""Provoke twelve faults of the command line; print of each its code, whose matter it is, whether a second try may help,
and the exit code, beside what nodes/README.md says.

python tests/bench/provoked.py            # all; or words of their names, such as: python tests/bench/provoked.py rank

Every line of JSON that they print is validated against the shipped schema. A full disk needs a tmpfs, which only root
can mount; without it that row says "not run".
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
from drills import machine

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
SMALL = ["--no-cache", "--set", "denoise.steps=2"]
LONG = ["--no-cache", "--set", "denoise.steps=900"]
MOST_S = 240.0
LOAD_ENDS_S = 5.0
Told = list[dict[str, Any]]


@dataclass(frozen=True)
class Fault:
    name: str
    wanted: tuple[str | None, str | None, bool | None, int]  # code, where, retryable, exit code
    provoke: Callable[[Path], tuple[int, Told, str]]


class Command:
    """A process of the command line, whose lines are read as they come."""

    def __init__(self, *arguments: str, **options: Any) -> None:
        command = [sys.executable, "-m", "latentloom", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options
        )
        self.told: Told = []

    def until(self, is_it: Callable[[dict[str, Any]], bool]) -> None:
        """Read on to such a line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))
            if is_it(self.told[-1]):
                return
        raise AssertionError(f"it ended before: {self.process.stderr and self.process.stderr.read()[-500:]}")

    def end(self) -> tuple[int, Told, str]:
        out, _ = self.process.communicate(timeout=MOST_S)
        self.told += [json.loads(line) for line in out.splitlines()]
        return self.process.returncode, self.told, ""


def run(*arguments: str, **options: Any) -> tuple[int, Told, str]:
    return Command("run", *arguments, "--json", **options).end()


def full_disk(folder: Path) -> tuple[int, Told, str]:
    if os.geteuid() != 0:
        return -1, [], "not run: only root mounts a tmpfs"
    place = folder / "full"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
    try:
        (place / "filling").write_bytes(b"0" * (48 << 10))
        return run(FIRST, *SMALL, "--out", str(place), "--force")
    finally:
        subprocess.run(["umount", place], check=True)


def not_writable(folder: Path) -> tuple[int, Told, str]:
    (folder / "file").touch()
    return run(FIRST, *SMALL, "--out", str(folder / "file"))  # also root cannot


def no_model(folder: Path) -> tuple[int, Told, str]:
    return run(FIRST, *SMALL, "--out", str(folder), "--set", "load_model.source=nobody/has-this-model")


def wrong_size(folder: Path) -> tuple[int, Told, str]:
    return run(FIRST, *SMALL, "--out", str(folder), "--set", "empty_latents.width=100")


def killed_rank(folder: Path, *, times: int) -> tuple[int, Told, str]:
    """A rank is killed after the first step, as often as it is there again."""
    command = Command("run", FIRST, *LONG[:2], "denoise.steps=60", "--out", str(folder), "--devices=cpu*2", "--json")
    for _ in range(times):
        command.until(lambda line: line["kind"] == "progress" and line["done"] == 1)
        os.kill(_ranks(command.process.pid)[0], signal.SIGKILL)
    return command.end()


def killed_server(folder: Path) -> tuple[int, Told, str]:
    """The process that forks the ranks."""
    command = Command("run", FIRST, *LONG[:2], "denoise.steps=60", "--out", str(folder), "--devices=cpu*2", "--json")
    command.until(lambda line: line["kind"] == "progress")
    parents = {_parent(rank) for rank in _ranks(command.process.pid)}
    os.kill(parents.pop(), signal.SIGKILL)
    return command.end()


def _ranks(pid: int) -> list[int]:
    """Below a host: grandchildren of it, whose parent is the fork server."""
    children = {pid: _children(pid)}
    servers = [child for child in children[pid] if _children(child)]
    ranks = [rank for server in servers for rank in _children(server)]
    return sorted(ranks, key=_ticks, reverse=True)[:2]  # without the spare, which has done nothing yet


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += map(int, (task / "children").read_text().split())
    return found


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _ticks(pid: int) -> int:
    return int(_fields(pid)[11])  # of the processor, for the process itself


def no_memory(folder: Path) -> tuple[int, Told, str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1200 << 20, 1200 << 20))

    size = ["--set", "empty_latents.width=4096", "--set", "empty_latents.height=4096"]
    return run(FIRST, *SMALL, *size, "--force", "--out", str(folder), preexec_fn=limit)


def busy_folder(folder: Path) -> tuple[int, Told, str]:
    first = Command("run", FIRST, *LONG, "--out", str(folder), "--json")
    first.until(lambda line: line["kind"] == "progress")
    try:
        return run(FIRST, *SMALL, "--out", str(folder))
    finally:
        first.process.kill()
        first.process.communicate()


def bad_file(folder: Path) -> tuple[int, Told, str]:
    (folder / "bad.json").write_text("{")
    return run(str(folder / "bad.json"), "--out", str(folder / "out"))


def bad_flag(folder: Path) -> tuple[int, Told, str]:
    return run(FIRST, "--sed", "3", "--out", str(folder))


def term_in_load(folder: Path, *more: str) -> tuple[int, Told, str]:
    """2 GB of random weights, which are read and cast."""
    from support.large_models import write_large

    write_large(folder / "model", width=1920)
    size = sum(file.stat().st_size for file in (folder / "model").rglob("*.safetensors"))
    options = [
        "--set",
        f"load_model.source={folder / 'model'}",
        "--set",
        "load_model.dtype=bf16",
        "--allow",
        str(folder),
    ]
    command = Command("run", FIRST, *SMALL, *options, "--out", str(folder / "out"), *more, "--json")
    command.until(lambda line: line.get("is_loading", False) and "loading text" in line["message"])
    command.process.send_signal(signal.SIGTERM)
    start = time.monotonic()
    code, told, _ = command.end()
    seconds = time.monotonic() - start
    assert seconds <= LOAD_ENDS_S, f"it took {seconds:.1f} s to end"
    return code, told, f"ended {seconds:.1f} s after SIGTERM, while {size / 1e9:.1f} GB were loaded"


def interrupted(folder: Path) -> tuple[int, Told, str]:
    command = Command("run", FIRST, *LONG, "--out", str(folder), "--json")
    command.until(lambda line: line["kind"] == "progress")
    command.process.send_signal(signal.SIGINT)
    return command.end()


INPUT, OK = ("input", False, 2), (None, None, None, 0)
FAULTS = [
    Fault("disk full", ("not-written", "machine", True, 75), full_disk),
    Fault("folder not writable", ("not-written", "machine", True, 75), not_writable),
    Fault("no such model here", ("not-pulled", "machine", True, 75), no_model),
    Fault("size that cannot be", ("bad-workflow", *INPUT), wrong_size),
    Fault("rank killed once", OK, partial(killed_rank, times=1)),
    Fault("rank killed twice", ("rank-failed", "machine", True, 75), partial(killed_rank, times=2)),
    Fault("fork server killed", OK, killed_server),
    Fault("memory runs out", ("out-of-memory", "machine", True, 75), no_memory),
    Fault("folder in use", ("in-use", "machine", True, 75), busy_folder),
    Fault("file that is no workflow", ("bad-workflow", *INPUT), bad_file),
    Fault("flag that is none", ("bad-input", *INPUT), bad_flag),
    Fault("SIGTERM while it loads", ("cancelled", "user", False, 130), term_in_load),
    Fault(
        "SIGTERM while ranks load",
        ("cancelled", "user", False, 130),
        lambda folder: term_in_load(folder, "--devices=cpu*2"),
    ),
    Fault("Ctrl-C in a step", ("cancelled", "user", False, 130), interrupted),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    words = parser.parse_args().words
    schema = json.loads((ROOT / "nodes" / "headless" / "stream.schema.json").read_text())
    valid = jsonschema.Draft202012Validator(schema)
    print(f"{machine()}\n\n| fault | code | where | retryable | exit code | |\n| --- | --- | --- | --- | --- | --- |")
    num_wrong = 0
    for fault in FAULTS:
        if words and not any(word in fault.name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            code, told, note = fault.provoke(Path(folder))
        if not told:
            print(f"| {fault.name} | | | | | {note} |")
            continue
        last = told[-1]
        found = (last["code"], last["where"], last["retryable"], code)
        lasting = [f"{len(last['recoveries'])} recoveries"] if last.get("recoveries") else []
        wrong = [f"wanted {fault.wanted}"] if found != fault.wanted else []
        wrong += [f"a line is not valid: {error.message[:100]}" for line in told for error in valid.iter_errors(line)][
            :1
        ]
        num_wrong += bool(wrong)
        print(f"| {fault.name} | {' | '.join(map(str, found))} | {'; '.join(filter(None, [note, *lasting, *wrong]))} |")
    print(f"\n{num_wrong} wrong")
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
