"""One process of `hostile_files.py`: makes each hostile file from the seed and its number, reads it, tells what it did.

python tests/bench/hostile_worker.py FOLDER SEED, then a line `["KIND", NUMBER]` for each file on standard input.
"""

import contextlib
import ctypes
import gc
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TQDM_DISABLE": "1"}

import torch
from hostile_cases import CASES, Bench, Finding

torch.set_num_threads(1)


def once(bench: Bench, kind: str, index: int) -> dict[str, Any]:
    folder = bench.root / f"case-{kind}-{index}"
    folder.mkdir()
    row: dict[str, Any] = {"kind": kind, "index": index}
    try:
        what, read = CASES[kind](bench, folder, random.Random(f"{bench.seed}:{kind}:{index}"))
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what earlier files left to the allocator is not this one's
        Path("/proc/self/clear_refs").write_text("5")
        idle_mib, start = peak_mib(), time.monotonic()
        with bench.audit.watching(folder, writable=(bench.root,)):
            outcome, said = attempt(read)
        row |= {"what": what, "outcome": outcome, "said": said, "seconds": time.monotonic() - start}
        row |= {"mib": peak_mib() - idle_mib, "idle_mib": idle_mib, "offences": bench.audit.offences[:5]}
        if any(path.name == "CANARY" for path in (Path("CANARY"), folder / "CANARY") if path.exists()):
            row["offences"].append("CANARY")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return row


def attempt(read: Callable[[], str]) -> tuple[str, str]:
    try:
        return read(), ""
    except Finding as found:
        return str(found).partition(":")[0], str(found)
    except BaseException:
        return "traceback", traceback.format_exc()[-1500:]


def peak_mib() -> float:
    """The largest resident size since `clear_refs` was last written."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


@contextlib.contextmanager
def own_output() -> Iterator[Any]:
    """Standard output for our lines only, whatever else prints."""
    kept = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(kept, "w", buffering=1) as output:
        yield output


def serve() -> None:
    root, seed = Path(sys.argv[1]), int(sys.argv[2])
    os.environ |= {"HOME": str(root), "XDG_CACHE_HOME": str(root / "cache"), "TMPDIR": str(root)}
    (root / "sound").mkdir(exist_ok=True)
    os.chdir(root)
    with own_output() as output:
        bench = Bench(root, seed)
        for kind in CASES:  # first-use imports and caches belong to the idle process
            for index in range(-4, 0):
                once(bench, kind, index)
        gc.collect()
        gc.freeze()  # what is there stays: the next collections are quick
        print("{}", file=output)
        for line in sys.stdin:
            kind, index = json.loads(line)
            print(json.dumps(once(bench, kind, index)), file=output)


if __name__ == "__main__":
    serve()
