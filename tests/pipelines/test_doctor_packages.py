from pathlib import Path

import pytest

from latentloom.pipelines.doctor import packages
from latentloom.pipelines.doctor.packages import examine_packages


def project(root: Path, *requirements: str, python: str = ">=3.11", pins: str = "") -> Path:
    quoted = ", ".join(f"'{requirement}'" for requirement in requirements)
    text = f"[project]\nname = 'latentloom'\nrequires-python = '{python}'\ndependencies = [{quoted}]\n"
    (root / "pyproject.toml").write_text(text)
    (root / "constraints.txt").write_text(f"# the tested set\n{pins}\n")
    return root


def test_packages_that_are_missing_too_old_or_newer_than_tested_are_told(tmp_path: Path) -> None:
    root = project(
        tmp_path, "no-such-thing>=1", "torch>=99,<100", "diffusers>=0.42.1", "numpy", pins="diffusers==0.1.0"
    )
    found = examine_packages(root)
    assert [(each.check, each.state) for each in found] == [
        ("python", "ok"),
        ("packages", "ok"),
        ("no-such-thing", "problem"),
        ("torch", "problem"),
        ("diffusers", "warning"),
    ]
    assert found[2].mend.endswith('-m pip install "no-such-thing>=1"')
    assert "but latentloom needs <100,>=99" in found[3].says
    assert "newer than 0.1.0, with which the tests passed" in found[4].says


def test_another_python_than_asked_for_is_a_problem(tmp_path: Path) -> None:
    found = examine_packages(project(tmp_path, "no-such-thing", python=">=4.1"))
    assert [(each.check, each.state) for each in found] == [("python", "problem"), ("no-such-thing", "problem")]
    assert "needs >=4.1" in found[0].says


def test_requirements_of_extras_and_other_systems_are_not_asked_for(tmp_path: Path) -> None:
    found = examine_packages(project(tmp_path, "numpy", 'absent; sys_platform == "amiga"'))
    assert [each.state for each in found] == ["ok", "ok"]


def test_an_installed_package_is_asked_for_its_own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["numpy>=1", 'torchao; extra == "quant"']
    monkeypatch.setattr(packages.metadata, "metadata", lambda name: {"Requires-Python": ">=3.11"})
    monkeypatch.setattr(packages.metadata, "requires", lambda name: asked)
    assert [(each.check, each.state) for each in examine_packages(tmp_path)] == [("python", "ok"), ("packages", "ok")]
    asked.clear()
    assert [each.state for each in examine_packages(tmp_path)] == ["warning"]
