"""From what the user wrote to a model's place."""

import pytest

from latentloom.parallel.machine import machine
from latentloom.parallel.plan import ParallelPlan
from latentloom.pipelines import place as place_module
from latentloom.pipelines.models.describe import describe_model
from latentloom.pipelines.place import check_cores, check_span, checked, names_plan, placed, read_place, read_plan
from latentloom.pipelines.values import Model, Place

MODEL = Model(source="a model", folder="/nowhere", family="flux", device="cpu")


@pytest.fixture
def without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "accelerators", lambda: ())


@pytest.mark.parametrize(("text", "read"), [(" ", ""), ("auto", "auto"), ("ring=2, cfg=2", "cfg=2,ring=2")])
def test_a_plan_is_read_as_it_is_always_written(text: str, read: str) -> None:
    assert read_plan(text) == read
    assert names_plan(Place(plan=read)) == (read not in ("", "auto"))


def test_a_place_is_devices_a_plan_and_replicas() -> None:
    place = read_place("cpu*4", "ulysses=2", replicas=2)
    assert place == Place(devices=("cpu",) * 4, plan="ulysses=2", replicas=2)


def test_no_devices_are_all_there_are(without_gpus: None) -> None:
    assert read_place("") == read_place("all") == Place(devices=("cpu",))


@pytest.mark.parametrize("replicas", [0, -1, 3, 5])
def test_replicas_that_do_not_divide_the_devices_are_refused(replicas: int) -> None:
    with pytest.raises(ValueError, match=f"replicas is {replicas}, but 4 devices were given"):
        read_place("cpu*4", replicas=replicas)


def test_a_plan_must_fit_the_devices_of_a_replica() -> None:
    with pytest.raises(ValueError, match="uses 4 ranks, but 2 devices were given"):
        checked(Place(devices=("cpu",) * 4, plan="ring=4", replicas=2))


def test_gpus_of_a_cluster_need_not_be_here(without_gpus: None) -> None:
    with pytest.raises(ValueError, match="not on this machine"):
        read_place("cuda*2")
    place = read_place("cuda*2", "ulysses=2", cluster="10.0.0.1:6379")
    assert place.devices == ("cuda:0", "cuda:1")
    model = describe_model("builtin:bobbin", device=place.devices[0], is_here=False)
    assert (model.device, model.dtype) == ("cuda:0", "bf16")
    assert placed(model, place).place is place


@pytest.mark.parametrize("devices", ["", "all", " all "])
def test_the_devices_of_a_cluster_must_be_named(devices: str) -> None:
    with pytest.raises(ValueError, match=r"needs the devices of each of its machines; name them, as --devices cuda\*2"):
        read_place(devices, cluster="auto")


def test_a_gpu_of_a_cluster_is_not_named_twice_either(without_gpus: None) -> None:
    with pytest.raises(ValueError, match="cuda:1 twice"):
        read_place("cuda:1,cuda:1", cluster="auto")


@pytest.mark.parametrize("plan", ["cfg=2,ulysses=2", "ulysses=2", "cfg=2", "cfg=4,ring=2,weights=2"])
def test_whole_branches_of_guidance_may_go_to_other_machines(plan: str) -> None:
    check_span(ParallelPlan.parse(plan), Place(devices=("cpu",) * 2, cluster="auto"))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("ulysses=4", "a sequence stays in one machine"),
        ("cfg=2,ulysses=2,ring=2", "a sequence stays in one machine"),
        ("cfg=3", "2 or a multiple of it"),
        ("cfg=4,weights=4", "shared weights stay in one machine"),
    ],
)
def test_what_would_cross_machines_is_refused_by_name(plan: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_place("cpu*2", plan, cluster="auto")


def test_gpus_of_several_machines_do_not_work_on_one_job() -> None:
    assert read_place("cuda*2", "cfg=2", cluster="auto").plan == "cfg=2"
    with pytest.raises(ValueError, match=r"on CPUs only, because NCCL .* make the plan 2 ranks"):
        read_place("cuda*2", "cfg=2,ulysses=2", cluster="auto")


def test_a_model_without_a_place_stays_as_it_is() -> None:
    assert placed(MODEL, Place()) is MODEL


def test_devices_of_another_kind_than_the_models_are_refused() -> None:
    with pytest.raises(ValueError, match="described for cpu; set the device of Load Model to cuda"):
        placed(MODEL, Place(devices=("cuda:0", "cuda:1")))


@pytest.mark.parametrize(("system", "has_place"), [("linux", True), ("darwin", False)])
def test_one_device_gets_a_rank_only_where_ranks_can_be(
    system: str, has_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", system)
    model = placed(MODEL, Place(devices=("cpu",)))
    assert bool(model.place.devices) == has_place
    assert model.device == "cpu"


@pytest.mark.parametrize(("num_cores", "most"), [(1, 2), (2, 2), (6, 6)])
def test_cpu_ranks_of_a_workflow_are_no_more_than_the_cores(
    num_cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "num_cores", lambda: num_cores)
    check_cores(Place(devices=("cpu",) * most))
    check_cores(Place(devices=tuple(f"cuda:{index}" for index in range(8))))
    with pytest.raises(ValueError, match=rf"names {most + 1} CPU ranks, .*use cpu\*{most} or fewer"):
        check_cores(Place(devices=("cpu",) * (most + 1)))
