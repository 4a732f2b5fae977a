"""The plan view's answer: devices, plans, choices, and a sentence for what was asked for and cannot be."""

from pathlib import Path
from typing import Any

import pytest

from latentloom.nodes.graph.graph import graph_from_plain, graph_to_plain, read_graph
from latentloom.parallel.machine.now import DeviceNow
from latentloom.pipelines.values import Place
from latentloom.ui.contract.shown import PlanView
from latentloom.ui.errors import Conflict
from latentloom.ui.settings import Settings
from latentloom.ui.views import plan_view as plan_view_module
from latentloom.ui.views.plan_view import plan_view

GRAPH = read_graph(Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json")


@pytest.fixture(autouse=True)
def _only_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = DeviceNow(name="cpu", title="a CPU", total_bytes=64 << 30, used_bytes=1 << 30, load=0.1)
    monkeypatch.setattr(plan_view_module, "devices_now", lambda: [cpu])


def view(
    tmp_path: Path, devices: str = "", plan: str = "", *, graph: Any = GRAPH, machine: str = "", **settings: Any
) -> PlanView:
    given = Settings(output_dir=tmp_path / "out", data_dir=tmp_path / "data", **settings)
    return plan_view(graph, {}, devices=devices, plan=plan, machine=machine, settings=given)


def test_the_servers_own_devices_are_looked_at_otherwise(tmp_path: Path) -> None:
    own = Place(devices=("cpu",) * 4, plan="ulysses=4")
    assert view(tmp_path, place=own).nodes[0].plan == "ulysses=4"
    assert view(tmp_path, "", "allgather=4", place=own).nodes[0].plan == "allgather=4"


@pytest.mark.parametrize(
    ("devices", "plan", "words", "shown"),
    [
        ("cpu*2", "spiral=2", "'spiral=2' is no axis", "cfg=2"),
        ("cpu*2", "ring=4", "plan ring=4 uses 4 ranks, but 2 devices were given", "cfg=2"),
        ("cuda*2", "", "cuda:0, cuda:1 are not on this machine; it has cpu", "ulysses=1"),
        ("gpu", "ring=2", "'gpu' is no device", "ulysses=1"),
        ("", "ring=2", "uses 2 ranks, but 1 device was given", "ulysses=1"),
        ("cpu*64", "", "names 64 CPU ranks", "ulysses=1"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_the_rest_is_shown(
    devices: str, plan: str, words: str, shown: str, tmp_path: Path
) -> None:
    found = view(tmp_path, devices, plan)
    assert words in found.problem
    assert found.nodes[0].plan == shown


def test_a_workflow_that_denoises_nothing_says_so(tmp_path: Path) -> None:
    found = view(tmp_path, graph=GRAPH.model_copy(update={"nodes": {}}))
    assert (found.nodes, found.choices) == ([], [])
    assert "denoises nothing" in found.problem


def test_models_outside_of_the_servers_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    load = GRAPH.nodes["load_model"].model_copy(update={"inputs": {"source": "/etc"}})
    graph = GRAPH.model_copy(update={"nodes": {**GRAPH.nodes, "load_model": load}})
    [node] = view(tmp_path, graph=graph, models_dirs=(tmp_path / "models",)).nodes
    assert "lies outside the allowed folders" in node.problem


def test_the_route_answers(client: Any, first: dict[str, Any]) -> None:
    headers = {"origin": "http://127.0.0.1:7860"}
    answer = client.post("/loom/plan", json={"graph": first, "devices": "cpu*2"}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["nodes"][0]["plan"] == "cfg=2"


def test_a_machine_that_one_does_not_have_is_planned_for(tmp_path: Path) -> None:
    found = view(tmp_path, machine="4xH100-nvlink")
    told = found.nodes[0].prediction
    assert told is not None and (told.machine.num_devices, told.machine.is_measured) == (4, False)
    assert told.why and 0 < len(told.rejected) <= 3 and all(each.why for each in told.rejected)
    [shown] = [each for each in told.plans if each.is_shown]
    assert (shown.plan, shown.seconds) == (told.plan, told.seconds)
    assert told.text_s and told.steps_s and told.decode_s
    assert told.seconds == pytest.approx(told.text_s + told.steps_s + told.decode_s)
    seconds = [each.seconds or 0 for each in told.plans]
    assert seconds == sorted(seconds)
    by_hand = view(tmp_path, "", "ulysses=4", machine="4xH100-nvlink").nodes[0].prediction
    assert by_hand is not None and (by_hand.plan, by_hand.why, by_hand.rejected) == ("ulysses=4", "", [])


def test_remedies_are_those_of_the_page(tmp_path: Path) -> None:
    plain = graph_to_plain(GRAPH)
    plain["nodes"]["load_model"]["inputs"]["source"] = "nobody/has-it"
    [node] = view(tmp_path, graph=graph_from_plain(plain)).nodes
    assert "the tab Models says how" in node.problem and "latentloom" not in node.problem


def test_what_is_no_machine_is_told_and_no_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"like": "8xH100-nvlink"}')
    for name in ("8xH100", "7 apples", str(tmp_path / "mine.json")):
        found = view(tmp_path, machine=name)
        assert found.problem and not found.nodes and "--" not in found.problem


def test_what_the_plan_takes_here_is_predicted(tmp_path: Path) -> None:
    found = view(tmp_path, "cpu*2", "ring=2")
    [node] = found.nodes
    assert node.is_chosen_by_hand and {choice.num_ranks for choice in found.choices} == {2}
    assert node.prediction is not None and node.prediction.plan == node.plan == "ring=2"
    assert node.prediction.machine.num_devices == 2 and len(node.ranks) == 2
    assert node.prediction.machine.is_assumed, "nobody has measured a CPU here"
    assert {node.prediction.seconds, node.prediction.step_s, *(each.seconds for each in node.prediction.plans)} == {
        None
    }


def test_a_machine_that_is_at_work_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_view_module, "is_busy", lambda shown: True)
    monkeypatch.setattr(plan_view_module, "machine_here", lambda *args, **named: pytest.fail("it was measured"))
    with pytest.raises(Conflict, match="try again later"):
        plan_view_module.measured()


def test_what_was_measured_and_is_not_kept_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_view_module, "is_busy", lambda shown: False)
    monkeypatch.setattr(plan_view_module, "machine_here", lambda *args, **named: None)  # the folder took nothing
    with pytest.raises(Conflict, match="or its folder cannot be written"):
        plan_view_module.measured()
