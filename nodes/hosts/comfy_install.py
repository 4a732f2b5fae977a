"""Our nodes put into a ComfyUI: a link in its custom_nodes, and what its Python lacks of our requirements.

Torch, and what ComfyUI's own requirements.txt names, stay as they are: pip is told their versions as constraints, and
where it finds nothing under these, or one of them is not what we need, that is said and nothing is changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ...parallel.machine.folders import text_of
from ...parallel.pool.pool import check_platform
from ...pipelines.doctor.packages import asked

PACKAGE = Path(__file__).resolve().parents[2]  # a checkout, or what pip installed
NAME = "latentloom"  # of the link
MARKS = ("main.py", "comfyui_version.py", "custom_nodes")  # what a folder of ComfyUI has
REQUIREMENTS = "requirements.txt"
PYTHONS = ("bin/python", "Scripts/python.exe", "python.exe")
HOMES = ("venv", ".venv", "../python_embeded")  # of such a Python; the last is that of ComfyUI's portable build
TORCH = ("torch", "torchvision", "torchaudio")
PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check")
ASK_S, PIP_S = 60.0, 3600.0
# Run by ComfyUI's Python: versions of its packages, of two of one name that of the one it imports; and its own.
ASK = """import json, sys
from importlib import metadata
found = {each.metadata["Name"] or "": each.version for each in reversed(list(metadata.distributions()))}
print(json.dumps({**found, "python": sys.version.split()[0]}))"""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A package that is not as it is needed, or that pip puts into its place; "" for none."""

    name: str
    found: str
    wanted: str


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was found and done, or would be done."""

    comfyui: str  # its version
    python: str
    torch: str
    link: str
    was_linked: bool
    lacking: tuple[Change, ...]
    changes: tuple[Change, ...]  # all that pip installs for these
    is_dry: bool
    note: str  # what will not run on this system


def install(folder: Path, *, python: Path | None = None, is_dry: bool = False) -> Installed:
    """Link this package into the ComfyUI at `folder`, and install what its Python lacks; `is_dry` changes nothing.

    Raises `ValueError`, and has changed nothing, for a folder that is no ComfyUI, another thing in the link's place, no
    Python that runs it, and what pip cannot do.
    """
    if lost := [name for name in MARKS if not (folder / name).exists()]:
        raise ValueError(f"{folder} is no ComfyUI: it has no {lost[0]}; name the folder that has {' and '.join(MARKS)}")
    link, was_linked = _link(folder.resolve())
    pythons = (folder / home / each for home in HOMES for each in PYTHONS)
    runs = python or next(filter(Path.is_file, pythons), None)
    if runs is None:
        told = f"{folder} has no Python in {' or '.join(HOMES)}"
        raise ValueError(f"{told}; name the one that runs it: --python PYTHON")
    runs = runs.absolute()  # unresolved: a virtual environment's is a link
    there = _packages(runs)
    lacking = tuple(_lacking(there))
    changes = tuple(_pip(runs, folder, there, lacking, is_dry=is_dry)) if lacking else ()
    if not (was_linked or is_dry):
        try:
            link.symlink_to(PACKAGE, target_is_directory=True)
        except OSError as error:
            raise ValueError(f"{link} cannot be made ({error.strerror}); link {PACKAGE} there yourself") from None
    note = ""
    try:
        check_platform()
    except ValueError as error:
        note = f"Spread Model: {error}"
    return Installed(
        comfyui="".join(re.findall(r"__version__ *= *[\"'](.*?)[\"']", text_of(folder / MARKS[1]))),
        python=str(runs),
        torch=there.get("torch", ""),
        link=str(link),
        was_linked=was_linked,
        lacking=lacking,
        changes=changes,
        is_dry=is_dry,
        note=note,
    )


def _link(folder: Path) -> tuple[Path, bool]:
    """Where the link is to be, or what is there of this package under any name; and whether it is."""
    for each in sorted((folder / "custom_nodes").iterdir()):
        if each.resolve() == PACKAGE:
            return each, True
    link = folder / "custom_nodes" / NAME
    if link.is_symlink() or link.exists():
        what = f"a link to {link.readlink()}" if link.is_symlink() else "a folder" if link.is_dir() else "a file"
        raise ValueError(f"{link} is there, {what} and not {PACKAGE}; move it away, then install again")
    return link, False


def _packages(python: Path) -> Mapping[str, str]:
    """Versions of its packages by name."""
    try:
        done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True, timeout=ASK_S)
        return {canonicalize_name(name): version for name, version in json.loads(done.stdout).items()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = str(getattr(error, "stderr", "") or error).strip().splitlines()[-1]
        raise ValueError(f"{python} is no Python that runs ({why}); name ComfyUI's: --python PYTHON") from None


def _lacking(there: Mapping[str, str]) -> Iterator[Change]:
    """What of our requirements is not there, or is another version; `ValueError` for an unfit Python or torch."""
    python, lines = asked(PACKAGE)
    needs = [Requirement(f"python{python}"), *(each for each in map(Requirement, lines) if each.name == "torch")]
    for need in [*needs, *_needs_of(PACKAGE)]:
        version = there.get(canonicalize_name(need.name), "")
        if version and need.specifier.contains(version, prereleases=True):
            continue
        if need in needs:
            told = f"{need.name} {version}" if version else f"no {need.name}"
            raise ValueError(f"ComfyUI's Python has {told}, and {NAME} needs {need}; that is yours to change")
        yield Change(name=need.name, found=version, wanted=str(need.specifier))


def _needs_of(folder: Path) -> list[Requirement]:
    """What a requirements.txt names; its options and addresses are left out."""
    found = []
    for line in text_of(folder / REQUIREMENTS).splitlines():
        try:
            need = Requirement(line.partition("#")[0].strip())
        except InvalidRequirement:
            continue
        if need.marker is None or need.marker.evaluate():
            found.append(need)
    return found


def _pip(
    python: Path, folder: Path, there: Mapping[str, str], lacking: Sequence[Change], *, is_dry: bool
) -> Iterator[Change]:
    """What pip installs, or would install, so that these are there. Raises `ValueError` where it cannot."""
    pins = {canonicalize_name(need.name): need.specifier for need in _needs_of(folder)} | dict.fromkeys(TORCH, "")
    for row in lacking:
        if row.found and canonicalize_name(row.name) in pins:
            told = f"{row.name} {row.found} is ComfyUI's, and {NAME} needs {row.wanted}"
            raise ValueError(f'{told}; change it yourself: {python} -m pip install "{row.name}{row.wanted}"')
    needs = [f"{row.name}{row.wanted}" for row in lacking]
    kept = [f"{name}=={there[name]}" if name in there else f"{name}{asked_for}" for name, asked_for in pins.items()]
    with tempfile.TemporaryDirectory() as room:
        constraints, report = Path(room) / "constraints.txt", Path(room) / "report.json"
        constraints.write_text("\n".join(kept))
        command = [python, *PIP, "-c", constraints, *needs]
        try:
            tried = [*command, "--dry-run", "--report", report]
            done = subprocess.run(tried, capture_output=True, text=True, check=False, timeout=PIP_S)
            if not done.returncode and not is_dry:  # its lines are shown as they come
                done = subprocess.run(command, stdout=2, text=True, check=False, timeout=PIP_S)
        except subprocess.TimeoutExpired:
            raise ValueError(f"pip of {python} did not end within {PIP_S:.0f} s; try again") from None
        if done.returncode:
            lines = (done.stderr or "").strip().splitlines() or ["see above"]
            why = next((line.partition(": ")[2] for line in lines if line.upper().startswith("ERROR: ")), lines[-1])
            if held := re.findall(r"\(constraint\) (\S+)", done.stdout or ""):  # pip's account of a conflict
                why = f"{', '.join(sorted({*held}))} would have to change"
            told = f"with torch and ComfyUI's packages as they are pip cannot install {', '.join(needs)}: {why}"
            raise ValueError(f"{told}; install them yourself with {python}")
        for row in (each["metadata"] for each in json.loads(report.read_text())["install"]):
            yield Change(name=row["name"], found=there.get(canonicalize_name(row["name"]), ""), wanted=row["version"])


def as_text(found: Installed) -> str:
    """For people."""
    verbs = ("would be linked", "would install") if found.is_dry else ("is linked now", "installed")
    lacking = [f"{each.name}{each.wanted} (has {each.found or 'none'})" for each in found.lacking]
    changes = [f"{each.name} {each.wanted}{each.found and f' for {each.found}'}" for each in found.changes]
    lines = [
        f"ComfyUI {found.comfyui}, its Python {found.python}, torch {found.torch}",
        f"{found.link}: {'is there already' if found.was_linked else verbs[0]}, to {PACKAGE}",
        f"its Python lacks {', '.join(lacking)}" if lacking else "its Python has all that is required",
        *([f"{verbs[1]} {', '.join(changes)}"] if changes else ()),
        *filter(None, [found.note]),
    ]
    return "\n".join(lines)
