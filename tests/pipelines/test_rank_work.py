"""What a stage is told to have done is done; within it the host is ahead of an accelerator, but not far."""

import mmap
import platform
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import torch

from latentloom.parallel import progress as measured
from latentloom.parallel.mesh import Mesh, planned_mesh
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.progress import Progress
from latentloom.pipelines import stages


class Told(Progress):
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def step(self, done: int, total: int, preview: Any = None) -> None:
        self.events.append(f"step {done}")

    def spread(self, plan: str, ranks: Any) -> None:
        self.events.append(f"spread over {plan}")
        self.work = ranks


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens, with a stand-in for CUDA."""
    events: list[str] = []

    def current_stream(device: str) -> Any:
        return SimpleNamespace(synchronize=lambda: events.append(f"{device} is done"))

    monkeypatch.setattr("torch.cuda.current_stream", current_stream)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: 7)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"the GPU {device}")
    return events


def test_the_host_is_two_steps_ahead_of_an_accelerator_at_most(
    events: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Event:
        def record(self) -> None:
            self.step = 1 + sum(each.startswith("asked") for each in events)
            events.append(f"asked {self.step}")

        def synchronize(self) -> None:
            events.append(f"done {self.step}")

    monkeypatch.setattr("torch.cuda.Event", Event)
    for device in ("cuda:1", "cpu"):
        model, compare = cast(Any, SimpleNamespace(device=device)), lambda: None
        report = stages._reporting(model, Told(events), compare)
        for step in (1, 2, 3):
            report(step, 3, lambda: torch.zeros(1))
        events.append("over")
    on_gpu = ["asked 1", "step 1", "asked 2", "done 1", "step 2", "asked 3", "done 2", "step 3", "over"]
    assert events == [*on_gpu, "step 1", "step 2", "step 3", "over"]


def test_work_is_measured_until_the_device_has_done_it(events: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def mesh_for(plan: ParallelPlan) -> Mesh:
        return planned_mesh(plan, 0)

    monkeypatch.setattr(measured, "mesh_for", mesh_for)
    with measured.measured(ParallelPlan(ulysses=2), Told(events), device="cuda:0"):
        events.append("asked")
    assert events == ["asked", "cuda:0 is done", "spread over ulysses=2"]


def test_a_stage_of_one_device_tells_its_device_machine_and_memory(events: list[str]) -> None:
    told = Told(events)
    told.rank = 3  # of four, as the last one decodes
    with measured.measured(ParallelPlan(), told, device="cuda:1"):
        events.append("asked")
    assert events == ["asked", "cuda:1 is done", "spread over "]
    (work,) = told.work
    assert (work.rank, work.device, work.title, work.machine) == (3, "cuda:1", "the GPU cuda:1", platform.node())
    assert work.peak_memory_bytes == 7 and work.seconds >= 0


def fresh_memory(size: int) -> mmap.mmap:
    """`size` bytes that are resident and new: malloc would give what the process freed before and still holds."""
    memory = mmap.mmap(-1, size)
    memory.write(b"\1" * size)
    return memory


@pytest.mark.usefixtures("resettable_peak")
def test_the_memory_of_a_stage_on_a_cpu_is_its_process_s_since_it_was_counted_anew() -> None:
    mib = 1 << 20
    with fresh_memory(256 * mib):
        high = measured.peak("cpu")
    measured.reset_peak("cpu")
    low = measured.peak("cpu")
    assert high - low > 128 * mib
    freed = max(0, low - psutil.Process().memory_info().rss)  # by others meanwhile
    with fresh_memory(freed + 128 * mib):
        assert measured.peak("cpu") - low > 64 * mib


def test_what_a_process_had_before_its_first_stage_is_told_beside_the_stage_s_memory() -> None:
    told = Told([])
    idle = measured.idle_bytes()
    with fresh_memory(64 << 20), measured.measured(ParallelPlan(), told, device="cpu"):
        pass
    assert told.work[0].idle_bytes == idle


def test_a_processor_is_named_without_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.processor", lambda: pytest.fail("it may start `uname`"))
    assert measured.title_of("cpu") == platform.machine()
