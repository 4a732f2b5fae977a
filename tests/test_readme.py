"""What the README says is true: its Python runs, its files exist, its commands are the ones that CI uses."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_of_the_readme_makes_a_picture(tmp_path: Path) -> None:
    (code,) = blocks("python")
    boot = f"import runpy; runpy.run_path({str(ROOT / 'tests' / 'conftest.py')!r})\n"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", boot + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "output" / "ring.png").is_file()
    assert result.stderr == ""


def test_every_workflow_and_file_that_the_readme_names_exists() -> None:
    names = set(re.findall(r"`((?:nodes|pipelines|parallel|ui|tests|workflows)/[\w./-]*)`", README))
    names |= set(re.findall(r"(workflows/\w+\.(?:json|png))", README))
    assert names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_tree_in_the_readme_names_every_module() -> None:
    modules = {p.name for folder in ("nodes", "pipelines") for p in (ROOT / folder).glob("*.py")} - {"__init__.py"}
    assert sorted(name for name in modules if f" {name}" not in README) == []


def test_ci_runs_the_command_of_the_readme() -> None:
    assert "test command" in (ROOT / ".ci" / "run").read_text()
    assert sum("pytest" in block for block in blocks("bash")) == 1


def test_no_file_names_the_machine_it_was_written_on() -> None:
    pattern = re.compile(rb"(^|[^A-Za-z0-9_.-])/(work|root|farm)/")
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    texts = [ROOT / f for f in listing.splitlines() if not f.endswith((".safetensors", ".png"))]
    assert [str(p) for p in texts if p.name != "test_readme.py" and pattern.search(p.read_bytes())] == []
