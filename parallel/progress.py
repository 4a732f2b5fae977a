"""The step border: where running work reports progress and learns that it was cancelled.

A *border* is the moment between two steps. Work of any length calls its `Progress` there, in this process or in a rank;
a cancel is heard there, and nowhere else, so that nothing is left half done. What a stage costs on the device where it
works is measured here too, and goes into the run's events and its manifest.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .machine.folders import text_of
from .mesh import mesh_for
from .plan import ParallelPlan

if TYPE_CHECKING:
    from torch import Tensor

Basis = Literal["", "model", "machine"]
# Makes a small picture of the latents, uint8 H W 3; called only when somebody is watching.
Preview = Callable[[], "Tensor"]
STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")
CHECK_S = 0.1  # between two checks of who waits for a lock


# What stands below the fields of the next four is what the page's contract says of them: as comments it would be lost.


@dataclass(frozen=True, kw_only=True)
class RankWork:
    """What one rank did in one stage, or this process where it works alone."""

    rank: int
    """The rank's number among those that work together, or could."""
    device: str
    title: str = ""
    """What the device is, such as the GPU's name."""
    machine: str = ""
    """The name of its machine; of one in a cluster, the cluster's name for it."""
    seconds: float
    sent_bytes: int = 0
    exchanges: int = 0
    """Collective calls, as the algorithm sees them."""
    peak_memory_bytes: int = 0
    """The most memory in use, of the accelerator or else of the process; loading counts, and what was done beside the
    stage."""
    idle_bytes: int = 0
    """Of it, what the process had before its first stage: Python and libraries. 0 on an accelerator."""
    known: str = ""
    """What a self-check found of the plan with this model on this machine; empty where none was made."""
    kernels: tuple[str, ...] = ()
    """By which ranks that share a sequence have attended; empty where torch chose, as it does on one device."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a prediction is for, as runs of this machine are compared by it later: no prompt, no path."""

    machine: str
    """A name of its devices and of the rates that they are predicted by."""
    model: str
    class_name: str
    """Of its transformer."""
    fingerprint: str
    dtype: str
    quantization: str
    engine: str
    width: int
    height: int
    frames: int
    batch: int
    text_tokens: int
    """Padding included."""


@dataclass(frozen=True, kw_only=True)
class Factors:
    """By what the seconds of a prediction were multiplied, as earlier runs taught."""

    step: float = 1.0
    text: float = 1.0
    decode: float = 1.0
    num_runs: int = 0
    """From which this is known."""
    basis: Basis = ""
    """Whether they were runs of the same class of model and dtype, or of any on this machine."""


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What a run is predicted to take by a plan, in seconds with warm ranks, before it begins."""

    plan: str
    why: str
    """Why this plan, in plain words."""
    machine: str
    is_measured: bool
    """Whether this machine's own measurements are under it, or data sheets."""
    is_assumed: bool = False
    """Whether its speed is only assumed: predictions learn from such seconds, and they are told to nobody."""
    steps: int
    step_s: float
    text_s: float
    decode_s: float
    load_s: float
    """Before the first, to read the weights."""
    num_bytes: int
    """On the device that holds most."""
    context_bytes: int = 0
    """Of them, what an accelerator's context and libraries take, which no run's measurement counts."""
    rejected: Sequence[tuple[str, float, str]] = ()
    """Other plans, the seconds of one of their steps, and why not."""
    factors: Factors = Factors()
    """Those that are in these seconds already."""
    setting: Setting | None = None
    """Without one nothing is learned from the run."""

    @property
    def seconds(self) -> float:
        """Of text, steps and decoding."""
        return self.text_s + self.steps * self.step_s + self.decode_s


class Progress:
    """What work calls between its steps, and what its caller learns by; this one is silent.

    `phase`, `step` and `check` may raise `Cancelled`, and nothing else.
    """

    owner: str = ""  # whose work it is: in a queue, owners take turns
    node: str = ""  # which part of it, for logs
    keeper: str = ""  # for whom this process keeps what may be asked for again: nobody finds what others keep
    wants_previews: bool = False
    rank: int = 0  # who works, where one rank does the job alone: its number among those that could have

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        """A part of the work begins, such as "loading transformer"; it has no steps of its own.

        The text is for people. What `is_loading` waits for a disk, not for other ranks, and is worth waiting for.
        """

    def again(self, text: str) -> None:
        """Work that was lost with a rank, a machine or memory begins once more; `text` says why."""
        self.phase(text, is_loading=True)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        """`done` of `total` steps are finished."""

    def check(self) -> None:
        """Nothing new; raises `Cancelled` if the work should end. Called often by whoever waits for ranks."""

    def foresee(self, foreseen: Foreseen) -> None:
        """What the denoise that begins, and the run around it, are predicted to take."""

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        """How the work is spread over ranks: the plan alone when it begins, and what each did once it is done.

        Of one that worked alone the plan is empty.
        """


SILENT = Progress()  # the progress of a call made by hand: nobody watches and nobody cancels


# ---- What a stage costs, measured: seconds, bytes, exchanges, memory


@contextlib.contextmanager
def alone(lock: threading.Lock, check: Callable[[], None]) -> Iterator[None]:
    """Within it this thread has the lock; while it waits for that, `check` may raise that nobody wants it any more."""
    while not lock.acquire(timeout=CHECK_S):
        check()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def measured(plan: ParallelPlan, progress: Progress, *, device: str, name: str = "", known: str = "") -> Iterator[None]:
    """Collective: tell what is done within, under the plan's name or another; one that works alone, here or as a rank,
    has no plan to name. Seconds are those until the device is done, not until it was told what to do.

    Whoever is within sends over `mesh_for(plan)`. The memory is that since the last `reset_peak`.
    """
    mesh = mesh_for(plan) if plan.num_ranks > 1 else None  # one rank works beside the groups that it belongs to
    start = time.perf_counter()
    before = mesh and mesh.sent
    yield
    finish(device)
    after = mesh and mesh.sent
    work = RankWork(
        rank=mesh.rank if mesh else progress.rank,
        device=device,
        title=title_of(device),
        machine=platform.node(),
        seconds=time.perf_counter() - start,
        sent_bytes=after.sent_bytes - before.sent_bytes if after and before else 0,
        exchanges=after.calls - before.calls if after and before else 0,
        peak_memory_bytes=peak(device),
        idle_bytes=0 if device.startswith("cuda") else idle_bytes(),
        known=known,
        kernels=tuple(sorted(mesh.kernels)) if mesh else (),
    )
    progress.spread((name or str(plan)) if mesh else "", [work])


def finish(device: str) -> None:
    """Wait for what this thread has asked of an accelerator; elsewhere it is done when the call returns."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.current_stream(device).synchronize()


class RunAhead:
    """How far the host may be ahead of an accelerator: of a step that is to be asked for, the last but one is done."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._before: Any = None  # what is over once the step before the last is

    def asked(self) -> None:
        """A step was asked for; returns when the next one may be."""
        if not self._device.startswith("cuda"):
            return
        import torch

        # Waiting for the step before the last one, not for this: so nothing waits between two steps, and what was asked
        # for and is to be cancelled is two steps at most.
        event = torch.cuda.Event()
        event.record()
        if self._before is not None:
            self._before.synchronize()
        self._before = event


def title_of(device: str) -> str:
    """What a device of this machine is, such as "NVIDIA H100 PCIe" or "x86_64"."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    return platform.machine()  # `platform.processor()` may start a process


def reset_peak(device: str) -> None:
    """From now on `peak` counts anew, for all that this process does on the device."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        return
    idle_bytes()
    with contextlib.suppress(OSError):
        RESET.write_text("5")  # Linux: set the high-water mark back to what is in use


def peak(device: str) -> int:
    """The most memory since `reset_peak`: of a GPU, else of this process; 0 where the system does not tell."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    return _status("VmHWM")


@functools.cache
def idle_bytes() -> int:
    """What this process had when it was first asked, before its first stage; 0 where the system does not tell."""
    return _status("VmRSS")


def _status(name: str) -> int:
    line = next((line for line in text_of(STATUS).splitlines() if line.startswith(f"{name}:")), "")
    return int(line.split()[1]) * 1024 if line else 0
