"""A workflow as a script: it compiles, calls what there is, runs, and holds no code of a text."""

import ast
import inspect
import json
import runpy
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from latentloom import nodes
from latentloom.nodes.execution.attempt import attempt, open_caches
from latentloom.nodes.files.picture_files import read_picture
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, graph_from_plain, read_graph
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.python_script import to_python
from latentloom.nodes.registry import SPECS
from latentloom.ui.worker.work import made_by
from support.folded import paintings

HOSTILE = '"""\n\'); import os; os.abort() #\\\x00{}\u2028'


def graph_of(steps: dict[str, Any], **more: Any) -> Graph:
    return graph_from_plain({"format": 1, "name": HOSTILE[:20], "nodes": steps} | more)


@pytest.mark.parametrize("path", shipped_files(), ids=lambda path: path.stem)
def test_scripts_of_shipped_workflows_call_what_there_is_with_what_it_takes(path: Path) -> None:
    graph = read_graph(path)
    tree = ast.parse(to_python(ready(graph, SPECS)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    assert calls
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        signature = inspect.signature(getattr(nodes, call.func.attr))
        takes_more = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        assert takes_more or {each.arg for each in call.keywords} <= set(signature.parameters)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert set(graph.params) <= named


def test_a_script_gives_what_the_nodes_give_and_texts_stay_texts(tmp_path: Path) -> None:
    graph = graph_of(
        {
            "class": {"type": "LoomSeed", "inputs": {"value": 2}},  # a word of Python
            "nodes": {  # the module's name
                "type": "LoomChooseText",
                "title": HOSTILE,
                "inputs": {"lines": f"a\nb\n{HOSTILE.splitlines()[0]}", "index": {"from": "class.seed"}},
            },
            "join": {
                "type": "LoomJoinText",
                "inputs": {"first": {"from": "nodes.text"}, "second": {"param": "print"}, "separator": "+"},
            },
            "gone": {"type": "LoomJoinText", "mode": "mute", "inputs": {"first": "x"}},
        },
        params={"print": {"type": "string", "default": HOSTILE}},
        outputs={"result": {"from": "join.text"}},
    )
    script = tmp_path / "script.py"
    script.write_text(to_python(ready(graph, SPECS)), encoding="utf-8")
    made = runpy.run_path(str(script))
    assert made["join"] == nodes.join_text(made["nodes_"], HOSTILE, separator="+")
    assert made["print_"] == HOSTILE
    assert "gone" not in made


def test_a_script_makes_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = read_graph(next(path for path in shipped_files() if path.stem == "first_picture"))
    graph.nodes["denoise"].inputs["steps"] = 1
    (tmp_path / "script.py").write_text(to_python(ready(graph, SPECS)), encoding="utf-8")
    made = runpy.run_path("script.py")
    assert [Path(each).is_file() for each in made["save"].files] == [True]


def test_a_for_each_over_prompts_makes_by_a_script_what_a_run_makes_and_says_whose_each_picture_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = ready(paintings(("a red star", "a blue ring")), SPECS)
    workspace, quietly = Workspace(output_dir=tmp_path / "ran"), {"sink": lambda event: None, "cancel": Event()}
    ran, _ = attempt(prepared, workspace=workspace, caches=open_caches(None), **quietly)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(to_python(prepared), encoding="utf-8")
    script = runpy.run_path("script.py")["save"].files
    files = ran.nodes["save"].files
    pictures = [read_picture(Path(each)).numpy().tobytes() for each in (*files, *script)]
    assert pictures[:2] == pictures[2:] and pictures[0] != pictures[1]
    told = [each for each in json.loads((tmp_path / "ran" / "manifest.json").read_text())["outputs"] if "path" in each]
    assert [each["title"] for each in told] == [
        f"for_each 'paint', element {number} ({prompt!r}) / decode"
        for number, prompt in enumerate(("a red star", "a blue ring"), 1)
    ]
    made = made_by(ran, prepared, folder=tmp_path / "ran", output_dir=tmp_path / "ran")
    assert [(each.prompt, each.part) for each in made] == [
        ("a red star", "paint/1/decode"),
        ("a blue ring", "paint/2/decode"),
    ]
    assert "blue ring" not in made[0].words and "red star" in made[0].words and made[1].seed == 9


def test_a_for_each_over_a_folder_is_written_out_where_it_may_be_looked_into(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "b.png").touch()
    each = {"path": {"folder": str(tmp_path), "match": "*.png"}}
    graph = graph_of({"load": {"type": "LoomLoadImage", "each": each}}, format=2, outputs={"x": {"from": "load.image"}})
    assert "b.png" in to_python(ready(graph, SPECS, workspace=Workspace(roots=(tmp_path,))))
    with pytest.raises(GraphError, match="cannot be looked into"):
        to_python(ready(graph, SPECS))


def test_a_part_needs_only_what_feeds_it_and_what_is_wrong_is_refused() -> None:
    graph = read_graph(next(path for path in shipped_files() if path.stem == "first_picture"))
    assert "denoise" not in to_python(ready(graph, SPECS), ["empty_latents"])
    with pytest.raises(GraphError, match="latents"):
        to_python(ready(graph_of({"d": {"type": "LoomDenoise", "inputs": {}}}), SPECS), ["d"])
