"""What a run would do with the devices, told before it: plans, reasons, needs, choices, and what is wrong."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, graph_from_plain, read_graph
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.sketch import Denoising, Given, Sketch
from latentloom.nodes.graph.spec import NodeSpec
from latentloom.nodes.preview import choices
from latentloom.nodes.preview.choices import Choice, for_all, usual, work_for
from latentloom.nodes.preview.preview import ALONE, NodePlan
from latentloom.nodes.registry import SPECS
from latentloom.parallel.machine.now import DeviceNow
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.forecast.memory import CPU_BYTES
from latentloom.pipelines.forecast.weights import Need
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.shape import empty_canvas
from latentloom.pipelines.values import Latents, Model, Place
from support.flux_folder import write_flux
from support.previews import preview

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "workflows" / "bobbin" / "first_picture.json"
GIB = 2**30


def device(name: str, gibs: float) -> DeviceNow:
    return DeviceNow(name=name, title="", total_bytes=int(gibs * GIB), used_bytes=0, load=None)


def machine(num_gpus: int = 0, *, gibs: float = 80) -> list[DeviceNow]:
    return [*(device(f"cuda:{index}", gibs) for index in range(num_gpus)), device("cpu", 64)]


def workflow(source: str = "builtin:bobbin", **changes: Any) -> Graph:
    """First Picture with a Parallel Plan; `denoise`, `canvas`, `load` and `plan` are inputs of those nodes."""
    graph = read_graph(FIRST)
    plain = {
        "load_model": {"type": "LoomLoadModel", "inputs": {"source": source, **changes.get("load", {})}},
        "plan": {
            "type": "LoomParallelPlan",
            "mode": "run" if "plan" in changes else "bypass",
            "inputs": {"model": {"from": "load_model.model"}, **changes.get("plan", {})},
        },
        "empty_latents": {
            "type": "LoomEmptyLatents",
            "inputs": {"model": {"from": "plan.model"}, **changes.get("canvas", {})},
        },
        "denoise": {
            "type": "LoomDenoise",
            "inputs": {
                "model": {"from": "plan.model"},
                "conditioning": {"from": "encode_text.conditioning"},
                "latents": {"from": "empty_latents.latents"},
                **changes.get("denoise", {}),
            },
        },
    }
    kept = {name: node.model_dump(by_alias=True) for name, node in graph.nodes.items() if name not in plain}
    return graph_from_plain({"format": 1, "name": "x", "nodes": {**kept, **plain}})


def look(
    graph: Graph, *, place: Place | None = None, on: Sequence[DeviceNow] = (), overrides: Any = None
) -> tuple[list[NodePlan], list[Choice]]:
    workspace = Workspace(roots=(Path("/"),), place=place or Place())
    with_prompt = {"encode_text.prompt": "x", "encode_text.negative_prompt": "", **(overrides or {})}
    return preview(graph, with_prompt, workspace=workspace, machine=on or machine())


def only(graph: Graph, **options: Any) -> NodePlan:
    [node] = look(graph, **options)[0]
    return node


@pytest.fixture(scope="session")
def flux(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_flux(tmp_path_factory.mktemp("large") / "flux", tiny("flux")))


def test_one_process_where_nobody_names_devices() -> None:
    node = only(workflow())
    assert (node.plan, node.num_ranks, node.is_chosen_by_hand, node.problem) == ("ulysses=1", 1, False, "")
    assert node.why.startswith("one process")
    assert node.ranks[0]["device"] == "cpu" and node.ranks[0]["fits"] is True
    assert node.need_bytes > 4_000_000 and node.ranks[0]["bytes"] > CPU_BYTES


def test_a_plan_in_the_workflow_is_shown_as_written_by_hand() -> None:
    node = only(workflow(plan={"devices": "cpu*2", "plan": "ring=2"}))
    assert (node.plan, node.is_chosen_by_hand, node.why) == ("ring=2", True, "it was written by hand")
    assert node.strategies == {
        "cfg": 1,
        "layers": 1,
        "ulysses": 1,
        "ring": 2,
        "allgather": 1,
        "weights": 1,
        "text": "auto",
    }


def test_a_plan_says_what_spare_ranks_take_of_large_gpus(flux: str) -> None:
    words = "; a spare rank takes 572 MiB more of cuda:0 and its like, while there is room"
    graph = workflow(flux, load={"device": "cuda"}, plan={"devices": "cuda*2", "plan": "ulysses=2"})
    assert [words in only(graph, on=machine(2, gibs=gibs)).why for gibs in (80, 24)] == [True, False]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("spiral=2", "'spiral=2' is no axis; write it like"),
        ("ulysses=4", "uses 4 ranks, but 2 devices were given"),
        ("ring=2,allgather=2", "two ways to exchange the same keys and values"),
        ("ulysses=2,weights=3", "give weights a number that divides 2"),
    ],
)
def test_a_plan_that_cannot_be_says_so_and_auto_and_the_choices_stay(plan: str, words: str) -> None:
    nodes, choices = look(workflow(plan={"devices": "cpu*2", "plan": plan}))
    assert words in nodes[0].problem
    assert nodes[0].plan == "cfg=2" and {choice.num_ranks for choice in choices} == {2}


def test_devices_that_are_not_here_are_told_without_torch() -> None:
    assert (
        "cuda:1 is not on this machine; it has cpu, cuda:0"
        in only(workflow(plan={"devices": "cuda*2"}), on=machine(1)).problem
    )
    assert "device cuda is not on this machine; it has cpu" in only(workflow(load={"device": "cuda"})).problem


def test_a_transformer_that_cannot_be_split_is_told_and_guidance_is_still_a_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    nodes, choices = look(workflow(plan={"devices": "cpu*2", "plan": "ring=2"}))
    assert "there is no split plan for FluxTransformer2DModel; use one device, or cfg=2" in nodes[0].problem
    assert [choice.plan for choice in choices if choice.fits] == ["cfg=2"]


def test_choices_for_gpus_go_up_to_all_of_them_and_blocks_stream_where_they_have_no_room(flux: str) -> None:
    nodes, choices = look(workflow(flux, load={"device": "cuda"}), on=machine(4, gibs=24))
    alone, room = nodes[0].ranks[0], 0.94 * 24 * 2**30
    assert alone["device"] == "cuda" and alone["fits"] is True and room - 2**30 < alone["bytes"] <= room
    by_plan = {choice.plan: choice for choice in choices}
    assert {choice.num_ranks for choice in choices} == {1, 2, 4}
    assert by_plan["ulysses=4"].fits is True is by_plan["ulysses=4,weights=4"].fits
    assert by_plan["ulysses=4"].bytes_per_device > by_plan["ulysses=4,weights=4"].bytes_per_device
    assert by_plan["ulysses=4"].devices == "cuda:0,cuda:1,cuda:2,cuda:3"
    assert {"ulysses=2,ring=2", "ulysses=2,allgather=2", "ring=4", "allgather=4"} <= by_plan.keys()
    assert not any(choice.plan.startswith("cfg") for choice in choices)  # its guidance is distilled


def test_a_model_that_is_too_large_says_how_much_it_lacks_and_what_to_do(flux: str) -> None:
    problem = only(workflow(flux), on=machine(4, gibs=2.8)).problem
    assert "2.8 GiB are needed on cuda, where 2.6 GiB of 2.8 GiB can be used: 211 MiB too much; any of" in problem
    assert "these fits: 576 x 576 (2.6 GiB), " in problem and "int8" not in problem  # which text encoders do not stream
    assert "plan ulysses=4 on cuda:0,cuda:1,cuda:2,cuda:3 (2.6 GiB)" in problem
    place = Place(devices=tuple(f"cuda:{index}" for index in range(4)), plan="ulysses=4,weights=4")
    node = only(workflow(flux), on=machine(4, gibs=24), place=place)
    assert node.problem == "" and len(node.ranks) == 4
    assert node.ranks[0]["bytes"] > node.ranks[1]["bytes"]  # the first has the text encoders


def test_what_may_be_taken_of_each_device_is_what_a_look_reckons_with(
    flux: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = workflow(flux, load={"device": "cuda"}, plan={"devices": "cuda*2", "plan": "ulysses=2"})
    whole, bound = only(graph, on=machine(2)).ranks, int(0.94 * 10**10)
    monkeypatch.setenv("LATENTLOOM_MEMORY", "10GB")
    streamed = only(graph, on=machine(2))
    assert all(
        bound - 10**9 < rank["bytes"] <= bound < other["bytes"]
        for rank, other in zip(streamed.ranks, whole, strict=True)
    )
    assert not streamed.problem
    # on a CPU each rank may take so much beside files that all map, and blocks rest in such
    on_cpu = workflow(flux, load={"device": "cpu", "dtype": "bf16"}, plan={"devices": "cpu*2", "plan": "ulysses=2"})
    limited = only(on_cpu, on=[device("cpu", 512)])
    monkeypatch.delenv("LATENTLOOM_MEMORY")
    without = only(on_cpu, on=[device("cpu", 512)])
    assert not limited.problem and not without.problem
    for held, mapped in zip(limited.ranks, without.ranks, strict=True):
        assert 7 * 10**9 < held["bytes"] - mapped["bytes"] < bound, "places and the blocks that stay are a rank's own"
    monkeypatch.setenv("LATENTLOOM_MEMORY", "1GB")
    assert "are needed on cpu by each rank, where 896 MiB of 954 MiB" in only(on_cpu, on=[device("cpu", 512)]).problem


def test_values_that_are_wired_count_as_the_models_own_and_a_step_cache_as_one() -> None:
    unknown = {"guidance": {"from": "nowhere.float"}, "step_cache": {"from": "nowhere.string"}}
    graph = workflow(denoise=unknown, canvas={"width": {"param": "nothing"}})
    node = only(graph, place=Place(devices=("cpu",) * 2, plan="auto,compiled"))
    assert node.plan == "cfg=2" and not node.problem
    assert node.why.endswith("not compiled, because a step cache runs blocks that a graph would hold")


def test_a_size_that_the_model_cannot_paint_is_told() -> None:
    node = only(workflow(canvas={"width": 65}))
    assert "width and height must be multiples of" in node.problem and node.ranks[0]["bytes"] > 0


@pytest.mark.parametrize("decoders", [1, 4])
def test_memory_is_that_of_as_many_decoders_as_a_run_would_have(
    flux: str, decoders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "decoders_for", lambda *asked, **now: decoders)
    model = describe_model(flux, device="cuda:0", is_here=False)
    wanted = dataclasses.replace(usual(model), batch=2)
    work = dataclasses.replace(work_for(model, wanted), vae=Need(own_bytes=10**11))
    monkeypatch.setattr(choices, "work_for", lambda *_: work)
    first, *_, last = choices.needs_of(model, wanted, ParallelPlan(ulysses=4), machine(4))
    assert (first.num_bytes > 10**11, last.num_bytes > 10**11) == (decoders > 1, True)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({"nodes": {"denoise": {"type": "LoomDenoise"}}}, "model of denoise is not linked; wire a Model to it"),
        (
            {
                "nodes": {
                    "a": {"type": "LoomParallelPlan", "inputs": {"model": {"from": "b.model"}}},
                    "b": {"type": "LoomParallelPlan", "inputs": {"model": {"from": "a.model"}}},
                    "denoise": {"type": "LoomDenoise", "inputs": {"model": {"from": "a.model"}}},
                }
            },
            "a needs its own result",
        ),
        (
            {
                "nodes": {
                    "load": {"type": "LoomLoadModel", "inputs": {"source": {"from": "text.words"}}},
                    "text": {"type": "LoomJoinText", "inputs": {"first": "x"}},
                    "denoise": {"type": "LoomDenoise", "inputs": {"model": {"from": "load.model"}}},
                }
            },
            "source of load comes from text, so it is not known before the run",
        ),
        (
            {
                "nodes": {
                    "load": {"type": "LoomLoadModel", "inputs": {"source": "no/such_model"}},
                    "denoise": {"type": "LoomDenoise", "inputs": {"model": {"from": "load.model"}}},
                }
            },
            "'no/such_model' is not on this machine; run `latentloom models pull no/such_model` first",
        ),
        (
            {
                "nodes": {
                    "load": {"type": "LoomLoadModel", "inputs": {"dtype": "fp64"}},
                    "denoise": {"type": "LoomDenoise", "inputs": {"model": {"from": "load.model"}}},
                }
            },
            "dtype is 'fp64'; choose one of auto",
        ),
    ],
)
def test_half_done_and_wrong_workflows_are_sentences(graph: Any, words: str) -> None:
    nodes, choices = look(graph_from_plain({"format": 1, "name": "x", **graph}))
    assert words in nodes[0].problem and choices == []


def house_canvas(model: Model) -> Latents:
    return house_sketch(model)


def house_sketch(model: Model) -> Latents:
    return empty_canvas(model, width=160, height=160, frames=0, fps=0.0, batch=1)


def house_model() -> Model:
    return describe_model("builtin:bobbin", device="cpu")


def house_denoise(model: Model, latents: Latents) -> Latents:
    return latents


def given_model(given: Given) -> Latents:
    return house_sketch(given.value("model"))


def denoises(given: Given) -> Denoising:
    return Denoising(model=given.value("model"), latents=given.value("latents"), guidance=3.0)


def broken(given: Given) -> Latents:
    raise KeyError("inside of a stranger's node")


HOUSE = {"title": "House", "category": "house"}


def with_house(monkeypatch: pytest.MonkeyPatch, **specs: NodeSpec) -> None:
    """Nodes of a studio's own, beside ours."""
    monkeypatch.setattr("support.previews.SPECS", SPECS | specs)


def housed(type: str, *, sockets: dict[str, str]) -> Graph:
    """First Picture, in which a node of the studio's own, called `house`, feeds others by {"node.socket": output}."""
    graph = workflow()
    plain = {name: node.model_dump(by_alias=True) for name, node in graph.nodes.items()}
    plain["house"] = {"type": type, "inputs": {"model": {"from": "load_model.model"}} if type == "Canvas" else {}}
    for target, output in sockets.items():
        node, socket = target.split(".")
        plain[node]["inputs"][socket] = {"from": f"house.{output}"}
    return graph_from_plain({"format": 1, "name": "x", "nodes": plain})


def test_a_canvas_of_the_studios_own_is_reckoned_by_what_it_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """160 x 160, not the model's own 128 x 128."""
    with_house(monkeypatch, Canvas=read_spec(house_canvas, id="Canvas", sketch=given_model, **HOUSE))
    node = only(housed("Canvas", sockets={"denoise.latents": "latents"}))
    assert node.ranks == only(workflow(canvas={"width": 160, "height": 160})).ranks
    assert node.ranks != only(workflow()).ranks and (node.why, node.problem) == (ALONE, "")


@pytest.mark.parametrize(("sketch", "words"), [(None, "comes from house, so it is not"), (broken, "(KeyError: ")])
def test_a_canvas_that_says_nothing_is_not_taken_for_another_in_silence(
    sketch: Sketch | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_house(monkeypatch, Canvas=read_spec(house_canvas, id="Canvas", sketch=sketch, **HOUSE))
    node = only(housed("Canvas", sockets={"denoise.latents": "latents"}))
    assert "memory is that of the model's own 128 x 128, because" in node.why and words in node.why
    assert node.plan == "ulysses=1" and not node.problem


def test_a_model_of_the_studios_own_has_a_plan_and_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    sockets = dict.fromkeys(["empty_latents.model", "encode_text.model", "plan.model"], "model")
    with_house(monkeypatch, Mine=read_spec(house_model, id="Mine", sketch=lambda given: house_model(), **HOUSE))
    [node], choices = look(housed("Mine", sockets=sockets))
    assert (node.model, node.problem) == ("builtin:bobbin", "") and choices
    with_house(monkeypatch, Mine=read_spec(house_model, id="Mine", **HOUSE))
    [node], choices = look(housed("Mine", sockets=sockets))
    assert node.problem == "model of denoise comes from house, so it is not known before the run"


def of_the_house(monkeypatch: pytest.MonkeyPatch, denoises: Any) -> NodePlan:
    spec = read_spec(house_denoise, id="House", denoises=denoises, **HOUSE)
    with_house(monkeypatch, House=spec)
    graph = workflow()
    inputs = {"model": {"from": "plan.model"}, "latents": {"from": "empty_latents.latents"}}
    plain = {name: node.model_dump(by_alias=True) for name, node in graph.nodes.items()}
    plain["denoise"] = {"type": "House", "inputs": inputs}
    return only(graph_from_plain({"format": 1, "name": "x", "nodes": plain}), place=Place(devices=("cpu",) * 2))


def test_a_denoise_of_the_studios_own_is_planned_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    node = of_the_house(monkeypatch, denoises)
    assert (node.node, node.plan, node.problem) == ("denoise", "cfg=2", "")


@pytest.mark.parametrize(("denoises", "words"), [(broken, "(KeyError: "), (given_model, "it gave a Latents")])
def test_a_denoise_that_cannot_say_what_it_would_do_is_told(
    denoises: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = of_the_house(monkeypatch, denoises)
    assert node.problem.startswith("denoise does not say what it would do") and words in node.problem


def test_a_workflow_in_which_all_feeds_all_is_asked_node_by_node() -> None:
    """A stranger's: without memory of what was asked, 60 pairs of nodes would be 2^60 questions."""
    nodes: dict[str, Any] = {
        "load": {"type": "LoomLoadModel"},
        "n0": {"type": "LoomEmptyLatents", "inputs": {"model": {"from": "load.model"}}},
    }
    for number in range(1, 60):
        given = {"from": f"n{number - 1}.latents"}
        inputs = {"model": {"from": "load.model"}, "latents": given, "scale": given}
        nodes[f"n{number}"] = {"type": "LoomUpscaleLatents", "inputs": inputs}
    inputs = {"model": {"from": "load.model"}, "latents": {"from": "n59.latents"}}
    nodes["denoise"] = {"type": "LoomDenoise", "inputs": inputs}
    assert only(graph_from_plain({"format": 1, "name": "x", "nodes": nodes})).problem == ""


def test_unknown_and_muted_nodes_are_no_obstacle() -> None:
    plain = {
        "strange": {"type": "NotInstalled", "inputs": {"x": 1}},
        "denoise": {"type": "LoomDenoise", "mode": "mute", "inputs": {}},
    }
    assert look(graph_from_plain({"format": 1, "name": "x", "nodes": plain})) == ([], [])


def test_choices_for_several_denoises_hold_for_all_of_them() -> None:
    one = Choice(plan="ring=2", devices="cpu*2", num_ranks=2, fits=True, bytes_per_device=5, problem="")
    two = Choice(plan="ring=2", devices="cpu*2", num_ranks=2, fits=False, bytes_per_device=7, problem="no")
    other = Choice(plan="cfg=2", devices="cpu*2", num_ranks=2, fits=True, bytes_per_device=5, problem="")
    assert for_all([[one, other], [two]]) == [two]
    assert for_all([]) == []


def test_a_strangers_many_denoises_cost_no_more_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentloom.nodes.preview.preview.MAX_DENOISES", 2)
    graph = workflow()
    graph = graph.model_copy(
        update={"nodes": {**graph.nodes, "b": graph.nodes["denoise"], "c": graph.nodes["denoise"]}}
    )
    nodes, choices = look(graph)
    assert [node.plan for node in nodes] == ["ulysses=1", "ulysses=1", ""]
    assert "can run all the same" in nodes[2].problem and choices


def test_a_look_imports_no_heavy_library() -> None:
    code = f"""
import runpy, sys
runpy.run_path({str(ROOT / "tests" / "support" / "checkout.py")!r})
from pathlib import Path
from latentloom.nodes.graph.graph import read_graph
from support.previews import preview
from latentloom.nodes.files.workspace import Workspace
from latentloom.parallel.machine.now import devices_now
preview(read_graph(Path({str(FIRST)!r})), {{}}, workspace=Workspace(roots=()), machine=devices_now())
print([name for name in ("torch", "diffusers", "transformers", "gradio") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def run_whole(**inputs: Any) -> Graph:
    node = {"type": "LoomRunPipeline", "inputs": {"source": "builtin:bobbin", "prompt": "x", **inputs}}
    return graph_from_plain({"format": 1, "name": "x", "nodes": {"whole": node}})


def test_of_run_pipeline_the_plan_and_the_weights_are_told_and_no_more() -> None:
    alone = only(run_whole())
    assert (alone.family, alone.plan, alone.num_ranks) == ("FluxPipeline", "ulysses=1", 1)
    assert alone.why.startswith(ALONE) and "what the steps take is not known" in alone.why
    assert alone.need_bytes == alone.ranks[0]["bytes"] > 0 and alone.ranks[0]["fits"] is None
    guided = {"true_cfg_scale": 3.0, "negative_prompt": ""}
    assert [only(run_whole(devices="cpu*2", **more)).plan for more in ({}, guided)] == ["ulysses=2", "cfg=2"]
    assert only(run_whole(), place=Place(devices=("cpu", "cpu"), plan="ring=2")).plan == "ring=2"
    assert look(run_whole())[1] == []


def test_what_another_class_takes_is_no_input_of_this_one(
    tiny: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    assert only(run_whole(source=str(tiny("sd3")), true_cfg_scale=3.0)).family == "StableDiffusion3Pipeline"
    assert caplog.records == []


def test_what_run_pipeline_cannot_do_is_a_sentence() -> None:
    shared = only(run_whole(devices="cpu*2", plan="ulysses=2,weights=2"))
    assert (
        "each rank holds all of a pipeline that is run whole; leave weights and layers out of the plan"
        in shared.problem
    )
    small = [device("cpu", 0.001)]
    full = only(run_whole(), on=small)
    assert full.ranks[0]["fits"] is False and "it does not fit: the weights take" in full.problem
    assert "does not exist" in only(run_whole(source="not/a/folder")).problem
