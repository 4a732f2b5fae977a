"""Into how many groups the devices of a sweep are put, and that nobody is asked where there is nothing to choose."""

import dataclasses
from collections.abc import Iterator

import pytest

from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines.costs.chips import EAGER
from latentloom.pipelines.costs.machine import Machine, named_machine
from latentloom.pipelines.costs.run import predict
from latentloom.pipelines.forecast import auto
from latentloom.pipelines.forecast import forecast as forecasts
from latentloom.pipelines.forecast.auto import shared_out
from latentloom.pipelines.forecast.forecast import forecast
from latentloom.pipelines.forecast.known import Spot, with_devices
from latentloom.pipelines.forecast.plans import Wanted
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.values import COMPILING, Place

BOBBIN = describe_model("builtin:bobbin", device="cpu")


def of(num_runs: int, *wanted: Wanted, devices: int = 8, **options: object) -> tuple[Place, str] | None:
    place = Place(devices=("cpu",) * devices)
    return shared_out([(BOBBIN, each) for each in wanted or [Wanted()]], place, num_runs, **options)


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Machines of known speed, with a slow disk."""
    machine = dataclasses.replace(named_machine("8xH100-nvlink"), is_measured=True, disk_bytes_per_s=1e7)

    def at(spot: Spot) -> Machine:
        return with_devices(machine, len(spot.devices))

    monkeypatch.setattr(forecasts, "machine_at", at)
    forecasts._kept.cache_clear()
    yield
    forecasts._kept.cache_clear()


@pytest.mark.usefixtures("_fast")
@pytest.mark.parametrize(("num_runs", "replicas", "left"), [(20, 8, 0), (3, 3, 2), (2, 2, 0)])
def test_as_many_groups_as_end_the_sweep_soonest(num_runs: int, replicas: int, left: int) -> None:
    found = of(num_runs)
    assert found is not None
    place, why = found
    assert (place.replicas, place.group_size, len(place.devices)) == (replicas, 8 // replicas, 8 - left)
    assert f"{num_runs} runs are predicted to take" in why and f"by {replicas} groups of" in why
    assert (f"{left} of 8 devices are left over" in why) == bool(left)


@pytest.mark.usefixtures("_fast")
def test_groups_that_would_load_the_model_anew_must_save_that_much() -> None:
    warm = of(2, is_warm=True)
    assert warm is not None and warm[0].replicas == 1
    assert (found := of(20000, is_warm=True)) is not None and found[0].replicas == 8


@pytest.mark.usefixtures("_fast")
def test_groups_whose_plan_is_compiled_are_predicted_so() -> None:
    place, model = Place(devices=("cpu",) * 8, plan=COMPILING), dataclasses.replace(BOBBIN, graphs="off")
    found, eager = (
        shared_out([(dataclasses.replace(model, place=each), Wanted())], each, 20)
        for each in (place, dataclasses.replace(place, plan=""))
    )
    assert found is not None and eager is not None and found[1] != eager[1]
    assert (found[0].plan, eager[0].plan) == (COMPILING, "")


def test_what_has_nothing_to_choose_is_left_alone() -> None:
    assert of(1) is None and of(9, devices=1) is None
    assert shared_out([], Place(devices=("cpu",) * 2), 9) is None
    assert shared_out([(BOBBIN, Wanted())], Place(devices=("cpu",) * 2, cluster="x:1"), 9) is None


def test_the_choice_of_a_group_counts_what_all_groups_send_and_hold() -> None:
    place = Place(devices=("cpu",) * 4, replicas=2)
    plan, why = auto.choose(dataclasses.replace(BOBBIN, place=place), Wanted())
    assert plan.num_ranks == 2
    assert "in each of 2 groups on 4 devices: 2 groups work on separate runs" in why


def test_text_and_picture_of_neighbours_hide_beside_the_steps_of_several_ranks() -> None:
    machine = named_machine("2xA100-nvlink")
    job = forecast(BOBBIN, Wanted(), machine).demand
    one, two = (predict(job, ParallelPlan(ulysses=degree), machine, EAGER) for degree in (1, 2))
    assert one.next_s == one.seconds
    assert two.next_s == pytest.approx(two.seconds - min(two.text_s, two.decode_s))
