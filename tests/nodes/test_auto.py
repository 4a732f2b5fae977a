"""The plan `auto`, chosen by prediction, alike in preview and run; and plans that round differently, by name alone."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.manifest import workflow_sha256
from latentloom.nodes.execution.schedule import Schedule
from latentloom.nodes.execution.watch import NodeProgress, Watch
from latentloom.nodes.files.picture_files import WORKFLOW_KEY
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, read_graph
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.preview.carried import PLANS_KEY, with_plans
from latentloom.nodes.preview.preview import planned
from latentloom.nodes.preview.walk import Walk
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.machine.now import DeviceNow
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.pool import trial
from latentloom.parallel.pool.trial import Deadline
from latentloom.parallel.progress import SILENT, Foreseen, Progress
from latentloom.pipelines import placement
from latentloom.pipelines.costs.chips import Fabric
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.forecast import forecast, here
from latentloom.pipelines.forecast.auto import choose, foreseen_for
from latentloom.pipelines.forecast.known import machine_at, seen, spot_of
from latentloom.pipelines.forecast.plans import Wanted, at_work, spelt_at_work
from latentloom.pipelines.models import describe
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.place import names_plan, read_plan
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.values import COMPILING, Conditioning, Latents, Model, Place
from support.prepared import run, schedule

FIRST = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json"
BOBBIN = describe_model("builtin:bobbin", device="cpu")
ASKED = {"encode_text.prompt": "x", "denoise.guidance": 1.0}
UNGUIDED = Wanted(is_guided=False)


def at(num: int, plan: str = "", **place: str) -> Model:
    return dataclasses.replace(BOBBIN, place=Place(devices=("cpu",) * num, plan=plan, **place))


def slow_gathers(machine: Machine) -> Machine:
    """Measured, and on it a ring saves more than a tenth."""
    alone = machine.chip(1)
    one = dataclasses.replace(alone, single_flops=1e9)
    starts = {"exchange": 0.5, "gather": 0.5, "hop": 1e-4}
    speeds = {(operation, 2, 1, 2): (start_s, 1e9) for operation, start_s in starts.items()}
    many = dataclasses.replace(one, wires=Fabric(name="measured", measured=speeds, tax=0.0))
    return dataclasses.replace(machine, at={1: one, 2: many}, is_measured=True, is_assumed=False)


@pytest.fixture
def _rings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A ring is the fastest of two ranks here."""
    monkeypatch.setattr(forecast, "machine_at", lambda spot: slow_gathers(machine_at(spot)))
    forecast._kept.cache_clear()
    yield
    forecast._kept.cache_clear()


def scheduled(graph: Graph, num: int = 2, plan: str = "") -> Schedule:
    workspace = Workspace(roots=None, place=Place(devices=("cpu",) * num, plan=plan))
    return schedule(graph, SPECS, overrides=ASKED, workspace=workspace)


def previewed(graph: Graph, num: int = 2, plan: str = "") -> tuple[str, str]:
    workspace = Workspace(roots=None, place=Place(devices=("cpu",) * num, plan=plan))
    [node] = planned(Walk(ready(graph, SPECS, ASKED), workspace=workspace, accelerators=()), seen())[0]
    return node.plan, node.why


# ---- what is chosen


@pytest.mark.parametrize(
    ("num", "is_guided", "plan"),
    [(2, True, "cfg=2"), (2, False, "ulysses=2"), (4, True, "cfg=2,ulysses=2"), (4, False, "ulysses=4")],
)
def test_a_machine_that_nobody_measured_idles_no_device(num: int, is_guided: bool, plan: str) -> None:
    chosen, why = choose(at(num), Wanted(is_guided=is_guided))
    assert str(chosen) == plan and f"plan auto is {plan} on {num} devices: " in why
    assert "a step is" not in why  # it would be another number than the one that runs here taught
    assert "whose speed is assumed" in why


def test_what_cannot_be_predicted_keeps_the_rule_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, why = choose(at(2, cluster="auto"), UNGUIDED)
    assert str(cluster) == "ulysses=2" and "by rule, because the machines of a cluster" in why
    whole, why = choose(dataclasses.replace(at(2), family=""), Wanted(is_guided=True))
    assert str(whole) == "cfg=2" and "by rule" in why
    with monkeypatch.context() as other:
        other.setattr("latentloom.pipelines.forecast.asked._blocks", lambda _: {})
        _, why = choose(at(2), dataclasses.replace(UNGUIDED, steps=77))
    blocks = "has no blocks of weights by which its time could be predicted"
    assert why.endswith(f"; by rule, because FluxTransformer2DModel {blocks}")
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    assert choose(at(4), UNGUIDED)[0].num_ranks == 1


def test_preview_and_a_run_choose_alike() -> None:
    plan, why = choose(at(2), dataclasses.replace(UNGUIDED, width=128, height=128))
    assert (str(plan), why) == previewed(read_graph(FIRST))


def test_short_prompts_choose_no_plan() -> None:
    lengths = [choose(at(2), dataclasses.replace(UNGUIDED, text_length=each)) for each in (0, 3, 40)]
    assert lengths[0] == lengths[1] == lengths[2]


def test_repeated_choices_cost_nothing_to_speak_of() -> None:
    choose(at(2), UNGUIDED)
    before = forecast._kept.cache_info().misses
    for _ in range(5):
        choose(at(2), UNGUIDED)
    assert forecast._kept.cache_info().misses == before


# ---- what rounds differently


@pytest.mark.usefixtures("_rings")
def test_a_ring_is_never_chosen_and_what_it_would_save_is_told() -> None:
    assert str(choose(at(2), UNGUIDED)[0]) == "ulysses=1" == previewed(read_graph(FIRST))[0]
    nothing = Conditioning(family="flux", prompt="", negative_prompt="", positive={})
    request = Denoise(model=at(2), conditioning=nothing, latents=Latents(family="flux", width=128, height=128))
    found = foreseen_for(request, ParallelPlan(), is_guided=False)
    assert found is not None and found.rejected[0][0] == "ring=2"
    assert "faster, but it rounds differently" in found.rejected[0][2]


def keys(num: int = 2, plan: str = "", graph: Graph | None = None) -> dict[str, str]:
    return dict(scheduled(graph or read_graph(FIRST), num=num, plan=plan).keys)


def changed(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name, key in one.items() if key != other[name]}


ASKED_FOR = {"denoise", "decode", "save"}


@pytest.mark.parametrize("plan", ["ring=2", "cfg=2,ring=2", COMPILING])
def test_a_plan_that_is_asked_for_and_rounds_differently_has_keys_of_its_own(plan: str) -> None:
    num = 4 if "cfg" in plan else 2
    assert changed(keys(num, plan), keys(num)) >= ASKED_FOR
    assert changed(keys(plan=COMPILING), keys()) == ASKED_FOR


def test_an_engine_has_keys_of_its_own_and_is_not_compiled_twice() -> None:
    graph = read_graph(FIRST)
    load = graph.nodes["load_model"]
    load = load.model_copy(update={"inputs": {**load.inputs, "engine": "inductor"}})
    graph = graph.model_copy(update={"nodes": {**graph.nodes, "load_model": load}})
    assert changed(keys(graph=graph), keys()) >= ASKED_FOR
    assert keys(plan=COMPILING, graph=graph) == keys(graph=graph)


def test_what_auto_chooses_is_part_of_no_key() -> None:
    assert keys() == keys(plan="auto") == keys(num=4) == keys(num=0)


def test_rows_of_a_decode_are_part_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = keys()
    monkeypatch.setattr(placement, "decoders_for", lambda model, wanted, plan: plan.num_ranks)
    assert changed(keys(), plain) == {"decode", "save"} and keys(num=0) == plain


# ---- carried by results


def carrying(plans: object) -> Graph:
    graph = read_graph(FIRST)
    return graph.model_copy(update={"meta": {**graph.meta, PLANS_KEY: plans}})


@pytest.mark.parametrize("plan", ["ring=2", "ulysses=2,compiled", "ring=2,compiled", COMPILING])
def test_a_workflow_of_a_result_that_rounds_differently_is_run_as_that_was(plan: str) -> None:
    graph, plain = carrying({"denoise": plan}), read_graph(FIRST)
    assert scheduled(graph).plans == {"denoise": plan} and changed(keys(graph=graph), keys()) == ASKED_FOR
    assert previewed(graph)[0] == plan.replace("auto", "ulysses=2") and "result was made by it" in previewed(graph)[1]
    assert workflow_sha256(graph) == workflow_sha256(plain)
    for own in ("auto", "ulysses=2"):  # the user asks for another
        assert previewed(graph, plan=own)[0] == "ulysses=2"
        assert keys(plan=own, graph=graph) == keys(plan=own)
    assert keys(num=0, graph=graph) == keys(num=0)


@pytest.mark.parametrize("plan", ["ring=2", "ulysses=2,compiled"])
def test_a_run_hands_its_denoise_the_plan_that_a_result_carries(plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Enough(Exception):
        pass

    def denoise(request: Denoise, progress: Progress) -> Latents:
        asked.append(request.model)
        raise Enough

    asked = list[Model]()
    monkeypatch.setattr(
        placement, "encode_text", lambda *_: Conditioning(family="flux", prompt="", negative_prompt="", positive={})
    )
    monkeypatch.setattr(placement, "denoise", denoise)
    place = Place(devices=("cpu", "cpu"))
    run(carrying({"denoise": plan}), SPECS, overrides=ASKED, workspace=Workspace(roots=None, place=place))
    assert [model.place.plan for model in asked] == [plan]
    chosen = placement.plan_for(asked[0], UNGUIDED)[0]
    assert spelt_at_work(chosen, asked[0], has_step_cache=False) == plan
    assert at_work(asked[0]).engine == ("inductor" if "compiled" in plan else "eager")


@pytest.mark.parametrize("plan", ["cfg=2", "allgather=2", "ulysses=1", "ulysses=8"])
def test_plans_of_the_same_sums_that_older_results_carry_are_passed_over(plan: str) -> None:
    graph = carrying({"denoise": plan})
    assert previewed(graph) == previewed(read_graph(FIRST)) and keys(graph=graph) == keys()


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ("ring=4", "uses 4 ranks, but 2 devices were given"),
        ("ring=2,weights=2,compiled", "no Triton"),
        ("ulysses=2,compiled", "no Triton"),
    ],
)
def test_a_plan_that_cannot_be_had_gives_way_and_says_so(
    plan: str, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(describe, "check_engine", missing)
    graph = carrying({"denoise": plan})
    taken, told = previewed(graph)
    assert taken == "ulysses=2" and f"the plan {plan} that the workflow's result was made by cannot be had here" in told
    assert why in told and "so another is chosen; plan auto is ulysses=2" in told
    with caplog.at_level(logging.WARNING, "latentloom"):
        assert keys(graph=graph) == keys()
    assert why in caplog.text


@pytest.mark.parametrize(
    "plans", ["x", {"denoise": 7}, {"denoise": "spiral=2"}, {"denoise": "ring=2,eval=1"}, {"other": "ring=2"}, []]
)
def test_a_strangers_plans_that_are_none_do_no_harm(plans: object) -> None:
    assert previewed(carrying(plans))[0] == "ulysses=2" and keys(graph=carrying(plans)) == keys()


def test_what_is_carried_is_what_rounds_differently() -> None:
    text = FIRST.read_text()
    told = with_plans({WORKFLOW_KEY: text, "prompt": "p"}, scheduled(read_graph(FIRST), plan="ring=2").plans)
    assert read_graph(told[WORKFLOW_KEY]).meta[PLANS_KEY] == {"denoise": "ring=2"} and told["prompt"] == "p"
    assert with_plans({WORKFLOW_KEY: text}, scheduled(read_graph(FIRST)).plans) == {WORKFLOW_KEY: text}


# ---- compiled


def missing(engine: str, **_: object) -> None:
    if engine == "inductor":
        raise ValueError("no Triton")


def test_auto_compiled_is_auto_with_the_engine_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(Progress):
        def foresee(self, foreseen: Foreseen) -> None:
            told.append(foreseen.plan)

        def spread(self, plan: str, ranks: object) -> None:
            told.append(plan)

    told, asked = list[str](), list[Denoise]()
    monkeypatch.setattr(placement, "_run", lambda request, *_, **__: asked.append(request))
    nothing = Conditioning(family="flux", prompt="", negative_prompt="", positive={})
    request = Denoise(
        model=at(2, COMPILING),
        conditioning=nothing,
        latents=Latents(family="flux", width=128, height=128),
        guidance=1.0,
    )
    placement.denoise(request, Heard())
    assert asked[0].model.engine == "inductor" and str(asked[0].plan) == "ulysses=2"
    assert told == ["ulysses=2,compiled"] * 2 == [previewed(read_graph(FIRST), plan=COMPILING)[0]] * 2
    node = NodeProgress("denoise", Watch(lambda event: None, threading.Event(), previews=False))
    for plan in (told[0], "ulysses=2"):  # as a rank calls it
        node.spread(plan, [])
    assert node.plan == told[0]
    cached = request.resolved(step_cache="first_block")
    placement.denoise(cached, Heard())
    assert asked[1].model.engine == "eager"


def test_why_nothing_is_compiled_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _, why = choose(at(2, COMPILING), Wanted(has_step_cache=True))
    assert why.endswith("; not compiled, because a step cache runs blocks that a graph would hold")
    assert not at_work(at(2, COMPILING), has_step_cache=True).is_compiled
    assert at_work(at(2, COMPILING, cluster="auto")).is_compiled
    monkeypatch.setattr(describe, "check_engine", missing)
    assert choose(at(2, COMPILING), Wanted())[1].endswith("; not compiled, because no Triton")
    assert not at_work(at(2, COMPILING)).is_compiled
    assert keys(plan=COMPILING) == keys()
    assert read_plan(" auto, compiled") == COMPILING and not names_plan(Place(plan=COMPILING))
    with pytest.raises(ValueError, match="compiled goes with auto alone"):
        read_plan("ulysses=2,compiled")


# ---- measured first


@pytest.fixture
def _gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that nobody has measured."""
    now = tuple(
        DeviceNow(name=name, title="a GPU", total_bytes=1 << 34, used_bytes=0, load=0.0)
        for name in ("cuda:0", "cuda:1")
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(here, "devices_now", lambda: now)
    monkeypatch.setattr(here, "spot_of", lambda devices, _=None: spot_of(devices, now))
    monkeypatch.setattr(here, "_tried", set())


def test_gpus_that_nobody_measured_are_measured_once_and_a_failure_is_told(
    _gpus: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []

    def fails(devices: object, *, asker: Progress) -> None:
        asked.append(devices)
        raise RuntimeError("no ranks today")

    monkeypatch.setattr(trial, "measure", fails)
    here.measure_first(["cuda:0"], SILENT, is_free=lambda: True)
    here.measure_first(["cuda:0", "cuda:1"], SILENT, is_free=lambda: False)
    assert not asked
    with caplog.at_level(logging.WARNING, "latentloom"):
        for _ in range(2):
            here.measure_first(["cuda:0", "cuda:1"], SILENT, is_free=lambda: True)
    assert len(asked) == 1 and "was not measured (no ranks today)" in caplog.text


def test_who_cancels_while_the_machine_is_measured_is_heard_and_it_is_measured_later(
    _gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def measure(devices: object, *, asker: Progress) -> None:
        asked.append(devices)
        Deadline(10.0, close=lambda: None, words="too late", asker=asker).check()

    told = Told()
    monkeypatch.setattr(trial, "measure", measure)
    for _ in range(2):
        with pytest.raises(Cancelled):
            here.measure_first(["cuda:0", "cuda:1"], told, is_free=lambda: True)
    assert len(asked) == 2 and told.phases == ["measuring this machine, once"] * 2


class Told(Progress):
    """Cancels what has told of a phase."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.phases.append(text)

    def check(self) -> None:
        if self.phases:
            raise Cancelled


def test_a_run_tells_that_it_measures_before_its_plan_is_chosen_and_ends_when_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measure_first(devices: object, progress: Progress, *, is_free: object) -> None:
        progress.phase("measuring this machine, once", is_loading=True)
        cancel.set()
        progress.check()

    events: list[Event] = []
    cancel = threading.Event()
    monkeypatch.setattr(placement, "measure_first", measure_first)
    workspace = Workspace(roots=None, place=Place(devices=("cpu", "cpu")))
    result = run(read_graph(FIRST), SPECS, overrides=ASKED, workspace=workspace, sink=events.append, cancel=cancel)
    assert result.state == "cancelled" and not result.outputs
    assert [(event.kind, event.node) for event in events] == [
        ("phase", "denoise"),
        ("run_started", ""),
        ("run_cancelled", ""),
    ]


def test_a_second_job_waits_while_the_first_measures(_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    begun = threading.Event()

    def measure_slowly(folder: Path, *, progress: Progress, is_free: Callable[[], bool]) -> None:
        begun.set()
        time.sleep(0.05)
        told.append("measured")

    monkeypatch.setattr(here, "machine_here", measure_slowly)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(here.measure_first, ["cuda:0", "cuda:1"], SILENT, is_free=lambda: True)
        assert begun.wait(10)
        here.measure_first(["cuda:0", "cuda:1"], SILENT, is_free=lambda: True)
        told.append("goes on")
        first.result()
    assert told == ["measured", "goes on"]
