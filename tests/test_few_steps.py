"""What surrounds the steps, by every way to ask for a picture: what is encoded twice, and what waits for what.

Toys stand for the stages, and for ranks: each remembers when it was asked.
"""

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from latentloom import nodes
from latentloom.nodes.execution.cache import MemoryCache, Share
from latentloom.nodes.files import picture_files
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, read_graph
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.headless.headless import Tally, run_headless
from latentloom.nodes.headless.job import points_of
from latentloom.nodes.headless.job_list import as_job
from latentloom.nodes.hosts.comfyui import NODE_CLASS_MAPPINGS
from latentloom.nodes.registry import SPECS
from latentloom.parallel.progress import Progress
from latentloom.pipelines import placement, stages
from latentloom.pipelines.values import Conditioning, Image, Latents, Place, to_plain
from latentloom.ui.live.live import Live
from latentloom.ui.runs.results import ResultFilter, Results
from latentloom.ui.runs.runs import Runs
from latentloom.ui.settings import Settings
from latentloom.ui.store.uploads import inputs_folder
from support.folded import PROMPTS, paintings
from support.prepared import run
from support.toy_server import DEADLINE_S, finished, graph, until

ROOT = Path(__file__).resolve().parents[1]
TWO: dict[str, Any] = {
    "model": ("LoomLoadModel", {}),
    "text": ("LoomEncodeText", {"model": "@model.model", "prompt": "a red star"}),
    "canvas": ("LoomEmptyLatents", {"model": "@model.model", "width": 96, "height": 96}),
}
for _name in "ab":
    _given = {"model": "@model.model", "conditioning": "@text.conditioning", "latents": "@canvas.latents"}
    TWO[f"denoise_{_name}"] = ("LoomDenoise", {**_given, "seed": ord(_name)})
    TWO[f"decode_{_name}"] = ("LoomDecode", {"model": "@model.model", "latents": f"@denoise_{_name}.latents"})
    TWO[f"save_{_name}"] = ("LoomSaveImage", {"image": f"@decode_{_name}.image", "name": _name})
"""Two pictures in one workflow."""


def batch() -> Image:
    return Image(pixels=torch.zeros(3, 8, 8, 3))


class Toys:
    """All stages. `before` is called with the name of each, and how often it was asked for."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.before: Callable[[str, int], None] = lambda stage, number: None
        self.lock = threading.Lock()

    def do(self, stage: str, progress: Progress) -> Any:
        with self.lock:
            self.asked[stage] += 1
            number = self.asked[stage]
        if stage == "denoise":
            progress.step(1, 4)
        self.before(stage, number)
        if stage == "encode_text":
            return Conditioning(
                family="flux", prompt="", negative_prompt="", positive={"x": torch.ones(1, 1, 1)}, negative={}
            )
        if stage == "decode":
            return Image(pixels=torch.full((1, 96, 96, 3), number / 99))
        return Latents(family="flux", width=96, height=96, tensor=torch.zeros(1, 16))

    @contextlib.contextmanager
    def using(self, *_: object) -> Iterator["Toys"]:
        yield self

    def call(self, function: str, request: Mapping[str, Any], progress: Progress, **where: Any) -> Any:
        """As ranks are called."""
        return to_plain(self.do(request["stage"], progress))


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Toys:
    toys = Toys()
    known = {name: lambda request, progress, name=name: toys.do(name, progress) for name in stages.STAGES}
    monkeypatch.setattr(stages, "STAGES", known)
    monkeypatch.setattr(placement, "POOLS", toys)
    return toys


def workflow() -> Graph:
    return read_graph(ROOT / "workflows" / "bobbin" / "image_to_image.json")


def by_python(seeds: range, folder: Path, place: Place) -> None:
    model, here = nodes.load_model("builtin:bobbin", workspace=Workspace(place=place)), Workspace(output_dir=folder)
    for seed in seeds:
        canvas = nodes.encode_image(model, nodes.load_image(str(folder / "start.png")))
        painted = nodes.denoise(model, nodes.encode_text(model, "a blue star"), canvas, seed=seed)
        nodes.save_image(nodes.decode(model, painted), name=f"{seed}", workspace=here)


def by_comfyui(seeds: range, folder: Path, place: Place) -> None:
    def call(id: str, **inputs: Any) -> Any:
        made = NODE_CLASS_MAPPINGS[f"Loom{id}"]().run(**inputs)
        return made["result"][0] if isinstance(made, dict) else made[0]

    with contextlib.chdir(folder):
        for seed in seeds:
            model = dataclasses.replace(call("LoadModel", source="builtin:bobbin"), place=place)
            text = call("EncodeText", model=model, prompt="a blue star")
            canvas = call("EncodeImage", model=model, image=call("LoadImage", path="start.png"))
            painted = call("Denoise", model=model, conditioning=text, latents=canvas, seed=seed)
            call("SaveImage", image=call("Decode", model=model, latents=painted))


def by_sweep(seeds: range, folder: Path, place: Place) -> None:
    sweep = [{"seed": seed} for seed in seeds]
    overrides = {"image": str(folder / "start.png")}
    asked = {"file": folder / "w.json", "roots": (folder, ROOT), "out": folder}
    job = dataclasses.replace(as_job(points_of(workflow(), overrides, sweep, **asked), out=folder), place=place)
    reports = list(run_headless(job, Tally(len(sweep))))
    assert [report.state for report in reports] == ["ok"] * len(sweep), [report.error for report in reports]


def by_page(seeds: range, folder: Path, place: Place) -> None:
    settings = Settings(output_dir=folder / "out", data_dir=folder / "data", place=place)
    inputs = inputs_folder(settings.data_dir, "ada")
    inputs.mkdir(parents=True)
    (inputs / "start.png").write_bytes((folder / "start.png").read_bytes())
    with contextlib.closing(Runs(settings, Live())) as runs:
        ids = [runs.submit("ada", workflow(), overrides={"image": "start.png", "seed": seed}).runs[0] for seed in seeds]
        ended = [finished(runs, "ada", id) for id in ids]
    assert [each.state for each in ended] == ["done"] * len(ids), [each.error for each in ended]


WAYS = pytest.mark.parametrize("way", [by_python, by_comfyui, by_sweep, by_page])
PLACES = pytest.mark.parametrize("place", [Place(), Place(devices=("cpu",))], ids=["here", "ranks"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nodes.save_image(Image(pixels=torch.zeros(1, 96, 96, 3)), name="start", workspace=Workspace(output_dir=tmp_path))
    return tmp_path


@WAYS
@PLACES
def test_three_pictures_of_one_prompt_encode_it_once(way: Any, place: Place, folder: Path, toys: Toys) -> None:
    way(range(3), folder, place)
    assert toys.asked == {"encode_text": 1, "encode_image": 1, "denoise": 3, "decode": 3}


def test_nobody_finds_what_others_have_encoded(folder: Path, toys: Toys) -> None:
    for owner in ("ada", "bob", "ada"):
        cache = Share(MemoryCache(1 << 20), owner)  # a new one, which has nothing yet
        assert run(graph(TWO), SPECS, workspace=Workspace(output_dir=folder), memory_cache=cache).state == "ok"
    assert toys.asked["encode_text"] == 2


def test_eight_prompts_are_eight_pictures_of_one_run_and_another_one_is_painted_alone(folder: Path, toys: Toys) -> None:
    cache, workspace = MemoryCache(1 << 24), Workspace(output_dir=folder)

    def ran(changed: Graph) -> tuple[dict[str, int], list[str]]:
        toys.asked.clear()
        result = run(changed, SPECS, workspace=workspace, memory_cache=cache)
        assert result.state == "ok" and len(result.nodes["save"].files) == 8
        return dict(toys.asked), [name for name, each in result.nodes.items() if each.cached == "no"]

    first, _ = ran(paintings())
    assert first == {"encode_text": 8, "denoise": 8, "decode": 8}
    assert ran(paintings())[0] == {}
    again, anew = ran(paintings([*PROMPTS[:4], "a new one", *PROMPTS[5:]]))
    assert again == {"encode_text": 1, "denoise": 1, "decode": 1}
    assert {name for name in anew if "/" in name} == {
        f"paint/{n}" for n in ("5/text", "5/denoise", "5/decode", "image")
    }


def seen_in_time(event: threading.Event) -> None:
    assert event.wait(DEADLINE_S / 4), "it waited for what need not be waited for"


@pytest.mark.parametrize("way", [by_sweep, by_page])
def test_the_steps_of_the_next_run_begin_while_ranks_decode_the_last_one(way: Any, folder: Path, toys: Toys) -> None:
    begun = threading.Event()

    def before(stage: str, number: int) -> None:
        if (stage, number) == ("denoise", 2):
            begun.set()
        elif (stage, number) == ("decode", 1):
            seen_in_time(begun)

    toys.before = before
    way(range(2), folder, Place(devices=("cpu",)))
    assert toys.asked["decode"] == 2


@pytest.mark.parametrize("way", [by_sweep, by_page])
def test_the_steps_of_the_next_run_begin_while_the_last_one_writes_its_picture(
    way: Any, folder: Path, toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, write = threading.Event(), picture_files.write_picture
    order: list[str] = []

    def before(stage: str, number: int) -> None:
        order.append(f"{stage} {number}")
        if (stage, number) == ("denoise", 2):
            begun.set()

    def written(*given: Any, **named: Any) -> Path:
        seen_in_time(begun)
        return write(*given, **named)

    toys.before = before
    monkeypatch.setattr(picture_files, "write_picture", written)
    way(range(2), folder, Place())
    assert order[2:] == ["denoise 1", "decode 1", "denoise 2", "decode 2"]  # the device itself takes turns


def test_one_workflow_decodes_on_ranks_beside_the_steps_of_its_next_picture(folder: Path, toys: Toys) -> None:
    decoding = threading.Event()

    def before(stage: str, number: int) -> None:
        if (stage, number) == ("denoise", 2):
            seen_in_time(decoding)
        elif stage == "decode":
            decoding.set()

    toys.before = before
    workspace = Workspace(output_dir=folder, place=Place(devices=("cpu",)))
    assert run(graph(TWO), SPECS, workspace=workspace).state == "ok"
    assert toys.asked == {"encode_text": 1, "denoise": 2, "decode": 2}


def test_the_page_has_the_first_picture_of_a_batch_before_the_last_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, write = threading.Event(), picture_files.write_picture

    def written(pixels: Any, target: Path, metadata: Any) -> Path:
        if not target.name.endswith("-0.png"):
            seen_in_time(shown)
        return write(pixels, target, metadata)

    monkeypatch.setattr(picture_files, "write_picture", written)
    live, settings = Live(), Settings(output_dir=tmp_path / "out", data_dir=tmp_path / "data")
    with contextlib.closing(
        Runs(settings, live, specs={**SPECS, "Batch": read_spec(batch, id="Batch", title="Batch", category="toys")})
    ) as runs:
        results = Results(settings, runs)
        made = {"batch": ("Batch", {}), "save": ("LoomSaveImage", {"image": "@batch.image", "name": "star"})}
        [id] = runs.submit("ada", graph(made)).runs
        until(lambda: results.list("ada", ResultFilter()))
        [first] = results.list("ada", ResultFilter())
        assert runs.get("ada", id).state == "running" and first.name == "star-0.png"
        assert runs.get("ada", id).nodes["save"].files == (first.id,)
        assert results.path("ada", first.id).read_bytes()[:4] == b"\x89PNG"
        shown.set()
        ended = finished(runs, "ada", id)
        assert [each.name for each in ended.made] == ["star-0.png", "star-1.png", "star-2.png"]
        assert ended.made[0].id == first.id and len(results.list("ada", ResultFilter())) == 3
