"""Imports go down only: ui -> nodes -> pipelines -> parallel; and some libraries stay in their layer."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.outside import warm_python
from support.statements import statements

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["parallel", "pipelines", "nodes", "ui"]
HOMES = {
    "torch.distributed": ["parallel/"],
    "diffusers": ["pipelines/", "nodes/modular.py"],
    "transformers": ["pipelines/"],
    "gradio": ["ui/app.py", "ui/canvas.py"],
}
HEAVY = ("torch", "diffusers", "transformers", "gradio")
LIGHT = (
    "latentloom",
    "latentloom.__main__",
    "latentloom.nodes",
    "latentloom.nodes.registry",
    "latentloom.nodes.hosts.comfyui",
    "latentloom.nodes.python.session",
    "latentloom.nodes.graph.check",
    "latentloom.nodes.execution.run",
    "latentloom.pipelines.values",
    "latentloom.pipelines.families",
    "latentloom.pipelines.models.source",
    "latentloom.pipelines.models.folder",
    "latentloom.pipelines.settling",
    "latentloom.pipelines.shape",
    "latentloom.pipelines.split_plans",
    "latentloom.pipelines.verify",
    "latentloom.pipelines.forecast.explained",
    "latentloom.pipelines.forecast.here",
    "latentloom.pipelines.forecast.plans",
    "latentloom.nodes.headless.plans",
    "latentloom.pipelines.doctor.examine",
    "latentloom.parallel.plan",
    "latentloom.parallel.mesh",
    "latentloom.parallel.layout",
    "latentloom.parallel.sharding.split_plan",
    "latentloom.parallel.pool.pool",
    "latentloom.pipelines.placement",
    "latentloom.parallel.machine.machine",
    "latentloom.ui.options",
    "latentloom.ui.command",
    "latentloom.ui.api.router",
    "latentloom.ui.service.command",
)
SOURCES = sorted(
    path.relative_to(ROOT) for folder in LAYERS for path in (ROOT / folder).rglob("*.py") if "web" not in path.parts
)


def imports_of(source: str, file: Path) -> list[str]:
    """Dotted names, relative ones made absolute below the repository root."""
    found = []
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            prefix = ""
            if node.level:
                package = file.parent.parts
                prefix = ".".join((".", *package[: len(package) - node.level + 1]))
            module = ".".join(filter(None, (prefix, node.module or "")))
            found += [f"{module}.{alias.name}" for alias in node.names]
    return found


def breaches(source: str, file: Path) -> list[str]:
    layer = LAYERS.index(file.parts[0])
    names = imports_of(source, file)
    upward = [n for n in names for up in LAYERS[layer + 1 :] if n.startswith(f"..{up}")]
    by_name = [n for n in names if n.split(".")[0] == "latentloom"]
    misplaced = [
        n
        for n in names
        for library, homes in HOMES.items()
        if (n == library or n.startswith(library + ".")) and not str(file).startswith(tuple(homes))
    ]
    return upward + by_name + misplaced


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_down_only(layer: str) -> None:
    found = {file: breaches((ROOT / file).read_text(), file) for file in SOURCES if file.parts[0] == layer}
    assert found and {str(file): names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from ..nodes import spec",
        "import latentloom.nodes",
        "import gradio",
        "def f():\n    import torch.distributed as dist",
        "from torch.distributed import init_process_group",
    ],
)
def test_a_planted_upward_import_is_found(line: str) -> None:
    assert breaches(line, Path("pipelines/planted.py"))


@pytest.fixture(scope="module")
def heavy_of() -> dict[str, list[str]]:
    """The heavy libraries that are there once each of LIGHT is imported, one after the other in one fresh process: the
    first that has one imports it, and all after it have it too."""
    code = f"""
import importlib, json, sys
for module in {LIGHT}:
    importlib.import_module(module)
    print(json.dumps([module, [name for name in {HEAVY} if name in sys.modules]]))
"""
    return dict(map(json.loads, fresh_python(code).splitlines()))


@pytest.mark.parametrize("module", LIGHT)
def test_importing_costs_no_heavy_library(heavy_of: dict[str, list[str]], module: str) -> None:
    assert heavy_of[module] == []


def test_everything_imports_where_fcntl_pidfd_and_unix_sockets_are_absent() -> None:
    code = """
import os, sys, socket, signal, importlib, pathlib
# other people's libraries come first: on Linux theirs may use what Windows lacks
import torch, av, tqdm, pydantic, psutil, PIL.Image, transformers.modeling_utils
import diffusers.modular_pipelines.modular_pipeline, diffusers.guiders, diffusers.modular_pipelines.flux.denoise
import diffusers.modular_pipelines.qwenimage, diffusers.modular_pipelines.wan
import diffusers.modular_pipelines.stable_diffusion_3
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "resource", "pwd", "grp", "termios"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules.pop(name, None)
for owner, name in ((socket, "AF_UNIX"), (os, "pidfd_open"), (os, "memfd_create"), (os, "fork"), (signal, "SIGKILL")):
    if hasattr(owner, name):
        delattr(owner, name)
import latentloom
root = pathlib.Path(latentloom.__file__).parent
count = 0
for folder in ("parallel", "pipelines", "nodes", "ui"):
    for path in sorted((root / folder).rglob("*.py")):
        if path.name == "rotary_kernel.py":
            continue
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        importlib.import_module(".".join(("latentloom", *parts)))
        count += 1
importlib.import_module("latentloom.__main__")
print(count > 30)
"""
    done = warm_python(code)
    assert done.stdout.strip() == "True", done.stderr


def test_only_the_tests_of_the_page_need_playwright_to_be_collected() -> None:
    """Their names begin with test_page_; what others import, and the fixtures, import it where a browser is used."""
    shared = [path for folder in ("support", "ui") for path in (ROOT / "tests" / folder).glob("*.py")]
    found = [
        path.name
        for path in shared
        if "playwright" in (text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "playwright" in ast.unparse(node)
    ]
    assert [name for name in found if not name.startswith("test_page_")] == []


def fresh_python(code: str) -> str:
    boot = f"import sys; sys.path.append({str(ROOT / 'tests')!r}); import support.checkout\n"
    result = subprocess.run(
        [sys.executable, "-c", boot + code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
