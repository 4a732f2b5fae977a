"""This machine without measuring it: what was measured before, data sheets, assumptions; and what is foreseen by it."""

import dataclasses
from pathlib import Path

import pytest
import torch

from latentloom.nodes.headless.plans import first_devices
from latentloom.parallel.machine.machine import DeviceLink
from latentloom.parallel.machine.now import DeviceNow
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.chips import CHIPS
from latentloom.pipelines.costs.machine import Machine, limited, named_machine
from latentloom.pipelines.costs.measured import keep, machine_of
from latentloom.pipelines.forecast import forecast, known
from latentloom.pipelines.forecast.auto import choose, decoders_for, foreseen_for
from latentloom.pipelines.forecast.known import machine_at, machines_folder, spot_of
from latentloom.pipelines.forecast.plans import Wanted
from latentloom.pipelines.models.describe import card_of, describe_model
from latentloom.pipelines.requests import Denoise
from latentloom.pipelines.values import Conditioning, Latents, Place, Sampling

from .test_costs import FOUND

BOBBIN = describe_model("builtin:bobbin", device="cpu")
GIB = 1 << 30


def device(name: str, title: str, gib: int = 80) -> DeviceNow:
    return DeviceNow(name=name, title=title, total_bytes=gib * GIB, used_bytes=7, load=0.5)


def gpus(*titles: str) -> list[DeviceNow]:
    return [*(device(f"cuda:{index}", title) for index, title in enumerate(titles)), device("cpu", "a processor")]


def machine(now: list[DeviceNow], *devices: str) -> Machine:
    return machine_at(spot_of(devices, now))


def test_ranks_on_a_cpu_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "num_cores", lambda: 4)
    two, eight = (machine(gpus(), *["cpu"] * count) for count in (2, 8))
    assert two.is_assumed and not two.is_measured and two.memory_bytes == 80 * GIB
    assert two.chip(2).single_flops == 4 * eight.chip(8).single_flops
    assert eight.chip(8).launch_s == 2 * two.chip(2).launch_s


def test_a_gpu_is_known_by_its_title_and_what_joins_them_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    now = gpus("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")
    slow = machine(now, "cuda:0", "cuda:1")
    assert (slow.title, slow.is_assumed) == ("2 x NVIDIA H100 80GB HBM3, pcie5-p2p, by data sheets", False)
    assert slow.chip(2).half_flops == CHIPS["H100"].half_flops
    links = (DeviceLink(first="cuda:0", second="cuda:1", wire="NVLink, 18 lanes", is_direct=True),)
    machine_at.cache_clear()
    monkeypatch.setattr(known, "links_now", lambda: links)
    assert "nvlink4" in machine(now, "cuda:0", "cuda:1").title
    machine_at.cache_clear()


@pytest.mark.parametrize(
    ("title", "chip"),
    [
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GH200 480GB", ""),
        ("MI300X", ""),
    ],
)
def test_a_title_is_looked_up_by_whole_words(title: str, chip: str) -> None:
    found = known.chip_of(title)
    assert (found.name if found else "") == chip
    assert machine(gpus(title), "cuda:0").is_assumed is not bool(chip)


def test_what_was_measured_goes_before_and_is_read_anew_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder, now = machines_folder(), gpus()
    assert folder is not None and not machine(now, "cpu", "cpu").is_measured
    keep(FOUND, folder, spot_of((), now).key)
    found = machine(now, "cpu", "cpu")
    assert found.is_measured and found.title == FOUND["title"]
    assert machine(now, *["cpu"] * 4).chip(4).single_flops == found.chip(2).single_flops / 2
    assert first_devices(machine_of(FOUND), 1).at == machine(now, "cpu").at  # `latentloom plan --devices 1`
    (folder / f"{spot_of((), now).key}.json").write_text("{")
    assert not machine(now, "cpu", "cpu").is_measured


def test_what_may_be_taken_is_part_of_where_a_forecast_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forecasts are kept by their spot: one without the limit would be told again."""
    now = gpus("NVIDIA H100 80GB HBM3")
    spots = []
    for told in ("", "10GB", "1GiB"):
        monkeypatch.setenv("LATENTLOOM_MEMORY", told)
        spots.append(spot_of(("cuda:0",), now))
    assert [spot.limit for spot in spots] == [0, 10**10, GIB] and len({*spots}) == 3
    assert [machine_at(spot).memory_bytes for spot in spots] == [80 * GIB, 10**10, GIB]
    on_cpu = machine(now, "cpu")
    assert (on_cpu.memory_bytes, on_cpu.limit_bytes) == (80 * GIB, GIB)
    monkeypatch.setenv("LATENTLOOM_MEMORY", "1 parsec")
    with pytest.raises(ValueError, match=r"LATENTLOOM_MEMORY is '1 parsec'; write an amount of memory above 0"):
        spot_of((), now)


# ---- foreseen


def request(place: Place, **options: object) -> Denoise:
    text = Conditioning(family="flux", prompt="a", negative_prompt="", positive={"prompt_embeds": torch.zeros(1, 9, 4)})
    latents = Latents(family="flux", width=128, height=128)
    model = dataclasses.replace(BOBBIN, place=place)
    return Denoise(**{"model": model, "conditioning": text, "latents": latents, "steps": 8, **options})


def test_a_plan_by_hand_is_foreseen_and_one_process_too() -> None:
    two = foreseen_for(request(Place(devices=("cpu", "cpu"), plan="cfg=2")), ParallelPlan(cfg=2), is_guided=True)
    one = foreseen_for(request(Place()), ParallelPlan(), is_guided=True)
    assert two is not None and one is not None
    assert (two.plan, two.why, two.steps, two.is_measured) == ("cfg=2", "it was written by hand", 8, False)
    assert one.why.startswith("one process") and 0 < two.step_s < 2 * one.step_s
    assert two.num_bytes > 4e6 and two.seconds > 8 * two.step_s


def test_a_denoise_is_forecast_once_whoever_asks() -> None:
    place = Place(devices=("cpu", "cpu"))
    asked = request(place)
    model, card = asked.model, card_of(asked.model)
    text = {"tokens": torch.zeros(1, card.text_length, 8)}
    asked = dataclasses.replace(
        asked, steps=card.steps, conditioning=dataclasses.replace(asked.conditioning, positive=text)
    )
    forecast._kept.cache_clear()
    plan = choose(model, Wanted(is_guided=True))[0]
    assert decoders_for(model, Wanted(is_guided=True), plan) == 1
    assert foreseen_for(asked, plan, is_guided=True) is not None
    assert forecast._kept.cache_info().misses == 1


def test_it_is_foreseen_that_steps_are_replayed_or_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "machine_at", lambda spot: named_machine("2xH100-nvlink"))
    asked = request(Place(devices=("cuda:0", "cuda:1")))
    asked = dataclasses.replace(asked, model=dataclasses.replace(asked.model, device="cuda:0"))
    told = [
        foreseen_for(dataclasses.replace(asked, steps=steps), ParallelPlan(cfg=2), is_guided=True) for steps in (8, 5)
    ]
    assert [each and each.why for each in told] == [
        "it was written by hand; steps as CUDA graphs, where memory allows",
        "it was written by hand; steps without CUDA graphs: 5 are too few to pay for them the first time",
    ]
    assert told[0] is not None and told[1] is not None and told[0].step_s < told[1].step_s


def test_it_is_foreseen_that_weights_come_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    small = limited(named_machine("1xH100"), 1_300_000_000)
    monkeypatch.setattr(forecast, "machine_at", lambda spot: small)
    asked = request(Place(devices=("cuda:0",)), latents=Latents(family="flux", width=64, height=64))
    asked = dataclasses.replace(asked, model=dataclasses.replace(asked.model, device="cuda:0"))
    monkeypatch.setattr(forecast.Work, "streamed_bytes", lambda work, plan, room: 4_000_000)
    found = foreseen_for(asked, ParallelPlan(), is_guided=True)
    words = "it was written by hand; 8 MB of each step's weights come from host memory at 54 GB/s, which "
    assert found is not None and found.why.startswith(words) and "CUDA graphs" not in found.why


@pytest.mark.parametrize(
    ("options", "steps"),
    [({"strength": 0.5}, 4), ({"sampling": Sampling(sigmas=(1.0, 0.5, 0.2))}, 3), ({"steps": 0}, 16)],
)
def test_steps_are_those_that_will_be_done(options: dict[str, object], steps: int) -> None:
    found = foreseen_for(request(Place(), **options), ParallelPlan(), is_guided=False)
    assert found is not None and found.steps == steps


def test_nothing_is_told_of_what_cannot_be_predicted() -> None:
    cluster, large = request(Place(devices=("cpu", "cpu"), cluster="auto")), Wanted(width=2048, height=1024)
    assert decoders_for(cluster.model, large, ParallelPlan(ulysses=2)) == 2, "nobody knows its memory: all that can"
    assert foreseen_for(cluster, ParallelPlan(ulysses=2), is_guided=False) is None
    assert foreseen_for(request(Place(devices=("cpu", "cpu"))), ParallelPlan(cfg=2), is_guided=False) is None
    other = request(Place(), latents=Latents(family="flux", width=100, height=77))
    assert decoders_for(other.model, Wanted(width=100, height=77), ParallelPlan(ulysses=2)) == 1
    assert decoders_for(other.model, Wanted(width=100, height=77), ParallelPlan()) == 1
    assert foreseen_for(other, ParallelPlan(), is_guided=False) is None
