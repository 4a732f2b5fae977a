"""Vary Text: choices and lines of files, by a seed; what was made of them is kept with the result."""

import json
from pathlib import Path
from typing import Any

import pytest

from latentloom.nodes import vary_text
from latentloom.nodes.execution.cache import MemoryCache
from latentloom.nodes.execution.manifest import manifest, told_by, write_manifest
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, graph_from_plain
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.registry import SPECS
from latentloom.ui.worker.work import behind, told_of
from support.prepared import foretell, run

FIRST = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """Whose run may read the wildcards beside it."""
    root = tmp_path / "mine"
    write(root, "colour", "# of a shape\n\nred\nblue\ndark {green|grey}\n")
    write(root, "of/shape", "__colour__ star\nring\n")
    return Workspace(output_dir=tmp_path / "out", roots=(root,))


def write(root: Path, name: str, text: str | bytes) -> None:
    path = root / "wildcards" / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def test_a_text_varies_by_its_seed_and_is_the_same_for_the_same_one() -> None:
    text = "a {red|blue|dark {green|grey}} star \\{{1|2}\\}"
    made = [vary_text(text, seed=seed) for seed in range(40)]
    assert made == [vary_text(text, seed=seed) for seed in range(40)]
    colours = ("red", "blue", "dark green", "dark grey")
    assert set(made) == {f"a {colour} star {{{number}}}" for colour in colours for number in (1, 2)}
    assert vary_text("plain | \\n", seed=3) == "plain | \\n"
    for wrong, why in (("{a", "without a }"), ("a}", "without a {"), ("{" * 17 + "}" * 17, "more than 16 deep")):
        with pytest.raises(ValueError, match=why):
            vary_text(wrong)


def test_a_line_of_a_file_is_taken_by_the_seed_where_that_is_asked_for(workspace: Workspace) -> None:
    text = "a __of/shape__ on __colour__, __not a name__, \\__colour__"
    made = [vary_text(text, seed=seed, wildcards=True, workspace=workspace) for seed in range(60)]
    assert made == [vary_text(text, seed=seed, wildcards=True, workspace=workspace) for seed in range(60)]
    colours = ("red", "blue", "dark green", "dark grey")
    shapes = ("ring", *(f"{colour} star" for colour in colours))
    assert set(made) <= {f"a {s} on {c}, __not a name__, __colour__" for s in shapes for c in colours}
    assert len(set(made)) > 10
    assert vary_text("a __colour__", seed=3, workspace=workspace) == "a __colour__"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__nothing__", "takes a line of wildcards/nothing.txt, which no folder of this run has; write the file"),
        ("__empty__", "holds no text; write one a line"),
        ("__bytes__", "no text in UTF-8"),
        ("__large__", "more than the 1048576 bytes"),
        ("__linked__", "outside the allowed folders"),
        ("__again__", "deep; make it plainer|more than 1000 lines"),
        ("__colour__" * 1001, "more than 1000 lines from files"),
    ],
)
def test_what_is_wrong_with_a_wildcard_is_one_sentence_before_the_run(
    text: str, why: str, workspace: Workspace, tmp_path: Path
) -> None:
    (root,) = workspace.roots or ()
    write(root, "empty", "# nothing\n")
    write(root, "bytes", b"\xff\xfe\x00")
    write(root, "large", b"a" * (1 << 20 | 1))
    write(root, "again", "__again__ __again__")
    (tmp_path / "secret.txt").write_text("secret")
    (root / "wildcards" / "linked.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ValueError, match=why):
        vary_text(text, wildcards=True, workspace=workspace)
    found = foretell(workflow(text), SPECS, workspace=workspace, machine=[]).problems
    assert [(each.node, each.socket) for each in found if each.kind == "error"] == [("vary", "text")]


def test_the_prompt_that_was_made_is_kept_with_the_result_and_a_changed_file_makes_another(
    workspace: Workspace,
) -> None:
    (root,) = workspace.roots or ()
    write(root, "colour", "red\n")
    write(root, "star", "__colour__ star\n")
    graph, cache = workflow("a __star__"), MemoryCache(1 << 30)
    for colour, is_made in (("red", True), ("red", False), ("blue", True)):
        write(root, "colour", f"{colour}\n")
        result = run(graph, SPECS, workspace=workspace, memory_cache=cache)
        assert result.state == "ok" and (result.nodes["vary"].cached == "no") is is_made
        assert manifest(workspace.output_dir, graph, result, {})["nodes"]["vary"]["values"]["text"] == "a __star__"
        write_manifest(workspace.output_dir, graph, result, {})
        values = {name: node.values for name, node in told_by(workspace.output_dir).nodes.items()}
        assert told_of(behind(ready(graph, SPECS), "save", values))["prompt"] == f"a {colour} star"


def workflow(text: str) -> Graph:
    plain: dict[str, Any] = json.loads(FIRST.read_text())
    del plain["params"]["prompt"]
    inputs = {"text": text, "wildcards": True, "seed": {"param": "seed"}}
    plain["nodes"]["vary"] = {"type": "LoomVaryText", "version": 1, "inputs": inputs}
    plain["nodes"]["encode_text"]["inputs"]["prompt"] = {"from": "vary.text"}
    plain["nodes"]["denoise"]["inputs"]["steps"] = 1
    return graph_from_plain(plain)
