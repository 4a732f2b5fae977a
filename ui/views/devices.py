"""The devices of this server for the page: name, title, memory and load."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence

from starlette.concurrency import run_in_threadpool

from ...parallel.errors import BadInput
from ...parallel.machine import now
from ...parallel.machine.now import DeviceNow
from ...pipelines.place import check_cores, read_place
from ...pipelines.values import Place
from ..live.live import Live
from .newest import Latest

GAP_S = 2.0

logger = logging.getLogger("latentloom")


class DeviceWatch:
    """Belongs to the event loop of the pages."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._num_pages = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def for_page(self) -> Iterator[None]:
        """Looks while this is entered."""
        self._num_pages += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self._num_pages -= 1
            if not self._num_pages:
                self._task.cancel()
                self._task = None  # it may take a while to end, and the next page needs one that looks

    async def _look(self) -> None:
        while True:
            try:
                self._live.put_devices(await run_in_threadpool(devices_now))
            except Exception:  # the page works without it, and other pages wait for this task
                logger.warning("the devices could not be looked at; pages show what was known", exc_info=True)
            await asyncio.sleep(GAP_S)


def asked_place(devices: str, plan: str, *, own: Place, here: Sequence[str]) -> Place:
    """The place that a page asks for; what it leaves empty is the server's own. `here`: this machine's accelerators.

    Raises `ValueError` for what cannot be, devices that are not the server's, and more ranks on the CPU than it has,
    and this machine has cores.
    """
    place = read_place(devices.strip() or ",".join(own.devices), plan.strip() or own.plan, here=here)
    if own.devices and (foreign := sorted(set(place.devices) - set(own.devices))):
        raise BadInput(
            "the run asks for {}, but this server works on {}; name some of these",
            ", ".join(foreign),
            ", ".join(own.devices),
        )
    if len(place.devices) > len(own.devices):
        check_cores(place)
    return place


FRESH_S = 1.0  # so often the machine is asked at most, whatever number of pages watch it

_LATEST: Latest[list[DeviceNow]] = Latest()


def devices_now() -> list[DeviceNow]:
    """Takes seconds the first time where there is a GPU."""
    return [*_LATEST.of("devices", lambda: [*now.devices_now()], fresh_s=FRESH_S)]


def accelerators(devices: Sequence[DeviceNow]) -> list[str]:
    return [device.name for device in devices if device.name != "cpu"]
