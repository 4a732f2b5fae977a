"""Running out of memory: how it is recognised, whatever ran out and whoever noticed.

The host's memory or an accelerator's, found by Python, by torch or by the kernel: all become one error, whose sentence
says what to make smaller.
"""

from __future__ import annotations

import errno
import re


class OutOfMemory(RuntimeError):
    """A device, or this machine, had no room; the text is the sentence for the user."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: Python's, an accelerator's (torch's class, by name: this imports no
    torch),
    or that of torch on the CPU.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("defaultcpuallocator" in text or "out of memory" in text)


def shortage(error: BaseException) -> str:
    """How much was asked for and how much was there, as far as torch's text tells; "" where it does not."""
    text = str(error)
    asked = re.search(r"[Tt]ried to allocate ([\d.]+) (\w+)", text)
    if asked is None:
        return ""
    free = re.search(r"of which ([\d.]+ \w+) is free", text)
    amount = f"{asked[1]} {asked[2]}" if asked[2] != "bytes" else f"{int(asked[1]) / 2**30:.2f} GiB"
    return f" ({amount} more was asked for{f', {free[1]} was free' if free else ''})"
