"""The same saved workflow on one device and on several: pixels, manifests, what is reused, and how runs overlap."""

import json
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from latentloom.__main__ import main
from latentloom.nodes.execution.cache import MemoryCache
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import read_graph
from latentloom.nodes.headless.workflow_files import read_workflow
from latentloom.nodes.preview.carried import PLANS_KEY
from latentloom.nodes.registry import SPECS
from latentloom.pipelines.place import read_place
from latentloom.pipelines.placement import POOLS
from support.prepared import run

ROOT = Path(__file__).resolve().parent.parent
FIRST = str(ROOT / "workflows" / "bobbin" / "first_picture.json")
SMALL = ["--set=empty_latents.width=64", "--set=empty_latents.height=64"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module", autouse=True)
def _pools(warm_pools: None) -> Iterator[None]:
    yield
    POOLS.close()


def pixels(path: str | Path) -> np.ndarray:
    with Pillow.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What one process paints."""
    out = tmp_path_factory.mktemp("one")
    assert main(["run", FIRST, "--out", str(out), "--no-cache", *SMALL, "--set=denoise.steps=2"]) == 0
    return pixels(out / "picture.png")


@pytest.mark.parametrize(
    ("devices", "plan"),
    [
        ("cpu,cpu", "ulysses=2"),
        *(pytest.param("cpu,cpu", plan, marks=pytest.mark.by_hand) for plan in ("ring=2", "allgather=2")),
        ("cpu,cpu", "cfg=2"),
        pytest.param("cpu*4", "ulysses=2,ring=2", marks=pytest.mark.by_hand),
        pytest.param("cpu*4", "ulysses=2,allgather=2", marks=pytest.mark.by_hand),
        pytest.param("cpu*4", "cfg=2,ulysses=2", marks=pytest.mark.by_hand),
        ("cpu*4", "cfg=2,ring=2,weights=4"),
        ("cpu*4", "auto"),
    ],
)
def test_a_workflow_on_several_devices_paints_the_picture_of_one(
    devices: str, plan: str, one: np.ndarray, tmp_path: Path
) -> None:
    where = ["--devices", devices, "--plan", plan]
    assert main(["run", FIRST, "--no-cache", *SMALL, "--set=denoise.steps=2", *where]) == 0
    assert np.abs(pixels("output/picture.png") - one).max() <= 1
    manifest = json.loads(Path("output/manifest.json").read_text())
    node = manifest["nodes"]["denoise"]
    assert manifest["plan"] == node["plan"] == ("cfg=2,ulysses=2" if plan == "auto" else plan)
    assert [rank["rank"] for rank in node["ranks"]] == list(range(4 if devices == "cpu*4" else 2))
    assert all(rank["seconds"] > 0 and rank["sent_bytes"] > 0 and rank["exchanges"] > 0 for rank in node["ranks"])


def test_a_picture_carries_a_plan_that_was_asked_for_and_rounds_differently_and_is_run_by_it(tmp_path: Path) -> None:
    asked = ["--no-cache", *SMALL, "--set=denoise.steps=2", "--devices", "cpu*2"]
    assert main(["run", FIRST, "--out", "one", *asked, "--plan", "ring=2"]) == 0
    assert main(["run", FIRST, "--out", "plain", *asked]) == 0
    assert main(["run", "one/picture.png", "--out", "two", "--no-cache", "--devices", "cpu*2"]) == 0
    one, two, own = (json.loads(Path(name, "manifest.json").read_text()) for name in ("one", "two", "plain"))
    assert (one["plan"], two["plan"], own["plan"]) == ("ring=2", "ring=2", "cfg=2")
    assert len({each["nodes"]["denoise"]["key"] for each in (one, two, own)}) == 3
    assert one["workflow"]["sha256"] == two["workflow"]["sha256"] == own["workflow"]["sha256"]
    assert [read_workflow(Path(each, "picture.png")).meta.get(PLANS_KEY) for each in ("one", "two", "plain")] == [
        {"denoise": "ring=2"},
        {"denoise": "ring=2"},
        None,
    ]


def made(graph: dict[str, Any], devices: str = "", plan: str = "auto") -> torch.Tensor:
    """The pixels of a workflow's output, before they are rounded."""
    place = {"place": read_place(devices, plan)} if devices else {}
    result = run(read_graph(json.dumps(graph).encode()), SPECS, workspace=Workspace(roots=None, **place))
    assert result.failure is None, result.failure
    return result.outputs["pixels"].pixels


def graph(source: str, *, decode: str, guidance: float, frames: int = 0) -> dict[str, Any]:
    def link(name: str) -> dict[str, str]:
        return {"from": name}

    nodes = {
        "model": ("LoomLoadModel", {"source": source, "device": "cpu"}),
        "text": ("LoomEncodeText", {"model": link("model.model"), "prompt": "a red fox", "negative_prompt": "blurred"}),
        "canvas": ("LoomEmptyLatents", {"model": link("model.model"), "width": 64, "height": 48, "frames": frames}),
        "denoise": (
            "LoomDenoise",
            {
                "model": link("model.model"),
                "conditioning": link("text.conditioning"),
                "latents": link("canvas.latents"),
                "steps": 2,
                "seed": 5,
                "guidance": guidance,
            },
        ),
        "decode": (decode, {"model": link("model.model"), "latents": link("denoise.latents")}),
    }
    return {
        "format": 1,
        "name": "tiny",
        "nodes": {name: {"type": kind, "version": 1, "inputs": inputs} for name, (kind, inputs) in nodes.items()},
        "outputs": {"pixels": {"from": "decode.video" if decode == "LoomDecodeVideo" else "decode.image"}},
    }


@pytest.mark.parametrize(
    ("family", "plan", "options"),
    [
        ("flux", "ring=2", {"decode": "LoomDecode", "guidance": 3.0}),
        ("qwen_image", "cfg=2", {"decode": "LoomDecode", "guidance": 4.0}),
        ("qwen_image", "allgather=2", {"decode": "LoomDecode", "guidance": 4.0}),
        ("wan", "ulysses=2", {"decode": "LoomDecodeVideo", "guidance": 5.0, "frames": 5}),
    ],
)
def test_models_of_every_kind_give_the_pixels_of_one_process(
    family: str, plan: str, options: dict[str, Any], tiny: Callable[[str], Path]
) -> None:
    tiny_graph = graph(str(tiny(family)), **options)
    one, several = made(tiny_graph), made(tiny_graph, "cpu,cpu", plan)
    assert (several - one).abs().max() <= 1e-5 * max(1.0, float(one.abs().max()))


def test_the_number_of_devices_changes_no_key_and_a_named_plan_does() -> None:
    cache, plain = MemoryCache(1 << 30), json.loads(Path(FIRST).read_text())
    del plain["nodes"]["save"]
    plain["nodes"]["denoise"]["inputs"]["steps"] = 2
    plain["outputs"] = {"picture": {"from": "decode.image"}}
    first_picture = read_graph(json.dumps(plain).encode())

    def cached(devices: str, plan: str) -> str:
        workspace = Workspace(place=read_place(devices, plan))
        result = run(first_picture, SPECS, workspace=workspace, memory_cache=cache)
        assert result.failure is None, result.failure
        return result.nodes["decode"].cached

    places = [("cpu,cpu", "auto"), ("cpu*4", "auto"), ("cpu,cpu", "ring=2"), ("cpu,cpu", "ring=2")]
    found = [cached(*place) for place in places]
    assert found == ["no", "memory", "no", "memory"]


def test_the_next_text_is_encoded_while_steps_are_going(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["--sweep", "prompt=a red star,a blue star", "--set", "denoise.steps=20"]
    assert main(["run", FIRST, "--no-cache", "--devices", "cpu,cpu", "--json", *SMALL, *sweep]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    order = [(e["run"], e.get("node", ""), e["kind"]) for e in events if "run" in e]
    first, second = dict.fromkeys(run for run, _, _ in order)
    assert order.index((second, "encode_text", "finished")) < order.index((first, "denoise", "finished"))


def test_a_plan_node_chooses_and_the_command_line_overrides_it(tmp_path: Path) -> None:
    plain = json.loads(Path(FIRST).read_text())
    plain["nodes"]["plan"] = {
        "type": "LoomParallelPlan",
        "version": 1,
        "inputs": {"model": {"from": "load_model.model"}, "devices": "cpu,cpu", "plan": "ring=2"},
    }
    plain["nodes"]["load_model"]["inputs"]["device"] = "cpu"
    for name in ("encode_text", "empty_latents", "denoise", "decode"):
        plain["nodes"][name]["inputs"]["model"] = {"from": "plan.model"}
    (tmp_path / "planned.json").write_text(json.dumps(plain))
    plans = []
    for arguments in ([], ["--devices", "cpu,cpu", "--plan", "cfg=2"]):
        assert main(["run", "planned.json", "--no-cache", *SMALL, "--set=denoise.steps=2", *arguments]) == 0
        plans.append(json.loads(Path("output/manifest.json").read_text())["plan"])
    assert plans == ["ring=2", "cfg=2"]


# --- other pools than above: they come last, since only two idle ones are kept ---


@pytest.mark.parametrize(
    "arguments",
    [[], pytest.param(["--devices", "cpu"], marks=pytest.mark.by_hand), ["--devices", "cpu,cpu", "--replicas", "2"]],
)
def test_manifest_of_one_device_says_where_each_stage_worked(arguments: list[str]) -> None:
    assert main(["run", FIRST, "--no-cache", *SMALL, "--set=denoise.steps=1", *arguments]) == 0
    manifest = json.loads(Path("output/manifest.json").read_text())
    for stage in ("encode_text", "denoise", "decode"):
        (work,) = manifest["nodes"][stage]["ranks"]
        assert (work["rank"], work["device"], work["machine"]) == (0, "cpu", platform.node())
        assert work["seconds"] > 0 and work["peak_memory_bytes"] == manifest["nodes"][stage]["peak_memory_bytes"] > 0
    assert manifest["devices"] == [f"cpu ({platform.processor() or platform.machine()}) of {platform.node()}"]
    assert manifest["plan"] == ("ulysses=1" if arguments else None)


@pytest.mark.by_hand
def test_two_replicas_work_on_two_runs_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--devices", "cpu*4", "--replicas", "2", "--plan", "ulysses=2", "--sweep", "seed=1..4"]
    assert main(["run", FIRST, "--no-cache", "--json", *SMALL, "--set=denoise.steps=15", *arguments]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    order = [e["run"] for e in events if e.get("node") == "denoise" and e["kind"] == "progress"]
    spans = {run: (order.index(run), len(order) - order[::-1].index(run)) for run in order}
    assert len(spans) == 4
    assert any(spans[a][0] < spans[b][0] < spans[a][1] for a in spans for b in spans)  # the first ones load meanwhile


def test_a_sweep_is_shared_out_to_replicas_and_paints_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody names their number."""
    asked = ["--no-cache", "--json", *SMALL, "--set=denoise.steps=2", "--set=denoise.guidance=1", "--sweep=seed=1,2"]
    assert main(["run", FIRST, "--out", "one", *asked]) == 0
    assert '"shared_out"' not in capsys.readouterr().out
    assert main(["run", FIRST, "--out", "two", *asked, "--devices", "cpu*2"]) == 0
    shared, *_ = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (shared["kind"], shared["total"]) == ("shared_out", 2) and "2 groups of 1 device" in shared["message"]
    for name in ("seed=1", "seed=2"):
        manifest = json.loads(Path("two", name, "manifest.json").read_text())
        assert manifest["replicas"] == 2
        assert "2 groups work on separate runs" in manifest["nodes"]["denoise"]["foreseen"]["why"]
        assert np.array_equal(pixels(Path("one", name, "picture.png")), pixels(Path("two", name, "picture.png")))
