"""This machine to plan for: what its ranks measured of it, once for its devices, driver and torch, kept for later."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...parallel.machine.folders import locked, private, private_folder
from ...parallel.machine.machine import num_sockets
from ...parallel.machine.now import devices_now, host_bytes, num_cores
from ...parallel.progress import SILENT, Progress, alone
from ..costs.machine import Machine, limited
from ..costs.measured import PARTS, Plain, checked, keep, kept, machine_of
from .known import Spot, chip_of, machine_at, spot_of

BUSY = 0.2  # load of a device, or of each core, from which on something else is at work
TURN_S = 120.0  # for another process's measurement; who has waited so long goes on without a turn

logger = logging.getLogger("latentloom")


def machine_here(
    folder: Path | None, *, anew: bool = False, progress: Progress = SILENT, is_free: Callable[[], bool] = lambda: True
) -> Machine:
    """As it was measured before, or is now, which takes about ten seconds. While something else works, here by
    `is_free` too, nothing is measured but `anew`, and nothing kept in the folder.

    Raises `RankFailed`, or ValueError where no ranks can be started, and `Cancelled`.
    """
    spot = spot_of((), devices_now())
    before = folder and kept(folder, spot.key)
    if before and not anew:
        return limited(machine_of(before), spot.limit, host_bytes())
    is_idle = is_free() and not is_busy(spot)
    if not is_idle and not anew:
        logger.warning("something else works on this machine, so that it is not measured now, but assumed")
        return machine_at(spot)
    with _turn(folder, progress):
        found = folder and kept(folder, spot.key)
        if not found or found == before:  # no other process has measured meanwhile
            found = _measured(spot, progress)
            if not is_idle:
                logger.warning("something else works on this machine, so that what was measured is not kept for later")
            elif folder is not None:
                try:
                    keep(found, folder, spot.key)
                except OSError as error:  # which costs the next measurement, not this one
                    told = "what was measured is not kept for later: %s cannot be written (%s)"
                    logger.warning(told, folder, error.strerror)
    return limited(machine_of(found), spot.limit, host_bytes())


@contextlib.contextmanager
def _turn(folder: Path | None, progress: Progress) -> Iterator[None]:
    """Processes measure one after another: each would measure the others' work as well."""
    with contextlib.ExitStack() as stack:
        if folder is not None and os.name == "posix":
            with contextlib.suppress(OSError):  # who cannot keep anything need not wait
                private_folder(folder)
                lock = stack.enter_context(open(folder / "measuring", "ab", opener=private))
                locked(lock.fileno(), wait_s=TURN_S, go_on=progress.check)
        yield


def measure_first(devices: Sequence[str], progress: Progress, *, is_free: Callable[[], bool]) -> None:
    """Measure GPUs that work together for the first time, unless something works there, or here by `is_free`; tried
    once in a process. A run goes on without it, by data sheets.
    """
    if len(devices) < 2 or not devices[0].startswith("cuda"):
        return
    spot = spot_of(devices)
    if spot.file is None or spot.stamp or spot.key in _tried:
        return
    with alone(_measuring, progress.check):
        if spot.key in _tried or not is_free():
            return
        if is_busy(spot):
            logger.info("this machine is not measured now, because something works on it; data sheets tell its speed")
        else:
            progress.phase("measuring this machine, once", is_loading=True)
            logger.info("measuring this machine, once: it takes about ten seconds")
            try:
                machine_here(spot.file.parent, progress=progress, is_free=is_free)
            except Exception as error:  # of whatever ranks may meet
                logger.warning("this machine was not measured (%s); data sheets tell its speed", error)
        _tried.add(spot.key)  # not before: whoever comes meanwhile waits; and not where it was cancelled


_tried: set[str] = set()  # machines by their keys that this process has tried to measure unasked
_measuring = threading.Lock()  # meanwhile other jobs of this process wait: their work would be measured as well


def is_busy(spot: Spot) -> bool:
    """Whether something else works on its machine now."""
    import psutil

    if spot.kind == "cpu":
        return psutil.getloadavg()[0] > BUSY * num_cores()  # that of `os` is not there on Windows
    return any((device.load or 0.0) > BUSY for device in devices_now() if device.name in spot.all)


def _measured(spot: Spot, progress: Progress = SILENT) -> Plain:
    from ...parallel.pool.trial import measure

    told, is_cpu, first = measure(spot.all, asker=progress), spot.kind == "cpu", spot.shown[0].title
    title = f"{len(spot.all)} ranks on {first}" if is_cpu else f"{len(spot.all)} x {first}"
    if (sockets := num_sockets()) > 1:
        title += f", {sockets} sockets"
    chip = None if is_cpu else chip_of(first)
    plain = {
        "title": title,
        "kind": spot.kind,
        "memory_bytes": min(device.total_bytes for device in spot.shown),
        "num_units": chip.num_units if chip else 0,
        "seen": {count: slowest(each, is_amid=is_cpu) for count, each in told.items()},
    }
    return checked(plain)


def slowest(ranks: Sequence[Plain], *, is_amid: bool) -> Plain:
    """Of all that ranks measured at a time, the most that one of them took. What travels amid work is another's to
    wait for: there the least, which is that of the rank that all wait for, is left when its work is told apart.
    """

    def seconds(told: Plain) -> float:
        return told["seconds"]

    def of_all(name: str) -> Any:
        first = ranks[0][name]
        if isinstance(first, list):
            counted = min if is_amid and name == "samples" else max
            return [counted(alike, key=seconds) for alike in zip(*(rank[name] for rank in ranks), strict=True)]
        told = [rank[name] for rank in ranks]
        return first and max(told, key=seconds if isinstance(first, Mapping) else None)

    return {name: of_all(name) for name in PARTS}
