"""Do what the README says on a fresh clone and print how long each command took.

    python tests/bench/fresh_clone.py [--tests]

Clones this repository's HEAD into an empty folder and runs the README's first command as it stands, then the picture
again, and with `--tests` the README's test command. Needs Python 3.11 as `python3.11`, git, and a package registry.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def command_after(readme: str, marker: str) -> str:
    found = re.search(rf"<!-- {marker} -->\n```bash\n(.*?)```", readme, flags=re.DOTALL)
    assert found is not None, f"the README has no {marker}"
    return found.group(1)


def timed(name: str, command: str, folder: Path, home: Path) -> None:
    """In an environment with nothing but a path, a home and what pip needs to reach its registry."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG") or k.startswith(("PIP_", "SSL_", "PYENV_"))}
    start = time.perf_counter()
    result = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=kept | {"HOME": str(home)})
    print(f"{name}: exit {result.returncode}, {time.perf_counter() - start:.1f} s", flush=True)
    if result.returncode:
        sys.exit(result.returncode)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tests", action="store_true", help="also run the test command")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="fresh-") as base:
        folder, home = Path(base) / "latentloom", Path(base) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        readme = (folder / "README.md").read_text()
        first = command_after(readme, "first command")
        timed("first command, installation included", first, folder, home)
        picture = folder / "output" / "picture.png"
        print(f"picture: {picture.stat().st_size} bytes")
        print(f"first bytes: {picture.read_bytes()[:4]!r}")
        run = first.rpartition("&&")[2]
        timed("second run, unchanged", run, folder, home)
        timed("second run, another seed", f"{run.strip()} --set seed=8", folder, home)
        if arguments.tests:
            timed("test command, installation included", command_after(readme, "test command"), folder, home)


if __name__ == "__main__":
    main()
