"""The workflow file: reading, writing, refusing, migrating."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latentloom.nodes.graph.graph import FORMAT, Link, graph_from_plain, graph_text, read_graph
from latentloom.nodes.graph.problems import MAX_BYTES, GraphError
from latentloom.nodes.graph.schema import SCHEMA_FILE, schema_text

GOLDEN = Path(__file__).with_name("golden")
SMALL = {"format": 1, "name": "a", "nodes": {"a": {"type": "Add", "inputs": {"a": 1}}}}


def codes(source: Any) -> set[str]:
    with pytest.raises(GraphError) as caught:
        read_graph(source if isinstance(source, str | bytes | Path) else json.dumps(source))
    return {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.stem)
def test_golden_files_of_every_format_read_and_write_the_same_text(path: Path) -> None:
    graph = read_graph(path)
    assert f"format_{json.loads(path.read_text())['format']}" == path.stem
    assert graph_text(graph) == path.read_text()
    assert graph.nodes["sum"].inputs["a"] == Link.to("first", "int")


def test_moving_a_box_changes_only_layout_lines() -> None:
    graph = read_graph(GOLDEN / "format_1.json")
    moved = graph.model_copy(update={"layout": {**graph.layout, "sum": [9, 9]}})
    before, after = graph_text(graph).splitlines(), graph_text(moved).splitlines()
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    assert len(changed) == 1 and changed[0] > before.index('  "layout": {')


OWN = {"$schema": "../workflow.schema.json", **SMALL, "meta": {"shot": "010_0020", "notes": [{"a": 1.5}, None]}}


def test_the_user_s_own_keys_come_back_in_their_place() -> None:
    graph = read_graph(json.dumps({"meta": OWN["meta"], **SMALL, "$schema": OWN["$schema"]}))
    assert list(json.loads(graph_text(graph))) == ["$schema", "format", "name", "nodes", "meta"]
    assert json.loads(graph_text(graph))["meta"] == OWN["meta"]
    assert graph_text(read_graph(graph_text(graph))) == graph_text(graph)
    moved = graph.model_copy(update={"layout": {"a": [1, 2]}})
    assert list(json.loads(graph_text(moved)))[-2:] == ["meta", "layout"]


def test_meta_is_an_object_of_a_bounded_size() -> None:
    assert codes({**SMALL, "meta": [1]}) == {"bad_value"}
    with pytest.raises(GraphError, match=r"'meta': 7\d{4} bytes are too many, at most 65536 are kept; put"):
        read_graph(json.dumps({**SMALL, "meta": {"a": "x" * 70_000}}))


def test_a_key_that_is_none_offers_the_nearest_and_meta() -> None:
    wrong = {**SMALL, "nodes": {"a": {"type": "Add", "input": {}}}, "parms": {}}
    with pytest.raises(GraphError) as caught:
        read_graph(json.dumps(wrong))
    first, second = map(str, caught.value.problems)
    assert "'nodes.a.input' is no key of a workflow; did you mean 'inputs'?" in first and "meta" not in first
    assert "did you mean 'params'?" in second and "keys of your own go into meta" in second


def test_schema_file_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run python -m latentloom.nodes.graph.schema"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not_json"),
        ("{", "not_json"),
        ("[1]", "not_a_workflow"),
        (b"\xff\xfe{}", "not_text"),
        (" " * (MAX_BYTES + 1), "too_large"),
        ("[" * 10_000_000, "too_large"),
        ("[" * 3_000_000, "too_deep"),
        ('{"a":' * 600_000, "too_deep"),
        ('["\\"' * 500_000, "not_json"),
        ('{"a": 1, "a": 2}', "duplicate_key"),
        ('{"a": NaN}', "not_a_number"),
        ('{"a": -Infinity}', "not_a_number"),
        ('{"a": 1e999}', "not_a_number"),
        ('{"a": ' + "9" * 5000 + "}", "not_a_number"),
        ('{"a": "\\ud800"}', "not_text"),
        ("{}", "format"),
        ('{"format": true}', "format"),
        ('{"format": "1"}', "format"),
        ('{"format": 0}', "format"),
    ],
)
def test_unreadable_text_is_one_problem(text: str | bytes, code: str) -> None:
    assert codes(text) == {code}


def test_newer_format_says_what_is_needed_installed_and_to_do() -> None:
    with pytest.raises(GraphError, match=r"format 3, this latentloom reads up to 2; install a newer one"):
        read_graph('{"format": 3, "whatever": []}')


@pytest.mark.parametrize("path", ["missing.json", "."])
def test_path_that_is_no_file_is_refused(path: str, tmp_path: Path) -> None:
    assert codes(tmp_path / path) == {"file"}


def test_every_problem_of_form_is_reported_with_node_and_socket() -> None:
    bad = {
        "format": 1,
        "nodes": {
            "Upper": {"type": "Add"},
            "a": {"type": "Add", "inputs": {"x": {"other": 1}, "y": {"from": "nodot"}}, "extra": 1},
            "b": {"version": 0, "type": "Add"},
        },
        "outputs": {"o": {"source": "a.float"}},
    }
    with pytest.raises(GraphError) as caught:
        read_graph(json.dumps(bad))
    found = {(p.node, p.socket, p.code) for p in caught.value.problems}
    assert {
        ("", "", "missing_key"),
        ("Upper", "", "bad_name"),
        ("a", "x", "bad_input"),
        ("a", "y", "bad_name"),
        ("a", "", "unknown_key"),
        ("b", "", "bad_value"),
        ("", "", "unknown_key"),
    } <= found


def test_more_than_ten_thousand_nodes_are_refused() -> None:
    assert codes({"format": 1, "name": "a", "nodes": {f"n{i}": {"type": "A"} for i in range(10_001)}}) == {"too_long"}


def test_every_format_has_a_golden_file() -> None:
    assert {p.stem for p in GOLDEN.iterdir()} == {f"format_{n}" for n in range(1, FORMAT + 1)}


def test_values_that_look_like_links_are_wrapped() -> None:
    plain = {**SMALL, "nodes": {"a": {"type": "Add", "version": 1, "inputs": {"a": {"value": {"from": "b.c"}}}}}}
    graph = graph_from_plain(plain)
    assert not isinstance(graph.nodes["a"].inputs["a"], Link)
    assert read_graph(graph_text(graph)) == graph


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    scalars | texts, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=5
)
links = st.builds(lambda a, b: {"from": f"{a}.{b}"}, names, names)
entries = scalars | texts | links | names.map(lambda n: {"param": n}) | json_values.map(lambda v: {"value": v})
nodes = st.fixed_dictionaries({"type": st.just("Add"), "inputs": st.dictionaries(names, entries, max_size=4)})


# beside other work the first ones are slow
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=40)
@given(
    st.dictionaries(names, nodes, max_size=4),
    st.dictionaries(names, links, max_size=2),
    st.dictionaries(texts, json_values, max_size=2),
)
def test_any_workflow_survives_writing_and_reading(nodes: Any, outputs: Any, layout: Any) -> None:
    graph = graph_from_plain({"format": 1, "name": "x", "nodes": nodes, "outputs": outputs, "layout": layout})
    text = graph_text(graph)
    assert read_graph(text) == graph
    assert graph_text(read_graph(text)) == text


def test_toy_graphs_are_graphs(toys: ModuleType) -> None:
    assert len(toys.chain(5).nodes) == 5
