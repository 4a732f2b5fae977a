"""The plan `auto`: chosen by prediction, the same in preview, key and run, kept, and carried by what a run makes."""

import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from latentloom.__main__ import main
from latentloom.nodes.execution.events import Event
from latentloom.nodes.execution.manifest import workflow_sha256
from latentloom.nodes.execution.schedule import Schedule
from latentloom.nodes.execution.watch import NodeProgress, Watch
from latentloom.nodes.files.picture_files import WORKFLOW_KEY
from latentloom.nodes.files.workspace import Workspace
from latentloom.nodes.graph.graph import Graph, read_graph
from latentloom.nodes.graph.ready import ready
from latentloom.nodes.preview.foretelling import PLANS_KEY, choice_of, leeways, with_plans
from latentloom.nodes.preview.preview import planned
from latentloom.nodes.preview.walk import Walk
from latentloom.nodes.registry import SPECS
from latentloom.parallel.errors import Cancelled
from latentloom.parallel.machine.now import DeviceNow
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.pool import measuring
from latentloom.parallel.pool.trial import Deadline
from latentloom.parallel.progress import SILENT, Foreseen, Progress
from latentloom.pipelines import placement
from latentloom.pipelines.costs import software
from latentloom.pipelines.costs.machine import Machine
from latentloom.pipelines.costs.step import Speeds
from latentloom.pipelines.costs.wires import Group, Measured, Speed
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.place import names_plan, read_plan
from latentloom.pipelines.planning import auto, choice, compiling, foreseen, here
from latentloom.pipelines.planning import planned as planning
from latentloom.pipelines.planning.auto import (
    KeptChoice,
    choice_path,
    choices_folder,
    choose,
    keep_choice,
)
from latentloom.pipelines.planning.choice import Candidate
from latentloom.pipelines.planning.known import machine_at, seen, spot_of
from latentloom.pipelines.planning.terms import EXACT, Chosen, Leeway, Wanted, by_bucket
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
    alone = machine.speeds(1)
    chip = dataclasses.replace(alone.chip, single_flops=1e9)
    around = Group(2, 1, 2)
    speeds = {
        ("exchange", around): Speed(0.5, 1e9),
        ("gather", around): Speed(0.5, 1e9),
        ("hop", around): Speed(1e-4, 1e9),
    }
    many = dataclasses.replace(alone, chip=chip, wires=Measured(speeds=speeds))
    one = dataclasses.replace(alone, chip=chip)
    return dataclasses.replace(machine, at={1: one, 2: many}, is_measured=True, is_assumed=False)


@pytest.fixture
def _rings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A ring is the fastest of two ranks here, and choices are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(auto, "machine_at", lambda spot: slow_gathers(machine_at(spot)))
    auto._chosen.cache_clear()
    yield
    auto._chosen.cache_clear()


def scheduled(graph: Graph, num: int = 2, plan: str = "", num_runs: int = 1) -> Schedule:
    place = Place(devices=("cpu",) * num, plan=plan)
    workspace = Workspace(roots=None, place=place, num_runs=num_runs)
    return schedule(graph, SPECS, overrides=ASKED, workspace=workspace)


def previewed(graph: Graph, num: int = 2, plan: str = "", num_runs: int = 1) -> tuple[str, str]:
    workspace = Workspace(roots=None, place=Place(devices=("cpu",) * num, plan=plan), num_runs=num_runs)
    [node] = planned(Walk(ready(graph, SPECS, ASKED), workspace=workspace, accelerators=()), seen())[0]
    return node.plan, node.why


def chosen_for(planned: Schedule) -> Chosen:
    choice = planned.plans["denoise"].choice
    assert choice is not None
    return choice


# ---- what is chosen


@pytest.mark.parametrize(
    ("num", "is_guided", "plan"),
    [(2, True, "cfg=2"), (2, False, "ulysses=2"), (4, True, "cfg=2,ulysses=2"), (4, False, "ulysses=4")],
)
def test_a_machine_that_nobody_measured_idles_no_device(num: int, is_guided: bool, plan: str) -> None:
    choice = choose(at(num), Wanted(is_guided=is_guided))
    assert str(choice.plan) == plan and f"plan auto is {plan} on {num} devices: " in choice.why
    assert "a step is" not in choice.why  # it would be another number than the one that runs here taught
    assert "whose speed is assumed" in choice.why and choice.rejected


def test_what_cannot_be_predicted_keeps_the_rule_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = choose(at(2, cluster="auto"), UNGUIDED)
    assert str(cluster.plan) == "ulysses=2" and "by rule, because the machines of a cluster" in cluster.why
    whole = choose(dataclasses.replace(at(2), family=""), Wanted(is_guided=True))
    assert str(whole.plan) == "cfg=2" and "by rule" in whole.why
    monkeypatch.setattr("latentloom.pipelines.planning.plans.SPLIT_PLANS", {})
    assert choose(at(4), UNGUIDED).plan.num_ranks == 1


def test_the_bucket_of_a_text_is_the_models_own_length_or_a_power_of_two() -> None:
    lengths = [by_bucket(Wanted(text_length=each), BOBBIN).text_length for each in (0, 3, 40, 41, 129)]
    assert lengths == [40, 40, 40, 64, 256]


def test_preview_run_and_a_call_by_hand_choose_alike() -> None:
    graph = read_graph(FIRST)
    choice = chosen_for(scheduled(graph))
    assert (str(choice.plan), choice.why) == previewed(graph)
    assert choice == choose(at(2), dataclasses.replace(UNGUIDED, width=128, height=128))


def test_repeated_choices_cost_nothing_to_speak_of() -> None:
    choose(at(2), UNGUIDED)
    before = auto._chosen.cache_info().misses
    for _ in range(5):
        choose(at(2), UNGUIDED)
    assert auto._chosen.cache_info().misses == before


# ---- a plan that rounds differently


def test_a_ring_is_part_of_the_key_and_kept_until_it_is_to_be_learned_anew(
    _rings: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = read_graph(FIRST)
    ring = scheduled(graph)
    assert str(chosen_for(ring).plan) == "ring=2" == previewed(graph)[0]
    folder = choices_folder()
    assert folder is not None
    [file] = folder.iterdir()
    monkeypatch.setattr(auto, "machine_at", machine_at)  # what is predicted changes; a choice does not
    auto._chosen.cache_clear()
    again = scheduled(graph)
    assert str(chosen_for(again).plan) == "ring=2" and "it was chosen before" in chosen_for(again).why
    assert again.keys == ring.keys
    file.write_text(json.dumps({**json.loads(file.read_text()), "plan": "ring=2,eval=1"}))
    exact = scheduled(graph)  # what is damaged counts as none
    assert str(chosen_for(exact).plan) == "ulysses=2"
    assert exact.keys["denoise"] != ring.keys["denoise"] and exact.keys["encode_text"] == ring.keys["encode_text"]
    assert exact.keys == scheduled(graph, plan="auto").keys
    assert main(["plan", "--relearn"]) == 0 and "1 kept plan dropped" in capsys.readouterr().out
    assert not list(folder.iterdir())


def test_rows_of_a_decode_are_settled_beforehand_and_part_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, asked = read_graph(FIRST), list[tuple[Model, ParallelPlan]]()

    def two(model: Model, wanted: Wanted, plan: ParallelPlan) -> int:
        asked.append((model, plan))
        return 2

    plain = scheduled(graph)
    assert plain.decoders == {"decode": 1} and scheduled(graph, num=0).decoders == {"decode": 0}
    assert scheduled(graph, num=0).keys == plain.keys
    monkeypatch.setattr(foreseen, "decoders_for", two)
    rows = scheduled(graph)
    assert rows.decoders == {"decode": 2} and asked == [(at(2), chosen_for(plain).plan)]
    changed = {name for name, key in rows.keys.items() if key != plain.keys[name]}
    assert changed == {"decode", "save"}


def test_plan_of_this_machine_is_what_is_kept_until_it_is_learned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spot, folder = spot_of(("cpu", "cpu")), choices_folder()
    assert folder is not None
    monkeypatch.setattr(here, "machine_here", lambda folder, *, anew: machine_at(spot))
    path = choice_path(folder, BOBBIN, Wanted(is_guided=True), spot)
    keep_choice(path, KeptChoice(plan=ParallelPlan(ring=2), is_measured=False), BOBBIN)
    told = {}
    for options in ((), ("--relearn",)):
        assert main(["plan", "builtin:bobbin", *options]) == 0
        told[options] = capsys.readouterr().out
    assert "plan    ring=2" in told[()] and "it was chosen before and stays" in told[()]
    assert "plan    cfg=2" in told["--relearn",] and not path.exists()


def test_of_unknown_latents_no_ring_is_foretold(_rings: None) -> None:
    graph = read_graph(FIRST)
    walk = Walk(ready(graph, SPECS, ASKED), workspace=Workspace(roots=None, place=Place(devices=("cpu", "cpu"))))
    asked, _ = walk.denoise("denoise")
    unknown = dataclasses.replace(asked, latents=None)
    assert not choice_of(walk, "denoise", unknown, now=seen()).rounds_differently
    walk._denoises["denoise"] = (unknown, ())
    assert leeways(walk, ["denoise"]) == {"denoise": EXACT}


def test_a_plan_that_nobody_has_foreseen_does_not_round_differently(_rings: None) -> None:
    assert str(choose(at(2), UNGUIDED).plan) == "ring=2"
    assert not choose(at(2), UNGUIDED, may_round=False).rounds_differently
    assert not placement.choice_for(at(2), UNGUIDED, EXACT).rounds_differently
    other = Leeway(choice=Chosen(plan=ParallelPlan(ring=2), why=""), is_guided=True)
    assert not placement.choice_for(at(2), UNGUIDED, other).rounds_differently  # the guidance came by a wire


def test_what_was_chosen_unmeasured_gives_way_to_measurements(_rings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as unmeasured:
        unmeasured.setattr(auto, "machine_at", machine_at)
        assert str(choose(at(2), UNGUIDED, keeps=True).plan) == "ulysses=2"
    auto._chosen.cache_clear()
    assert str(choose(at(2), UNGUIDED, keeps=True).plan) == "ring=2"


@pytest.mark.usefixtures("_rings")
def test_a_kept_plan_that_does_not_fit_any_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(choose(at(2), UNGUIDED, keeps=True).plan) == "ring=2"

    def with_little_room(*asked: object, **options: object) -> Candidate:
        found = candidate(*asked, **options)
        return dataclasses.replace(found, lacking_bytes=1 << 30) if found.plan.ring > 1 else found

    candidate = choice.candidate
    monkeypatch.setattr(choice, "candidate", with_little_room)
    auto._chosen.cache_clear()
    why = choose(at(2), UNGUIDED, keeps=True).why
    assert "the plan ring=2 that was chosen before does not fit any more (it lacks 1.0 GiB on a device), so" in why
    assert "chosen before" not in choose(at(2), UNGUIDED, keeps=True).why  # it is kept instead


# ---- carried by results


def carrying(plans: object) -> Graph:
    graph = read_graph(FIRST)
    return graph.model_copy(update={"meta": {**graph.meta, PLANS_KEY: plans}})


def test_a_workflow_of_a_result_is_run_by_its_plan() -> None:
    graph, plain = carrying({"denoise": "allgather=2"}), read_graph(FIRST)
    assert str(chosen_for(scheduled(graph)).plan) == "allgather=2" == previewed(graph)[0]
    assert workflow_sha256(graph) == workflow_sha256(plain) and scheduled(graph).keys == scheduled(plain).keys
    assert previewed(graph, plan="auto")[0] == "ulysses=2"  # the user asks for a choice
    assert previewed(graph, plan="ring=2")[0] == "ring=2"


@pytest.mark.parametrize("plans", [{"denoise": "ring=4"}, {"denoise": "cfg=2"}])
def test_a_plan_that_cannot_be_had_gives_way_and_says_so(plans: dict[str, str]) -> None:
    plan, why = previewed(carrying(plans))
    assert plan == "ulysses=2" and "that the workflow's result was made by cannot be had here" in why


def test_a_plan_for_fewer_devices_is_taken_only_where_it_rounds_differently() -> None:
    exact, ring = (previewed(carrying({"denoise": plan}), num=4) for plan in ("allgather=2", "ring=2"))
    assert exact[0] == "ulysses=4" and "was made by is not for 4 devices, so another is chosen" in exact[1]
    assert ring[0] == "ring=2"


@pytest.mark.parametrize("plans", ["x", {"denoise": 7}, {"denoise": "spiral=2"}, {"other": "ring=2"}, []])
def test_a_strangers_plans_that_are_none_do_no_harm(plans: object) -> None:
    assert previewed(carrying(plans))[0] == "ulysses=2"


def test_what_is_carried_is_the_plan_of_several_ranks() -> None:
    text = FIRST.read_text()
    told = with_plans({WORKFLOW_KEY: text, "prompt": "p"}, {"denoise": "ring=2", "other": "ulysses=1"})
    assert read_graph(told[WORKFLOW_KEY]).meta[PLANS_KEY] == {"denoise": "ring=2"} and told["prompt"] == "p"
    assert with_plans({WORKFLOW_KEY: text}, {"denoise": "ulysses=1"}) == {WORKFLOW_KEY: text}


# ---- compiled


def busy_hosts(machine: Machine) -> Machine:
    """Slow GPUs that were measured, whose host takes so long to launch that a few runs make up for compiling."""

    def slow(speeds: Speeds) -> Speeds:
        chip = dataclasses.replace(speeds.chip, single_flops=1e8)
        return dataclasses.replace(speeds, chip=chip, launch_s=1e-3)

    at = {count: slow(speeds) for count, speeds in machine.at.items()}
    return dataclasses.replace(machine, at=at, kind="cuda", is_measured=True, is_assumed=False)


@pytest.fixture
def _compiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(auto, "machine_at", lambda spot: busy_hosts(machine_at(spot)))
    monkeypatch.setattr(compiling, "check_engine", lambda *_, **__: None)
    monkeypatch.setattr(planning, "is_captured", lambda *_, **__: False)  # else no host is waited for
    quicker = dataclasses.replace(software.COMPILED, launches=60.0, sharded_launches=0.0)
    monkeypatch.setattr(software, "COMPILED", quicker)
    auto._chosen.cache_clear()
    yield
    auto._chosen.cache_clear()


@pytest.mark.usefixtures("_compiles")
def test_compiled_is_chosen_for_runs_that_make_up_for_it_and_is_part_of_the_key_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = read_graph(FIRST)
    single, sweep = scheduled(graph, plan=COMPILING), scheduled(graph, plan=COMPILING, num_runs=9)
    one, many = chosen_for(single), chosen_for(sweep)
    assert str(one.way) == "ulysses=2" and "not compiled, which would save nothing of one run, about 60 s" in one.why
    assert one.rejected[0][0] == "ulysses=2,compiled" and "slower over one run" in one.rejected[0][2]
    assert str(many.way) == "ulysses=2,compiled" and many.rejected[0][0] == "ulysses=2"
    assert "of the time of 8 runs, about 60 s of compiling counted, and rounds differently" in many.why
    assert (str(many.way), many.why) == previewed(graph, plan=COMPILING, num_runs=15)
    assert chosen_for(scheduled(graph, plan="auto", num_runs=9)).way == one.way  # who did not ask for it
    assert single.keys == scheduled(graph, plan="auto").keys
    changed = {name for name, key in sweep.keys.items() if key != single.keys[name]}
    assert changed == {"denoise", "decode", "save"}
    with monkeypatch.context() as fast:  # what is predicted changes; a choice does not
        fast.setattr(
            auto, "machine_at", lambda spot: dataclasses.replace(machine_at(spot), kind="cuda", is_assumed=False)
        )
        auto._chosen.cache_clear()
        again = scheduled(graph, plan=COMPILING, num_runs=9)
        assert again.keys == sweep.keys and auto.KEPT in chosen_for(again).why
        assert scheduled(graph, plan=COMPILING).keys == single.keys
    monkeypatch.setattr(compiling, "check_engine", missing)
    lost = chosen_for(scheduled(graph, plan=COMPILING, num_runs=9))
    assert not lost.is_compiled and lost.why.endswith("not compiled as before, because no Triton")


def quick(machine: Machine) -> Machine:
    at = {count: dataclasses.replace(speeds, launch_s=1e-6) for count, speeds in machine.at.items()}
    return dataclasses.replace(machine, at=at)


def missing(engine: str, *, device: str) -> None:
    raise ValueError("no Triton")


@pytest.mark.usefixtures("_compiles")
def test_a_result_that_was_compiled_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = scheduled(read_graph(FIRST), plan=COMPILING, num_runs=8)
    carried = with_plans({WORKFLOW_KEY: FIRST.read_text()}, {"denoise": str(chosen_for(sweep).way)})
    graph = read_graph(carried[WORKFLOW_KEY])
    assert scheduled(graph).keys == sweep.keys and auto.MADE_BY in chosen_for(scheduled(graph)).why
    assert not chosen_for(scheduled(graph, plan="auto")).is_compiled
    alone = chosen_for(scheduled(carrying({"denoise": "ulysses=1,compiled"}), num=1))
    assert str(alone.way) == "ulysses=1,compiled"
    assert with_plans({WORKFLOW_KEY: FIRST.read_text()}, {"denoise": str(alone.way)})[WORKFLOW_KEY] != FIRST.read_text()
    monkeypatch.setattr(compiling, "check_engine", missing)
    lost = chosen_for(scheduled(graph))
    assert not lost.is_compiled and "was made by cannot be had here (no Triton), so another is chosen" in lost.why


@pytest.mark.usefixtures("_compiles")
def test_what_auto_compiles_is_compiled_on_ranks_and_told_by_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(Progress):
        def foresee(self, foreseen: Foreseen) -> None:
            told.append(foreseen.plan)

        def spread(self, plan: str, ranks: object) -> None:
            told.append(plan)

    told, asked = list[str](), list[Denoise]()
    monkeypatch.setattr(placement, "_denoise", lambda request, progress: asked.append(request))
    chosen = choose(at(2, COMPILING), Wanted(), num_runs=8)
    nothing = Conditioning(family="flux", prompt="", negative_prompt="", positive={})
    request = Denoise(
        model=at(2, COMPILING),
        conditioning=nothing,
        latents=Latents(family="flux", width=128, height=128),
        guidance=1.0,
    )
    placement.denoise(request, Heard(), leeway=Leeway(choice=chosen))
    assert asked[0].model.engine == "inductor" and asked[0].plan == chosen.plan and told == ["ulysses=2,compiled"] * 2
    node = NodeProgress("denoise", Watch(lambda event: None, threading.Event(), previews=False))
    for plan in (told[0], "ulysses=2"):  # as a rank calls it
        node.spread(plan, [])
    assert node.plan == told[0]
    cached = request.resolved(step_cache="first_block")  # whose wire nobody had foreseen
    placement.denoise(cached, Heard(), leeway=Leeway(choice=chosen))
    assert asked[1].model.engine == "eager"


def test_why_nothing_is_compiled_is_told() -> None:
    for model, wanted, why in (
        (at(1, COMPILING), Wanted(), "nobody has measured what that saves on a CPU"),
        (at(2, COMPILING), Wanted(has_step_cache=True), "a step cache runs blocks that a graph would hold"),
        (at(2, COMPILING, cluster="auto"), Wanted(), "how long it takes is not known"),
    ):
        choice = choose(model, wanted, num_runs=1000)
        assert not choice.is_compiled and f"; not compiled, because {why}" in choice.why
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
    monkeypatch.setattr(here, "spot_of", lambda devices: spot_of(devices, now))
    monkeypatch.setattr(here, "_tried", set())


def test_gpus_that_nobody_measured_are_measured_once_and_a_failure_is_told(
    _gpus: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []

    def fails(devices: object, *, asker: Progress) -> None:
        asked.append(devices)
        raise RuntimeError("no ranks today")

    monkeypatch.setattr(measuring, "measure", fails)
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
    monkeypatch.setattr(measuring, "measure", measure)
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


def test_kept_plans_that_may_not_be_dropped_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = choices_folder()
    assert folder is not None
    (folder / "0.json").mkdir(parents=True)  # what no unlink takes away
    assert main(["plan", "--relearn"]) != 0 and "cannot be dropped" in capsys.readouterr().err
