"""What basedpyright says of our public names, in strict mode, of an editable install in a fresh environment.

    pip install basedpyright
    python tests/bench/public_types.py      # a minute, and the network for pip; 0 where all is as it should be

It copies the checkout, installs the copy into a new environment as `pip install -e .` with `editable_mode=strict` does
(setuptools' own mode is a hook, which checkers do not run), and checks `tests/public_use.py`, of which just the lines
with WRONG may be refused, and `reveal_type` of each public name, none of which may be unknown or `Any`.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import latentloom

ROOT = Path(__file__).resolve().parents[2]
USE = ROOT / "tests" / "public_use.py"
VAGUE = ("Any", "Unknown", "tuple[Any")  # how the type of a name, or of what a function gives, must not begin


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        install(folder)
        names = [f"reveal_type(latentloom.{name})" for name in latentloom.__all__]
        (folder / "names.py").write_text("\n".join(["import latentloom", *names]) + "\n")
        (folder / "public_use.py").write_text(USE.read_text())
        settings = {"typeCheckingMode": "strict", "venvPath": ".", "venv": "venv", "pythonVersion": "3.11"}
        settings |= {"include": ["names.py", "public_use.py"]}
        settings |= {"extraPaths": [path for path in sys.path if path.endswith("site-packages")]}  # torch, numpy
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        command = ["basedpyright", "--outputjson", "-p", "."]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    found = json.loads(told)["generalDiagnostics"]
    by_file = {name: [each for each in found if each["file"].endswith(name)] for name in ("names.py", "public_use.py")}
    wrong = {n for n, line in enumerate(USE.read_text().splitlines()) if line.endswith("# WRONG")}
    refused = {each["range"]["start"]["line"] for each in by_file["public_use.py"] if each["severity"] == "error"}
    revealed = [each["message"] for each in by_file["names.py"] if each["severity"] == "information"]
    vague = [text for text in revealed if text.rpartition(" -> ")[2].rpartition(' is "')[2].startswith(VAGUE)]
    faults = [each["message"] for each in by_file["names.py"] if each["severity"] == "error"]
    print(f"{len(revealed)} of {len(names)} names revealed; vague: {vague or 'none'}; refused: {faults or 'none'}")
    print(f"{USE.name}: {len(wrong)} wrong lines, {len(refused & wrong)} found; {len(refused - wrong)} others refused")
    return 0 if refused == wrong and len(revealed) == len(names) and not vague + faults else 1


def install(folder: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in (line for line in listed.splitlines() if not line.startswith(("tests/", "ui/web/"))):
        target = folder / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    venv.create(folder / "venv", with_pip=True)
    command = [str(folder / "venv" / "bin" / "pip"), "install", "-q", "--no-deps", "-e", str(folder / "clone")]
    subprocess.run([*command, "--config-settings", "editable_mode=strict"], check=True)


if __name__ == "__main__":
    sys.exit(main())
