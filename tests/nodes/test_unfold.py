"""Sub-workflows and for-each: what they become, what is refused, and where a fault is told."""

import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from latentloom.nodes.execution.cache import MemoryCache
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, Link, graph_from_plain, graph_text, graph_to_plain, read_graph
from latentloom.nodes.graph.problems import GraphError
from latentloom.nodes.graph.resolve import baked
from latentloom.nodes.graph.unfolding.unfold import unfold
from support.prepared import check, run, schedule

SPEAK = {
    "title": "Speak",
    "params": {"text": {"type": "string"}, "mode": {"type": "choice", "default": "loud"}},
    "nodes": {
        "say": {"type": "Echo", "inputs": {"text": {"param": "text"}, "mode": {"param": "mode"}}},
        "again": {"type": "Echo", "inputs": {"text": {"from": "say.string"}}},
    },
    "outputs": {"said": {"from": "again.string"}},
}


def graph(nodes: dict[str, Any], *, subs: dict[str, Any] | None = None, **parts: Any) -> Graph:
    return graph_from_plain({"format": 2, "name": "folded", "nodes": nodes, "subs": subs or {}, **parts})


def speaking(each: Any = None, **inputs: Any) -> Graph:
    node = {"type": "sub:speak", "inputs": inputs, **({"each": {"text": each}} if each is not None else {})}
    listed = {"words": {"type": "list[string]", "default": ["a", "b", "c"]}}
    return graph({"speak": node}, subs={"speak": SPEAK}, params=listed, outputs={"said": {"from": "speak.said"}})


def told(graph: Graph, specs: Any, **more: Any) -> list[tuple[str, str, str]]:
    return [(each.node, each.socket, each.message) for each in check(graph, specs, **more)]


def test_a_sub_workflow_runs_with_the_keys_of_the_same_nodes_by_hand(specs: Any) -> None:
    by_hand = graph_from_plain(
        {
            "format": 1,
            "name": "by hand",
            "nodes": {
                "say": {"type": "Echo", "inputs": {"text": "hallo", "mode": "loud"}},
                "again": {"type": "Echo", "inputs": {"text": {"from": "say.string"}}},
            },
            "outputs": {"said": {"from": "again.string"}},
        }
    )
    folded = speaking(text="hallo")
    assert run(folded, specs).outputs == {"said": "HALLO"}
    keys = schedule(folded, specs, overrides={}, workspace=Workspace()).keys
    expected = schedule(by_hand, specs, overrides={}, workspace=Workspace()).keys
    assert {name.removeprefix("speak/"): key for name, key in keys.items()} == expected
    assert run(folded, specs, overrides={"speak.mode": "plain"}).outputs == {"said": "hallo"}


def test_a_param_that_is_named_as_a_node_that_is_unfolded_can_be_set(specs: Any) -> None:
    nodes = {"speak": {"type": "sub:speak", "inputs": {"text": "x"}}, "own": {"type": "Echo", "inputs": {}}}
    nodes["own"]["inputs"]["text"] = {"param": "speak"}
    params = {"speak": {"type": "string", "default": "before"}}
    folded = graph(nodes, subs={"speak": SPEAK}, params=params, outputs={"own": {"from": "own.string"}})
    assert run(folded, specs, overrides={"speak": "set"}).outputs == {"own": "set"}


def test_each_element_is_kept_by_itself_and_each_output_has_its_number(specs: Any, toys: ModuleType) -> None:
    cache = MemoryCache(1 << 20)
    first = run(speaking({"param": "words"}), specs, memory_cache=cache)
    assert first.outputs == {"said/1": "A", "said/2": "B", "said/3": "C"}
    toys.CALLS.clear()
    changed = run(speaking({"param": "words"}), specs, memory_cache=cache, overrides={"words": ["a", "new", "c"]})
    assert changed.outputs["said/2"] == "NEW" and toys.CALLS == ["echo", "echo"]
    assert [*run(speaking(["x"]), specs, targets=["speak"]).outputs] == ["speak/1/again"]
    inner = run(speaking(["x", "y"]), specs, targets=["speak/say"])
    assert inner.outputs == {"speak/1/say": "X", "speak/2/say": "Y"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        ({"lines": " a \n\nb"}, ["a", "b"]),
        ({"range": [1, 4]}, [1, 2, 3, 4]),
        ({"range": [1, 0, -0.25]}, [1.0, 0.75, 0.5, 0.25, 0.0]),
        ({"param": "words"}, ["a", "b", "c"]),
    ],
)
def test_lists_that_are_known_when_the_file_is_read(source: Any, expected: list[Any], specs: Any) -> None:
    nodes = unfold(speaking(source), specs, {}, None).graph.nodes
    assert [node.inputs["text"] for name, node in nodes.items() if name.endswith("say")] == expected


def test_files_of_a_folder_come_by_name_and_only_from_allowed_folders(specs: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("b.txt", "A.txt", "c.png", ".hidden.txt"):
        (tmp_path / "in" / name).write_text(name)
    each = {"path": {"folder": "in", "match": "*.txt"}}
    read = graph({"read": {"type": "ReadText", "each": each}}, outputs={"text": {"from": "read.string"}})
    workspace = Workspace(roots=(tmp_path,))
    assert run(read, specs, workspace=workspace).outputs == {"text/1": "A.txt", "text/2": "b.txt"}
    elsewhere = Workspace(roots=(tmp_path / "other",))
    assert told(read, specs, workspace=elsewhere)[0][:2] == ("read", "path")
    assert (
        "folder"
        in told(
            graph({"read": {"type": "ReadText", "each": {"path": {"folder": str(tmp_path)}}}}),
            specs,
            workspace=elsewhere,
        )[0][2]
    )


REFUSED: list[tuple[Any, str]] = [
    ({"from": "speak.said"}, "made while running"),
    ([], "no elements"),
    ({"range": [1, 9, -1]}, "has no end"),
    ({"range": [1, 20_000]}, "at most 10,000"),
    ({"range": [1, 1e9, 1e-9]}, "at most 10,000"),
    ({"range": [-1e308, 1e308, 1]}, "at most 10,000"),
    ({"param": "word"}, "did you mean 'words'"),
    ({"lines": {"param": "words"}}, "takes a text"),
]


@pytest.mark.parametrize(("source", "words"), REFUSED)
def test_a_list_that_cannot_be_is_one_sentence_at_its_node(source: Any, words: str, specs: Any) -> None:
    found = told(speaking(source), specs)
    assert [each[:2] for each in found] == [("speak", "text")]
    assert words in found[0][2] and "for_each 'speak'" in found[0][2]


def test_a_sub_workflow_that_contains_itself_is_refused(specs: Any) -> None:
    inner = {"nodes": {"x": {"type": "sub:outer"}}}
    outer = {"nodes": {"y": {"type": "sub:inner"}, "n": {"type": "Number"}}}
    found = told(
        graph(
            {"a": {"type": "sub:outer"}, "b": {"type": "Add", "inputs": {"a": {"from": "a.z"}}}},
            subs={"inner": inner, "outer": outer},
        ),
        specs,
    )
    assert [each[0] for each in found] == ["a"] and "contains itself (outer in inner in outer)" in found[0][2]


def nested(levels: int, each: Any = None) -> Graph:
    use = {"each": {"x": each}} if each else {}
    subs: dict[str, Any] = {"s1": {"params": {"x": {"type": "float"}}, "nodes": {"n": {"type": "Number"}}}}
    for level in range(2, levels + 1):
        node = {"type": f"sub:s{level - 1}", **use}
        subs[f"s{level}"] = {"params": {"x": {"type": "float"}}, "nodes": {"n": node}}
    return graph({"top": {"type": f"sub:s{levels}", **use}}, subs=subs)


def test_levels_and_nodes_are_counted_before_they_are_made(specs: Any) -> None:
    assert told(nested(16), specs) == []
    assert "at most 16" in told(nested(17), specs)[0][2]
    big = told(nested(16, {"range": [1, 1000]}), specs)
    assert [each[0] for each in big] == ["top"] and "more than 10,000 nodes" in big[0][2]


def test_hostile_files_are_answered_in_time(specs: Any) -> None:
    """Each of these took from 29 to 287 seconds where every use of a list was followed anew."""
    begun = time.process_time()
    users = {f"u{n}": {"type": "Echo", "inputs": {"text": {"from": "many.string"}}} for n in range(4_900)}
    many = {"type": "Echo", "each": {"text": ["w"] * 4_900}}
    assert len(unfold(graph({"many": many, **users}), specs, {}, None).graph.nodes) > 9_800
    circle = {f"s{n}": {"nodes": {"x": {"type": f"sub:s{(n + 1) % 3_000}"}}} for n in range(3_000)}
    refused = unfold(graph({f"n{n}": {"type": f"sub:s{n}"} for n in range(3_000)}, subs=circle), specs, {}, None)
    assert len(refused.problems) == 3_000 and "s7 contains itself (s7 in s6 in s5" in refused.problems[7].message
    twice = {"nodes": {"a": {"type": "Number"}}}
    subs = {f"s{n}": {"nodes": {part: {"type": f"sub:s{n - 1}"} for part in "ab"}} if n else twice for n in range(16)}
    [long] = unfold(graph({"top": {"type": "sub:s15"}}, subs=subs), specs, {}, None).problems
    assert "more than 10,000 nodes" in long.message
    assert time.process_time() - begun < 10
    with pytest.raises(GraphError):
        read_graph('{"format": 2, "name": "deep", "nodes": {"a": {"type": "Echo", "each": ' + "[" * 100_000)


def test_a_fault_inside_names_the_element_and_the_path_once(specs: Any) -> None:
    wrong = {
        **SPEAK,
        "params": {"text": {"type": "string"}},
        "nodes": {**SPEAK["nodes"], "n": {"type": "Number", "inputs": {"value": 500}}},
    }
    wrong["nodes"]["say"] = {"type": "Echo", "inputs": {"text": {"param": "text"}}}
    found = told(
        graph({"speak": {"type": "sub:speak", "each": {"text": ["a", "a red star"]}}}, subs={"speak": wrong}), specs
    )
    assert len(found) == 1 and found[0][0] == "speak"
    [problem] = check(
        graph({"speak": {"type": "sub:speak", "each": {"text": ["a", "a red star"]}}}, subs={"speak": wrong}), specs
    )
    assert problem.inside == "speak/1/n.value"
    assert found[0][2].startswith("for_each 'speak', element 1 ('a') / n: value is 500")
    assert found[0][2].endswith("(and in 1 more of its elements)")
    failing = {
        "params": {"v": {"type": "float"}},
        "nodes": {"f": {"type": "Fail", "inputs": {"value": {"param": "v"}}}},
        "outputs": {"o": {"from": "f.float"}},
    }
    folded = graph(
        {"many": {"type": "sub:fails", "each": {"v": [1.5]}}},
        subs={"fails": failing},
        outputs={"o": {"from": "many.o"}},
    )
    failure = run(folded, specs).failure
    assert failure is not None and "for_each 'many', element 1 (1.5) / f" in str(failure)


def test_a_fault_in_what_the_user_set_is_told_at_his_socket(specs: Any) -> None:
    assert told(speaking(text="a", mode="quiet"), specs)[0][:2] == ("speak", "mode")
    assert (
        told(speaking(texd="a"), specs)[0][0] == "speak"
        and "did you mean 'text'" in told(speaking(texd="a"), specs)[0][2]
    )
    assert told(speaking(text=5), specs)[0][:2] == ("speak", "text")
    unknown = graph({"a": {"type": "sub:nothing"}, "b": {"type": "Echo", "inputs": {"text": {"from": "a.x"}}}})
    assert [each[0] for each in told(unknown, specs)] == ["a"]


def test_mute_and_bypass_of_a_folded_node(specs: Any) -> None:
    nodes = {
        "first": {"type": "Echo", "inputs": {"text": "a"}},
        "speak": {"type": "sub:speak", "inputs": {"text": {"from": "first.string"}}},
        "last": {"type": "Echo", "inputs": {"text": {"from": "speak.said"}}},
    }
    both = {
        "nodes": nodes,
        "subs": {"speak": SPEAK},
        "outputs": {"x": {"from": "last.string"}, "y": {"from": "speak.said"}},
    }
    for mode, expected in (("run", {"x": "A", "y": "A"}), ("bypass", {"x": "a", "y": "a"}), ("mute", {"x": ""})):
        nodes["speak"]["mode"] = mode
        assert run(graph(**both), specs).outputs == expected


def test_what_is_saved_in_a_for_each_has_names_of_its_own(specs: Any, tmp_path: Path) -> None:
    sub = {
        "params": {"value": {"type": "int"}},
        "nodes": {
            "paint": {"type": "Picture", "inputs": {"value": {"param": "value"}}},
            "save": {"type": "Save", "inputs": {"image": {"from": "paint.image"}, "name": "shot"}},
        },
        "outputs": {"image": {"from": "paint.image"}},
    }
    folded = graph({"shots": {"type": "sub:shot", "each": {"value": {"range": [1, 3]}}}}, subs={"shot": sub})
    run(folded, specs, workspace=Workspace(output_dir=tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shot-1.bin", "shot-2.bin", "shot-3.bin"]
    used = graph(
        {**graph_to_plain(folded)["nodes"], "blend": {"type": "Blend", "inputs": {"image": {"from": "shots.image"}}}},
        subs={"shot": sub},
    )
    joined = unfold(used, specs, {}, None).graph
    assert joined.nodes["blend"].inputs["image"].node == "shots/image"
    assert [link.node for link in joined.nodes["shots/image"].inputs.values()] == [
        f"shots/{n}/paint" for n in (1, 2, 3)
    ]


def test_what_is_not_gathered_is_named(specs: Any) -> None:
    nodes = {
        "n": {"type": "Number", "each": {"value": [1, 2]}},
        "add": {"type": "Add", "inputs": {"a": {"from": "n.int"}}},
    }
    missing = speaking(["a"]).model_copy(update={"outputs": {"said": Link.to("speak", "nothing")}})
    assert told(missing, specs) == [("", "said", "output said is speak.nothing, which is not there")]
    found = told(graph(nodes), specs)
    assert found[0][0] == "add" and "n.int of for_each 'n' is 2 values of the type int" in found[0][2]


def test_the_file_stays_folded_and_older_ones_stay_format_1() -> None:
    folded = speaking({"param": "words"})
    again = baked(folded, {"words": ["x"]})
    plain = json.loads(graph_text(again))
    assert plain["format"] == 2 and plain["subs"]["speak"]["nodes"]["say"]["type"] == "Echo"
    assert plain["params"]["words"]["default"] == ["x"] and read_graph(graph_text(again)) == again
    assert json.loads(graph_text(graph({"n": {"type": "Number"}})))["format"] == 1
    with pytest.raises(GraphError, match=r"'subs.speak.nodes.say.inputs.text' is the object"):
        bad = {**SPEAK, "nodes": {"say": {"type": "Echo", "inputs": {"text": {"other": 1}}}}}
        graph({"a": {"type": "sub:speak"}}, subs={"speak": bad})
