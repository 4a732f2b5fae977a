"""700 damaged workflow files: only `GraphError` comes out, quickly, and no node is called."""

# ruff: noqa: E501 -- tables of whole files, one to a line

import json
import random
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import graph_text, read_graph
from latentloom.nodes.graph.problems import GraphError, parse_json
from latentloom.nodes.hosts.comfy_file import from_comfy
from support.damage import damage_text, mutate, places
from support.prepared import check, schedule

NUM_FILES = 700
MAX_S = 2.0

SEEDS: list[dict[str, Any]] = [
    {
        "format": 1,
        "name": "whole",
        "requires": {"latentloom": ">=0.1"},
        "params": {"v": {"type": "int", "default": 3, "min": 0, "max": 9}, "w": {"type": "choice", "default": "loud", "choices": ["plain", "loud"]}},
        "nodes": {
            "n": {"type": "Number", "version": 1, "inputs": {"value": {"param": "v"}}},
            "p": {"type": "Picture", "inputs": {"value": {"from": "n.int"}, "size": 8}},
            "b": {"type": "Blend", "inputs": {"image": {"from": "p.image"}, "other": None}},
            "s": {"type": "Save", "title": "Save it", "inputs": {"image": {"from": "b.image"}, "name": "x"}},
            "e": {"type": "Echo", "inputs": {"text": {"value": "hi"}, "mode": {"param": "w"}, "flag": True}},
            "f": {"type": "Fail", "inputs": {"value": 1.5}},
        },
        "outputs": {"o": {"from": "b.image"}, "t": {"from": "e.string"}},
        "layout": {"n": [1, 2]},
    },
    {"format": 1, "name": "cycle", "nodes": {"a": {"type": "Add", "inputs": {"a": {"from": "b.float"}}}, "b": {"type": "Add", "inputs": {"a": {"from": "a.float"}}}}},
    {"format": 2, "name": "newer", "nodes": {}},
    {"format": 1, "name": "types", "nodes": {"a": {"type": "Nope"}, "b": {"type": "Add", "version": 9, "inputs": {"z": 1}}, "c": {"type": "Echo", "inputs": {"mode": "q", "text": 1}}}},
    {"format": 1, "name": "links", "nodes": {"a": {"type": "Add", "inputs": {"a": {"from": "x.y"}, "b": {"param": "none"}}}}, "outputs": {"o": {"from": "gone.x"}}},
]  # fmt: skip


def fuzzed(number: int) -> bytes:
    dice = random.Random(number)
    data = json.loads(json.dumps(dice.choice([SEEDS[0], *SEEDS])))
    for _ in range(dice.choice([0, 1, 1, 2, 5])):
        if places(data):
            mutate(data, dice)
    text = json.dumps(data).encode()
    return damage_text(text, dice) if dice.random() < 0.3 else text


def attempt(data: bytes, toys: ModuleType) -> str:
    """Everything short of calling nodes; what came of it."""
    try:
        graph = read_graph(data)
    except GraphError as error:
        assert error.problems and all(p.message and p.code for p in error.problems)
        return "refused"
    assert read_graph(graph_text(graph)) == graph
    if problems := check(graph, toys.SPECS):
        assert all(p.message and len(str(p)) < 2000 for p in problems)
        return "problems"
    schedule(graph, toys.SPECS, overrides={}, workspace=Workspace(roots=()))
    return "good"


def timed(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def test_fuzzed_files_give_only_graph_errors(toys: ModuleType) -> None:
    seen: dict[str, int] = {}
    for number in range(NUM_FILES):
        start = time.process_time()
        outcome = attempt(fuzzed(number), toys)
        assert time.process_time() - start < MAX_S, number
        seen[outcome] = seen.get(outcome, 0) + 1
    assert toys.CALLS == []
    assert min(seen.get(kind, 0) for kind in ("refused", "problems", "good")) > NUM_FILES / 20, seen


def test_fuzzed_comfyui_prompts_give_only_graph_errors(toys: ModuleType) -> None:
    whole = {
        "1": {"class_type": "Number", "inputs": {"value": 1}, "_meta": {"title": "N", "version": 1}},
        "two": {"class_type": "Add", "inputs": {"a": ["1", 0], "b": {"__value__": [1, 2]}}},
    }
    for number in range(500):
        dice = random.Random(number)
        data = json.loads(json.dumps(whole))
        for _ in range(dice.randrange(1, 4)):
            if places(data):
                mutate(data, dice)
        try:
            check(from_comfy(data, toys.SPECS), toys.SPECS)
        except GraphError:
            pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: b"[" * 4_000_000,
        lambda: b"[]" * 2_000_000,
        lambda: b'\\"' * 2_000_000,
        lambda: b'"' * 4_000_000,
        lambda: b'{"format":1,"name":"a","nodes":{' + b",".join(b'"n%d":{"type":"Nodx%d"}' % (i, i) for i in range(10_000)) + b"}}",
        lambda: b'{"format":1,"name":"a","nodes":{' + b",".join(b'"n%d":{"type":"Add","inputs":{"a":{"from":"m%d.float"}}}' % (i, i) for i in range(10_000)) + b"}}",
        lambda: b'{"format":1,"name":"a","nodes":{' + b",".join(b'"n%d":{"type":"Add","inputs":{"a":{"from":"n%d.float"}}}' % (i, (i + 1) % 10_000) for i in range(10_000)) + b"}}",
        lambda: b'{"format":1,"name":"a","nodes":{' + b",".join(b'"N%d":3' % i for i in range(10_000)) + b"}}",
        lambda: b'{"format":1,"name":"a","nodes":{"e":{"type":"Echo","inputs":{"text":"' + b"x" * 2_000_000 + b'"}}}}',
        lambda: b'{"a":' + b"9" * 4_000_000 + b"}",
        lambda: b"{" + b",".join(b'"k%d":0' % i for i in range(200_000)) + b',"k199999":1}',
    ],
    ids=["nest", "pairs", "escapes", "quotes", "unknown types", "lost links", "one ring", "bad names", "long text", "long number", "late duplicate"],
)  # fmt: skip
def test_hostile_sizes_are_answered_quickly(make: Callable[[], bytes], toys: ModuleType) -> None:
    data = make()

    def answer() -> None:
        try:
            assert check(read_graph(data), toys.SPECS)
        except GraphError as error:
            assert len(str(error)) < 20_000

    assert timed(answer) < MAX_S


def test_json_reader_accepts_what_json_accepts() -> None:
    assert (
        parse_json('{"a": [1, 2.5, "\\u00e9\\ud83d\\ude00 [[[", null, true, -0.0]}')["a"][2] == "\u00e9\U0001f600 [[["
    )
