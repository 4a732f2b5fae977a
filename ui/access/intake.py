"""Files that strangers send: written down as they arrive, and looked at few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from ...parallel.machine.folders import private
from ...parallel.wording import worded

if TYPE_CHECKING:
    from starlette.requests import Request

AT_A_TIME = 2  # a packed picture may need a GiB to be read. Other requests have threads of their own.

P = ParamSpec("P")
T = TypeVar("T")


class Intake:
    """Belongs to the event loop of the pages."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._turns = CapacityLimiter(AT_A_TIME)

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[Path]:
        """The body of a request as a file, which is gone afterwards. Raises `ValueError` when it cannot be written."""
        with ExitStack() as stack:
            try:
                path = Path(stack.enter_context(TemporaryDirectory(dir=self._scratch))) / "file"
                with open(path, "wb", opener=private) as file:
                    async for chunk in request.stream():
                        file.write(chunk)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise ValueError(
                    worded("the server's disk does not take the file ({}); tell who runs it", reason)
                ) from None
            yield path

    async def look(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function says, once it is its turn."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self._turns)
