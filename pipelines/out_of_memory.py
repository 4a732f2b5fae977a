"""When memory is not enough: one sentence, with how much was lacking as far as torch tells."""

import contextlib
import re
from collections.abc import Callable, Iterator

from ..parallel.errors import OutOfMemory, is_out_of_memory
from ..parallel.wording import worded


@contextlib.contextmanager
def told_by(device: str, *, doing: str, remedy: str) -> Iterator[None]:
    """Within it, whatever means that memory ran out is raised as `OutOfMemory`; one that is so already stays."""
    try:
        yield
    except OutOfMemory:
        raise  # while loading: it names the component
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(worded("{} ran out of memory{} {}; {}", device, shortage(error), doing, remedy)) from None


@contextlib.contextmanager
def refused_as(words: Callable[[Exception], str]) -> Iterator[None]:
    """Within it, whatever a library raises becomes a `ValueError` in these words; not what means that memory ran out,
    which is no mistake of the request's.
    """
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(words(error)) from error


def shortage(error: BaseException) -> str:
    """How much was asked for and how much was there, as far as torch's text tells; "" where it does not."""
    text = str(error)
    asked = re.search(r"[Tt]ried to allocate ([\d.]+) (\w+)", text)
    if asked is None:
        return ""
    free = re.search(r"of which ([\d.]+ \w+) is free", text)
    amount = f"{asked[1]} {asked[2]}" if asked[2] != "bytes" else f"{int(asked[1]) / 2**30:.2f} GiB"
    return f" ({amount} more was asked for{f', {free[1]} was free' if free else ''})"
