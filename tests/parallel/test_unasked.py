"""What modules ask of GPUs while the fork server imports them is answered, and CUDA is not started there."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo import device_interface

from latentloom.parallel.ranks import fork_server, unasked

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
MIG = "MIG-8f4b5d3c-0000-0000-0000-000000000000"
H200 = ("GPU-aa", b"NVIDIA H200", (9, 0))
TURING = ("GPU-bb", b"NVIDIA T4", (7, 5))
BY_DRIVER = {"name": "by the driver", "major": 8, "minor": 6, "total_memory": 24 << 30, "gcnArchName": "sm_86"}


class Nvml:
    """Its library, for some GPUs; a call's references are ctypes objects."""

    def __init__(self, *gpus: tuple[str, bytes, tuple[int, int]]) -> None:
        self.gpus = gpus
        self.nvmlInit = self.nvmlInit_v2 = lambda: 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return 0 if index < len(self.gpus) else 2

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, _: int) -> int:
        text.value = self.gpus[handle.value - 1][0].encode()
        return 0

    def nvmlDeviceGetName(self, handle: Any, text: Any, _: int) -> int:
        text.value = self.gpus[handle.value - 1][1]
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = self.gpus[handle.value - 1][2]
        return 0


class Cuda:
    """A torch built for CUDA, beside libraries of the system."""

    def __init__(self, folder: Path) -> None:
        self.libraries: dict[str, Any] = {}
        self._starts = folder / "starts"

    def load(self, name: str | None, *_: Any, **__: Any) -> Any:
        if name is None:
            return SimpleNamespace(prctl=lambda *_: 0)
        if name not in self.libraries:
            raise OSError(f"{name}: cannot open shared object file")
        return self.libraries[name]

    def start(self) -> None:
        with self._starts.open("a") as file:
            file.write(f"{os.getpid()}\n")

    @property
    def started(self) -> set[int]:
        """The processes that have started it."""
        return set(map(int, self._starts.read_text().split())) if self._starts.exists() else set()


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    """Two GPUs, the second of which is the current one, that nobody has started yet."""
    found = Cuda(tmp_path)
    own = {"_cuda_getDeviceCount": lambda: 2, "_cuda_init": found.start, "_cuda_getDevice": lambda: 1}
    for name, function in own.items():
        monkeypatch.setattr(torch._C, name, function, raising=False)
    properties = SimpleNamespace(**BY_DRIVER, uuid=object())
    monkeypatch.setattr(torch.cuda, "_get_device_properties", lambda index: properties, raising=False)
    monkeypatch.setattr(torch.cuda, "_lazy_init", found.start)
    monkeypatch.setattr(torch.cuda, "_cudart", object())
    monkeypatch.setattr(ctypes, "CDLL", found.load)
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield found
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("visible", [None, "0", "1,0", "GPU-aa"])
def test_nvml_tells_what_a_gpu_can_and_nobody_is_asked(
    visible: str | None, cuda: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.libraries["libnvidia-ml.so.1"] = Nvml(H200, ("GPU-cc", *H200[1:]))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with unasked.driver_unasked(1) as refused:
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
        assert torch.cuda.get_device_capability("cuda") == torch.cuda.get_device_capability(0) == (9, 0)
        assert torch.cuda.get_device_name() == "NVIDIA H200" and torch.cuda.is_bf16_supported()
        with pytest.raises(AssertionError, match="Invalid device id"):
            torch.cuda.get_device_properties(1)
    assert not refused and not cuda.started


@pytest.mark.parametrize(
    ("gpus", "visible", "hip"),
    [([], "", None), ([H200], MIG, None), ([TURING, H200], "", None), ([H200], "", "7.1")],
    ids=["no NVML", "MIG", "GPUs of two kinds, which NVML counts otherwise", "ROCm"],
)
def test_what_nvml_cannot_tell_a_child_asks_of_the_driver(
    gpus: list[Any], visible: str, hip: str | None, cuda: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    if gpus:
        cuda.libraries["libnvidia-ml.so.1"] = Nvml(*gpus)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with unasked.driver_unasked(2) as refused:
        assert torch.cuda.get_device_capability() == (8, 6) and torch.cuda.get_device_name(1) == "by the driver"
        assert torch.cuda.get_device_properties(0).gcnArchName == "sm_86" and torch.cuda.is_bf16_supported()
    assert not refused and len(cuda.started) == 1 and os.getpid() not in cuda.started


def test_more_than_nvml_knows_is_asked_of_a_child_too(cuda: Cuda) -> None:
    cuda.libraries["libnvidia-ml.so.1"] = Nvml(H200)
    with unasked.driver_unasked(1) as refused:
        gpu = torch.cuda.get_device_properties(0)
        assert gpu.name == "NVIDIA H200" and not cuda.started
        assert gpu.total_memory == 24 << 30 and not hasattr(gpu, "uuid")
    assert not refused and os.getpid() not in cuda.started


@pytest.mark.parametrize(
    "body",
    [
        "torch.cuda.init()",
        "torch.cuda.mem_get_info()",
        "torch.cuda.get_rng_state()",  # which keeps a `_lazy_init` of its own
        "torch._C._cuda_init()",
        "try:\n    torch.cuda.synchronize()\nexcept RuntimeError:\n    pass",
    ],
)
def test_who_would_start_cuda_is_refused_and_named(body: str, cuda: Cuda, tmp_path: Path) -> None:
    (tmp_path / "starter.py").write_text(f"import torch\n{body}\n")
    (tmp_path / "innocent.py").write_text("import starter\n")
    assert fork_server.import_all(["innocent"], num_gpus=1) == "starter" and not cuda.started


def test_who_asks_what_nobody_can_tell_is_refused(cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container without NVML, whose driver does not start: what the module makes of that is not kept for ranks."""
    monkeypatch.setattr(torch.cuda, "_get_device_properties", lambda index: 1 / 0)
    body = "try:\n    torch.cuda.get_device_capability()\nexcept RuntimeError as error:\n    said = str(error)\n"
    (tmp_path / "asker.py").write_text(f"import torch\n{body}")
    assert fork_server.import_all(["asker"], num_gpus=1) == "asker"
    assert "importing asker starts CUDA" in sys.modules["asker"].said


def test_ranks_without_a_gpu_are_of_a_machine_that_has_none(cuda: Cuda, tmp_path: Path) -> None:
    cuda.libraries["libnvidia-ml.so.1"] = Nvml(H200)
    body = "try:\n    torch.cuda.get_device_capability()\nexcept RuntimeError as error:\n    said = str(error)\n"
    (tmp_path / "asker.py").write_text(f"import torch\nfound = torch.cuda.is_available()\n{body}")
    assert fork_server.import_all(["asker"], num_gpus=0) == "" and not cuda.started
    assert (sys.modules["asker"].found, sys.modules["asker"].said) == (False, "No CUDA GPUs are available")
    assert fork_server.environment(0)["CUDA_VISIBLE_DEVICES"] == "" and not fork_server.environment(1).get(
        "CUDA_VISIBLE_DEVICES"
    )


def test_what_a_module_keeps_gives_torch_s_own_answers_afterwards(cuda: Cuda, tmp_path: Path) -> None:
    cuda.libraries["libnvidia-ml.so.1"] = Nvml(H200)
    (tmp_path / "keeper.py").write_text(
        "import torch\n"
        "from torch.cuda import _lazy_init, current_device\n"
        "from torch._dynamo.device_interface import CudaInterface\n"
        "gpu = torch.cuda.get_device_properties(0)\n"
        "found = current_device(), CudaInterface.Worker.get_device_properties().major\n"
    )
    assert fork_server.import_all(["keeper"], num_gpus=1) == ""
    keeper = sys.modules["keeper"]
    assert keeper.found == (0, 9) and not cuda.started
    assert not device_interface.caching_worker_device_properties
    assert keeper.current_device() == 1 and keeper.gpu.total_memory == 24 << 30
    assert cuda.started == {os.getpid()}


def test_cuda_that_was_started_past_torch_is_seen_and_what_was_imported_named(cuda: Cuda, tmp_path: Path) -> None:
    not_initialized, success = 3, 0
    assert not unasked.has_started()
    answers = [not_initialized]
    cuda.libraries["libcuda.so.1"] = SimpleNamespace(cuDeviceGetCount=lambda _: answers[0])
    cuda.libraries["start"] = lambda: answers.__setitem__(0, success)
    (tmp_path / "past_torch.py").write_text("import ctypes\nctypes.CDLL('start')()\n")
    (tmp_path / "before.py").touch()
    assert fork_server.import_all(["before", "past_torch", "before"], num_gpus=1) == "past_torch"


def test_in_a_torch_without_cuda_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_cuda_getDeviceCount", raising=False)
    before = {**vars(torch.cuda)}
    with unasked.driver_unasked(1) as refused:
        assert vars(torch.cuda) == before and not refused
