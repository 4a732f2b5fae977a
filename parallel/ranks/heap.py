"""The heap of a process that computes on a CPU: what is large goes back to the system as soon as it is freed.

glibc asks the system for each block from some size on. It raises that size to that of the largest block freed so far,
up to 32 MB, and keeps what is smaller: tensors of many sizes, as a decoder makes them, leave holes, up to five times
what is alive. Where the size is fixed, a process holds its tensors and little beside, so that its need is known before.

That costs faults, one for each page of a new tensor. Torch asks for huge pages where its environment says so, 512 pages
to a fault. On a core of an Intel Xeon, without them a decoder of Wan's takes 50 % more time, with them 12 %; one of
FLUX's takes what it took before, a step of FLUX 512 wide 11 % more, 1536 wide 2 %. From 4 MiB on steps cost nothing
more, but Wan's tensors of one frame are smaller, and left 140 to 190 MB more than was said in 2 of 50 settings.
"""

import sys
from collections.abc import Callable

# Torch reads it once, when it first allocates. Without effect where the system has none to give.
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}
LARGE_BYTES = 2 << 20  # a huge page: torch asks for some from this size on
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # the names of glibc's mallopt


def give_back_large() -> None:
    """From now on, for the whole process. Without effect where the C library is not glibc."""
    if (set_option := _glibc("mallopt")) is not None:
        # Setting either stops glibc from raising both by itself, for good.
        set_option(MMAP_THRESHOLD, LARGE_BYTES)
        set_option(TRIM_THRESHOLD, 2 * LARGE_BYTES)  # of free bytes at the heap's end, as glibc itself relates the two


def give_back_rest() -> None:
    """Whole pages of what is free now in the heap; takes milliseconds."""
    if (trim := _glibc("malloc_trim")) is not None:
        trim(0)


def _glibc(name: str) -> Callable[..., int] | None:
    import ctypes

    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
