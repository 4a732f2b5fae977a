"""What 0, "" and "auto" will be: told before a run, and what the stages then have."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers.hooks.first_block_cache import FirstBlockCacheConfig
from diffusers.hooks.mag_cache import MagCacheConfig
from diffusers.hooks.sea_cache import SeaCacheConfig

from latentloom.__main__ import main
from latentloom.nodes.execution.manifest import Told, manifest, told_by
from latentloom.nodes.files.picture_files import VALUES_KEY, read_metadata
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, graph_from_plain
from latentloom.nodes.preview.carried import PLANS_KEY
from latentloom.nodes.registry import SPECS
from latentloom.parallel.machine.now import DeviceNow
from latentloom.pipelines import stages
from latentloom.pipelines.denoising.schedulers import choose
from latentloom.pipelines.place import read_place
from latentloom.pipelines.requests import Denoise, EncodeText
from latentloom.pipelines.values import THRESHOLDS
from support.prepared import foretell, run

FIRST = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json"
EULER, UNIPC = "FlowMatchEulerDiscreteScheduler", "UniPCMultistepScheduler"
CPU = DeviceNow(name="cpu", title="", total_bytes=2**40, used_bytes=0, load=None)
GPUS = [DeviceNow(name=f"cuda:{i}", title="", total_bytes=2**40, used_bytes=0, load=None) for i in range(2)]
Tiny = Callable[[str], Path]


def workflow(changed: dict[str, Any]) -> Graph:
    """The first workflow with other inputs; a value that is a node of its own becomes one."""
    plain = json.loads(FIRST.read_text())
    for target, value in changed.items():
        node, _, socket = target.partition(".")
        if socket:
            plain["nodes"][node]["inputs"][socket] = value
        else:
            plain["nodes"][node] = {"version": 1, **value}
    return graph_from_plain(plain)


def told(
    changed: dict[str, Any], *, machine: tuple[DeviceNow, ...] = (CPU,), **workspace: Any
) -> dict[str, dict[str, Any]]:
    return foretell(workflow(changed), SPECS, workspace=Workspace(**workspace), machine=machine).values


def test_a_zero_that_stands_for_a_number_of_the_models_is_marked_as_that() -> None:
    marked = {(id, each.name) for id, spec in SPECS.items() for each in spec.inputs if each.auto}
    assert all(not (each := SPECS[id].input(name)).default and each.type in ("int", "float") for id, name in marked)
    for path in FIRST.parent.glob("*.json"):
        graph = graph_from_plain(json.loads(path.read_text()))
        values = foretell(graph, SPECS, workspace=Workspace(roots=(path.parent,)), machine=[CPU]).values
        for node, meant in values.items():
            for name, value in meant.items():
                socket = SPECS[graph.nodes[node].type].input(name) if node in graph.nodes else None
                if socket and type(value) in (int, float) and socket.default == 0:
                    assert (graph.nodes[node].type, name) in marked, (path.name, node, name, value)
    assert ("LoomDenoise", "steps") in marked and ("LoomDenoise", "seed") not in marked


def sampler(**inputs: Any) -> dict[str, Any]:
    return {
        "sampler": {"type": "LoomSamplerOptions", "inputs": inputs},
        "denoise.sampling": {"from": "sampler.sampling"},
    }


@pytest.mark.parametrize(
    ("family", "sampling", "known"),
    [
        ("flux", {}, {"steps": 28, "distilled_guidance": 3.5, "scheduler": EULER}),  # whose shift goes by the size
        ("wan22", {}, {"steps": 40, "guidance": 4.0, "guidance_2": 3.0, "scheduler": UNIPC}),
        ("z_image", {"sigmas": "1, 0.5"}, {"steps": 2, "guidance": 4.0, "scheduler": EULER}),
        ("qwen_image", {"scheduler": "heun", "shift": 2}, {"steps": 50, "guidance": 4.0}),
    ],
)
def test_what_is_told_is_what_the_stages_use(
    family: str, sampling: dict[str, Any], known: dict[str, Any], tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[EncodeText] = []
    asked: list[tuple[Denoise, Any]] = []

    def encode_text(parts: Any, request: EncodeText) -> Any:
        texts.append(request)
        return ({"x": torch.zeros(1, 2, 3)},) * 2

    def denoise(parts: Any, request: Denoise, **_: Any) -> torch.Tensor:
        asked.append((request, choose(parts["scheduler"], request.sampling)))
        return torch.zeros(1, 4, 8, 8)

    spy = SimpleNamespace(encode_text=encode_text, denoise=denoise)
    monkeypatch.setattr(stages, "family_module", lambda name: spy)
    source = str(tiny(family))
    graph = workflow({"load_model.source": source, **(sampler(**sampling) if sampling else {})})
    before = foretell(graph, SPECS, workspace=Workspace(roots=(Path(source),)), machine=[CPU]).values
    result = run(graph, SPECS, workspace=Workspace(roots=(Path(source),)), targets=["denoise"])
    [text], [(request, scheduler)] = texts, asked

    options = before["denoise"].pop("sampling", before.get("sampler", {}))
    assert {**before["denoise"], **options}.items() >= known.items()
    nodes = {"encode_text": text, "empty_latents": request.latents, "denoise": request, "load_model": request.model}
    for name, used in nodes.items():
        values = result.nodes[name].values
        here = {socket: value for socket, value in values.items() if socket in vars(used) and socket != "sampling"}
        assert here == {socket: getattr(used, socket) for socket in here}
        assert before.get(name, {}).items() <= values.items()
        assert not [socket for socket in before.get(name, {}) if socket not in here]
    if "scheduler" in options:
        assert type(scheduler).__name__ == options["scheduler"] or sampling
    if "shift" in options:
        config = scheduler.config
        assert config.get("flow_shift", config.get("shift")) == options["shift"]


def test_thresholds_are_those_of_diffusers_caches() -> None:
    caches = {"first_block": FirstBlockCacheConfig(), "mag": MagCacheConfig(calibrate=True), "sea": SeaCacheConfig()}
    assert {name: config.threshold for name, config in caches.items()} == THRESHOLDS
    changed = {"denoise.step_cache": "sea", "denoise.steps": 3, "denoise.guidance": 3}
    assert told(changed)["denoise"]["cache_threshold"] == THRESHOLDS["sea"]


def test_what_is_written_is_not_told_and_what_nobody_knows_neither() -> None:
    written = {"denoise.steps": 16, "denoise.guidance": 1.5, "empty_latents.width": 96, "empty_latents.height": 128}
    assert told({**written, "load_model.dtype": "fp32", "load_model.device": "cpu"}) == {
        "encode_text": {"text_length": 40},
        "empty_latents": {"frames": 1},
        "denoise": {"sampling": {"scheduler": EULER, "shift": 1.0}},
    }
    steps = {"type": "LoomSeed", "inputs": {"value": 0}}  # a zero that comes by a wire is one as well
    assert told({"number": steps, "denoise.steps": {"from": "number.seed"}})["denoise"]["steps"] == 16
    clip = {"type": "LoomLoadVideo", "inputs": {"path": "nowhere.mp4"}}
    assert "denoise" not in told({"clip": clip, "denoise.guidance": {"from": "clip.fps"}})


def test_a_model_tells_which_sizes_it_likes_and_where_a_picture_gives_the_shape() -> None:
    load = {"type": "LoomLoadImage", "inputs": {"path": "some.png"}}
    changed = {"load": load, "shaped": {"type": "LoomEmptyLatents", "inputs": {"model": {"from": "load_model.model"}}}}
    changed["shaped.like"] = {"from": "load.image"}
    sizes = foretell(workflow(changed), SPECS, workspace=Workspace(), machine=[CPU]).sizes
    plain, shaped = sizes["empty_latents"], sizes["shaped"]
    assert (plain.width, plain.height, plain.multiple, plain.most_side, plain.has_shape) == (128, 128, 16, 160, False)
    assert shaped == dataclasses.replace(plain, has_shape=True)


def test_sampler_options_are_told_where_they_stand_unless_models_differ(tiny: Tiny) -> None:
    shared = sampler(guidance_stop=0.5)
    assert told(shared)["sampler"] == {"scheduler": EULER, "shift": 1.0}
    flux = tiny("flux")
    other = {
        "load_2": {"type": "LoomLoadModel", "inputs": {"source": str(flux)}},
        "text_2": {"type": "LoomEncodeText", "inputs": {"model": {"from": "load_2.model"}, "prompt": "x"}},
        "canvas_2": {"type": "LoomEmptyLatents", "inputs": {"model": {"from": "load_2.model"}}},
        "denoise_2": {
            "type": "LoomDenoise",
            "inputs": {
                "model": {"from": "load_2.model"},
                "conditioning": {"from": "text_2.conditioning"},
                "latents": {"from": "canvas_2.latents"},
                "sampling": {"from": "sampler.sampling"},
            },
        },
        "decode_2": {
            "type": "LoomDecode",
            "inputs": {"model": {"from": "load_2.model"}, "latents": {"from": "denoise_2.latents"}},
        },
        "save_2": {"type": "LoomSaveImage", "inputs": {"image": {"from": "decode_2.image"}, "name": "other"}},
    }
    found = told({**shared, **other}, roots=(flux,))
    assert found["denoise_2"]["steps"] == 28
    assert found["sampler"] == {"scheduler": EULER, "shift": 1.0}  # of the other it goes by the size


def test_devices_are_those_of_the_machine_or_of_the_run() -> None:
    spread = {
        "spread": {"type": "LoomParallelPlan", "inputs": {"model": {"from": "load_model.model"}}},
        "denoise.model": {"from": "spread.model"},
    }
    found = told(spread, machine=(*GPUS, CPU))
    assert found["load_model"] == {"device": "cuda", "dtype": "bf16"}
    assert found["spread"] == {"devices": "cuda:0,cuda:1", "plan": "cfg=2"}
    named = told(
        {**spread, "load_model.device": "cuda:1"}, machine=(*GPUS, CPU), place=read_place("cpu*2", "ulysses=2")
    )
    assert named["load_model"] == {"device": "cpu", "dtype": "fp32"}
    assert named["spread"] == {"devices": "cpu*2", "plan": "ulysses=2"}


def test_a_plan_that_a_result_carries_is_told_where_nobody_wrote_one() -> None:
    inputs = {"model": {"from": "load_model.model"}, "devices": "cpu*2"}
    spread = {"type": "LoomParallelPlan", "inputs": inputs}
    graph = workflow({"spread": spread, "denoise.model": {"from": "spread.model"}, "denoise.guidance": 1})
    carrying = graph.model_copy(update={"meta": {PLANS_KEY: {"denoise": "ring=2"}}})
    found = (foretell(each, SPECS, workspace=Workspace(), machine=[CPU]) for each in (graph, carrying))
    assert [each.values["spread"]["plan"] for each in found] == ["ulysses=2", "ring=2"]


def test_a_pipeline_that_is_run_whole_tells_its_class() -> None:
    node = {"type": "LoomRunPipeline", "inputs": {"prompt": "x"}}
    picture = {"type": "LoomSaveImage", "inputs": {"image": {"from": "whole.image"}, "name": "whole"}}
    found = told({"whole": node, "save_whole": picture})["whole"]
    assert found == {"pipeline": "FluxPipeline", "device": "cpu", "dtype": "fp32"}


def test_check_tells_it_below_and_fully_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(FIRST)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "    load_model: device cpu, dtype fp32",
        "    encode_text: text_length 40",
        "    empty_latents: 128 x 128",
        f"    denoise: 16 steps, guidance 3, scheduler {EULER}, shift 1",
    ]
    assert main(["check", str(FIRST), "--sweep", "denoise.steps=0,4", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["values"]
    assert [each["nodes"]["denoise"].get("steps") for each in points] == [16, None]


def test_a_result_carries_it_and_so_does_the_manifest(tmp_path: Path) -> None:
    graph = workflow({"denoise.steps": 1, "denoise.guidance": 1, "empty_latents.width": 96, "empty_latents.height": 96})
    workspace = Workspace(output_dir=tmp_path, metadata={"latentloom": "{}"})
    result = run(graph, SPECS, workspace=workspace)
    assert result.state == "ok"
    tag = json.loads(read_metadata(tmp_path / "picture.png")[VALUES_KEY])
    assert tag["load_model"] == {"device": "cpu", "dtype": "fp32"} and "steps" not in tag["denoise"]
    node = manifest(tmp_path, graph, result, {})["nodes"]["empty_latents"]
    assert node["values"] == {"width": 96, "height": 96, "frames": 1, "fps": 0.0, "batch": 1}
    assert node["stand_ins"] == ["frames"]
    model = manifest(tmp_path, graph, result, {})["nodes"]["load_model"]["model"]
    assert (model["source"], model["family"], model["dtype"]) == ("builtin:bobbin", "flux", "fp32")
    assert {file["name"].partition("/")[0] for file in model["files"]} >= {"transformer", "vae"}
    assert all(len(file["header_sha256"]) == 64 and file["num_bytes"] > 0 for file in model["files"])


@pytest.mark.parametrize("node", [[], 3, {"values": [], "stand_ins": [7]}, {"values": {}, "stand_ins": ["a"]}])
def test_of_a_damaged_manifest_nothing_is_told(tmp_path: Path, node: object) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"versions": {}, "nodes": {"n": node}}))
    told = told_by(tmp_path)
    assert told == Told() or [each.meant for each in told.nodes.values()] == [{}]
