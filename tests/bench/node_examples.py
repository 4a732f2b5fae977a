"""Run each ready workflow of the built-in model, and each node's example, as users do; print what each took and kept.

python tests/bench/node_examples.py [--only NAME]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "workflows" / "bobbin"
LONGEST_S = 600
REFUSED = ("load_lora",)  # what needs a file of one's own, and says so before it runs: exit 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="files whose names hold it")
    args = parser.parse_args()
    paths = [path for path in sorted(FOLDER.rglob("*.json")) if args.only in path.stem]
    failed = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, "-m", "latentloom", "run", str(path), "--out", out]
            start = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, cwd=path.parent)
            took_s = time.monotonic() - start
            kept = sorted(file.suffix for file in Path(out).rglob("*") if file.is_file() and file.suffix != ".json")
        is_good = done.returncode == (2 if path.stem in REFUSED else 0)
        failed += not is_good
        print(f"{path.stem}: exit {done.returncode}, {took_s:.1f} s, {len(kept)} files {' '.join(kept)}", flush=True)
        if not is_good:
            print(done.stderr.strip().splitlines()[-1:] or "(nothing said)")
    print(f"{len(paths)} workflows, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
