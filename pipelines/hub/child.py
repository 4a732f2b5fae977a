"""The host's end of the process that talks to the hub: started, heard with a deadline, ended at once.

The access token is in the environment or the login that the hub's client finds by itself, here as for the command line:
no order, answer or sentence has it.
"""

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...parallel.machine.talking import Talking
from ..models.outlines import home, outline_of
from ..values import from_plain, to_plain
from .look import HubModel, NotFetched

SILENT_S = 90.0  # how long nothing may come: the client itself tries again for about a minute
LOOK_S = 45.0
# Xet fetches by threads and a cache of its own, of which nothing can be counted or gone on with.
CALM = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


class HubProcess(Talking):
    """One order under way."""

    def __init__(self, order: dict[str, Any]) -> None:
        package = (__package__ or "").split(".")[0]
        super().__init__("-m", f"{package}.pipelines.hub.worker", name="hub", environment=CALM)
        with contextlib.suppress(OSError):  # it is gone already, as `events` will say
            self.tell(order)

    def events(self, *, silent_s: float) -> Iterator[dict[str, Any]]:
        """What it tells, the last with the answer. Raises `NotFetched`, also where nothing came for `silent_s`."""
        while True:
            try:
                told = self.hear(timeout_s=silent_s)
            except TimeoutError:
                raise NotFetched(
                    "nothing came from the hub for {:g} s; try again, which goes on where it stopped", silent_s
                ) from None
            except ConnectionError:
                raise NotFetched(
                    "the process that talks to the hub ended; try again, which goes on where it stopped"
                ) from None
            if "error" in told:
                raise NotFetched(told["error"], code=told["code"])
            yield told
            if "bytes" not in told:
                return


def looked_at(model_id: str, revision: str, *, timeout_s: float = LOOK_S) -> HubModel:
    """What the hub tells of a model. Raises `NotFetched`."""
    with tempfile.TemporaryDirectory(prefix="latentloom-") as folder:  # here: a process that is ended removes nothing
        order = {"what": "look", "id": model_id, "revision": revision, "folder": folder}
        with contextlib.closing(HubProcess(order)) as process:
            return from_plain(HubModel, next(process.events(silent_s=timeout_s))["model"])


@functools.cache
def outline_anywhere(model_id: str, revision: str) -> Path:
    """The outline of a model that the table knows. Of another a folder with the sizes of its weights, as the hub has
    them, and no weights; removed at this process's end. Raises `NotFetched`."""
    if (known := outline_of(model_id, revision)) is not None:
        return known
    folder = tempfile.mkdtemp(dir=home().name)
    order = {"what": "outline", "id": model_id, "revision": revision, "folder": folder}
    with contextlib.closing(HubProcess(order)) as process:
        next(process.events(silent_s=SILENT_S))
    return Path(folder)


def fetching(model: HubModel, cache: Path) -> HubProcess:
    """Its events hold `bytes` and `files` that are there; the last one `folder`."""
    return HubProcess({"what": "fetch", "model": to_plain(model), "cache": str(cache)})
