"""Grants: how far the ranks of a job may go, in memory that they share with the host, so that all stop after one step.

Two words, which the host alone writes. Nobody sends a message for a step to begin, and nobody waits for the others:

    granted   steps up to this number may begin; it only grows
    last      0; once the job is to end, how far it was granted then, and no further step begins

A step that `granted` covers may begin, for `last` is never less; one beyond `last` may not, for no more is granted.
Each answer follows from one word alone, so it is the same on every rank in whatever order it sees the two change, and
no barrier is needed. Nor is a lock: a word is aligned, and CPython copies the 8 bytes of a memoryview's "Q" by one
load or store on x86-64 and arm64.

    step of a rank   | 1 | 2 | 3 |          a rank tells of each step that it has done
    told by all        1   2   3
    granted        2   3   4   5            told a step ago: it is there before a rank asks for it
"""

import mmap
import os
import threading
import time

from ..errors import PeerLost, RankFailed

# Steps granted beyond those that all ranks have told of. One is under way, and for so long the host may take to hear of
# the last and grant the next. On an accelerator a rank tells of a step that is still under way there (`RunAhead`), so
# that a job does three steps at most after it was to end, and elsewhere two.
AHEAD = 2
# Between looks at what is not granted yet, the first one and the longest: the others are slow, or the host is.
PAUSES_S = 0.00025, 0.01
DEADLINE_S = 6 * 3600.0  # as for a collective: longer than any wait that the pool allows, which ends waits by aborting
WORD = 8
GRANTED, LAST = range(2)


class Grants:
    """The host's side for one attempt at a job. Raises `OSError` where there is no room for it."""

    def __init__(self, num_ranks: int) -> None:
        self._num_done = dict.fromkeys(range(num_ranks), 0)
        self.fd = os.memfd_create("grants", os.MFD_CLOEXEC)
        try:
            os.truncate(self.fd, 2 * WORD)
            self._map = mmap.mmap(self.fd, 2 * WORD)
        except BaseException:
            os.close(self.fd)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._grant()

    def hear_step(self, rank: int) -> None:
        """A rank, by its index in the job, has done one more step."""
        if rank in self._num_done:
            self._num_done[rank] += 1
            self._grant()

    def hear_end(self, rank: int) -> None:
        """A rank's part of the job is done, so the others do not wait for its steps."""
        self._num_done.pop(rank, None)
        self._grant()

    def stop(self) -> None:
        """Grant no further step."""
        self._words[LAST] = self._words[LAST] or self._words[GRANTED]

    def sent(self) -> None:
        """All ranks have the descriptor, which nobody closes where a pool is closed while the job is under way."""
        os.close(self.fd)
        self.fd = -1

    def close(self) -> None:
        self._words.release()
        self._map.close()
        if self.fd >= 0:
            self.sent()

    def _grant(self) -> None:
        if self._num_done and not self._words[LAST]:
            self._words[GRANTED] = min(self._num_done.values()) + AHEAD


class Granted:
    """A rank's side, which only reads. Takes the descriptor that came with the job, and closes it."""

    def __init__(self, fd: int) -> None:
        try:
            self._map = mmap.mmap(fd, 2 * WORD, access=mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self._words = memoryview(self._map).cast("Q")

    def may_begin(self, step: int, aborted: threading.Event) -> bool:
        """Whether a step may begin, counted from 1 over the whole job; False on every rank where the job is to end
        before it. Raises `PeerLost` once the job is aborted."""
        pause_s, longest_s = PAUSES_S
        end = time.monotonic() + DEADLINE_S
        while step > self._words[GRANTED]:
            if 0 < self._words[LAST] < step:
                return False
            if aborted.wait(pause_s):
                raise PeerLost("the job was aborted while this rank waited for a step")
            if time.monotonic() > end:
                raise RankFailed(f"step {step} was not granted in {DEADLINE_S / 3600:g} hours; run it again")
            pause_s = min(2 * pause_s, longest_s)
        return True

    def close(self) -> None:
        self._words.release()
        self._map.close()
