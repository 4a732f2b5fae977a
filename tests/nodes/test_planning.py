"""The node Parallel Plan, and what the command line says against it."""

from typing import Any

import pytest

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.steps.models import NODES, load_model, model_fingerprint, parallel_plan
from latentloom.pipelines import place as place_module
from latentloom.pipelines.place import read_place
from latentloom.pipelines.values import Model, Place

MODEL = Model(source="a model", folder="/nowhere", family="flux", device="cpu")


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_module, "num_cores", lambda: 2)


def test_the_node_says_where_a_model_works() -> None:
    assert parallel_plan(MODEL, devices="cpu,cpu", plan="ring=2").place == Place(devices=("cpu",) * 2, plan="ring=2")
    assert parallel_plan(MODEL, devices="cpu,cpu").place.plan == "auto"


@pytest.mark.parametrize(("named", "expected"), [("", "ulysses=2"), ("auto", "auto"), ("cfg=2", "cfg=2")])
def test_the_command_lines_plan_wins_and_auto_is_one(named: str, expected: str) -> None:
    workspace = Workspace(place=read_place("cpu,cpu", named))
    assert parallel_plan(MODEL, devices="cpu*8", plan="ulysses=2", workspace=workspace).place.plan == expected


def test_a_workflow_asks_for_no_more_ranks_than_there_are_cores() -> None:
    with pytest.raises(ValueError, match=r"the workflow names 64 CPU ranks, .* use cpu\*2 or fewer"):
        parallel_plan(MODEL, devices="cpu*64")


def test_the_command_line_may_ask_for_more_ranks_than_cores_and_then_auto_helps() -> None:
    place = read_place("cpu*4", "auto")
    assert parallel_plan(MODEL, devices="cpu*2", plan="ulysses=2", workspace=Workspace(place=place)).place == place
    unnamed = Workspace(place=read_place("cpu*4"))
    with pytest.raises(ValueError, match="uses 2 ranks, but 4 devices were given; use plan auto, or give 2 devices"):
        parallel_plan(MODEL, devices="cpu*2", plan="ulysses=2", workspace=unnamed)


def test_results_are_kept_apart_by_a_plan_that_replaces_the_nodes() -> None:
    options: dict[str, Any] = {"source": "builtin:bobbin", "revision": "", "dtype": "auto", "quantization": "none"}
    spaces = [Workspace(place=read_place("cpu,cpu", plan)) for plan in ("", "auto", "ring=2")]
    assert len({NODES["LoomParallelPlan"].fingerprint({}, space) for space in spaces}) == 3
    first, auto, ring = (model_fingerprint({**options, "device": "cpu"}, space) for space in spaces)
    assert first == auto != ring


def test_a_model_for_gpus_of_a_cluster_is_described_without_any_here() -> None:
    place = read_place("cuda*2", cluster="10.0.0.1:6379")
    model = load_model("builtin:bobbin", engine="inductor", workspace=Workspace(place=place))
    assert (model.device, model.dtype, model.engine, model.place) == ("cuda:0", "bf16", "inductor", place)
