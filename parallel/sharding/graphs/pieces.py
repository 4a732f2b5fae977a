"""A forward that torch cannot take in one graph: in the graphs that it makes of it, and what it cannot take as it is.

What torch cannot trace it leaves to Python by itself. Errors of its own, and of a backend, it would raise in the middle
of a forward; here it goes on without, and the user is told once. Nothing runs twice, so that collectives keep their
order, and a rank where something fails works on with those where it does not.
"""

import functools
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import convert_frame
from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

logger = logging.getLogger("latentloom")


class _UnderWay(threading.local):
    """What runs in a thread."""

    title = ""


_under_way = _UnderWay()
_told: set[tuple[str, str]] = set()


def in_pieces(forward: Callable[..., Any], title: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """The forward compiled so; the title is what the user is told of."""
    _listen()
    compiled = torch.compile(forward, **options)

    def run(*args: Any, **kwargs: Any) -> Any:
        before, _under_way.title = _under_way.title, title
        try:
            # Of this thread. Torch's stand-ins for numpy's arrays are not numpy's where a graph has ended.
            with torch._dynamo.config.patch(suppress_errors=True, trace_numpy=False):
                return compiled(*args, **kwargs)
        finally:
            _under_way.title = before

    return run


def is_of_compiling(error: Exception) -> bool:
    """Whether torch raised it before a graph of its ran; some of its own errors are plain ones."""
    if isinstance(error, (TorchDynamoException, FailOnRecompileLimitHit)):
        return True
    return any(
        frame.f_code.co_filename == convert_frame.__file__ for frame, _ in traceback.walk_tb(error.__traceback__)
    )


@functools.cache
def _listen() -> None:
    """Torch logs what it goes on without, with a traceback; that becomes a sentence of ours."""
    logging.getLogger(convert_frame.__name__).addFilter(_is_others)


def _is_others(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if not _under_way.title or error is None:
        return True
    if record.levelno >= logging.WARNING:
        _tell(_under_way.title, error)
    return False


def _tell(title: str, error: BaseException) -> None:
    why = getattr(error, "inner_exception", error)  # of a backend
    told = title, f"{type(why).__name__}: {str(why).strip().partition(chr(10))[0][:200]}"
    if told not in _told:
        _told.add(told)
        logger.warning("%s is not compiled as a whole: a part of it runs eager, because torch failed (%s)", *told)
