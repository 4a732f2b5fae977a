"""The wheel, the editable install and a host's loader all see the same package."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from latentloom.nodes.hosts.native.node import NATIVE
from latentloom.nodes.registry import SPECS

ROOT = Path(__file__).resolve().parent.parent
CODE = ("nodes", "parallel", "pipelines", "ui", "workflows")
TOP_LEVEL = {
    *CODE,
    "tests",
    "example_workflows",
    "__init__.py",
    "__main__.py",
    "py.typed",
    "pyproject.toml",
    "README.md",
}
SHIPPED = ("__init__.py", "__main__.py", "py.typed", "requirements.txt")
PAPERS = {
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "deploy",
    "LICENSE",
    "STYLE.md",
    "constraints.txt",
    "node_list.json",
    "requirements.txt",
}


def tracked() -> list[Path]:
    """Files of the checkout that are not ignored; where git is absent, every file outside caches."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("needs a git checkout")
    return [Path(line) for line in listing.stdout.splitlines() if (ROOT / line).exists()]


def is_workshop(path: Path) -> bool:
    """What the page is made with; it does not ship."""
    return path.parts[:2] == ("ui", "web")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def folders() -> set[str]:
    code = [p for p in tracked() if p.suffix == ".py" and p.parts[0] in CODE and not is_workshop(p)]
    return {"latentloom"} | {".".join(("latentloom", *p.parent.parts)) for p in code}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, with the build tools already installed, so that nothing is fetched."""
    base = tmp_path_factory.mktemp("build")
    for path in tracked():
        target = base / "source" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(base), str(base / "source")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(base.glob("*.whl"))


def test_top_level_is_what_the_design_fixes() -> None:
    top = {p.parts[0] for p in tracked() if not p.parts[0].startswith(".")}
    assert top - TOP_LEVEL <= PAPERS
    assert top >= TOP_LEVEL


def test_packages_of_pyproject_are_the_folders_with_code() -> None:
    assert set(project()["tool"]["setuptools"]["packages"]) == folders()


def test_wheel_holds_every_file_of_the_package_and_no_test(wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    inside = [p for p in tracked() if p.parts[0] in CODE or str(p) in SHIPPED]
    shipped = (".py", ".json", ".safetensors", ".typed", ".js", ".css", ".svg", ".txt", ".mp4", ".flac")
    inside = [p for p in inside if (p.suffix in shipped or p.match("workflows/*/*.png")) and not is_workshop(p)]
    expected = {f"latentloom/{p.as_posix()}" for p in inside}
    assert expected >= {"latentloom/ui/static/loom.js", "latentloom/workflows/bobbin/nodes/vary_text.json"}
    assert names == expected


def test_built_in_model_in_the_wheel_is_small(wheel: Path) -> None:
    infos = [i for i in zipfile.ZipFile(wheel).infolist() if "/bobbin/model/" in i.filename]
    assert infos
    assert sum(i.file_size for i in infos) <= 16 * 2**20


def test_wheel_runs_where_no_checkout_is(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = "import latentloom, latentloom.nodes.registry as r; print(latentloom.__file__, len(r.SPECS))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path) in result.stdout


def test_requirements_for_hosts_are_the_dependencies_without_torch() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    hosts = {line for line in lines if line and not line.startswith("#")}
    assert hosts == {
        d for d in project()["project"]["dependencies"] if not d.startswith(("torch", "gradio", "websockets"))
    }


def test_constraints_pin_every_dependency() -> None:
    pins = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    tables = project()["project"]
    wanted = tables["dependencies"] + tables["optional-dependencies"]["dev"]
    names = {d.split(">")[0].split("=")[0].split("[")[0].strip().lower() for d in wanted}
    assert names - pins == set()


def test_nothing_in_the_repository_is_larger_than_16_mib() -> None:
    assert [str(p) for p in tracked() if (ROOT / p).stat().st_size > 16 * 2**20] == []


def test_root_loads_as_a_host_loads_it_from_a_folder_with_a_dash_and_a_dot(tmp_path: Path) -> None:
    folder = tmp_path / "custom.nodes" / "latent-loom-1.0"
    folder.parent.mkdir()
    folder.symlink_to(ROOT, target_is_directory=True)
    # what ComfyUI documents: the module's name is the folder's path with dots replaced
    code = f"""
import importlib.util, sys
path = {str(folder)!r}
name = path.replace(".", "_x_")
spec = importlib.util.spec_from_file_location(name, path + "/__init__.py", submodule_search_locations=[path])
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
spec.loader.exec_module(module)
nodes = module.NODE_CLASS_MAPPINGS
import latentloom.nodes.hosts.comfyui as comfyui
print(nodes is comfyui.NODE_CLASS_MAPPINGS, "LoomDenoise" in nodes, "torch" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["True", "True", "False"], result.stderr


def test_comfyui_needs_nothing_of_what_its_registry_leaves_out(tmp_path: Path) -> None:
    left_out = {line.strip("/") for line in (ROOT / ".comfyignore").read_text().splitlines() if line[:1] != "#"}
    for part in {path.parts[0] for path in tracked()} - left_out:
        (tmp_path / part).symlink_to(ROOT / part)
    code = f"""
import importlib.util, sys
sys.meta_path[:] = [hook for hook in sys.meta_path if "latentloom" not in getattr(hook, "__module__", "")]
spec = importlib.util.spec_from_file_location("pack", {str(tmp_path / "__init__.py")!r},
    submodule_search_locations=[{str(tmp_path)!r}])
module = sys.modules["pack"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(len(module.NODE_CLASS_MAPPINGS), len(module.NODE_DISPLAY_NAME_MAPPINGS))
import latentloom
print(list(latentloom.__path__))
from latentloom.__main__ import main
print(main(["check", {str(ROOT / "workflows" / "bobbin" / "first_picture.json")!r}]), main(["nodes", "LoomSeed"]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[:2] == [
        f"{len(SPECS) + len(NATIVE)} {len(SPECS) + len(NATIVE)}",
        str([str(tmp_path)]),
    ], done.stderr
    assert "no problems" in done.stdout and done.stdout.endswith("0 0\n"), done.stderr
    assert {"ui", "tests"} <= left_out and (tmp_path / "example_workflows").exists()


def test_version_is_the_same_everywhere() -> None:
    spec = importlib.util.find_spec("latentloom")
    import latentloom

    assert spec is not None
    assert latentloom.__version__ == project()["project"]["version"]
    assert f"## {latentloom.__version__}" in (ROOT / "CHANGELOG.md").read_text()
