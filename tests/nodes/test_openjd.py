"""The template of an Open Job Description: what it says, and that its commands are ours."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from latentloom.__main__ import main

FIRST = str(Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json")
SMALL = [part for text in ("width=64", "height=64") for part in ("--set", f"empty_latents.{text}")]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`written("--sweep", "seed=1..4")` gives the template of the first picture."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIRST, "first.json")

    def write(*options: str, file: str = "first.json") -> dict[str, Any]:
        assert main(["openjd", file, *SMALL, *options]) == 0
        text = capsys.readouterr().out
        (tmp_path / "job.json").write_text(text)
        return json.loads(text)

    return write


def spaces(template: dict[str, Any]) -> dict[str, Any]:
    found = template["steps"][0].get("parameterSpace", {"taskParameterDefinitions": []})
    return {each.pop("name"): each for each in found["taskParameterDefinitions"]}


def arguments(template: dict[str, Any], **task: str) -> list[str]:
    """Those of a task, with the parameters' defaults in."""
    values = {f"Param.{each['name']}": str(each["default"]) for each in template["parameterDefinitions"]}
    values |= {f"Task.Param.{name}": value for name, value in task.items()}
    action = template["steps"][0]["script"]["actions"]["onRun"]
    assert action["command"] == "latentloom"
    return [re.sub(r"\{\{(.*?)\}\}", lambda found: values[found[1]], text) for text in action["args"]]


def test_params_are_parameters_of_the_job_and_what_is_swept_is_of_its_tasks(written: Any) -> None:
    options = ["--set", "prompt=a ring", "--sweep", "seed=3..9:3", "--sweep", 'negative_prompt=["a, b", "c"]']
    found = written(*options, "--sweep", "denoise.guidance=1,2.5")
    assert "extensions" not in found
    assert {each["name"]: (each["type"], each["default"]) for each in found["parameterDefinitions"]} == {
        "Workflow": ("PATH", "first.json"),
        "Out": ("PATH", "output"),
        "prompt": ("STRING", "a ring"),
    }
    assert spaces(found) == {
        "seed": {"type": "INT", "range": [3, 6, 9]},
        "negative_prompt": {"type": "STRING", "range": ['["a, b"]', "c"]},
        "denoise_guidance": {"type": "FLOAT", "range": [1.0, 2.5]},
    }


def test_a_chunk_is_of_the_longest_whole_number(written: Any) -> None:
    found = written("--sweep", "seed=1..5", "--sweep", "denoise.steps=1,2", "--chunk", "2")
    chunks = {"defaultTaskCount": 2, "rangeConstraint": "NONCONTIGUOUS"}
    assert found["extensions"] == ["TASK_CHUNKING"]
    assert spaces(found)["seed"] == {"type": "CHUNK[INT]", "range": "1-5", "chunks": chunks}
    assert spaces(written()) == {}


def test_a_path_from_the_root_is_a_text(written: Any) -> None:
    found = written(file=FIRST)["parameterDefinitions"][0]
    assert found == {"name": "Workflow", "type": "STRING", "default": FIRST}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--chunk", "2", "--sweep", "denoise.guidance=1,2.5"], "--chunk 2 has nothing to group; sweep whole numbers"),
        (["--set", "prompt={{Param.Out}}"], "has {{, which means a parameter in a template"),
        (["--set", "sed=1"], "did you mean 'seed'?"),
    ],
)
def test_what_is_no_template_is_refused(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openjd", FIRST, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_task_runs_tells_its_progress_and_fails_with_an_exit_code(
    written: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = written("--sweep", "denoise.steps=1..4", "--chunk", "2", "--run=--stop-on-error --no-cache")
    assert main(arguments(found, denoise_steps="1-2")) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("openjd_")]
    assert told == ["openjd_progress: 50", "openjd_progress: 100"]
    assert sorted(path.parent.name for path in tmp_path.rglob("picture.png")) == ["denoise.steps=1", "denoise.steps=2"]
    assert main([*arguments(found, denoise_steps="1-2"), "--set", "sed=1"]) == 2
    assert capsys.readouterr().out.startswith("openjd_fail: 'sed' is no param of this workflow; did you mean")
    (tmp_path / "output" / "denoise.steps=3").write_text("in the way")
    assert main(arguments(found, denoise_steps="2-3")) == 75
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("openjd_")]
    assert told[0].startswith("openjd_fail: save.name: ") and told[1:] == ["openjd_progress: 50"]  # it stops there


@pytest.mark.skipif(not shutil.which("openjd"), reason="needs openjd-cli")
def test_openjd_takes_the_template(written: Any, tmp_path: Path) -> None:
    written("--sweep", "seed=1..4", "--sweep", "denoise.guidance=1..2:0.5", "--chunk", "2")
    checked = subprocess.run(["openjd", "check", "job.json"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert checked.returncode == 0, checked.stdout
