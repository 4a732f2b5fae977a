"""What libraries ask of GPUs while the fork server imports them, answered without CUDA, which no forked rank survives.

Some look at the GPU as they are imported, to choose kernels: torchao (by torch's own look for Triton), xformers and
bitsandbytes ask for its compute capability. NVML knows that, and starts nothing; what it does not know, or where it is
missing (a container without it, MIG names, ROCm), a child asks the driver and tells. Who wants more, a tensor say, is
refused and remembered: what it has made of itself then is not what it would be in a rank.

Torch's public functions stay, and what they call within is replaced: others keep them, `torch._dynamo` among them, and
whoever keeps an answer instead (`DriverAnswers.given`) has torch's own later.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn

from . import guard

# Packages that ask for others.
PASSED_ON = {"torch", "triton", "importlib", "contextlib", (__package__ or "").partition(".")[0]}
SUCCESS = 0  # what NVML and CUDA answer then
Facts = Mapping[str, Any]  # a GPU's properties, by the names that torch has for them


@contextlib.contextmanager
def driver_unasked(num_gpus: int) -> Iterator[list[str]]:
    """Within it this process has `num_gpus` GPUs, and starts none. Gives a list of the modules that were refused."""
    import torch

    answers = DriverAnswers(num_gpus)
    if not hasattr(torch._C, "_cuda_getDeviceCount"):
        yield answers.refused
        return
    with answers.given():
        yield answers.refused
    # Torch's compiler keeps what it was told of devices: here of one that was made up, and that has no number yet.
    interface = sys.modules.get("torch._dynamo.device_interface")
    for name in ("caching_worker_device_properties", "caching_worker_current_devices"):
        getattr(interface, name, {}).clear()


def has_started() -> bool:
    """Whether this process has started CUDA: by torch, or in the driver, whoever asked that."""
    import torch

    if torch.cuda.is_initialized():
        return True
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False
    return driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == SUCCESS  # an error until somebody has started it


class DriverAnswers:
    """What torch is given in place of its own."""

    def __init__(self, num_gpus: int) -> None:
        self.num_gpus = num_gpus
        self.refused: list[str] = []
        self._restore = contextlib.ExitStack()
        self._is_given = False
        self._by_nvml: Sequence[Facts] | None = None
        self._by_driver: Sequence[Facts] | None = None

    @contextlib.contextmanager
    def given(self) -> Iterator[None]:
        import torch

        def count() -> int:
            return self.num_gpus

        replaced: dict[Any, dict[str, Callable[..., Any]]] = {
            torch._C: {
                "_cuda_getDeviceCount": count,
                "_cuda_init": self.refuse,
                "_cuda_getDevice": lambda: 0,
                "_accelerator_getDeviceIndex": lambda: 0,
            },
            torch.cuda: {
                "_device_count_nvml": count,
                "_device_count_amdsmi": count,
                "_lazy_init": self._begin,
                "_get_device_properties": self._properties,
                "_check_bf16_tensor_supported": lambda device: True,  # torch tries it, and any GPU can
            },
        }
        self._is_given = True
        with self._restore:
            for owner, answers in replaced.items():
                for name, answer in answers.items():
                    self._replace(owner, name, answer)
            yield

    def _replace(self, owner: Any, name: str, answer: Callable[..., Any]) -> None:
        def given(*args: Any, **kwargs: Any) -> Any:
            return (answer if self._is_given else getattr(owner, name))(*args, **kwargs)

        # A module may have kept `given`, by an import of the name: from the end on it passes calls to torch's own.
        if (own := getattr(owner, name, None)) is None:
            self._restore.callback(delattr, owner, name)
        else:
            self._restore.callback(setattr, owner, name, own)
        self._restore.callback(setattr, self, "_is_given", False)
        setattr(owner, name, given)

    def _begin(self) -> None:
        """In place of starting CUDA: nothing for those that only ask, and are answered."""
        import torch

        # By code and not by name: whoever calls `_lazy_init` for anything else is about to use the GPU.
        asks = (torch.cuda.current_device.__code__, torch.cuda.get_device_properties.__code__)
        if not self.num_gpus or sys._getframe(2).f_code not in asks:
            self.refuse()

    def refuse(self) -> NoReturn:
        if not self.num_gpus:
            raise RuntimeError("No CUDA GPUs are available")  # torch's words, where there are none
        self.refused.append(module := _who_asks(sys._getframe(1)))
        raise RuntimeError(f"importing {module} starts CUDA, which forked ranks would not survive")

    def _properties(self, index: int) -> Gpu:
        if self._by_nvml is None:
            self._by_nvml = _told_by_nvml()
        facts = self._by_nvml[index] if index < len(self._by_nvml) else self._all_of(index)
        return Gpu(facts, lambda: self._all_of(index))

    def _all_of(self, index: int) -> Facts:
        import torch

        if not self._is_given:
            return _facts(torch.cuda.get_device_properties(index))
        if self._by_driver is None:
            self._by_driver = self._told_by_child()
        if index >= len(self._by_driver):
            self.refuse()
        return self._by_driver[index]

    def _told_by_child(self) -> Sequence[Facts]:
        """What the driver says of all GPUs to a process of its own; nothing where it fails there."""
        readable, writable = os.pipe()
        server = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                guard.die_with_parent(server)
                self._restore.close()  # torch's own functions, which may start CUDA here: this process ends
                import torch

                found = [_facts(torch.cuda.get_device_properties(i)) for i in range(torch.cuda.device_count())]
                os.write(writable, json.dumps(found).encode())
            finally:
                os._exit(0)
        os.close(writable)
        with os.fdopen(readable, "rb") as told:
            data = told.read()  # until the child has ended, and so closed its end
        os.waitpid(pid, 0)
        return json.loads(data or b"[]")


class Gpu:
    """One GPU's properties, as torch gives them: some facts at once, all others when one of those is asked for."""

    def __init__(self, facts: Facts, more: Callable[[], Facts]) -> None:
        vars(self).update(facts, _more=more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what Python itself asks of any object is no fact of a GPU
            raise AttributeError(name)
        vars(self).update(self._more())
        if name not in vars(self):
            raise AttributeError(name)
        return vars(self)[name]


def _facts(properties: Any) -> Facts:
    found = {name: getattr(properties, name) for name in dir(properties) if not name.startswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}


def _told_by_nvml() -> Sequence[Facts]:
    """Of each GPU that this process sees. Nothing where NVML is missing or does not count as CUDA does."""
    import torch

    found: list[Facts] = []
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if torch.version.hip or nvml.nvmlInit_v2() != SUCCESS:
            return []
        while (facts := _facts_of(nvml, torch.cuda._get_nvml_device_index(len(found)))) is not None:
            found.append(facts)
    except OSError:
        return []
    except RuntimeError:  # no more are visible, or by MIG names
        pass
    # CUDA counts from the fastest, NVML from the first on the bus: of unlike GPUs a number would say another one.
    return found if all(each == found[0] for each in found) else []


def _facts_of(nvml: ctypes.CDLL, place: int) -> Facts | None:
    handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(96)
    if (
        nvml.nvmlDeviceGetHandleByIndex_v2(place, ctypes.byref(handle)) != SUCCESS
        or nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) != SUCCESS
        or nvml.nvmlDeviceGetName(handle, name, len(name)) != SUCCESS
    ):
        return None
    return {"major": major.value, "minor": minor.value, "name": name.value.decode()}


def _who_asks(frame: FrameType | None) -> str:
    """The innermost module that asks for itself."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in PASSED_ON:
            return name
        frame = frame.f_back
    return "torch"
