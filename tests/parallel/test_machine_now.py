"""The machine's devices as they are now; a toy machine and a toy tool stand for GPUs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from latentloom.parallel.machine import now
from latentloom.parallel.machine.machine import Device, Machine, Torch
from latentloom.parallel.machine.now import Container, devices_now, read_usage, used_memory_bytes

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    now._machine_here.cache_clear()
    yield
    now._machine_here.cache_clear()


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """`gpus(2, says=...)` lets the machine have two, and `nvidia-smi` say so; the tool's path."""

    def make(count: int, *, says: str = "", broken: str = "") -> Path:
        devices = tuple(
            Device(
                name=f"cuda:{index}",
                title="H100",
                total_bytes=80 * GIB,
                free_bytes=79 * GIB,
                capability="9.0",
                uuid=f"u{index}",
                problem=broken if index == 0 else "",
            )
            for index in range(count)
        )
        torch = Torch(version="2", cuda="12", hip="", nccl="", backends=())
        monkeypatch.setattr(now, "_may_have_gpus", lambda: True)
        monkeypatch.setattr(now, "read_machine", lambda timeout_s: Machine(torch=torch, devices=devices))
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return tool

    return make


def test_a_machine_without_gpus_is_its_cpu_and_memory() -> None:
    [cpu] = [device for device in devices_now() if device.name == "cpu"]
    assert "core" in cpu.title
    assert 0 < cpu.used_bytes <= cpu.total_bytes
    assert cpu.load is not None and 0 <= cpu.load <= 1


def test_gpus_come_first_with_what_nvidias_tool_says(gpus: Callable[..., Path]) -> None:
    gpus(2, says="GPU-u0, 1024, 97\nGPU-u1, [N/A], 3")
    first, second, cpu = devices_now()
    assert (first.name, first.used_bytes, first.load) == ("cuda:0", GIB, 0.97)
    assert (second.used_bytes, second.load) == (GIB, None)  # as it was found
    assert (second.name, cpu.name) == ("cuda:1", "cpu")


def test_a_gpu_that_does_not_work_is_left_out(gpus: Callable[..., Path]) -> None:
    gpus(2, broken="no kernel image")
    assert [device.name for device in devices_now()] == ["cuda:1", "cpu"]


def test_a_tool_that_fails_costs_the_load_only(gpus: Callable[..., Path]) -> None:
    gpus(1).write_text("#!/bin/sh\nexit 9\n")
    assert (devices_now()[0].used_bytes, devices_now()[0].load) == (GIB, None)


def test_the_machine_is_tried_once(gpus: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(1)
    devices_now()
    monkeypatch.setattr(now, "read_machine", lambda timeout_s: pytest.fail("asked again"))
    devices_now()


def test_apples_gpu_shares_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = Torch(version="2", cuda="", hip="", nccl="", backends=(), has_mps=True)
    monkeypatch.setattr(now, "_may_have_gpus", lambda: True)
    monkeypatch.setattr(now, "read_machine", lambda timeout_s: Machine(torch=torch))
    mps, cpu = devices_now()
    assert (mps.name, mps.total_bytes, mps.load) == ("mps", cpu.total_bytes, None)


@pytest.mark.parametrize("text", ["", "driver mismatch", "GPU-a, x, y", "GPU-a, 5", "a,b,c,d"])
def test_what_the_tool_says_beside_numbers_is_nothing(text: str) -> None:
    assert read_usage(text) == {}


def test_a_containers_memory_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(now, "read_container", lambda: Container(memory_bytes=GIB))
    monkeypatch.setattr(now, "used_memory_bytes", lambda: 3 * GIB)
    cpu = devices_now()[-1]
    assert (cpu.total_bytes, cpu.used_bytes) == (GIB, GIB)


@pytest.mark.parametrize(
    ("limit", "used", "stat"),
    [
        ("memory.max", "memory.current", "anon 7\ninactive_file 100"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "inactive_file 1\ntotal_inactive_file 100"),
    ],
)
def test_a_container_uses_what_the_system_could_not_drop(limit: str, used: str, stat: str, tmp_path: Path) -> None:
    folder = tmp_path / "sys/fs/cgroup" / ("" if limit == "memory.max" else "memory") / "job"
    folder.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job" if limit == "memory.max" else "5:memory:/job")
    for name, text in ((limit, "1000"), (used, "700"), ("memory.stat", stat)):
        (folder / name).write_text(text)
    assert used_memory_bytes(tmp_path) == 600
    assert used_memory_bytes(tmp_path / "nothing") is None


def test_this_machine_is_asked_without_torch() -> None:
    code = (
        "import sys; from latentloom.parallel.machine.now import devices_now; "
        "print(len(devices_now()) > 0, 'torch' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    boot = f"import runpy; runpy.run_path({str(root / 'tests' / 'support' / 'checkout.py')!r}); "
    done = subprocess.run([sys.executable, "-c", boot + code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr
