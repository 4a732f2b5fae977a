"""`latentloom comfy install` at a folder that looks like a ComfyUI, with a script in the place of its Python."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from latentloom.__main__ import main
from latentloom.nodes.hosts import comfy_install
from latentloom.nodes.hosts.comfy_install import as_text, install
from support.checkout import ROOT

# Answers as a Python does whose packages stand in a file beside it, and notes what its pip is asked. What pip finds
# stands in a second file: packages, or the error that it ends with.
PYTHON = f"""#!{sys.executable}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1] == "-c":
    print(json.dumps(json.loads((here / "packages.json").read_text())))
    sys.exit()
words = sys.argv[4:]
asked = {{"words": words, "constraints": pathlib.Path(words[words.index("-c") + 1]).read_text().split()}}
with (here / "asked").open("a") as file:
    print(json.dumps(asked), file=file)
found = json.loads((here / "found.json").read_text())
if "error" in found:
    print(found.get("out", ""))
    sys.exit(found["error"])
rows = [{{"metadata": {{"name": name, "version": version}}}} for name, version in found.items()]
if "--report" in words:
    pathlib.Path(words[words.index("--report") + 1]).write_text(json.dumps({{"install": rows}}))
"""
OURS = {  # as requirements.txt asks for them
    **{"diffusers": "0.42.1", "transformers": "5.23.0", "huggingface-hub": "2.4.0", "accelerate": "1.15.0"},
    **{"safetensors": "0.8.0", "peft": "0.21.2", "pydantic": "2.14.3", "Pillow": "12.3.0", "numpy": "2.4.6"},
    **{"av": "18.1.0", "tqdm": "4.70.1", "psutil": "7.2.2", "packaging": "26.3", "sentencepiece": "0.2.3"},
    **{"protobuf": "7.36.2", "ftfy": "6.3.1"},
}
THERE = {**OURS, "torch": "2.13.0+cu130", "torchvision": "0.28.0", "einops": "0.8"}
REQUIREMENTS = (
    "torch\ntorchvision\nnumpy>=1.25.0\ntransformers>=4.50.3\neinops # of blocks\n\n-r other\nkornia>=0.7.1\n"
)


class Comfy:
    """A folder that looks like a ComfyUI with a virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "venv" / "bin"
        self.home.mkdir(parents=True)
        (folder / "custom_nodes").mkdir()
        (folder / "main.py").touch()
        (folder / "comfyui_version.py").write_text('__version__ = "0.33.0"\n')
        (folder / "requirements.txt").write_text(REQUIREMENTS)
        (self.home / "python").write_text(PYTHON)
        (self.home / "python").chmod(0o755)
        self.link = folder / "custom_nodes" / "latentloom"

    def has(
        self, packages: Mapping[str, str], *, python: str = "3.12.1", finds: Mapping[str, str] | None = None
    ) -> None:
        (self.home / "packages.json").write_text(json.dumps({**packages, "python": python}))
        (self.home / "found.json").write_text(json.dumps(finds or {}))

    def asked(self) -> list[dict[str, Any]]:
        file = self.home / "asked"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def comfy(tmp_path: Path) -> Comfy:
    found = Comfy(tmp_path / "ComfyUI")
    found.has(THERE)
    return found


def without(*names: str, **others: str) -> dict[str, str]:
    return {name: version for name, version in THERE.items() if name not in names} | others


def test_the_folder_is_linked_where_nothing_lacks_and_pip_is_not_asked(comfy: Comfy) -> None:
    found = install(comfy.folder)
    assert (found.comfyui, found.torch, found.was_linked) == ("0.33.0", "2.13.0+cu130", False)
    assert (found.lacking, found.changes, comfy.asked()) == ((), (), [])
    assert comfy.link.resolve() == ROOT
    again = install(comfy.folder)
    assert again.was_linked and "is there already" in as_text(again)


def test_a_clone_in_custom_nodes_under_any_name_is_no_second_one(comfy: Comfy) -> None:
    (comfy.folder / "custom_nodes" / "loom-main").symlink_to(ROOT)
    assert install(comfy.folder).was_linked and not comfy.link.exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda link: link.mkdir(), "a folder and not"),
        (lambda link: link.write_text(""), "a file and not"),
        (lambda link: link.symlink_to("/nowhere"), "a link to /nowhere and not"),
    ],
)
def test_another_thing_in_its_place_is_never_overwritten(
    comfy: Comfy, make: Callable[[Path], None], words: str
) -> None:
    make(comfy.link)
    before = comfy.link.lstat()
    with pytest.raises(ValueError, match=words):
        install(comfy.folder)
    assert comfy.link.lstat() == before


@pytest.mark.parametrize("name", ["main.py", "comfyui_version.py", "custom_nodes"])
def test_a_folder_that_is_no_comfyui_is_refused(comfy: Comfy, name: str) -> None:
    path = comfy.folder / name
    path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(ValueError, match=rf"is no ComfyUI: it has no {name}"):
        install(comfy.folder)


@pytest.mark.parametrize("home", ["venv/bin/python", ".venv/Scripts/python.exe", "../python_embeded/python.exe"])
def test_its_python_is_found_where_comfyui_s_installers_put_it(comfy: Comfy, home: str) -> None:
    python = comfy.folder / home
    (comfy.folder / "venv").rename(comfy.folder / "moved")
    python.parent.mkdir(parents=True)
    for each in (comfy.folder / "moved" / "bin").iterdir():
        each.rename(python.parent / each.name)
    if not python.exists():
        (python.parent / "python").rename(python)
    assert install(comfy.folder).python == str(python.absolute())


def test_without_a_python_the_flag_is_named_and_what_does_not_run_is_refused(comfy: Comfy, tmp_path: Path) -> None:
    (comfy.folder / "venv").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"has no Python in venv or \.venv or .*--python PYTHON"):
        install(comfy.folder)
    assert install(comfy.folder, python=tmp_path / "elsewhere" / "bin" / "python").comfyui == "0.33.0"
    with pytest.raises(ValueError, match=r"is no Python that runs \(.*--python PYTHON"):
        install(comfy.folder, python=comfy.folder / "main.py")


def test_a_dry_run_asks_pip_under_what_is_there_and_changes_nothing(comfy: Comfy) -> None:
    comfy.has(without("peft", "torchaudio", diffusers="0.35.0"), finds={"peft": "0.21.2", "Diffusers": "0.42.1"})
    found = install(comfy.folder, is_dry=True)
    assert not comfy.link.is_symlink()
    assert [(each.name, each.found) for each in found.lacking] == [("diffusers", "0.35.0"), ("peft", "")]
    assert [(each.name, each.found, each.wanted) for each in found.changes] == [
        ("peft", "", "0.21.2"),
        ("Diffusers", "0.35.0", "0.42.1"),
    ]
    [asked] = comfy.asked()
    assert "--dry-run" in asked["words"] and asked["words"][4:6] == ["diffusers<0.43,>=0.42.1", "peft>=0.17"]
    kept = ["torch==2.13.0+cu130", "torchvision==0.28.0", "numpy==2.4.6", "transformers==5.23.0", "einops==0.8"]
    assert sorted(asked["constraints"]) == sorted([*kept, "kornia>=0.7.1", "torchaudio"])
    assert "would install peft 0.21.2, Diffusers 0.42.1 for 0.35.0" in as_text(found)


def test_what_lacks_is_installed_under_the_same_constraints_and_then_linked(comfy: Comfy) -> None:
    comfy.has(without("peft"), finds={"peft": "0.21.2"})
    assert "installed peft 0.21.2" in as_text(install(comfy.folder))
    tried, done = comfy.asked()
    assert "--dry-run" in tried["words"] and "--dry-run" not in done["words"]
    assert tried["constraints"] == done["constraints"] and done["words"][-1] == "peft>=0.17"
    assert comfy.link.resolve() == ROOT


@pytest.mark.parametrize(
    ("packages", "python", "words"),
    [
        (without("torch"), "3.12.1", r"has no torch, and latentloom needs torch>=2\.10"),
        (without(torch="2.6.0"), "3.12.1", r"has torch 2\.6\.0, and latentloom needs torch>=2\.10"),
        (THERE, "3.10.4", r"has python 3\.10\.4, and latentloom needs python>=3\.11"),
        (without(transformers="4.57.1"), "3.12.1", r"transformers 4\.57\.1 is ComfyUI's, .*install \"transformers>=5"),
    ],
)
def test_what_is_comfyui_s_is_refused_and_not_changed(
    comfy: Comfy, packages: dict[str, str], python: str, words: str
) -> None:
    comfy.has(packages, python=python)
    with pytest.raises(ValueError, match=words):
        install(comfy.folder)
    assert comfy.asked() == [] and not comfy.link.is_symlink()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"error": "WARNING: odd\nERROR: No matching distribution found for peft"}, "No matching distribution found"),
        ({"error": "python: No module named pip"}, "python: No module named pip"),
        ({"error": "ERROR: odd", "out": "The user requested (constraint) wcwidth==1"}, "wcwidth==1 would have to"),
    ],
)
def test_what_pip_cannot_do_is_one_sentence_and_nothing_is_linked(
    comfy: Comfy, found: dict[str, str], words: str
) -> None:
    comfy.has(without("peft"), finds=found)
    with pytest.raises(ValueError, match=f"pip cannot install peft>=0.17: {words}") as refused:
        install(comfy.folder)
    assert "\n" not in str(refused.value) and len(comfy.asked()) == 1 and not comfy.link.is_symlink()


def test_where_ranks_cannot_be_it_says_so(comfy: Comfy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(comfy.folder).note == ""
    monkeypatch.setattr(sys, "platform", "win32")
    assert "Spread Model: several devices need Linux" in as_text(install(comfy.folder))


def test_what_pip_installed_has_its_requirements_with_it(
    comfy: Comfy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "latentloom"
    package.mkdir(parents=True)
    (package / "requirements.txt").write_text("oddity>=3\n")  # pyproject.toml is not there
    monkeypatch.setattr(comfy_install, "PACKAGE", package)
    found = install(comfy.folder, is_dry=True)
    assert [each.name for each in found.lacking] == ["oddity"]
    install(comfy.folder)
    assert comfy.link.resolve() == package


def test_the_command_answers_as_others_do(comfy: Comfy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comfy", "install", str(comfy.folder), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["comfyui"], told["was_linked"], told["is_dry"], told["changes"]) == ("0.33.0", False, True, [])
    assert main(["comfy", "install", str(comfy.home), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["code"]) == ("refused", "bad-input")
    with pytest.raises(SystemExit, match="2"):
        main(["comfy"])
    assert "usage: latentloom comfy" in capsys.readouterr().err
