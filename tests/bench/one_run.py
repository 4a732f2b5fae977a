"""How much of ours one run of the README's first workflow goes through: files, functions, and what is asked how often.

    python tests/bench/one_run.py [--checkout ../before] [--devices cpu*2] [--json FILE] [NAME ...]    # half a minute

In a process of its own, under `sys.setprofile` in each thread. What runs while a module is imported is not counted, nor
are comprehensions and lambdas. Of ranks nothing is seen, only of their host. Calls are counted of all functions and
methods of ours that have one of NAMES, or a name that is given, maybe with its file: `pipelines/settling.py:settled`.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.checkouts import call_in, write_record
from bench.lines import FORESIGHT
from support.checkout import ROOT

WORKFLOW = Path("workflows") / "bobbin" / "first_picture.json"
NAMES = (
    *("ready", "unfold", "upgrade", "settled", "effective", "resolve", "specs_of", "check"),
    *("forecast", "planned", "choose", "denoise_means", "check_size", "own_numbers"),
    *("read_index", "inspect_model", "inspect_component", "card_of", "read_config"),
    *("to_plain", "from_plain", "recipe_keys", "leeways", "plan_for"),
)
TIMEOUT_S = 300


class Counting:
    """Code of ours that ran, of all threads, while it is installed."""

    def __init__(self, root: Path) -> None:
        self.root = f"{root}/"
        self.calls: Counter[CodeType] = Counter()
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(self.root):
            return
        if code.co_filename.startswith((f"{self.root}.", f"{self.root}tests/")):  # a virtual environment; this script
            return
        depth = getattr(self._importing, "depth", 0)
        if code.co_name == "<module>":
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and not depth and code.co_flags & inspect.CO_OPTIMIZED and "<" not in code.co_name:
            self.calls[code] += 1  # the body of a class is not optimized

    def __enter__(self) -> Counting:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="more functions whose calls are counted")
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--devices", default="")
    parser.add_argument("--json", type=Path, help="a file to write what was counted to")
    chosen = parser.parse_args()
    found = one_run(chosen.checkout, devices=chosen.devices, names=chosen.names)
    if chosen.json:
        write_record(chosen.json, found)
    where = f"on {chosen.devices}" if chosen.devices else "on one device"
    print(f"{WORKFLOW.name} {where}: {found['functions']} functions in {found['files']} files of ours")
    print(f"{found['foresight']} of these functions foretell; {found['calls']} calls in all")
    print("folders:", ", ".join(f"{folder} {count}" for folder, count in found["folders"].items()))
    print("calls:", ", ".join(f"{name} {count}" for name, count in found["named"].items() if count))
    return 0


def one_run(checkout: Path = ROOT, *, devices: str = "", names: list[str] | None = None) -> dict[str, Any]:
    """What was counted of one run in a new process, as plain data."""
    order = {"root": str(checkout.resolve()), "devices": devices, "names": [*NAMES, *(names or [])]}
    return call_in(checkout, __file__, "counted", timeout_s=TIMEOUT_S, env={"OMP_NUM_THREADS": "1"}, **order)


def counted(root: str, devices: str, names: list[str]) -> dict[str, Any]:
    """In the process of one checkout."""
    from latentloom.__main__ import main as latentloom

    arguments = ["run", f"{root}/{WORKFLOW}", "--no-cache", "--out", "made"]
    arguments += ["--devices", devices] if devices else []
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error), Counting(Path(root)) as counting:
        ended = latentloom(arguments)
    assert ended == 0, error.getvalue()
    paths = {code: code.co_filename.removeprefix(counting.root) for code in counting.calls}
    folders = Counter("/".join(path.split("/")[:-1][:2]) for path in paths.values())
    called: Counter[str] = Counter()
    for code, count in counting.calls.items():
        called[code.co_name] += count
        called[f"{paths[code]}:{code.co_name}"] += count
    at = {name: sorted({paths[code] for code in paths if code.co_name == name}) for name in names}
    return {
        "files": len({*paths.values()}),
        "functions": len(paths),
        "calls": counting.calls.total(),
        "foresight": sum(path.startswith(FORESIGHT) for path in paths.values()),
        "folders": dict(sorted(folders.items())),
        "named": {name: called[name] for name in names},
        "at": {name: found for name, found in at.items() if found},
        "ran": sorted({*paths.values()}),
    }


if __name__ == "__main__":
    sys.exit(main())
