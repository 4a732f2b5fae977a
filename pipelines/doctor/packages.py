"""The doctor on versions: Python and the packages against what latentloom asks for, and what its tests passed with."""

from __future__ import annotations

import platform
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from ...parallel.machine.folders import text_of
from .finding import Finding

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PROJECT = "latentloom"
# Packages whose new versions change what models compute, or how they are loaded; and those that are named when
# well.
CORE = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "peft")
CHECKOUT = Path(__file__).resolve().parents[2]


def examine_packages(root: Path = CHECKOUT) -> list[Finding]:
    """Reads `root`'s pyproject.toml and constraints.txt in a checkout, else the installed package's own records."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    python, lines = asked(root)
    required = [Requirement(line) for line in lines]
    required = [each for each in required if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not required:
        mend = "install it with pip, or copy the whole repository"
        return [Finding(check="packages", state="warning", says=f"what {PROJECT} asks for is not recorded", mend=mend)]
    tested = _tested(root)
    each = {need.name: _examine(need, tested.get(canonicalize_name(need.name), "")) for need in required}
    well = [name for name, finding in each.items() if finding is None]
    found = [_examine_python(python), *filter(None, each.values())]
    if well:
        named = [f"{name} {metadata.version(name)}" for name in well if name in CORE]
        says = f"{', '.join([*named, f'{len(well) - len(named)} others'])} are as asked for"
        found.insert(1, Finding(check="packages", says=says))
    return found


def asked(root: Path) -> tuple[str, list[str]]:
    """Versions of Python, and the requirements, as written."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        if project["name"] == PROJECT:
            return project["requires-python"], project["dependencies"]
    except (OSError, ValueError, KeyError):
        pass
    try:
        records = metadata.metadata(PROJECT)
        return records["Requires-Python"] or "", metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        return "", []


def _tested(root: Path) -> dict[str, str]:
    """{package: version} of the set that the tests passed with; empty where it did not ship."""
    from packaging.utils import canonicalize_name

    lines = text_of(root / "constraints.txt").splitlines()
    pins = [line.partition("==") for line in lines if "==" in line and not line.startswith("#")]
    return {canonicalize_name(name.strip()): version.strip() for name, _, version in pins}


def _examine_python(asked: str) -> Finding:
    from packaging.specifiers import SpecifierSet

    says = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if SpecifierSet(asked).contains(platform.python_version(), prereleases=True):
        return Finding(check="python", says=says)
    mend = f"make a virtual environment with Python {asked} and install {PROJECT} there"
    return Finding(check="python", state="problem", says=f"{says}, but {PROJECT} needs {asked}", mend=mend)


def _examine(required: Requirement, tested: str) -> Finding | None:
    """None for a package as it should be."""
    name, asked = required.name, str(required.specifier)
    mend = f'{sys.executable} -m pip install "{name}{asked}"'
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(check=name, state="problem", says=f"{name} is not installed", mend=mend)
    if not required.specifier.contains(version, prereleases=True):
        says = f"{name} is {version}, but {PROJECT} needs {asked}"
        return Finding(check=name, state="problem", says=says, mend=mend)
    if name in CORE and tested and _release(version) > _release(tested):
        mend = f'{sys.executable} -m pip install "{name}=={tested}" if results look wrong'
        says = f"{name} is {version}, newer than {tested}, with which the tests passed"
        return Finding(check=name, state="warning", says=says, mend=mend)
    return None


def _release(version: str) -> tuple[int, ...]:
    """Major and minor: patches of a tested version are trusted."""
    from packaging.version import Version

    return Version(version).release[:2]
