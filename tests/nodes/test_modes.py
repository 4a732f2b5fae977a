"""Mute and bypass: what is switched off is as if it were not there."""

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.files.workspace import HERE, Workspace
from latentloom.nodes.graph.graph import graph_from_plain, graph_text, graph_to_plain, read_graph
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.hosts.comfy_file import from_comfy
from support.prepared import check, run, schedule, to_comfy


def switched(graph: Any, **modes: str) -> Any:
    """The graph with these nodes' modes."""
    nodes = {name: node.model_copy(update={"mode": modes.get(name, node.mode)}) for name, node in graph.nodes.items()}
    return graph.model_copy(update={"nodes": nodes})


def keys_of(graph: Any, toys: ModuleType) -> dict[str, str]:
    return dict(schedule(graph, toys.SPECS, overrides={}, workspace=HERE).keys)


@pytest.fixture
def sums(toys: ModuleType) -> Any:
    """first -> second -> third, each an Add; first starts from a number."""
    nodes = {
        "start": ("Number", {"value": 3}),
        "first": ("Add", {"a": "@start.int", "b": 1.0}),
        "second": ("Add", {"a": "@first.float", "b": 10.0}),
        "third": ("Add", {"a": "@second.float", "b": 100.0}),
    }
    return toys.graph(nodes, outputs={"sum": "third.float"})


def test_the_mode_is_kept_in_the_file_and_the_usual_one_is_not_written(sums: Any) -> None:
    graph = switched(sums, first="mute", third="bypass")
    text = graph_text(graph)
    assert read_graph(text) == graph
    assert text.count('"mode"') == 2
    plain = graph_to_plain(graph)["nodes"]["first"]
    assert list(plain) == ["type", "version", "mode", "inputs"]


def test_an_unknown_mode_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GraphError, match=r"nodes.a.mode' is 'off'.*'run', 'mute' or 'bypass'"):
        graph_from_plain({"format": 1, "name": "x", "nodes": {"a": {"type": "Add", "mode": "off"}}})


def test_a_graph_without_modes_is_left_as_it_is(sums: Any, toys: ModuleType) -> None:
    assert ready(sums, toys.SPECS).graph is sums


def test_bypass_equals_the_graph_without_the_node_and_so_do_its_cache_keys(sums: Any, toys: ModuleType) -> None:
    graph = switched(sums, second="bypass")
    nodes = {
        "start": ("Number", {"value": 3}),
        "first": ("Add", {"a": "@start.int", "b": 1.0}),
        "third": ("Add", {"a": "@first.float", "b": 100.0}),
    }
    without = toys.graph(nodes, outputs={"sum": "third.float"})
    assert ready(graph, toys.SPECS).graph == without
    assert keys_of(graph, toys) == keys_of(without, toys)
    assert run(graph, toys.SPECS).outputs == {"sum": 104.0}


def test_a_chain_of_bypassed_nodes_hands_on_from_its_start(sums: Any, toys: ModuleType) -> None:
    graph = switched(sums, first="bypass", second="bypass")
    assert check(graph, toys.SPECS) == []
    assert run(graph, toys.SPECS).outputs == {"sum": 103.0}
    last = ready(switched(sums, second="bypass", third="bypass"), toys.SPECS).graph
    assert last.outputs["sum"].source == "first.float"


def test_a_bypassed_node_without_a_fitting_input_is_as_muted(toys: ModuleType) -> None:
    nodes = {
        "picture": ("Picture", {"value": 255}),
        "black": ("Number", {"value": 0}),
        "other": ("Picture", {"value": "@black.int"}),
        "mix": ("Blend", {"image": "@picture.image", "other": "@other.image"}),
    }
    graph = toys.graph(nodes, outputs={"mix": "mix.image"})
    result = run(switched(graph, other="bypass"), toys.SPECS)
    assert float(result.outputs["mix"].pixels.max()) == 1.0  # not mixed with black
    with pytest.raises(GraphError, match="nothing is left to run"):
        run(switched(graph, picture="bypass"), toys.SPECS)


def test_bypass_hands_on_the_first_linked_input_of_the_outputs_type(toys: ModuleType) -> None:
    nodes = {
        "one": ("Picture", {"value": 10}),
        "two": ("Picture", {"value": 20}),
        "mix": ("Blend", {"image": "@one.image", "other": "@two.image"}),
        "save": ("Blend", {"image": "@mix.image"}),
    }
    graph = ready(switched(toys.graph(nodes), mix="bypass"), toys.SPECS).graph
    assert graph.nodes["save"].inputs["image"].source == "one.image"


def test_mute_takes_all_that_needs_the_node_and_only_the_link_where_it_is_optional(toys: ModuleType) -> None:
    nodes = {
        "start": ("Number", {"value": 3}),
        "sum": ("Add", {"a": "@start.int"}),
        "after": ("Add", {"a": "@sum.float"}),
        "optional": ("Add", {"a": 1.0, "b": "@sum.float"}),
    }
    graph = toys.graph(nodes, outputs={"gone": "after.float", "there": "optional.float"})
    result = run(switched(graph, start="mute"), toys.SPECS)
    assert result.outputs == {"there": 2.0}
    assert list(result.nodes) == ["optional"]


def test_a_muted_output_node_does_not_act(toys: ModuleType, tmp_path: Path) -> None:
    nodes = {
        "picture": ("Picture", {"value": 255}),
        "save": ("Save", {"image": "@picture.image"}),
        "show": ("Show", {"text": "hello"}),
    }
    graph = switched(toys.graph(nodes, outputs={"files": "save.saved"}), save="mute")
    result = run(graph, toys.SPECS, workspace=Workspace(output_dir=tmp_path))
    assert result.state == "ok" and toys.CALLS == ["show"]
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_nothing_is_refused_in_one_sentence(sums: Any, toys: ModuleType) -> None:
    with pytest.raises(GraphError, match=r"^nothing is left to run, because all outputs are muted or need a muted"):
        run(switched(sums, start="mute"), toys.SPECS)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("start", "start: it is muted; run it"),
        ("second", "second: it is bypassed and makes nothing of its own"),
        ("first", "first: it needs a node that is muted"),
        ("sum", "third: it needs a node that is muted"),
    ],
)
def test_a_target_that_is_left_out_says_why(target: str, words: str, sums: Any, toys: ModuleType) -> None:
    with pytest.raises(GraphError, match=words):
        run(switched(sums, start="mute", second="bypass"), toys.SPECS, targets=[target])


def test_problems_of_muted_nodes_are_not_told_and_those_of_others_are(toys: ModuleType) -> None:
    nodes = {
        "strange": ("NotInstalled", {"what": 1}),
        "wrong": ("Number", {"value": 10_000, "no_such": 1}),
        "circle": ("Add", {"a": "@circle.float"}),
        "good": ("Number", {"value": 1}),
    }
    graph = toys.graph(nodes, outputs={"n": "good.int"})
    codes = {problem.code for problem in check(graph, toys.SPECS)}
    assert codes == {"unknown_type", "out_of_range", "unknown_input", "cycle"}
    off = switched(graph, strange="mute", wrong="mute", circle="bypass")
    assert check(off, toys.SPECS) == []
    assert run(off, toys.SPECS).outputs == {"n": 1}
    only_one = switched(graph, strange="mute", circle="mute")
    assert {problem.node for problem in check(only_one, toys.SPECS)} == {"wrong"}


def test_a_muted_node_that_is_too_old_to_upgrade_is_no_problem(sums: Any, toys: ModuleType) -> None:
    specs = {**toys.SPECS, "Number": dataclasses.replace(toys.SPECS["Number"], version=2)}
    assert {problem.code for problem in check(sums, specs)} == {"no_migration"}
    assert check(switched(sums, start="mute"), specs) == []


def test_bypassed_nodes_in_a_circle_have_nothing_to_hand_on(toys: ModuleType) -> None:
    nodes = {
        "a": ("Add", {"a": "@b.float"}),
        "b": ("Add", {"a": "@a.float"}),
        "last": ("Add", {"a": 1.0, "b": "@a.float"}),
    }
    graph = switched(toys.graph(nodes, outputs={"sum": "last.float"}), a="bypass", b="bypass")
    assert run(graph, toys.SPECS).outputs == {"sum": 2.0}


def test_an_override_stands_in_for_the_link_of_a_muted_node(sums: Any, toys: ModuleType) -> None:
    graph = switched(sums, second="mute")
    assert run(graph, toys.SPECS, overrides={"third.a": 5.0}).outputs == {"sum": 105.0}
    assert check(graph, toys.SPECS, {"second.b": 1.0}) == []  # of a node that is there, though it does not run


def test_export_to_comfyui_leaves_out_and_rewires(sums: Any, toys: ModuleType) -> None:
    prompt = to_comfy(switched(sums, second="bypass"), toys.SPECS)
    assert list(prompt) == ["start", "first", "third"]
    assert prompt["third"]["inputs"] == {"a": ["first", 0], "b": 100.0}
    assert to_comfy(from_comfy(prompt, toys.SPECS), toys.SPECS) == prompt
    assert list(to_comfy(switched(sums, third="mute"), toys.SPECS)) == ["start", "first", "second"]
