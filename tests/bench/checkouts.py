"""A function of a bench, called in a process that imports latentloom from a checkout of one's choice.

Both checkouts run in this Python, so that the libraries are the same.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BOOT = """
import importlib.util, json, runpy, sys
from pathlib import Path
root, script, name, order, answer = sys.argv[1:]
spec = importlib.util.spec_from_file_location("latentloom", root + "/__init__.py", submodule_search_locations=[root])
sys.modules["latentloom"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["latentloom"])
sys.argv[:] = [script]
found = runpy.run_path(script)[name](**json.loads(order))
Path(answer).write_text(json.dumps(found))
"""


def call_in(
    checkout: Path, script: str, name: str, *, timeout_s: float, env: Mapping[str, str] | None = None, **order: Any
) -> Any:
    """What the function `name` of the `script` gives there, both plain data. It works in an empty folder, and reaches
    no hub. Raises `subprocess.TimeoutExpired` and `CalledProcessError`."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    with tempfile.TemporaryDirectory() as folder:
        answer, work = Path(folder) / "answer.json", Path(folder) / "work"
        work.mkdir()
        command = [sys.executable, "-P", "-c", BOOT, str(checkout.resolve()), script, name, json.dumps(order)]
        subprocess.run(
            [*command, str(answer)],
            cwd=work,
            env={**os.environ, **offline, "XDG_CACHE_HOME": f"{folder}/cache", **(env or {})},
            check=True,
            timeout=timeout_s,
        )
        return json.loads(answer.read_text())


def commands(about: str | None) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser, argparse.ArgumentParser]:
    """The parser of a script that has `record FILE [--checkout ROOT]` and `compare OLD NEW`, which it reads; and those
    of the two, for options of their own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    either = parser.add_subparsers(required=True, dest="command")
    recording, comparing = either.add_parser("record"), either.add_parser("compare")
    recording.add_argument("file", type=Path)
    recording.add_argument("--checkout", type=Path, default=ROOT)
    for name in ("old", "new"):
        comparing.add_argument(name, type=lambda file: json.loads(Path(file).read_text()))
    return parser, recording, comparing


def write_record(path: Path, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def leaves(found: Any, path: str = "") -> dict[str, Any]:
    """Every plain value by its way, such as `nodes/denoise/0/code`; an empty list or dict is a value too."""
    if isinstance(found, dict) and found:
        return {way: leaf for key in found for way, leaf in leaves(found[key], f"{path}/{key}").items()}
    if isinstance(found, list) and found:
        return {way: leaf for i, each in enumerate(found) for way, leaf in leaves(each, f"{path}/{i}").items()}
    return {path.removeprefix("/"): found}
