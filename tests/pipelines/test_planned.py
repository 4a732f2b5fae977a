"""The plan for a model and a machine: what is chosen, what is told, and how often it is the fastest.

The texts in `plans/` are made by: python tests/pipelines/test_planned.py
"""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import support.checkout  # noqa: F401 (makes the checkout importable)

from bench.simulated_sweep import NEAR, Cell, cells, outcome
from latentloom.__main__ import main
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Factors
from latentloom.pipelines.components.memory import CONTEXT_BYTES, MEMORY
from latentloom.pipelines.costs.chips import GIB
from latentloom.pipelines.costs.machine import Machine, limited, named_machine, read_machine
from latentloom.pipelines.costs.run import Run, duration, volume
from latentloom.pipelines.forecast.choice import IDLE_GAIN, best, compiled_hint, counts, graphs_told, ring_hint, settled
from latentloom.pipelines.forecast.explained import SECONDS, _encoder, as_text, in_brief, to_plain
from latentloom.pipelines.forecast.forecast import Forecast, forecast
from latentloom.pipelines.forecast.plans import Wanted, is_guided
from latentloom.pipelines.forecast.weights import Need
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import Graphs, Model, TextEncoder
from support.hollow_models import write_hollow

PLANS = Path(__file__).parent / "plans"
# Of each machine the model, its size, and what is asked beside.
TEXTS = {
    "8xH100-nvlink": ("flux", {}, {}),
    "4x4090-pcie4": ("flux", {"width": 2048, "height": 2048}, {"quantization": "int8"}),
    "2xL40S-pcie4": ("qwen_image", {}, {}),
    "8xH200-nvlink": ("wan22", {"width": 1280, "height": 720}, {}),
    "8x5090-pcie5": ("wan22", {"width": 1280, "height": 720}, {}),
    "2xA100-nvlink": ("qwen_image", {}, {"num_runs": 8}),
    "1x4090": ("qwen_image", {}, {}),
    "4xH100-nvlink": ("flux", {}, {"engine": "eager"}),
}

Models = Callable[[str], Path]


@pytest.fixture(scope="module")
def hollow(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Folders of models of true size."""
    base, made = tmp_path_factory.mktemp("hollow"), {}

    def of(name: str) -> Path:
        if name not in made:
            made[name] = write_hollow(base / name, tiny(name), name=name)
        return made[name]

    return of


def plan(folder: Path, machine: str, size: dict[str, int] | None = None, **asked: object) -> Forecast:
    quantization, num_runs = str(asked.get("quantization", "none")), int(str(asked.get("num_runs", 1)))
    model = describe_model(
        str(folder),
        device="cuda:0",
        quantization=quantization,
        engine="eager" if asked.get("engine") == "eager" else "inductor",
        is_here=False,
    )
    wanted = Wanted(is_guided=is_guided(model), **(size or {}))
    return forecast(model, wanted, named_machine(machine), num_runs=num_runs)


def text(folder: Path, machine: str) -> str:
    _, size, asked = TEXTS[machine]
    return as_text(plan(folder, machine, size, **asked), compares=True) + "\n"


@pytest.mark.parametrize("machine", TEXTS)
def test_what_is_told_of_a_machine(hollow: Models, machine: str) -> None:
    assert text(hollow(TEXTS[machine][0]), machine) == (PLANS / f"{machine}.txt").read_text()


def test_no_seconds_are_told_of_a_machine_whose_speed_is_only_assumed(hollow: Models) -> None:
    machine = dataclasses.replace(named_machine("2xH100-nvlink"), is_assumed=True)
    model = describe_model(str(hollow("flux")), device="cuda:0", is_here=False)
    answer = forecast(model, Wanted(), machine)
    told = as_text(answer, compares=True)
    assert "time    not measured yet" in told and not re.search(r"[0-9] m?s\b", told)
    for plan in to_plain(answer)["plans"]:
        assert {name for name, value in plan.items() if value is None} == set(SECONDS)
    learned = dataclasses.replace(machine, factors=Factors(step=1.5, num_runs=3, basis="model"))
    assert "a step  " in as_text(forecast(model, Wanted(), learned))


def of_memory(answer: Forecast, gib: float) -> Forecast:
    """The same on devices with so much memory."""
    machine = limited(answer.machine, int(gib * GIB))
    return forecast(answer.model, answer.wanted, machine)


def test_sections_are_taken_where_all_else_that_fits_waits_longer_for_weights(hollow: Models) -> None:
    answer = plan(hollow("flux"), "2x4090-pcie4")
    found = {str(each.plan): each for each in answer.found}
    assert answer.chosen is not None and answer.chosen.plan.layers == 1, "blocks stream in less time than sections idle"
    sections, alone = found["layers=2"], found["ulysses=1"]
    assert sections.step.idle == pytest.approx(alone.step.seconds / 2, rel=0.1)
    assert not (sections.lacking_bytes or sections.streamed_bytes or sections.rounds_differently)
    slow = dataclasses.replace(answer.machine, pinned_bytes_per_s=2e9)
    taken = forecast(answer.model, answer.wanted, slow)
    assert taken.chosen is not None and taken.chosen.plan == ParallelPlan(layers=2)
    told = " ".join(as_text(taken).split())
    assert "2 devices hold some of the blocks each, because none has room for all" in told
    assert "some of the blocks on each device" in told and "waiting for blocks of others" in told
    cached = forecast(answer.model, dataclasses.replace(answer.wanted, has_step_cache=True), slow)
    assert all(each.plan.layers == 1 for each in cached.found)


def test_the_fuller_section_of_blocks_of_two_kinds_is_counted(hollow: Models) -> None:
    """FLUX's 19 double blocks are larger than its 38 single ones, and take as long."""
    work = plan(hollow("flux"), "2xL40S-pcie4").work
    (part,) = work.transformers
    held, slowest = work.sections(ParallelPlan(layers=2), 0)
    assert len(part.blocks) == 57 and slowest == pytest.approx(0.5, abs=0.02)
    assert held / part.num_bytes == pytest.approx(0.67, abs=0.02)
    beside = work.context_bytes + work.activations(ParallelPlan(layers=2))
    tight, slower = work.sections(ParallelPlan(layers=2), beside + int(0.55 * part.num_bytes))
    assert tight <= 0.55 * part.num_bytes and slower > 0.55, "where a device has no room for that, it is cut elsewhere"


def test_guidance_fills_the_pipeline_of_sections(hollow: Models) -> None:
    found = {str(each.plan): each.step for each in plan(hollow("qwen_image"), "4xH100-nvlink").found}
    for name, branches, count in (("layers=2", 2, 2), ("layers=4", 2, 4), ("cfg=2,layers=2", 1, 2)):
        share = found[name].idle / (found[name].seconds - found[name].exposed)
        assert share == pytest.approx((count - 1) / (branches + count - 1), rel=0.02)


def test_what_fits_no_device_shares_weights_and_what_fits_nowhere_has_a_remedy(hollow: Models) -> None:
    shared = plan(hollow("wan22"), "8x5090-pcie5", {"width": 1280, "height": 720}).chosen
    assert shared is not None and shared.plan.weights > 1 and not shared.lacking_bytes
    large = plan(hollow("qwen_image"), "1x4090")
    nothing = of_memory(large, 7)
    assert nothing.chosen is None and 0 < nothing.closest.lacking_bytes < GIB
    first, *_ = nothing.mends
    assert (first.words, first.plan) == ("1248 x 1248", "one device")  # it is the decoder that lacks room
    least = nothing.memory_for(nothing.closest, streams=True)
    assert least == pytest.approx(7 * GIB + nothing.closest.lacking_bytes, abs=2 << 20)
    told = as_text(nothing)
    assert "one device comes closest, and lacks 744 MiB on a device (it needs 7.3 GiB, 7.0 GiB are there)" in told
    assert f"least: {least / GIB:.1f} GiB on a device, whose weights are then streamed" in told
    assert [of_memory(large, least / GIB + more).chosen is not None for more in (-0.001, 0.001)] == [False, True]


def test_weights_come_from_the_host_only_where_they_have_no_room_and_that_is_told(hollow: Models) -> None:
    answer = plan(hollow("flux"), "1x4090")
    run = answer.chosen
    assert run is not None and 0 < run.streamed_bytes < 5 * 10**9 and run.num_bytes <= answer.room
    assert run.lacking_bytes == 0 and not run.is_link_bound
    words = "3.28 GB of each step's weights come from host memory at 27 GB/s, which takes 122 ms a step, "
    assert answer.why == words + "less than it computes"
    tight = of_memory(answer, 6)
    assert tight.chosen is not None and tight.chosen.is_link_bound and tight.why.endswith(" a step, for which it waits")
    assert "least that will do" in as_text(tight) and "the link to the host is the limit" in as_text(tight)
    assert ", streams " in as_text(tight, compares=True)
    step, texts = duration(tight.chosen.step.seconds), tight.work.streamed_text_bytes(ParallelPlan(), tight.room)
    encoder = f"on the first device, of which {volume(texts)} come from the host's memory for each text, in turns"
    assert texts > 4 * 10**9 and encoder in as_text(tight).replace("\n        ", " ")
    assert in_brief(tight) == f"fits here, with blocks from the host's memory: {step} a step"
    told = to_plain(tight)["chosen"]
    assert told["streamed_bytes"] == tight.chosen.streamed_bytes > run.streamed_bytes
    assert told["streaming_s"] == tight.chosen.streaming_s
    assert told["least_bytes"] == tight.memory_for(tight.chosen, streams=True) < told["bytes"]
    whole = plan(hollow("flux"), "1xH100")
    assert whole.chosen is not None and whole.chosen.streamed_bytes == 0 and "host" not in whole.why
    assert "weights whole on the device" in as_text(whole)
    assumed = forecast(answer.model, answer.wanted, dataclasses.replace(answer.machine, is_assumed=True))
    assert assumed.why == "3.28 GB of each step's weights come from host memory"


def test_blocks_that_the_host_has_no_memory_for_come_from_the_disk(hollow: Models, tmp_path: Path) -> None:
    """FLUX's transformer has 22.2 GiB; the host gives 60 % of its memory for them."""
    file, model, told = tmp_path / "small.json", plan(hollow("flux"), "1x4060Laptop").model, dict[int, Forecast]()
    for gib in (32, 64):
        file.write_text(json.dumps({"like": "1x4060Laptop", "host_gib": gib, "disk_gb_per_s": 2}))
        told[gib] = forecast(model, Wanted(), read_machine(str(file)))
    small, large = told[32].chosen, told[64].chosen
    assert small is not None and large is not None and small.is_from_disk and not large.is_from_disk
    assert small.streamed_bytes == large.streamed_bytes
    assert small.streaming_s == pytest.approx(small.streamed_bytes / 2e9)
    assert " at 2 GB/s, " in told[32].why and told[32].why.endswith("they are read from the disk")
    assert "from the disk, as 32 GiB of the host are too few: the disk is the limit" in as_text(told[32]).replace(
        "\n        ", " "
    )


def test_on_a_cpu_nothing_streams_unless_somebody_limits_what_a_rank_may_take(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cpu", dtype="bf16", is_here=False)
    machine = dataclasses.replace(named_machine("2xH100-nvlink"), kind="cpu", memory_bytes=200 * GIB)
    free, bound = (forecast(model, Wanted(), limited(machine, limit)).found for limit in (0, 20 * 10**9))
    assert not any(each.streamed_bytes for each in free) and any(each.streamed_bytes for each in bound)
    assert not any(each.lacking_bytes for each in (*free, *bound) if each.plan.weights == 1)
    tight = forecast(model, Wanted(), limited(machine, 10**9))
    [none] = (each for each in tight.found if each.plan == ParallelPlan())
    none_least = tight.memory_for(none, streams=True)
    assert none.lacking_bytes == none_least - 10**9


def test_what_a_rank_on_a_cpu_may_take_is_told(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cpu", dtype="bf16", is_here=False)
    machine = dataclasses.replace(named_machine("1xH100"), kind="cpu", memory_bytes=200 * GIB)
    told = as_text(forecast(model, Wanted(), limited(machine, 10 * GIB))).replace("\n        ", " ")
    assert "; each rank may take 10, beside files that all map" in told
    assert "weights streamed, " in told and "are the least that will do" in told and "on each rank" in told
    refused = as_text(forecast(model, Wanted(), limited(machine, GIB)))
    assert "1.0 GiB are there)" in refused and "least: " in refused


def test_of_plans_that_are_as_fast_one_without_streaming_is_taken(hollow: Models) -> None:
    found = plan(hollow("flux"), "2xH100-nvlink").found
    whole = next(each for each in found if str(each.plan) == "ulysses=2")
    shared = next(each for each in found if each.plan.weights == 2 and each.plan.ulysses == 2)
    slower = dataclasses.replace(shared, steps_s=whole.steps_s * 1.001)
    assert best([whole, slower]) == whole
    assert best([dataclasses.replace(whole, streamed_bytes=1), slower]) == slower


def test_all_that_is_told_of_memory_is_the_need_that_is_checked(hollow: Models) -> None:
    found = plan(hollow("flux"), "8xH100-nvlink")
    for each in found.found:
        fits = each.num_bytes <= 0.94 * found.machine.memory_bytes
        assert fits == (each.lacking_bytes == 0)
    assert {each.num_devices for each in found.found} == {1, 2, 4, 8}


def test_many_runs_are_shared_out_to_groups(hollow: Models) -> None:
    one, many = (plan(hollow("flux"), "8xH100-nvlink", num_runs=num).chosen for num in (1, 16))
    assert one is not None and many is not None
    assert (one.replicas, many.replicas, str(many.plan)) == (1, 8, "ulysses=1")
    assert many.all_s < 16 * one.all_s


def test_rows_are_decoded_apart_only_where_one_device_has_no_room(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cuda:0", engine="inductor", is_here=False)
    few = forecast(model, Wanted(width=2048, height=2048, steps=2), named_machine("8xH100-nvlink"))
    assert few.chosen is not None and few.chosen.decoders == 1 and "decode" not in few.why
    tight = plan(hollow("flux"), "4x4090-pcie4", {"width": 4096, "height": 4096})
    assert "4 devices decode, each some rows, because one has no room for all" in tight.why


def test_what_spare_ranks_take_is_told_of_this_machine_only(hollow: Models) -> None:
    found = plan(hollow("flux"), "2xH100-nvlink")
    here = dataclasses.replace(found, machine=dataclasses.replace(found.machine, name="here"))
    small = dataclasses.replace(here, machine=dataclasses.replace(here.machine, memory_bytes=37 << 30))
    words = "on the fullest device; a spare rank takes 0.559 more, while there is room"
    assert [words in as_text(each).replace("\n        ", " ") for each in (here, small, found)] == [True, False, False]


def test_where_text_encoders_live_and_what_a_new_prompt_costs_is_told(hollow: Models) -> None:
    beside, alone = plan(hollow("flux"), "1xH100"), plan(hollow("flux"), "1x4090", quantization="int8")
    assert beside.chosen is not None and beside.chosen.turns_s == 0
    assert "encoder 8.87 GiB on the first device, beside the transformer" in as_text(beside).replace("\n        ", " ")
    tight = dataclasses.replace(named_machine("1x4090"), memory_bytes=14 << 30)
    answer = forecast(alone.model, Wanted(), tight)
    assert answer.chosen is not None
    moved = answer.work.encoder_bytes + answer.demand.transformer_bytes
    assert answer.chosen.turns_s == pytest.approx(moved / tight.upload_bytes_per_s)
    assert "in turns with the transformer: both are read again for a new prompt" in as_text(answer).replace(
        "\n        ", " "
    )


def test_text_encoders_live_on_a_device_that_the_plan_leaves_free(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cuda:0", is_here=False)
    tight = dataclasses.replace(named_machine("3xH100-nvlink"), memory_bytes=27 << 30)
    answer = forecast(model, Wanted(steps=1), tight)
    free = next(each for each in answer.found if each.num_devices == 2 and not each.rounds_differently)
    none = next(each for each in answer.found if each.num_devices == 3 and each.plan.weights == 1)
    assert free.turns_s == 0 < none.turns_s
    assert _encoder(answer, free).endswith(" GiB on the last device, which the plan leaves free")


def test_ranks_hold_text_encoders_between_them_where_that_is_sooner_than_turns(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cuda:0", is_here=False)

    def by(machine: str, gib: int, plan: str, **changes: Any) -> tuple[Forecast, Run]:
        small = dataclasses.replace(named_machine(machine), memory_bytes=gib << 30)
        answer = forecast(dataclasses.replace(model, **changes), Wanted(), small)
        return answer, answer.by(ParallelPlan.parse(plan))

    answer, run = by("2xH100-nvlink", 32, "ulysses=2")
    assert (run.encoders, run.turns_s, run.lacking_bytes, run.next_s) == (2, 0.0, 0, run.seconds)
    share = answer.work.shared_text_bytes(2)
    assert answer.work.encoder_bytes / 2 < share < answer.work.encoder_bytes * 0.6
    assert answer.work.needs(run.plan, encoders=2)[1].num_bytes == run.num_bytes < answer.work.together(run.plan)
    told = _encoder(answer, run)
    assert f"8.87 GiB on 2 devices between them, {share / GIB:.3g} on each, beside the transformer" in told
    assert to_plain(answer)["plans"][0].keys() >= {"encoders", "decoders"}
    for other in (
        by("2xH100-nvlink", 80, "ulysses=2"),  # there is room for both
        by("2xH100-nvlink", 28, "ulysses=2"),  # there is none for a share
        by("3xH100-nvlink", 32, "ulysses=2"),  # the third device is free
        by("2xH100-nvlink", 32, "ulysses=2", text_encoder="cpu"),
        by("2xH100-nvlink", 18, "ulysses=2", quantization="int8"),  # which knows its device
    ):
        assert other[1].encoders == 1
    quick = dataclasses.replace(answer.machine, upload_bytes_per_s=1e12)  # from files that memory keeps
    assert dataclasses.replace(answer, machine=quick).by(run.plan).encoders == 1


def test_text_encoders_on_the_cpu_take_no_room_of_the_device(hollow: Models) -> None:
    def of(text_encoder: TextEncoder) -> Forecast:
        model = describe_model(str(hollow("flux")), device="cuda:0", text_encoder=text_encoder, is_here=False)
        return forecast(model, Wanted(), dataclasses.replace(named_machine("1xH100"), memory_bytes=27 << 30))

    at, away, plan = of("device"), of("cpu"), ParallelPlan()
    assert at.work.encoder_bytes == away.work.encoder_bytes > 9 * 10**9
    assert away.work.streamed_text_bytes(plan, 10**9) == 0 < at.work.streamed_text_bytes(plan, 10**9)
    assert away.by(plan).turns_s == 0 < at.by(plan).turns_s and away.by(plan).text_s > at.by(plan).text_s
    assert "encoder 8.87 GiB on the CPU, as asked, whose speed is assumed" in as_text(away)
    no_denoise = (dataclasses.replace(each.work, transformers=(Need(own_bytes=0),)) for each in (at, away))
    first, only = (each.needs(plan, decoders=1)[0].num_bytes for each in no_denoise)
    assert first == at.work.encoder_bytes + CONTEXT_BYTES > only


def test_a_step_that_waits_for_the_host_is_replayed_or_told_to_be_compiled(hollow: Models) -> None:
    model = describe_model(str(hollow("flux")), device="cuda:0", is_here=False)
    replayed = forecast(model, Wanted(), named_machine("8xH100-nvlink")).chosen
    assert replayed is not None and replayed.num_devices == 8 and replayed.step.waiting == 0
    short = forecast(model, Wanted(steps=5), named_machine("8xH100-nvlink"))
    assert short.chosen is not None and short.chosen.step.waiting > 0
    idle = (
        "6 of 8 devices stay idle, because allgather=4 on 4, the fastest plan for more, saves 1%, and 5% is asked for"
    )
    assert short.why.endswith(idle)
    assert "1% faster with 4 devices; 5% is asked for" in [words for _, words in short.rejected]
    model = dataclasses.replace(model, graphs="off")
    eager = forecast(model, Wanted(), named_machine("8xH100-nvlink"))
    assert eager.chosen is not None and eager.chosen.num_devices < 8
    assert eager.hint.startswith("compiled, ulysses=2 would be ") and "rounds differently" in eager.hint
    assert "compiling takes about 60 s the first time" in eager.hint and eager.hint.endswith(" runs make up for")
    many = forecast(model, Wanted(), named_machine("8xH100-nvlink"), num_runs=1000)
    assert many.hint.startswith("compiled, 8 replicas of one device would be")


@pytest.mark.parametrize(
    ("machine", "graphs", "plan", "steps", "told"),
    [
        ("8xH100-nvlink", "auto", "ulysses=8", 6, "steps as CUDA graphs, where memory allows"),
        ("8xH100-nvlink", "on", "ulysses=8", 1, "steps as CUDA graphs, where memory allows"),
        ("8xH100-nvlink", "auto", "ulysses=8", 5, "steps without CUDA graphs: 5 are too few to pay for them the first"),
        (
            "8xH100-nvlink",
            "auto",
            "ulysses=8,weights=8",
            6,
            "steps without CUDA graphs: ranks that share weights gather",
        ),
        ("8xH100-nvlink", "off", "ulysses=8", 6, ""),
        ("cpu", "auto", "ulysses=8", 6, ""),
    ],
)
def test_it_is_told_whether_steps_are_replayed(machine: str, graphs: Graphs, plan: str, steps: int, told: str) -> None:
    found = named_machine("8xH100-nvlink")
    found = dataclasses.replace(found, kind="cpu") if machine == "cpu" else found
    model = Model(source="a", folder="/a", family="flux", graphs=graphs)
    words = graphs_told(model, found, ParallelPlan.parse(plan), steps=steps)
    assert words.startswith(told) and bool(words) == bool(told)


def test_what_rounds_differently_is_told_where_it_saves_a_tenth_and_never_taken(hollow: Models) -> None:
    one = plan(hollow("flux"), "1xH100").chosen
    assert one is not None

    def taking(seconds: float, plan: str = "ulysses=2") -> Run:
        nothing = dict.fromkeys(("text_s", "around_s", "decode_s"), 0.0)
        return dataclasses.replace(one, plan=ParallelPlan.parse(plan), steps_s=seconds, **nothing)

    plain, ring = taking(10.0), taking(8.8, "ring=2")
    assert best([plain, ring]) == plain and best([ring]) is None
    assert ring_hint([plain, ring], plain) == "ring=2 would be 12% faster, and rounds differently"
    assert ring_hint([plain, taking(9.1, "ring=2")], plain) == "" == ring_hint([plain], plain)
    assert ring_hint([ring], None) == "ring=2 would fit, and rounds differently"
    assert ring_hint([plain, dataclasses.replace(ring, lacking_bytes=1)], plain) == ""
    told = compiled_hint([taking(5.0)], plain, 1)
    assert told.startswith(
        "compiled, ulysses=2 would be 50% faster, and rounds differently; compiling takes about 60 s"
    )
    assert told.endswith("which 12 runs make up for")
    assert compiled_hint([taking(100.0)], taking(200.0), 1).endswith("which one run makes up for")
    assert compiled_hint([taking(9.1)], plain, 1) == "" == compiled_hint([ring], plain, 1)
    assert plan(hollow("flux"), "8xH100-nvlink").hint == ""
    assumed = dataclasses.replace(named_machine("8x5090-pcie5"), is_assumed=True)
    model = describe_model(str(hollow("wan22")), device="cuda:0", is_here=False)
    for machine, is_told in ((named_machine("8x5090-pcie5"), True), (assumed, False)):
        answer = forecast(model, Wanted(width=1280, height=720, is_guided=True), machine)
        assert ("ring=4,weights=4 would be 15% faster" in answer.hint) == is_told == bool(answer.hint)


def test_devices_for_which_there_is_no_plan_are_told_to_stay_idle(
    hollow: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentloom.pipelines.forecast.plans.SPLIT_PLANS", {})
    assert plan(hollow("flux"), "2xH100-nvlink").why.endswith("; 1 of 2 devices stay idle")


# ---- the rules, with made-up times


def chosen(seconds: dict[str, float]) -> str:
    found = settled(
        [ParallelPlan.parse(text) for text in seconds],
        seconds=lambda plan: seconds[str(plan)],
        num_devices=lambda plan: plan.num_ranks,
        tie=lambda plan: (plan.weights,),
    )
    return str(found)


def test_devices_stay_idle_where_more_save_next_to_nothing() -> None:
    assert chosen({"ulysses=1": 1.0, "ulysses=2": 1 - IDLE_GAIN + 0.01, "ulysses=4": 0.97}) == "ulysses=1"
    assert chosen({"ulysses=1": 1.0, "ulysses=2": 0.96, "ulysses=4": 0.9}) == "ulysses=4"
    assert chosen({"ulysses=2,weights=2": 1.0, "ulysses=4,weights=4": 0.99}) == "ulysses=2,weights=2"


def test_of_plans_as_fast_the_plainest_is_taken() -> None:
    assert chosen({"ulysses=2,weights=2": 0.995, "ulysses=2": 1.0}) == "ulysses=2"


def test_counts_of_devices_divide_them_or_are_powers_of_two() -> None:
    assert (counts(1), counts(6), counts(8)) == ([1], [1, 2, 3, 4, 6], [1, 2, 4, 8])


def test_the_choice_is_the_fastest_on_machines_that_are_not_the_model() -> None:
    """A part of what `tests/bench/simulated_sweep.py` asks."""
    found = [outcome(cell) for cell in cells(1) if cell.load.name in ("FLUX.1 1024", "Wan2.2 720p 81 frames")]
    regrets = [each.regret for each in found if each is not None]
    assert len(regrets) > 60
    assert sum(regret <= NEAR for regret in regrets) >= 0.95 * len(regrets)


def test_the_truth_of_the_sweep_is_another_model() -> None:
    """A planner that is right by definition would prove nothing."""
    errors = [abs(each.error) for each in map(outcome, _few()) if each is not None]
    assert max(errors) > 0.05


def _few() -> list[Cell]:
    return [cell for cell in cells(2) if cell.count == 8 and cell.load.name == "FLUX.1 1024"]


# ---- the command


def test_plan_of_a_model_as_text_and_as_json(hollow: Models, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [str(hollow("flux")), "--machine", "8xH100-nvlink", "--devices", "4", "--size", "2048x1024", "--compiled"]
    assert main(["plan", *asked]) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "FLUX.1 dev, 2048 x 1024, 28 steps; bf16, inductor, CUDA graphs; on 4 of 8 x H100, nvlink4\n\nplan    "
    )
    assert main(["plan", *asked, "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)
    assert plain["chosen"]["plan"] == "ulysses=4" and plain["machine"]["devices"] == 4
    assert plain["plans"][0]["seconds"] <= plain["chosen"]["seconds"] <= plain["plans"][-1]["seconds"]


def test_plan_of_a_workflow_is_that_of_each_denoise(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).resolve().parents[2] / "workflows" / "bobbin" / "first_picture.json"
    asked = [str(file), "--machine", "2xH100-nvlink", "--set", "denoise.steps=7", "--compare"]
    assert main(["plan", *asked]) == 0
    told = capsys.readouterr().out
    assert "denoise: bobbin, 128 x 128, 7 steps, guided; bf16, eager, CUDA graphs; on 2 x H100" in told
    assert "chosen" in told


def test_without_a_machine_it_is_this_one_and_measured_anew_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def machine_here(folder: Path, *, anew: bool) -> Machine:
        asked.append((folder, anew))
        return named_machine("2xA100-nvlink")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("latentloom.pipelines.forecast.here.machine_here", machine_here)
    assert main(["plan", "builtin:bobbin"]) == main(["plan", "builtin:bobbin", "--measure"]) == 0
    folder = tmp_path / "latentloom" / "machines"
    assert asked == [(folder, False), (folder, True)]
    assert "on 2 x A100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--machine", "8xH100"], "what joins its 8 devices?"),
        (["--machine", "2xH100-nvlink", "--devices", "3"], "2 x H100, nvlink4 has 2; give 1 to that"),
        (["--machine", "2xH100-nvlink", "--size", "big"], "write it like 1024x768"),
        (["--machine", "2xH100-nvlink", "--size", "100x77"], "77"),
        (["--machine", "2xH100-nvlink", "--runs", "0"], "--runs is 0; give 1 or more"),
    ],
)
def test_what_cannot_be_planned_says_why(capsys: pytest.CaptureFixture[str], asked: list[str], words: str) -> None:
    assert main(["plan", "builtin:bobbin", *asked]) == 2
    assert words in capsys.readouterr().err


def test_a_plan_that_does_not_fit_is_exit_code_1(
    hollow: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MEMORY, "")  # which the command sets
    asked = ["plan", str(hollow("qwen_image")), "--machine", "1x4090", "--json"]
    assert main(asked) == 0
    assert main([*asked, "--memory", "7GB"]) == 1
    whole, [limited_] = (json.loads(text) for text in re.split(r"(?<=\n\])\n(?=\[)", capsys.readouterr().out))
    assert limited_["machine"]["memory_bytes"] == 7 * 10**9 and limited_["chosen"] is None
    assert whole[0]["chosen"]["streamed_bytes"] > 4 * 10**10


@pytest.mark.parametrize("command", [["plan", "builtin:bobbin"], ["run", "a.json"], ["check", "a.json"], ["ui"]])
def test_memory_that_is_none_is_one_sentence(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.environ.get(MEMORY)
    assert main([*command, "--memory", "much"]) == 2
    told = "latentloom: --memory is 'much'; write an amount of memory above 0, like 10GB or 700MB\n"
    assert capsys.readouterr().err == told and os.environ.get(MEMORY) == before
    monkeypatch.setenv(MEMORY, "less")
    assert main(command) == 2
    assert capsys.readouterr().err == told.replace("--memory", MEMORY).replace("much", "less")


if __name__ == "__main__":
    import tempfile

    from support.tiny_models import write_tiny

    with tempfile.TemporaryDirectory() as base:
        for name, (model, _, _) in TEXTS.items():
            folder, tiny_folder = Path(base) / model, Path(base) / f"tiny_{model}"
            if not folder.exists():
                write_tiny(model, tiny_folder)
                write_hollow(folder, tiny_folder, name=model)
            (PLANS / f"{name}.txt").write_text(text(folder, name))
