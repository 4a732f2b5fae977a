"""The checker finds every problem at once, and says what to do."""

from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.graph.problems import Problem
from latentloom.nodes.graph.signature import read_spec
from support.prepared import check


def found(problems: list[Problem]) -> set[tuple[str, str, str]]:
    return {(p.node, p.socket, p.code) for p in problems}


@pytest.mark.parametrize(
    ("node", "code", "words"),
    [
        (("Ad", {}), "unknown_type", "did you mean 'Add'"),
        (("Add", {"a": 1, "c": 2}), "unknown_input", "there is a, b"),
        (("Add", {}), "missing_input", "a is not given"),
        (("Save", {}), "missing_input", "wire a Image to it"),
        (("Add", {"a": "@nope.float"}), "unknown_node", "no node nope"),
        (("Add", {"a": "@numbr.int"}), "unknown_node", "did you mean 'number'"),
        (("Add", {"a": "@number.float"}), "unknown_output", "there is int"),
        (("Add", {"a": "@echo.string"}), "type_mismatch", "a string; it takes a float"),
        (("Save", {"image": 3}), "wrong_type", "wire a Image to it"),
        (("Add", {"a": "one"}), "wrong_type", "a is 'one'; it takes a number"),
        (("Add", {"a": True}), "wrong_type", "a is True"),
        (("Add", {"a": [1]}), "wrong_type", "a is [1]"),
        (("Add", {"a": None}), "wrong_type", "a is None"),
        (("Number", {"value": 1.5}), "wrong_type", "whole number"),
        (("Number", {"value": 101}), "out_of_range", "0 to 100"),
        (("Add", {"a": 10**30}), "out_of_range", "it takes"),
        (("Echo", {"mode": "quiet"}), "not_a_choice", "plain, loud"),
        (("Echo", {"text": "x" * 1_000_001}), "too_long", "1,000,001 characters"),
        (("Add", {"a": "$nope"}), "unknown_param", "the workflow lacks"),
        (("Add", {"a": "$word"}), "param_type", "param word is a string"),
    ],
)
def test_one_problem_is_found_and_explained(node: Any, code: str, words: str, toys: ModuleType) -> None:
    base = {"number": ("Number", {}), "echo": ("Echo", {})}
    graph = toys.graph({**base, "x": node}, params={"word": {"type": "string", "default": "w"}})
    (problem,) = check(graph, toys.SPECS)
    assert (problem.node, problem.code) == ("x", code)
    assert words in str(problem)


def test_a_good_graph_has_no_problems(toys: ModuleType) -> None:
    nodes = {
        "n": ("Number", {"value": 3}),
        "sum": ("Add", {"a": "@n.int", "b": 2}),
        "p": ("Picture", {}),
        "b": ("Blend", {"image": "@p.image", "other": None}),
    }
    assert check(toys.graph(nodes, outputs={"o": "sum.float"}), toys.SPECS) == []


def test_all_problems_are_reported_at_once(toys: ModuleType) -> None:
    graph = toys.graph(
        {
            "a": ("Add", {"a": "@b.float", "z": 1}),
            "b": ("Add", {"a": "@a.float"}),
            "c": ("Nope", {}),
            "d": ("Number", {"value": -1}),
        },
        outputs={"o": "gone.float", "p": "a.image"},
        params={"seed": {"type": "int"}, "mode": {"type": "choice", "default": "x", "choices": ["y"]}},
        requires={"latentloom": ">=99", "no-such-package": ">=1", "pydantic": "abc"},
    )
    assert found(check(graph, toys.SPECS, {"sed": 1, "x.y": 2, "d.valu": 3})) == {
        ("a", "z", "unknown_input"),
        ("a", "", "cycle") if ("a", "", "cycle") in found(check(graph, toys.SPECS)) else ("b", "", "cycle"),
        ("c", "", "unknown_type"),
        ("d", "value", "out_of_range"),
        ("d", "valu", "unknown_input"),
        ("", "o", "unknown_node"),
        ("", "p", "unknown_output"),
        ("", "seed", "missing_param"),
        ("", "mode", "not_a_choice"),
        ("", "sed", "unknown_param"),
        ("", "x.y", "unknown_node"),
        ("", "latentloom", "requires_unmet"),
        ("", "no-such-package", "requires_unmet"),
        ("", "pydantic", "requires_unmet"),
    }


def test_requires_asks_the_given_lookup(toys: ModuleType) -> None:
    graph = toys.graph({}, requires={"pack": ">=1,<2"})
    assert check(graph, toys.SPECS, require=lambda name: "1.5") == []
    assert "pack >=1,<2, and 2.0 is installed" in str(check(graph, toys.SPECS, require=lambda name: "2.0")[0])


def test_nan_from_python_is_refused(toys: ModuleType) -> None:
    graph = toys.graph({"a": ("Add", {"a": 1})})
    assert found(check(graph, toys.SPECS, {"a.a": float("nan")})) == {("a", "a", "not_a_number")}


def test_override_replaces_a_link_and_is_checked(toys: ModuleType) -> None:
    graph = toys.graph({"n": ("Number", {}), "a": ("Add", {"a": "@n.int"})})
    assert check(graph, toys.SPECS, {"a.a": 2, "n.value": 5}) == []
    assert found(check(graph, toys.SPECS, {"n.value": 500})) == {("n", "value", "out_of_range")}


def test_each_cycle_is_named(toys: ModuleType) -> None:
    pairs = {}
    for i in range(3):
        pairs[f"a{i}"] = ("Add", {"a": f"@b{i}.float"})
        pairs[f"b{i}"] = ("Add", {"a": f"@a{i}.float"})
    problems = check(toys.graph({**pairs, "self": ("Add", {"a": "@self.float"})}), toys.SPECS)
    assert [p.code for p in problems] == ["cycle"] * 4


def test_newer_node_is_refused_and_older_one_migrates(toys: ModuleType) -> None:
    def new_add(first: float, second: float = 1.0) -> float:
        return first + second

    def rename(version: int, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"first": inputs["a"], "second": inputs.get("b", 1.0)}

    newer = read_spec(new_add, id="Add", title="Add", category="toys", version=2, migrate=rename)
    without = read_spec(new_add, id="Add", title="Add", category="toys", version=2)
    graph = toys.graph({"x": ("Add", {"a": 1})})
    assert check(graph, {"Add": newer}) == []
    assert found(check(graph, {"Add": without})) == {("x", "", "no_migration")}
    saved = graph.model_copy(update={"nodes": {"x": graph.nodes["x"].model_copy(update={"version": 3})}})
    assert found(check(saved, {"Add": newer})) == {("x", "", "node_too_new")}
    broken = toys.graph({"x": ("Add", {"b": 1})})
    assert found(check(broken, {"Add": newer})) == {("x", "", "no_migration")}
