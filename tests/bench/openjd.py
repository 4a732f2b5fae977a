"""Run a template of `latentloom openjd` by openjd-cli, as a farm does: chunks, progress, and a task that fails.

pip install openjd-cli && python tests/bench/openjd.py

https://github.com/OpenJobDescription/openjd-cli. Exit 1 where a file, a progress or a failure is not as it must be.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.checkout import ROOT

FIRST = ROOT / "workflows" / "bobbin" / "first_picture.json"
SMALL = [part for text in ("width=64", "height=64") for part in ("--set", f"empty_latents.{text}")]


def main() -> int:
    if not shutil.which("openjd"):
        print("openjd is not here; pip install openjd-cli")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(FIRST, folder / "first.json")
        asked = ["openjd", "first.json", *SMALL, "--set", "denoise.steps=1", "--sweep", "seed=1..4", "--chunk", "2"]
        asked += ["--set", 'prompt=a "red" star, $HOME']
        made = run(folder, sys.executable, "-m", "latentloom", *asked, "--run=--no-cache")
        (folder / "job.json").write_text(made.stdout)
        checked = run(folder, "openjd", "check", "job.json")
        ran = run(folder, "openjd", "run", "job.json", "--step", "Run")
        pictures = sorted(path.parent.name for path in folder.rglob("picture.png"))
        manifest = json.loads((folder / "output" / "seed=1" / "manifest.json").read_text())
        again = run(folder, "openjd", "run", "job.json", "--step", "Run")  # as a farm does with what it lost
        bad = run(folder, "openjd", "run", "job.json", "--step", "Run", "-p", "Workflow=nowhere.json")
    found = {
        "check": checked.returncode == 0,
        "run": ran.returncode == 0 and pictures == [f"seed={seed}" for seed in range(1, 5)],
        "progress": [ran.stdout.count(f"openjd_progress: {part}") for part in (50, 100)] == [2, 2],
        "quotes": manifest["params"]["prompt"] == 'a "red" star, $HOME',
        "again": again.returncode == 0 and again.stdout.count("complete already") == 4,
        "failing": bad.returncode != 0,
    }
    print("\n".join(f"{name:<9} {'good' if is_so else 'NOT GOOD'}" for name, is_so in found.items()))
    if not all(found.values()):
        print(ran.stdout[-3000:], checked.stdout[-1000:], sep="\n")
    return 0 if all(found.values()) else 1


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """With `latentloom` on the path, as tasks call it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
