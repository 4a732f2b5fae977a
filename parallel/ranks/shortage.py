"""What to tell a user whose system has run out of something.

Descriptors, disk, memory: errors of the operating system with what to do about them, and whether the kernel ended a
process because memory ran out, which it tells nobody but its own counters.
"""

import errno
import time
from pathlib import Path

from ..machine.folders import text_of
from ..machine.now import num_memory_kills, tightest_memory

RECENT_S = 2.0  # for deaths to be told after the kernel's count of them has risen: it may end several at once
MIB = 1 << 20


def advice(error: OSError) -> str:
    """What is missing, and what to do about it."""
    cure = "see `latentloom doctor`"
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):  # the last: of descriptors on their way
        cure = "close other files, or raise the limit (ulimit -n)"
    elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        cure = "free some space in the folder for temporary files, or name another (TMPDIR)"
    elif error.errno in (errno.ENOMEM, errno.EAGAIN):  # the second: of processes that a user may have
        cure = "end other processes, or free memory"
    return f"{error.strerror or error}; {cure}"


class MemoryKills:
    """Notices that the system has ended processes for want of memory, by the kernel's own counts."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._num = num_memory_kills(root)
        self._time = -RECENT_S

    def reason(self) -> str | None:
        """What memory there was, where such an end was counted just now; "" where none was, None if nobody counts."""
        num, now = num_memory_kills(self._root), time.monotonic()
        if num is not None and self._num is not None and num > self._num:
            self._time = now
        self._num = num
        if num is None:
            return None
        return _memory(self._root) if now - self._time < RECENT_S else ""


def _memory(root: Path) -> str:
    """The limit that was met, and what to do."""
    cure = "or use fewer ranks, a smaller model or a smaller picture"
    if (tightest := tightest_memory(root)) is not None:
        limit, most = tightest
        used = "" if most is None else f", and {_mib(most)} were in use"
        return f"the limit here is {_mib(limit)}{used}; raise it, {cure}"
    lines = (line.split() for line in text_of(root / "proc/meminfo").splitlines())
    sizes = {words[0]: int(words[1]) * 1024 for words in lines if len(words) > 1 and words[1].isdecimal()}
    if "MemTotal:" not in sizes or "MemAvailable:" not in sizes:
        return f"end other processes, {cure}"
    left = f"of {_mib(sizes['MemTotal:'])} here {_mib(sizes['MemAvailable:'])} are free without it"
    return f"{left}; end other processes, {cure}"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / MIB:.0f} MiB"
