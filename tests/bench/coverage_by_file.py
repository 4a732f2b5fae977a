"""Lines and branches that tests run, by file and function: recorded once, and compared after code and tests changed.

    pip install coverage        7.10 or newer; no extra has it
    nice python tests/bench/coverage_by_file.py record FILE [TESTS ...]
    python tests/bench/coverage_by_file.py compare OLD NEW

`record` runs pytest (all tests, or those that are named) under coverage, and its children, ranks and workers among
them: most are killed in the end, so whoever kills lets them save first. The suite takes a few times as long as else.

`compare` tells each file of which less is run than before, and exits with 1 if there is one. A function that is not in
its file any more is looked for by its name in the others: what was moved is compared where it is now, what is gone is
told and lowers nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
[run]
branch = true
parallel = true
data_file = {folder}/data
source = {root}
omit = {root}/tests/*
sigterm = true
concurrency = thread, multiprocessing
patch = subprocess, fork, _exit
disable_warnings = no-data-collected, module-not-measured, couldnt-parse
"""
SAVE_S = 0.2
# What each Python process runs first. Other processes pass over the signal.
IN_EACH = f"""
import os, signal, time

def save(*_):
    import coverage

    if (now := coverage.Coverage.current()) is not None:
        now.save()

def saved_first(send):
    def sent(target, number, *more):
        if number == signal.SIGKILL:
            try:
                send(target, signal.SIGURG, *more)
                time.sleep({SAVE_S})
            except OSError:
                pass
        return send(target, number, *more)

    return sent

os.kill, signal.pidfd_send_signal = saved_first(os.kill), saved_first(signal.pidfd_send_signal)
signal.signal(signal.SIGURG, save)
"""
Ran = tuple[int, int, int, int]  # lines that were run, all lines, branches that were taken, all branches
# By file, by the function's name with its class's. What stands outside of functions is run by whoever imports it.
Functions = Mapping[str, Mapping[str, Ran]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    recording = commands.add_parser("record")
    recording.add_argument("file", type=Path)
    recording.add_argument("tests", nargs=argparse.REMAINDER)
    recording.set_defaults(run=lambda args: record(args.file, args.tests))
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.set_defaults(run=lambda args: compare(*(json.loads(each.read_text()) for each in (args.old, args.new))))
    args = parser.parse_args()
    return args.run(args)


def record(to: Path, tests: list[str]) -> int:
    """How pytest ends."""
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        settings, report = Path(folder) / "settings", Path(folder) / "report.json"
        settings.write_text(SETTINGS.format(folder=folder, root=ROOT))
        (Path(folder) / "sitecustomize.py").write_text(IN_EACH)
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        coverage, own = [sys.executable, "-m", "coverage"], [f"--rcfile={settings}"]
        command = [*coverage, "run", *own, "-m", "pytest", "-q", *tests]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
        for command in (["combine", *own, "-q"], ["json", *own, "-q", "-i", "-o", str(report)]):
            subprocess.run([*coverage, *command], cwd=ROOT, check=True)
        told = json.loads(report.read_text())["files"]
    found = {
        file: {name: _ran(said["summary"]) for name, said in part["functions"].items() if name}
        for file, part in told.items()
    }
    to.write_text(json.dumps(found, indent=0))
    sums = [sum(each) for each in zip(*(ran for part in found.values() for ran in part.values()), strict=True)]
    print(
        f"{len(found)} files: {sums[0]} of {sums[1]} lines, {sums[2]} of {sums[3]} branches; pytest ended with {code}"
    )
    return code


def _ran(summary: Mapping[str, int]) -> Ran:
    return (
        summary["covered_lines"],
        summary["num_statements"],
        summary.get("covered_branches", 0),
        summary.get("num_branches", 0),
    )


def compare(old: Functions, new: Functions) -> int:
    """A function counts where it was; one that is new, in its file."""
    before, now = defaultdict[str, list[Ran]](list), defaultdict[str, list[Ran]](list)
    left = {(file, name) for file, part in new.items() for name in part}
    places = defaultdict[str, list[str]](list)
    for file, name in sorted(left):
        if name not in old.get(file, ()):
            places[name].append(file)
    for file, functions in sorted(old.items()):
        found = {name: [file] if name in new.get(file, ()) else places[name] for name in functions}
        for name, files in found.items():
            if files:
                before[file].append(functions[name])
                now[file].append(new[files[0]][name])
                left -= {(each, name) for each in files}
        if gone := [name for name, files in found.items() if not files]:
            print(f"{file}: gone are {', '.join(gone)}")
    for file, name in sorted(left):
        now[file].append(new[file][name])
    num_lower = 0
    for file, found in sorted(now.items()):
        for what, at in (("lines", 0), ("branches", 2)):
            ran, of = (sum(each[at + place] for each in found) for place in (0, 1))
            was_ran, was_of = (sum(each[at + place] for each in before[file]) for place in (0, 1))
            if not before[file]:
                print(f"{file}: {ran} of {of} {what} are run, of what is new")
            elif was_of and ran * was_of < was_ran * of:
                num_lower += 1
                print(f"{file}: LOWER, {ran} of {of} {what} are run, and {was_ran} of {was_of} were")
    print(f"{num_lower} are lower, of {len(old)} files then and {len(new)} now")
    return int(num_lower > 0)


if __name__ == "__main__":
    sys.exit(main())
