"""What the devices do, looked at every two seconds while a page is open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from starlette.concurrency import run_in_threadpool

from .devices import devices_now
from .live import Live

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
