"""What a run is predicted to take: told before it, corrected on the way, compared and kept after it."""

import dataclasses
import json
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from latentloom.nodes.execution.attempt import attempt, open_caches
from latentloom.nodes.execution.cache import DiskCache
from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.manifest import manifest
from latentloom.nodes.execution.records import RunResult
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.graph.signature import read_spec
from latentloom.nodes.graph.sketch import Denoising, Given
from latentloom.nodes.headless.headless import Report
from latentloom.nodes.headless.terminal import ProgressBars
from latentloom.nodes.hosts.comfy_process import ComfyProgress
from latentloom.parallel.progress import Foreseen, Progress, RankWork, Setting
from latentloom.pipelines.costs.ran import after, kept, ran_of
from latentloom.pipelines.values import Conditioning, Image, Latents, Model
from support.prepared import run

NODES = {
    "text": ("Read", {}),
    "first": ("Paint", {"text": "@text.conditioning"}),
    "shown": ("Expose", {"latents": "@first.latents"}),
}
FORESEEN = Foreseen(
    plan="ulysses=2",
    why="it is the fastest",
    machine="2 x H100",
    is_measured=True,
    steps=4,
    step_s=2.0,
    text_s=1.0,
    decode_s=40.0,
    load_s=9.0,
    num_bytes=8 << 30,
    rejected=[("ring=2", 3.0, "50% slower")],
)
TEXTS = dict.fromkeys(("machine", "model", "class_name", "fingerprint", "dtype", "quantization", "engine"), "")
SETTING = Setting(**TEXTS, **dict.fromkeys(("width", "height", "frames", "batch", "text_tokens"), 1))


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step_s = [5.0, 3.0, 3.0, 3.0]
        self.decode_s = 55.0
        self.foreseen: Foreseen | None = FORESEEN
        self.is_cold = False
        self.is_busy = False

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("latentloom.nodes.execution.watch.is_busy", lambda _: clock.is_busy)
    for module in ("outlook", "watch"):
        monkeypatch.setattr(f"latentloom.nodes.execution.{module}.time.perf_counter", clock)
    return clock


@pytest.fixture
def specs(clock: Clock) -> dict[str, Any]:
    def work(progress: Progress, seconds: float, num_bytes: int) -> None:
        clock.now += seconds
        progress.spread("", [RankWork(rank=0, device="cpu", seconds=seconds, peak_memory_bytes=num_bytes)])

    def read(*, progress: Progress) -> Conditioning:
        if clock.is_cold:
            progress.phase("loading text_encoder", is_loading=True)
        work(progress, 1.5, 5)
        return Conditioning(family="f", prompt="", negative_prompt="", positive={})

    def paint(text: Conditioning, *, progress: Progress) -> Latents:
        del text
        if clock.foreseen is not None:
            progress.foresee(clock.foreseen)
        progress.phase("loading transformer", is_loading=True)
        clock.now += 100.0
        progress.phase("denoising")
        start = clock.now
        for done, seconds in enumerate(clock.step_s, 1):
            clock.now += seconds
            progress.step(done, 4)
        seconds = clock.now - start
        work = RankWork(rank=0, device="cpu", seconds=seconds, peak_memory_bytes=12, idle_bytes=3)
        progress.spread("", [work])
        return Latents(family="f", width=8, height=8)

    def expose(latents: Latents, *, progress: Progress) -> Image:
        del latents
        progress.phase("decoding")
        work(progress, clock.decode_s, 7)
        return Image(pixels=torch.zeros(1, 8, 8, 3))

    def denoises(given: Given) -> Denoising:
        del given
        return Denoising(model=Model(source="m", folder="/nowhere", family="f"), latents=None)

    functions = {"Read": read, "Paint": paint, "Expose": expose}
    return {
        name: read_spec(
            function,
            title=name,
            category="c",
            uses_device=True,
            id=name,
            denoises=denoises if function is paint else None,
        )
        for name, function in functions.items()
    }


@pytest.fixture
def told() -> list[Event]:
    return []


def made(toys: ModuleType, specs: dict[str, Any], told: list[Event], **options: Any) -> RunResult:
    graph = toys.graph(NODES, outputs={"picture": "shown.image"})
    result = run(graph, specs, sink=told.append, **options)
    assert result.state == "ok", result.failure
    return result


def left(told: list[Event], kind: str) -> list[float | None]:
    return [event.run_left_s for event in told if event.kind == kind]


def test_time_left_is_predicted_then_measured_and_never_nothing_while_decoding(
    toys: ModuleType, specs: dict[str, Any], told: list[Event]
) -> None:
    made(toys, specs, told)
    assert left(told, "foreseen") == [4 * 2.0 + 40.0]
    # loading takes nobody knows how long; a step predicted at 2 s takes 3 s, and decoding then half as long again
    assert left(told, "phase") == [None, 48.0, pytest.approx(60.0)]
    assert left(told, "progress") == [46.0, pytest.approx(2 * 2.5 + 50.0), pytest.approx(3.0 + 60.0), 60.0]
    ends = [(event.node, event.run_left_s) for event in told if event.kind == "finished"]
    assert ends == [("text", None), ("first", 60.0), ("shown", None)]


def test_a_denoise_that_waits_takes_as_long_as_one_of_its_kind(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock
) -> None:
    clock.step_s = [2.0] * 4
    more = {"other": ("Paint", {"text": "@text.conditioning"}), "seen": ("Expose", {"latents": "@other.latents"})}
    graph = toys.graph(NODES | more, outputs={"picture": "shown.image", "second": "seen.image"})
    assert run(graph, specs, sink=told.append).state == "ok"
    assert next(event.run_left_s for event in told if event.kind == "foreseen") == 2 * (4 * 2.0 + 40.0)
    assert min(each for each in left(told, "progress") if each is not None) >= 40.0


def test_without_a_prediction_nothing_is_made_up(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock, tmp_path: Path
) -> None:
    clock.foreseen = None
    result = made(toys, specs, told)
    assert {event.run_left_s for event in told} == {None}
    assert [event.left_s for event in told if event.kind == "progress"] == [None, None, 3.0, None]
    nodes = manifest(tmp_path, toys.graph(NODES), result, {})["nodes"]
    assert "foreseen" not in nodes["first"] and "took" not in nodes["first"]
    assert "denoises" not in Report(point=1, folder=tmp_path, overrides={}, result=result).to_plain()


def test_prediction_and_outcome_are_in_events_manifest_and_report(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], tmp_path: Path
) -> None:
    result = made(toys, specs, told)
    denoise = manifest(tmp_path, toys.graph(NODES), result, {})["nodes"]["first"]
    assert denoise["foreseen"]["seconds"] == 49.0 and denoise["foreseen"]["rejected"][0]["plan"] == "ring=2"
    seconds = {"step_s": 3.0, "steps_s": 14.0, "text_s": 1.5, "decode_s": 55.0}
    took = {"steps": 4, **seconds, "num_bytes": 9, "is_busy": False, "predicted_bytes": 8 << 30}
    assert denoise["took"] == {**took, "predicted_s": 49.0, "seconds": 68.5, "ratio": round(68.5 / 49, 6)}
    (event,) = [event.to_plain() for event in told if event.kind == "took"]
    assert event["took"] == denoise["took"] and event["message"].startswith(
        "predicted 49 s, took 68.5 s, and 2 s more until it was warm, which is +40% (text 1.5 s, not 1 s; "
        "steps 12 s, not 8 s; decoding 55 s, not 40 s): latentloom plan MODEL --measure"
    )
    json.dumps(plain := Report(point=1, folder=tmp_path, overrides={}, result=result).to_plain())
    assert plain["denoises"]["first"] == {"foreseen": denoise["foreseen"], "took": denoise["took"]}


def test_the_first_node_that_needs_it_says_that_torch_is_loaded(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.nodes.execution.run.has_torch", lambda: any(e.kind == "finished" for e in told))
    made(toys, specs, told)
    first = [(event.kind, event.node, event.message) for event in told if event.node][:2]
    assert first == [("started", "text", ""), ("phase", "text", "loading PyTorch")]
    assert sum(event.message == "loading PyTorch" for event in told) == 1


def test_on_a_busy_machine_nobody_is_told_thousands_of_percent_and_nothing_is_learned(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock
) -> None:
    clock.step_s, clock.is_busy = [900.0] * 4, True
    record = made(toys, specs, told).nodes["first"]
    (event,) = [event for event in told if event.kind == "took"]
    assert "longer than foretold: the machine was busy" in event.message and "%" not in event.message
    assert record.foreseen is not None and record.took is not None
    foreseen = dataclasses.replace(record.foreseen, setting=SETTING)
    assert ran_of(foreseen, record.took, torch="2.9") is None
    idle = dataclasses.replace(record.took, is_busy=False)
    assert ran_of(foreseen, idle, torch="2.9") is not None and "%" not in after(foreseen, idle, is_kept=True)
    on_time = dataclasses.replace(record.took, step_s=2.0, decode_s=40.0)
    assert ran_of(foreseen, on_time, torch="2.9") is None and "%" not in after(foreseen, on_time, is_kept=True)
    assert record.prediction()["took"]["ratio"] is None


def test_what_a_run_took_is_kept_though_its_results_cannot_be(
    toys: ModuleType, specs: Any, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    clock.foreseen = dataclasses.replace(FORESEEN, setting=SETTING)
    (tmp_path / "file").touch()
    caches = open_caches(tmp_path / "file" / "results")
    assert caches.disk is None and "results are not kept: the cache folder" in caplog.text
    prepared = ready(toys.graph(NODES, outputs={"picture": "shown.image"}), specs)
    workspace, cancel = Workspace(output_dir=tmp_path / "out"), threading.Event()
    attempt(prepared, workspace=workspace, caches=caches, sink=lambda event: None, cancel=cancel)
    assert [(ran.step_s, ran.took_step_s) for ran in kept(tmp_path / "latentloom")] == [(2.0, 3.0)]


def test_no_seconds_are_told_while_a_speed_is_only_assumed(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock
) -> None:
    clock.foreseen = dataclasses.replace(FORESEEN, is_measured=False, is_assumed=True)
    record = made(toys, specs, told).nodes["first"]
    before, took = (event for event in told if event.kind in ("foreseen", "took"))
    assert before.message == (
        "plan ulysses=2 (it is the fastest); how long it takes is not measured yet; 8.59 GB on the fullest device"
    )
    assert took.message == "took 68.5 s, and 2 s more until it was warm"
    assert left(told, "foreseen") == [None] and left(told, "progress")[:2] == [None, None]
    seconds = ("seconds", "step_s", "text_s", "decode_s", "load_s")
    assert {name: before.to_plain()["foreseen"][name] for name in seconds} == dict.fromkeys(seconds)
    plain = record.prediction()
    assert plain["foreseen"]["step_s"] is None and plain["foreseen"]["rejected"][0]["step_s"] is None
    assert plain["took"]["predicted_s"] is None and plain["took"]["ratio"] is None
    assert plain["took"]["seconds"] == pytest.approx(1.5 + 4 * 3.0 + 55.0)


def test_what_came_close_is_told_in_one_line(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    clock.step_s, clock.decode_s = [2.1] * 4, 44.0
    made(toys, specs, told)
    bars = ProgressBars({})
    for event in told:
        bars(event)
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("\r")]
    assert "first              predicted 49 s, took 53.9 s" in lines
    assert any("plan ulysses=2 (it is the fastest); predicted 49 s: 4 steps of 2 s" in line for line in lines)
    assert any("decoding, about 42 s" in line for line in lines)


def test_a_text_that_encoders_were_loaded_for_is_not_compared(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], clock: Clock
) -> None:
    clock.is_cold = True
    took = made(toys, specs, told).nodes["first"].took
    assert took is not None and took.text_s is None and took.decode_s == 55.0


def test_pictures_and_other_denoises_count_neither_as_text_nor_as_decoding(
    toys: ModuleType, specs: dict[str, Any], told: list[Event]
) -> None:
    def draw(*, progress: Progress) -> Latents:
        progress.spread("", [RankWork(rank=0, device="cpu", seconds=70.0)])
        return Latents(family="f", width=8, height=8)

    def again(text: Conditioning, latents: Latents, *, progress: Progress) -> Latents:
        del text
        progress.foresee(FORESEEN)
        progress.spread("", [RankWork(rank=0, device="cpu", seconds=300.0)])
        return latents

    def spec(function: Any, name: str, **options: Any) -> Any:
        return read_spec(function, title=name, category="c", uses_device=True, id=name, **options)

    specs |= {"Draw": spec(draw, "Draw"), "Again": spec(again, "Again", denoises=specs["Paint"].denoises)}
    nodes = {
        "text": ("Read", {}),
        "picture": ("Draw", {}),
        "first": ("Again", {"text": "@text.conditioning", "latents": "@picture.latents"}),
        "second": ("Again", {"text": "@text.conditioning", "latents": "@first.latents"}),
        "shown": ("Expose", {"latents": "@second.latents"}),
    }
    result = run(toys.graph(nodes, outputs={"picture": "shown.image"}), specs, sink=told.append)
    took = [result.nodes[name].took for name in ("first", "second")]
    assert [(each.text_s, each.decode_s) for each in took if each] == [(1.5, None), (1.5, 55.0)]


def test_what_was_not_done_is_not_compared(
    toys: ModuleType, specs: dict[str, Any], told: list[Event], tmp_path: Path
) -> None:
    cache = DiskCache(tmp_path, 10**6)
    specs |= {name: dataclasses.replace(specs[name], is_kept=False) for name in ("Paint", "Expose")}
    made(toys, specs, told, disk_cache=cache)
    told.clear()
    result = made(toys, specs, told, disk_cache=cache)
    took = result.nodes["first"].took
    assert result.nodes["text"].cached == "disk" and took is not None and took.text_s is None
    assert "steps 12 s" in told[-2].message and "text" not in told[-2].message


def test_comfyui_s_log_tells_the_prediction(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "latentloom"):
        ComfyProgress().foresee(FORESEEN)
    assert caplog.messages[0].startswith("plan ulysses=2 (it is the fastest); predicted 49 s: 4 steps of 2 s")
