"""What a run costs: bytes against the strategies' own count, times against published ones, machines by name."""

import dataclasses
import importlib.metadata
import json
import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench import first_light
from bench.published import predicted_only
from latentloom.parallel.machine.folders import locked
from latentloom.parallel.machine.machine import DeviceLink
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.pool import trial
from latentloom.parallel.progress import Progress
from latentloom.pipelines.costs.chips import CHIPS, Fabric, software_of
from latentloom.pipelines.costs.machine import (
    PCIE5_BYTES_PER_S,
    PINNED_BYTES_PER_S,
    Machine,
    limited,
    named_machine,
    pinned_rate,
    read_machine,
)
from latentloom.pipelines.costs.measured import checked, fitted, keep, kept, machine_of
from latentloom.pipelines.costs.run import Run, predict
from latentloom.pipelines.costs.step import Demand, Step, step
from latentloom.pipelines.forecast import here, known
from latentloom.pipelines.forecast.asked import demand_of
from latentloom.pipelines.forecast.memory import whole_bytes, work_of
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.shape import empty_canvas
from support.hollow_models import write_hollow

PLANS = ("ulysses=2", "ulysses=3", "ulysses=8", "ring=4", "allgather=4", "ulysses=2,ring=3", "ulysses=4,allgather=2")
FLUX = Demand(
    image=4096,
    text=512,
    layers=57,
    width=3072,
    heads=24,
    kv_heads=24,
    head_dim=128,
    image_weights=6.46e9,
    text_weights=6.46e9,
    block_bytes=340_000_000,
)
GUIDED = dataclasses.replace(FLUX, branches=2, latent_bytes=1 << 20)


def test_published_step_times_are_predicted() -> None:
    errors = [abs(each.error) for each in predicted_only()]
    assert len(errors) == 33
    assert statistics.median(errors) <= 0.07


def predicted(plan: str, machine: str, forward: Demand = FLUX) -> Step:
    found = ParallelPlan.parse(plan)
    software = software_of(is_compiled=True, is_captured=True)
    return step(forward, found, named_machine(machine).chip(found.num_ranks), software)


def test_more_devices_take_less_and_links_decide_how_much() -> None:
    fast, slow = (
        [predicted(plan, machine).seconds for plan in ("", "ulysses=2", "ulysses=4", "ulysses=8")]
        for machine in ("8xH100-nvlink", "8xH100-pcie4")
    )
    assert fast == sorted(fast, reverse=True)
    assert fast[0] == slow[0] and slow[3] > 1.5 * fast[3]


def test_the_parts_of_a_step_add_up_and_what_hides_is_not_waited_for() -> None:
    long = dataclasses.replace(FLUX, image=100_000)
    ring, exposed = predicted("ring=4", "4xL40S-pcie4", long), predicted("ring=4", "4xL40S-pcie4")
    assert ring.hidden > 0 and ring.exposed == pytest.approx(0, abs=1e-9)
    assert exposed.exposed > 0
    for each in (ring, exposed):
        parts = ("linear", "attention", "memory", "exposed", "weights", "waiting")
        assert each.seconds == pytest.approx(sum(getattr(each, part) for part in parts))


def test_guidance_on_two_groups_halves_a_step() -> None:
    one, two = predicted("", "2xH100-nvlink", GUIDED), predicted("cfg=2", "2xH100-nvlink", GUIDED)
    assert two.seconds == pytest.approx(one.seconds / 2, rel=0.01)
    assert two.sent_bytes == GUIDED.latent_bytes


def test_gathered_weights_hide_under_long_sequences_only() -> None:
    short, long = (
        predicted("ulysses=4,weights=4", "4xL40S-pcie4", dataclasses.replace(FLUX, image=image)).weights
        / predicted("ulysses=4", "4xL40S-pcie4", dataclasses.replace(FLUX, image=image)).seconds
        for image in (4096, 200_000)
    )
    assert short > 0.5 > 0.01 > long


def test_launches_bound_an_eager_step_of_many_devices() -> None:
    plan = ParallelPlan.parse("ulysses=8")
    speeds = named_machine("8xH100-nvlink").chip(8)
    for is_compiled in (False, True):
        asked, replayed = (
            step(FLUX, plan, speeds, software_of(is_compiled=is_compiled, is_captured=is_captured))
            for is_captured in (False, True)
        )
        assert asked.waiting > 0 and asked.seconds == pytest.approx(asked.host + asked.weights)
        assert replayed.waiting == 0 and replayed.seconds < asked.seconds / 2


def test_what_the_first_gpu_took_is_predicted() -> None:
    """Within 14 %: the modulations' weights, which every rank reads, are not in the model."""
    assert max(abs(first_light.error(row)) for row in first_light.ROWS) <= 0.14
    assert len(first_light.ROWS) == 8


def test_ranks_that_share_weights_replay_nothing() -> None:
    plan, speeds = ParallelPlan.parse("ulysses=8,weights=8"), named_machine("8xH100-nvlink").chip(8)
    captured, eager = (
        step(FLUX, plan, speeds, software_of(is_compiled=False, is_captured=each)) for each in (True, False)
    )
    assert captured == eager


# ---- weights that come from the host's memory


def streaming(num_bytes: int, machine: str = "1xH200", plan: str = "", forward: Demand = FLUX) -> Run:
    found, software = ParallelPlan.parse(plan), software_of(is_compiled=False, is_captured=True)
    return predict(forward, found, named_machine(machine), software, streamed_bytes=num_bytes)


def test_a_step_takes_the_longer_of_computing_and_copying_and_the_first_block_of_each_forward() -> None:
    for forward, forwards in ((FLUX, 1), (GUIDED, 2)):
        plan, software = ParallelPlan(), software_of(is_compiled=False, is_captured=False)
        compute = predict(forward, plan, named_machine("1xH200"), software).step.seconds
        for num_bytes in (10**8, 5 * 10**9, 10**11):
            run = streaming(num_bytes, forward=forward)
            copies, first = (forwards * each / PCIE5_BYTES_PER_S for each in (num_bytes, FLUX.block_bytes))
            assert run.step.seconds == pytest.approx(max(compute, copies) + first)
            assert (run.streamed_bytes, run.streaming_s) == (forwards * num_bytes, pytest.approx(copies))
            assert run.is_link_bound == (copies > compute)
    assert streaming(10**9, "2xH200-nvlink", "cfg=2", GUIDED).streamed_bytes == 10**9
    assert streaming(0).step.weights == 0 and not streaming(0).is_link_bound


def test_what_streaming_took_on_the_first_gpu_is_predicted() -> None:
    """One H200: FLUX in 57 blocks of 23.7 GB, all of them from the host's memory, and half of them."""
    whole, asked = 23_700_000_000, dataclasses.replace(FLUX, block_bytes=23_700_000_000 // 57)
    all_of_them, half = (streaming(num_bytes, forward=asked).step.seconds for num_bytes in (whole, whole // 2))
    assert all_of_them == pytest.approx(0.433, rel=0.04) and half == pytest.approx(0.227, rel=0.01)


def test_texts_wait_for_encoders_that_stream() -> None:
    plan, software = ParallelPlan(), software_of(is_compiled=False)
    forward = dataclasses.replace(FLUX, num_texts=2, encode_flops=1e12, encode_tokens=512, encode_layers=48)
    asked = forward, plan, named_machine("1x4090"), software
    whole, streamed = predict(*asked), predict(*asked, streamed_text_bytes=10**10)
    around = whole.around_s
    assert streamed.text_s == pytest.approx(around + 2 * 10**10 / PINNED_BYTES_PER_S) and streamed.text_s > whole.text_s
    assert streamed.steps_s == whole.steps_s and predict(*asked, streamed_text_bytes=1) == whole


def test_ranks_that_share_tokens_add_up_their_links_where_their_wire_is_fast() -> None:
    fast, slow = named_machine("4xH200-nvlink"), named_machine("4xL40S-pcie4")
    whole, wire = PCIE5_BYTES_PER_S, fast.chip(4).wires
    assert wire is not None and fast.streaming(4) == whole
    assert 1 / fast.streaming(4, sharing=4) == pytest.approx(1 / (4 * whole) + 3 / (4 * wire.bytes_per_s))
    assert fast.streaming(4, sharing=4) > 2.5 * whole and slow.streaming(4, sharing=4) == slow.streaming(4)
    through = named_machine("4x4090-pcie4")
    assert through.streaming(4, sharing=4) == pytest.approx(through.streaming(4))
    one, both = (streaming(10**11, "2xH200-nvlink", plan) for plan in ("cfg=2", "ulysses=2"))
    assert both.streaming_s < 0.6 * 2 * one.streaming_s, "branches do not gather from each other"


def test_devices_share_the_way_from_the_host_where_all_goes_through_it() -> None:
    through, direct = named_machine("4x4090-pcie4"), named_machine("4xL40S-pcie4")
    assert [through.streaming(count) for count in (1, 4)] == [PINNED_BYTES_PER_S, 48e9 / 4]
    assert [direct.streaming(count) for count in (1, 4)] == [PINNED_BYTES_PER_S] * 2
    processor = dataclasses.replace(direct, kind="cpu")
    assert processor.streaming(4) == processor.chip(4).bytes_per_s / 2


@pytest.mark.parametrize(
    ("title", "rate"),
    [
        ("NVIDIA H100 80GB HBM3", PCIE5_BYTES_PER_S),
        ("2 x NVIDIA GeForce RTX 5090, 2 sockets", PCIE5_BYTES_PER_S),
        ("NVIDIA GeForce RTX 4090", PINNED_BYTES_PER_S),
        ("NVIDIA GH200 480GB", PINNED_BYTES_PER_S),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", PINNED_BYTES_PER_S / 2),
        ("4060Laptop", PINNED_BYTES_PER_S / 2),
    ],
)
def test_how_fast_weights_come_follows_from_the_name(title: str, rate: float) -> None:
    assert pinned_rate(title) == rate
    assert machine_of({**FOUND, "title": title}).pinned_bytes_per_s == rate


def test_what_may_be_taken_bounds_a_device_and_on_a_cpu_each_rank() -> None:
    gpus, processor = named_machine("2xH100-nvlink"), machine_of(FOUND)
    assert limited(gpus, 10**10) == dataclasses.replace(gpus, memory_bytes=10**10)
    assert limited(gpus, 0) == limited(gpus, 10**12) == gpus and limited(processor, 0) == processor
    assert limited(processor, 10**9) == dataclasses.replace(processor, limit_bytes=10**9)


def test_what_is_sent_by_pieces_costs_the_host_more() -> None:
    plan, speeds = ParallelPlan.parse("ulysses=2"), named_machine("2xH100-nvlink").chip(2)
    packed, pieces = (
        step(FLUX, plan, speeds, software_of(is_compiled=True, sends_pieces=each)) for each in (False, True)
    )
    assert pieces.host > 1.4 * packed.host


@pytest.mark.parametrize("plan", ["ulysses=2", "ulysses=4", "ring=4", "allgather=4"])
def test_a_faster_link_or_device_is_never_slower(plan: str) -> None:
    slow, fast = predicted(plan, "4xL40S-pcie4"), predicted(plan, "4xL40S-pcie5")
    assert fast.seconds <= slow.seconds
    assert predicted(plan, "4xH200-nvlink").seconds <= predicted(plan, "4xH100-nvlink").seconds


def test_what_was_measured_stands_for_the_nearest_groups() -> None:
    pair, far = (1e-5, 10e9), (1e-5, 5e9)
    wires = Fabric(name="measured", measured={("gather", 2, 1, 4): pair, ("gather", 2, 2, 4): far})
    assert wires.speed("gather", 2, 2, 4) is far
    assert wires.speed("gather", 2, 1, 8) is pair
    assert wires.speed("gather", 4, 1, 4) is pair


# ---- machines


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("8xH100-nvlink", "8 x H100, nvlink4"),
        ("2xA100-nvlink", "2 x A100, nvlink3"),
        ("8xB200-nvlink", "8 x B200, nvlink5"),
        ("4x4090-pcie4", "4 x 4090, pcie4-host"),
        ("2xL40S-pcie4", "2 x L40S, pcie4-p2p"),
        ("8xrtx5090-pcie5", "8 x 5090, pcie5-host"),
        ("1xH200", "1 x H200"),
    ],
)
def test_a_machine_is_known_by_its_name(name: str, title: str) -> None:
    assert read_machine(name).title == title


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("8xH1000-nvlink", "did you mean H100?"),
        ("8xH100-nvlnk", "did you mean nvlink?"),
        ("8xH100", "what joins its 8 devices?"),
        ("0xH100-nvlink", "give 1 to 64"),
        ("eight H100", "is no machine; write it like 8xH100-nvlink"),
    ],
)
def test_what_is_no_machine_says_what_would_be(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        read_machine(name)


def machine_file(folder: Path, **plain: object) -> Machine:
    path = folder / "ours.json"
    path.write_text(json.dumps(plain))
    return read_machine(str(path))


def test_a_file_says_what_is_known_better(tmp_path: Path) -> None:
    ours = machine_file(tmp_path, like="4x4090-pcie4", name="ours", memory_gib=48, link_gb_per_s=25, launch_us=20)
    assert machine_file(tmp_path, like="1x4090", pinned_gb_per_s=12).pinned_bytes_per_s == 12e9
    speeds = ours.chip(4)
    assert (ours.title, ours.memory_bytes, speeds.launch_s) == ("ours", 48 << 30, pytest.approx(20e-6))
    assert speeds.wires.bytes_per_s == 25e9
    assert ours.chip(1).half_flops == CHIPS["4090"].half_flops


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({"memory_gib": 48}, '"like" is missing'),
        ({"like": "4x4090-pcie4", "memory_gb": 48}, "did you mean memory_gib"),
        ({"like": "4x4090-pcie4", "memory_gib": -1}, "give a number above 0"),
        ({"like": "4x4090-pcie4", "memory_gib": "48"}, "give a number above 0"),
    ],
)
def test_a_file_that_is_none_says_why(tmp_path: Path, plain: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        machine_file(tmp_path, **plain)


# ---- what models ask, from their headers


@pytest.mark.parametrize(
    ("name", "teraflops", "of_text", "decoding"),
    [
        ("flux", 59.5, True, 9.7),  # 12 x 3072^2 weights for each of 4608 tokens, in 57 layers
        ("qwen_image", 2 * 0.0068 * (83 * 83 + 1024), True, 22.4),
        ("wan22", 2 * (0.01195 * 21 * 30 * 52 + 0.0021 * 512), False, 411),
    ],
)
def test_headers_tell_what_a_forward_asks(
    tiny: Callable[[str], Path], tmp_path: Path, name: str, teraflops: float, of_text: bool, decoding: float
) -> None:
    model = describe_model(str(write_hollow(tmp_path / name, tiny(name), name=name)), device="cuda:0", is_here=False)
    size = {"width": 832, "height": 480, "frames": 81} if name == "wan22" else {"width": 0, "height": 0, "frames": 0}
    length = {"flux": 512, "qwen_image": 1024, "wan22": 512}[name]
    work = work_of(model, canvas=empty_canvas(model, **size, fps=0.0, batch=1), text_length=length)
    job = demand_of(model, work, steps=1, branches=1, text_length=length, weight_bytes=whole_bytes(model))
    assert job.linear_flops(ParallelPlan()) == pytest.approx(teraflops * 1e12, rel=0.01)
    assert (job.text > 0) == of_text and (job.context > 0) != of_text
    assert job.decode_flops == pytest.approx(decoding * 1e12, rel=0.01)


# ---- machines that were measured

SEEN: dict[str, Any] = {
    "single": {"rows": 512, "inner": 512, "columns": 512, "seconds": 0.01},
    "half": None,
    "attentions": [{"tokens": 512, "heads": 8, "head_dim": 64, "seconds": 0.02}],
    "passes": [{"tensor_bytes": 250_000, "passed_bytes": 1e7, "seconds": 1e-3}],
    "launch_s": 4e-6,
    "convolution": None,
    "samples": [{"operation": "hop", "degree": 2, "stride": 1, "sent_bytes": 1e6, "seconds": 1e-3}],
}
FOUND = checked(
    {"title": "2 ranks", "kind": "cpu", "memory_bytes": 1 << 33, "num_units": 0, "seen": {1: SEEN, 2: SEEN}}
)


def test_a_start_and_a_rate_are_found_again() -> None:
    points = [(size, 20e-6 + size / 25e9) for size in (1e5, 4e6, 6e7)]
    found = fitted(points)
    assert found == (pytest.approx(20e-6), pytest.approx(25e9))
    noisy = fitted([(1e5, 2e-3), (1e6, 1e-3), (1e7, 1e-3)])
    assert min(noisy) > 0


def test_what_was_measured_is_predicted_again() -> None:
    speeds = machine_of(FOUND).chip(2)
    assert speeds.gemm_s(2 * 512**3, rows=512, width=512, dtype="fp32") == pytest.approx(0.01)
    assert speeds.attention_s(512, 512, 8, 64, "fp32") == pytest.approx(0.02)
    gpu = machine_of({**FOUND, "kind": "cuda", "num_units": 132}).chip(2)
    assert gpu.attention_s(512, 512, 8, 64, "fp32") == pytest.approx(0.02)


def test_attention_and_memory_that_were_measured_at_two_sizes_are_predicted_at_both_and_between() -> None:
    calls = {n: n * 8 * 1e-6 + 4 * n * n * 8 * 24 / 1e11 for n in (128, 1024)}
    attentions = [{"tokens": n, "heads": 8, "head_dim": 24, "seconds": seconds} for n, seconds in calls.items()]
    passes = [
        {"tensor_bytes": 100_000, "passed_bytes": 4e6, "seconds": 4e-4},
        {"tensor_bytes": 1_600_000, "passed_bytes": 64e6, "seconds": 25.6e-3},
    ]
    convolution = {"channels": 16, "side": 256, "seconds": 0.01}
    seen = {**SEEN, "attentions": attentions, "passes": passes, "convolution": convolution}
    chip = machine_of({**FOUND, "seen": {1: seen}}).chip(1)
    for tokens, seconds in calls.items():
        assert chip.attention_s(tokens, tokens, 8, 24, "fp32") == pytest.approx(seconds)
    assert chip.attention_s(256, 1024, 8, 24, "fp32") == pytest.approx(calls[1024] / 4)
    for each in passes:
        took = chip.copy_s(each["passed_bytes"], tensor_bytes=each["tensor_bytes"])
        assert took == pytest.approx(each["seconds"])
    assert chip.copy_s(5e9, tensor_bytes=400_000) == pytest.approx(1.0)  # 5 GB/s, between 10 and 2.5
    rate = chip.single_flops * chip.convolution_share
    assert rate == pytest.approx(2 * 9 * 16**2 * 256**2 / 0.01)
    noisy = {**SEEN, "attentions": [attentions[1], {**attentions[1], "tokens": 4096}]}
    assert machine_of({**FOUND, "seen": {1: noisy}}).chip(1).query_s == 0.0


def test_what_was_measured_is_kept_and_what_is_damaged_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key_with(module: Any, name: str, told: Any) -> str:
        monkeypatch.setattr(module, name, lambda *_: told)
        return known._key.__wrapped__(("cuda:0", "cuda:1"), ("a GPU", "a GPU"))

    links = [DeviceLink(first="cuda:0", second="cuda:1", wire="NVLink, 18 lanes", is_direct=True)]
    key = key_with(known, "links_now", [])
    assert kept(tmp_path, key) is None
    keep(FOUND, tmp_path, key)
    assert kept(tmp_path, key) == FOUND
    versions = key_with(importlib.metadata, "version", "2.99"), key_with(known, "driver_version", "999.1")
    others = *versions, key_with(known, "links_now", links), key_with(known, "num_sockets", 64)
    assert len({key, *others}) == 5
    good = (tmp_path / f"{key}.json").read_text()
    none = [
        ("0.02", "-1"),
        ('"rows": ', '"rows": -'),
        ('"heads": ', '"heads": "a", "more": '),
        ('"2": {', '"2000000": {'),
    ]
    assert all(before in good for before, _ in none)
    for text in ("{", "{}", *(good.replace(*each) for each in none)):
        (tmp_path / f"{key}.json").write_text(text)
        assert kept(tmp_path, key) is None


def test_this_machine_is_measured_once_and_not_kept_while_it_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = json.loads(json.dumps(SEEN))
    asked: list[Sequence[str]] = []

    def measure(devices: Sequence[str], *, asker: Progress) -> dict[int, Any]:
        asked.append(devices)
        return {1: [rank], 2: [rank, rank]}

    monkeypatch.setattr(trial, "measure", measure)
    busy = True
    monkeypatch.setattr(here, "is_busy", lambda devices: busy)
    assert not here.machine_here(tmp_path).is_measured and not asked
    assert here.machine_here(tmp_path, anew=True).is_measured and kept_files(tmp_path) == []
    busy = False
    for _ in range(2):
        machine = here.machine_here(tmp_path)
    assert len(asked) == 2  # the first was not kept, the third was read
    assert machine.is_measured and machine.chip(2).launch_s == 4e-6
    here.machine_here(tmp_path, anew=True)
    assert len(asked) == 3 and len(kept_files(tmp_path)) == 1
    (tmp_path / "file").touch()
    assert here.machine_here(tmp_path / "file").is_measured  # a folder that cannot be written costs a warning
    assert here.machine_here(tmp_path / "other", anew=True, is_free=lambda: False).is_measured
    assert kept_files(tmp_path / "other") == []


def test_processes_measure_one_after_another_and_what_one_has_kept_the_next_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = json.loads(json.dumps(SEEN))
    asked: list[Sequence[str]] = []

    def measure(devices: Sequence[str], *, asker: Progress) -> dict[int, Any]:
        asked.append(devices)
        return {1: [rank], 2: [rank, rank]}

    monkeypatch.setattr(trial, "measure", measure)
    monkeypatch.setattr(here, "is_busy", lambda devices: False)
    waits = threading.Event()

    class Waiting(Progress):
        def check(self) -> None:
            waits.set()

    with (tmp_path / "measuring").open("ab") as lock, ThreadPoolExecutor(1) as threads:
        assert locked(lock.fileno(), wait_s=0)
        second = threads.submit(here.machine_here, tmp_path, progress=Waiting())
        assert waits.wait(10) and not asked
        spot = here.spot_of()
        keep(here._measured(spot), tmp_path, spot.key)
        lock.close()
        assert second.result(10).is_measured and len(asked) == 1


def kept_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.json"))
