"""Values from the command line, typed by the workflow."""

from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.files.workspace import HERE
from latentloom.nodes.headless.job import check_apart, parse_sweep, split_set, typed_values

PARAMS = {
    "prompt": {"type": "string", "default": "a"},
    "seed": {"type": "int", "default": 1, "min": 0, "max": 5000},
    "scale": {"type": "float", "default": 1},
    "flag": {"type": "bool", "default": False},
    "mode": {"type": "choice", "default": "x", "choices": ["x", "y"]},
}


@pytest.fixture
def graph(toys: ModuleType) -> Any:
    return toys.graph({"sum": ("Add", {"a": 1}), "save": ("Save", {"image": "@sum.image"})}, params=PARAMS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt=a = b, c", {"prompt": "a = b, c"}),
        ("prompt=", {"prompt": ""}),
        ("prompt=3", {"prompt": "3"}),
        ("seed=3", {"seed": 3}),
        ("scale=3", {"scale": 3.0}),
        ("scale=1e-3", {"scale": 0.001}),
        ("flag=Yes", {"flag": True}),
        ("flag=0", {"flag": False}),
        ("mode=y", {"mode": "y"}),
        ("sum.b=2", {"sum.b": 2.0}),
    ],
)
def test_set_gives_typed_values(text: str, expected: dict, graph: Any, toys: ModuleType) -> None:
    assert typed_values(graph, toys.SPECS, split_set([text]), workspace=HERE) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed", "write --set seed=VALUE"),
        ("=3", "names no value"),
        ("sed=3", "did you mean 'seed'"),
        ("seed=x", "seed is 'x'; it takes a whole number"),
        ("seed=1.5", "whole number"),
        ("seed=5001", "0 to 5000"),
        ("seed=" + "9" * 5000, "whole number"),
        ("scale=nan", "finite"),
        ("flag=maybe", "true or false"),
        ("mode=z", "choose one of x, y"),
        ("som.b=2", "did you mean 'sum'"),
        ("sum.c=2", "there is a, b"),
        ("save.image=2", "save.image takes no value but a Image, which another node makes; link it"),
    ],
)
def test_set_explains_what_is_wrong(text: str, words: str, graph: Any, toys: ModuleType) -> None:
    with pytest.raises(ValueError) as caught:
        typed_values(graph, toys.SPECS, split_set([text]), workspace=HERE)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("seed=1..4", [1, 2, 3, 4]),
        ("seed=7,5", [7, 5]),
        ("seed=1..9:2", [1, 3, 5, 7, 9]),
        ("seed=1..8:3,20", [1, 4, 7, 20]),
        ("seed=1-4", [1, 2, 3, 4]),
        ("seed=1-3,5,8-12:2", [1, 2, 3, 5, 8, 10, 12]),
        ("scale=0.1..0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("scale=0.5..2.0:0.25", [0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]),
        ("scale=-0.2..0.15:0.1", [-0.2, -0.1, 0.0, 0.1]),
        ("scale=-1..1", [-1, 0, 1]),
        ("scale=0.5,1", [0.5, 1.0]),
        ("flag=true,false", [True, False]),
        ("mode=x,y", ["x", "y"]),
        ("prompt=a fox,a hen", ["a fox", "a hen"]),
        ('prompt=["a, b", "c"]', ["a, b", "c"]),
        ("prompt=1..4", ["1..4"]),
        ("sum.b=1,2", [1.0, 2.0]),
    ],
)
def test_sweep_gives_a_run_for_each_value(text: str, values: list, graph: Any, toys: ModuleType) -> None:
    name = text.partition("=")[0]
    assert parse_sweep(graph, toys.SPECS, [text], given={}, workspace=HERE) == [{name: value} for value in values]


def test_sweeps_multiply_and_the_last_changes_fastest(graph: Any, toys: ModuleType) -> None:
    runs = parse_sweep(graph, toys.SPECS, ["mode=x,y", "seed=1..2"], given={}, workspace=HERE)
    assert runs == [{"mode": m, "seed": s} for m in "xy" for s in (1, 2)]
    assert parse_sweep(graph, toys.SPECS, [], given={}, workspace=HERE) == [{}]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["seed=4..1"], "write seed=1..4"),
        (["seed=1..99999999999"], "at most 10000"),
        (["seed=1..5", "seed=7"], "given twice"),
        (["seed=0..4999", "scale=1,2,3"], "15000 runs"),
        (["seed=1,x"], "seed is 'x'"),
        (["prompt=[1]"], "it takes text"),
        (["prompt=["], "no JSON list"),
        (["prompt=[]"], "no values"),
        (["seed"], "write --sweep seed=1..4"),
        (["scale=1.0..2.0"], "has no step; write one behind it, as 0.5..2.0:0.25"),
        (["scale=1..2:-1"], "has the step -1; give one above 0"),
        (["scale=0..1:0.00001"], "has 100001 values; at most 10000"),
        (["scale=2.0..1.0:0.5"], "write scale=1.0..2.0:0.5"),
        (["seed=0.5..2.5:1"], "seed is 0.5; it takes a whole number"),
        (["seed=1..9..2"], "seed=1..9..2 is no range; write one as 1..4, 1..9:2 or 0.5..2.0:0.25"),
        (["seed=-1-4"], "seed is '-1-4'; it takes a whole number"),
    ],
)
def test_sweep_explains_what_is_wrong(texts: list[str], words: str, graph: Any, toys: ModuleType) -> None:
    with pytest.raises(ValueError) as caught:
        parse_sweep(graph, toys.SPECS, texts, given={}, workspace=HERE)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("given", "swept", "words"),
    [
        ({"seed": 3}, {"seed": 1}, "--set seed and --sweep seed give the same value; leave one of them out"),
        ({"n.value": 3}, {"seed": 1}, "--sweep seed changes nothing, because --set n.value takes its place"),
        ({"seed": 3}, {"n.value": 1}, "--set seed changes nothing, because --sweep n.value takes its place"),
        ({"scale": 3}, {"seed": 1}, ""),
        ({"n.value": 3}, {"scale": 1}, ""),
    ],
)
def test_a_value_that_another_one_would_hide_is_refused(given: Any, swept: Any, words: str, toys: ModuleType) -> None:
    params = {"seed": {"type": "int", "default": 1}, "scale": {"type": "float", "default": 1}}
    graph = toys.graph({"n": ("Number", {"value": "$seed"}), "sum": ("Add", {"a": "$scale"})}, params=params)
    if not words:
        check_apart(graph, given, [swept])
        return
    with pytest.raises(ValueError, match=words):
        check_apart(graph, given, [swept])
