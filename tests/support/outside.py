"""Packages from outside, put where Python finds them without pip, and processes that find them there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.checkout import ROOT, TESTS
from support.ranks import started

EXAMPLE = TESTS / "outside"
BOOT = f"import runpy, sys\nrunpy.run_path({str(TESTS / 'support' / 'checkout.py')!r})\n"
MAIN = "from latentloom.__main__ import main\nsys.exit(main(sys.argv[1:]))"


def install_example(folder: Path, *, version: str = "") -> Path:
    """The example package in a folder for PYTHONPATH; another version takes the place of the one that is there."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(EXAMPLE / "loom_example", folder / "loom_example", ignore=ignored, dirs_exist_ok=True)
    for old in folder.glob("*.dist-info"):
        shutil.rmtree(old)
    _write_metadata(folder, project["name"], version or project["version"], project["entry-points"])
    return folder


def install(folder: Path, name: str, code: str, *, nodes: str = "NODES") -> Path:
    """A package of one module with these nodes."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(code)
    _write_metadata(folder, name, "1.0", {"latentloom.nodes": {name: f"{name}:{nodes}"}})
    return folder


def _write_metadata(folder: Path, name: str, version: str, points: Mapping[str, Mapping[str, str]]) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in points.items()]
    (info / "entry_points.txt").write_text("\n".join(groups))


def environment(path: Path | None, **more: str) -> dict[str, str]:
    """Of a process that finds the packages in `path`, as its ranks do."""
    cleared = {name: value for name, value in os.environ.items() if name != "LATENTLOOM_NODES"}
    return {**cleared, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(path or ""), **more}


def python(code: str, *arguments: str, path: Path | None = None, cwd: Path = ROOT, **more: str) -> Any:
    """Run code that imports the checkout; `stdout`, `stderr` and `returncode` of it."""
    command = [sys.executable, "-c", BOOT + code, *arguments]
    env = environment(path, **more)
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False)


def latentloom(*arguments: str, path: Path | None = None, cwd: Path = ROOT, **more: str) -> Any:
    """The command line, in a process of its own."""
    return python(MAIN, *arguments, path=path, cwd=cwd, **more)


def warm_python(code: str, *arguments: str, path: Path | None = None, cwd: Path = ROOT, **more: str) -> Any:
    """As `python`, in a process that has imported torch and diffusers, nothing of ours: seconds cheaper."""
    with tempfile.TemporaryDirectory() as folder:
        process = started(_run, folder, BOOT + code, arguments, str(cwd), environment(path, **more))
        try:
            process.join(240)
        finally:
            process.kill()
            process.join()
        said = [Path(folder, name).read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess(list(arguments), process.exitcode or 0, *said)


def _run(folder: str, code: str, arguments: Sequence[str], cwd: str, environment: Mapping[str, str]) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    import torch

    torch.set_num_threads(1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = ["-c", *arguments]
    sys.path[:0] = ["", *filter(None, environment["PYTHONPATH"].split(os.pathsep))]
    exec(code, {"__name__": "__main__"})  # noqa: S102 (the test's own text)


def write_model(folder: Path) -> Path:
    """A model of the example's family: the built-in model's files under the family's pipeline."""
    shutil.copytree(ROOT / "pipelines" / "bobbin" / "model", folder, copy_function=os.link)
    for name, own in {
        "model_index.json": {"_class_name": "LoomExamplePipeline"},
        "latentloom.json": {"family": "loom_example"},
    }.items():
        plain = json.loads((folder / name).read_text())
        (folder / name).unlink()  # its content is the built-in model's, too
        (folder / name).write_text(json.dumps(plain | own))
    return folder


def workflow(model: Path | str) -> dict[str, Any]:
    """A picture by the example's family on its canvas, its palette and what is tinted with it."""

    def link(source: str) -> dict[str, str]:
        return {"from": source}

    nodes = {
        "load": ("LoomLoadModel", {"source": str(model)}),
        "canvas": ("loom_example_Canvas", {"model": link("load.model")}),
        "text": ("LoomEncodeText", {"model": link("load.model"), "prompt": "a red star"}),
        "denoise": (
            "LoomDenoise",
            {
                "model": link("load.model"),
                "conditioning": link("text.conditioning"),
                "latents": link("canvas.latents"),
                "seed": 7,
                "steps": 1,
            },
        ),
        "decode": ("LoomDecode", {"model": link("load.model"), "latents": link("denoise.latents")}),
        "palette": ("loom_example_Palette", {"image": link("decode.image")}),
        "tint": (
            "loom_example_Tint",
            {"image": link("decode.image"), "palette": link("palette.palette"), "strengths": [0.25, 0.5]},
        ),
        "save": ("LoomSaveImage", {"image": link("tint.image"), "name": "tinted"}),
        "swatch": ("LoomSaveImage", {"image": link("palette.swatch"), "name": "swatch"}),
    }
    return {
        "format": 1,
        "name": "Example",
        "requires": {"loom-example": ">=1.0"},
        "nodes": {name: {"type": kind, "version": 1, "inputs": inputs} for name, (kind, inputs) in nodes.items()},
    }
