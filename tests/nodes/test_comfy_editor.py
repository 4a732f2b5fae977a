"""What ComfyUI offers as templates: its editor's own format, made from our workflows, and good for its page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latentloom.nodes.comfy_editor import EXAMPLES, editor_file, example_text
from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.graph.resolve import upgrade
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.hosts.comfy_file import from_comfy
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.registry import SPECS
from support.folded import paintings
from support.prepared import to_comfy

FILES = shipped_files()


def catalog() -> dict[str, Any]:
    """As ComfyUI's /object_info, where no model is there yet: names of models are chosen from a list all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latentloom.nodes.hosts.comfyui.names", lambda kind: [])
        return {
            id: {"input": node.INPUT_TYPES(), "output": list(node.RETURN_TYPES)}
            for id, node in NODE_CLASS_MAPPINGS.items()
        }


CATALOG = catalog()


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "bench"))
        import comfyui_session

        yield comfyui_session


def test_there_is_an_example_for_every_workflow_and_none_too_many() -> None:
    assert sorted(path.name for path in EXAMPLES.iterdir()) == sorted(path.name for path in FILES)
    for other in ("example", "examples", "workflow", "workflows"):  # where ComfyUI looks besides
        assert list((EXAMPLES.parent / other).glob("*.json")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_are_what_is_made_of_the_workflows_and_their_boxes_do_not_overlap(path: Path) -> None:
    text = (EXAMPLES / path.name).read_text(encoding="utf-8")
    assert text == example_text(path) and not overlapping(json.loads(text)["nodes"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_comfyui_s_page_makes_the_prompt_of_an_example_that_we_export(path: Path, session: Any) -> None:
    graph = read_graph(path)
    ours, numbers = to_comfy(graph, SPECS), {name: str(number) for number, name in enumerate(graph.nodes, 1)}
    wanted = {
        numbers[name]: {socket.name: socket.default for socket in SPECS[node["class_type"]].inputs if is_widget(socket)}
        | {key: [numbers[v[0]], v[1]] if isinstance(v, list) else v for key, v in node["inputs"].items()}
        for name, node in ours.items()
    }
    made = session.prompt_of(json.loads((EXAMPLES / path.name).read_text(encoding="utf-8")), CATALOG)
    for name, node in made.items():
        node["inputs"] = {k: v for k, v in node["inputs"].items() if k != "path"}
        wanted[name].pop("path", None)  # a picture is called otherwise there
    assert {name: node["inputs"] for name, node in made.items()} == wanted


def test_the_editor_s_file_of_before_there_were_engines_gives_a_prompt_with_equal_values(session: Any) -> None:
    """Values stand there by place, and what is no socket any more stays at the node, unlinked."""
    file = json.loads((EXAMPLES / "first_picture.json").read_text(encoding="utf-8"))
    [load] = [node for node in file["nodes"] if node["type"] == "LoomLoadModel"]
    load["widgets_values"][-3:-1] = [True, False]  # compiled, cuda_graph; of what came later it has the default
    prompt = session.prompt_of(file, CATALOG)
    [(name, node)] = [(name, node) for name, node in prompt.items() if node["class_type"] == "LoomLoadModel"]
    graph, problems = upgrade(from_comfy({name: node}, SPECS), SPECS, {})
    [read] = graph.nodes.values()
    assert not problems and (read.inputs["engine"], read.inputs["graphs"]) == ("inductor", "auto")


def test_a_for_each_is_drawn_unfolded_and_its_boxes_do_not_overlap(session: Any) -> None:
    drawn = editor_file(paintings())
    made, ours = session.prompt_of(drawn, CATALOG), to_comfy(paintings(), SPECS)
    assert sorted(node["class_type"] for node in made.values()) == sorted(node["class_type"] for node in ours.values())
    assert not overlapping(drawn["nodes"])
    assert "for_each 'paint', element 2 ('a blue ring') / text" in [node.get("title") for node in drawn["nodes"]]


def is_widget(socket: Any) -> bool:
    return socket.type in ("int", "float", "bool", "string", "choice") and socket.default is not None


def overlapping(nodes: list[Any]) -> list[tuple[int, int]]:
    boxes = [(each["id"], *each["pos"], *each["size"]) for each in nodes]
    return [
        (one, other)
        for index, (one, x, y, wide, tall) in enumerate(boxes)
        for other, left, top, other_wide, other_tall in boxes[index + 1 :]
        if not (x + wide <= left or left + other_wide <= x or y + tall + 30 <= top or top + other_tall + 30 <= y)
    ]
