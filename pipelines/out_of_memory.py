"""Running out of memory: how it is recognised, whatever ran out and whoever noticed."""

from __future__ import annotations

import errno


class OutOfMemory(RuntimeError):
    """Its text is the sentence for the user."""


def is_out_of_memory(error: BaseException) -> bool:
    """Of Python, of an accelerator (torch's class, by name: this imports no torch), or of torch on the CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("defaultcpuallocator" in text or "out of memory" in text)
