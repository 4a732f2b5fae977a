"""Faults put into a copy of the checkout, one at a time, which the tests must catch: does another suite see as much?

    nice python tests/bench/seeded_faults.py [--only WORDS ...] [--folder FOLDER] [--jobs NUMBER] [--limit SECONDS]

`faults/` holds them, by the test that catches each: it passes as the code is, and fails with the fault, which is more
than that it cannot be collected. Prints a line for each fault; exits with 1 if one is not caught, or is gone: then its
text is there no more, or twice, and the fault is to be mended. The libraries are imported once, by the process that all
runs are forked from.

    @ tests/parallel/test_layout.py::test_positions_and_ranges_of_a_rank     the test that catches what follows
    # off by one: a rank's share ends a token late                           a fault
    in parallel/                                                             where, if the text is elsewhere, too
    -return start, start + self.shares[rank]                                 its text, which may be part of a line
    +return start, start + self.shares[rank] + 1                             what stands there instead
"""

import argparse
import contextlib
import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults")
LIMIT_S = 180.0
LEFT_OUT = shutil.ignore_patterns(".git", "*venv", "node_modules", "__pycache__", "build", "*.egg-info")
CAUGHT = "caught"
ENDS = {0: "NOT CAUGHT", 1: CAUGHT, -signal.SIGKILL: "TOO LONG"}  # how pytest ends; any other number is told as it is
IMPORTED = "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning"
TIMES = itertools.count(1_000_000_000)


@dataclass
class Fault:
    """`text` stands once in all files of the product whose path begins with `under`."""

    what: str
    under: str = ""
    lines: dict[str, list[str]] = field(default_factory=lambda: {"-": [], "+": []})

    @property
    def text(self) -> str:
        return "\n".join(self.lines["-"])

    @property
    def instead(self) -> str:
        return "\n".join(self.lines["+"])


Tests = dict[str, list[Fault]]  # of one file, the faults that each test catches


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, and what each file of the product says."""

    folder: Path
    files: Mapping[str, str]

    def places(self, fault: Fault) -> list[str]:
        """A file for each time that the text is found."""
        files = ((file, said) for file, said in self.files.items() if file.startswith(fault.under))
        return [file for file, said in files for _ in range(said.count(fault.text))]

    def write(self, file: str, said: str) -> None:
        """With a time of its own, by which Python sees that what it compiled before is old."""
        (self.folder / file).write_text(said, encoding="utf-8")
        os.utime(self.folder / file, (at := next(TIMES), at))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="words of faults or of their tests")
    parser.add_argument("--folder", default="", help="how the path of what is broken begins")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for each run of tests")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT / "tests"))
    import support.preloaded  # noqa: F401

    checkout, chosen = Checkout(ROOT, product(ROOT)), defaultdict[str, Tests](dict)
    for test, faults in (item for path in sorted(FAULTS.glob("*.txt")) for item in read(path).items()):
        asked = [fault for fault in faults if any(words in f"{test} {fault.what}" for words in args.only)]
        if kept := [fault for fault in asked if " ".join(checkout.places(fault)).startswith(args.folder)]:
            chosen[test.partition("::")[0]][test] = kept
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        forked = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(args.jobs, mp_context=forked) as pool:
            counts = sum(pool.map(functools.partial(tried, folder, args.limit), chosen.values()), Counter[str]())
    print(", ".join(f"{count} {end}" for end, count in counts.most_common()) or "none is chosen")
    return int(set(counts) != {CAUGHT})


def read(path: Path) -> Tests:
    found: Tests = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("@ "):
            faults = found[line[2:]] = []
        elif line.startswith("# "):
            faults.append(Fault(line[2:]))
        elif line.startswith("in "):
            faults[-1].under = line[3:]
        elif line:
            faults[-1].lines[line[0]].append(line[1:])
    return found


@functools.cache
def copied(folder: str) -> Checkout:
    """The copy of this process."""
    copy = Path(folder) / str(os.getpid()) / "latentloom"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    return Checkout(copy, product(copy))


def product(root: Path) -> dict[str, str]:
    folders = ("nodes", "parallel", "pipelines", "ui")
    paths = [path for found in ("*.py", *(f"{folder}/**/*.py" for folder in folders)) for path in root.glob(found)]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def tried(folder: str, limit_s: float, tests: Tests) -> Counter[str]:
    """Of one file of tests."""
    copy, counts = copied(folder), Counter[str]()
    begun = time.monotonic()
    are_sound = ended(copy.folder, limit_s, *tests) == 0
    print(f"{time.monotonic() - begun:4.0f} s  {next(iter(tests)).partition('::')[0]} as it is", flush=True)
    for test, faults in tests.items():
        is_sound = are_sound or ended(copy.folder, limit_s, test) == 0
        for fault in faults:
            places, begun = copy.places(fault), time.monotonic()
            if len(places) != 1:
                end = f"GONE: mend the fault, whose text is there {len(places)} times"
            elif not is_sound:
                end = f"NO PROOF: {test} does not pass without it"
            else:
                copy.write(places[0], copy.files[places[0]].replace(fault.text, fault.instead))
                end = ENDS.get(now := ended(copy.folder, limit_s, test), f"NOT RUN ({now})")
                copy.write(places[0], copy.files[places[0]])
            counts[end.partition(":")[0]] += 1
            where = " ".join(places) or fault.under or test
            print(f"{time.monotonic() - begun:4.0f} s  {end:10}  {where}: {fault.what}", flush=True)
    return counts


def ended(folder: Path, limit_s: float, *tests: str) -> int:
    """How pytest ends in a copy."""
    if not (child := os.fork()):
        run_tests(folder, tests)
    end = time.monotonic() + limit_s
    while not (ran := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it left behind, too
    return os.waitstatus_to_exitcode(ran[1] if ran[0] else os.waitpid(child, 0)[1])


def run_tests(folder: Path, tests: Sequence[str]) -> NoReturn:
    """In a process of its own, which ends. The copy's parent comes first: it is `latentloom`, whatever is installed."""
    code = 3
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        said = os.open(folder.parent / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(said, number)
        for name in [name for name in sys.modules if name.partition(".")[0] == "support"]:
            del sys.modules[name]  # which are the checkout's own
        sys.modules["__main__"] = ModuleType("__main__")  # this script is not what processes of tests import anew
        ours = map(str, (ROOT.parent, ROOT, ROOT / "tests", ROOT / "tests" / "bench"))
        sys.path = [str(folder.parent), *(path for path in sys.path if path not in {*ours})]
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")]).rstrip(":")
        code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-W", IMPORTED, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
