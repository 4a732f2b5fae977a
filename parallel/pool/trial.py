"""Trials of this machine: ranks started for a moment on its devices, which meet and add up what each holds, or measure.

What the ranks do then is in `measuring.py`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RankFailed
from ..progress import SILENT, Progress
from ..ranks.seat import World
from .limits import Limits
from .pool import Pool


class Deadline(Progress):
    """A time limit for work on ranks that are of no use afterwards: when it is over, `close` ends them, whatever they
    do. Whoever waits for it may cancel by `asker`."""

    def __init__(self, timeout_s: float, *, close: Callable[[], None], words: str, asker: Progress = SILENT) -> None:
        self._end = time.monotonic() + timeout_s
        self._close = close
        self._words = words
        self._asker = asker

    def check(self) -> None:
        self._asker.check()
        if time.monotonic() > self._end:
            self._close()
            raise RankFailed(self._words)


@dataclass(frozen=True)
class Tried:
    """How a trial went that was passed: a sentence, and what to mend, if anything."""

    says: str
    mend: str = ""


def trial(devices: Sequence[str], *, preload: Sequence[str] = (), timeout_s: float = 100.0) -> Tried:
    """Start a rank on each device, as a pool with this `preload` does, and let them meet, which proves the wires
    between them; one alone joins a group of its own, so that its GPU's library has made one. Raises `RankFailed` or
    ValueError."""
    start, num_ranks = time.monotonic(), len(devices)
    with Pool(devices, preload=preload, limits=Limits(start_s=timeout_s, work_s=timeout_s)) as pool:
        words = f"ranks did not start and meet in {timeout_s:g} s"
        progress = Deadline(timeout_s, close=pool.close, words=words)
        # One rank alone needs no group, and would join none: its GPU's library would go untried.
        world = World(name="trial", store=str(pool.folder / "trial"), size=1) if num_ranks == 1 else None
        found = pool.call(".parallel.pool.measuring:meet", {}, progress, num_ranks=num_ranks, world=world)
        has_p2p = all(state.has_p2p for state in pool.states())
        culprit = pool.culprit
    wanted = sum(range(1, num_ranks + 1))
    if found["total"] != wanted:
        raise RankFailed(f"ranks on {', '.join(devices)} met, but added up to {found['total']} instead of {wanted}")
    seconds = time.monotonic() - start
    ranks = "1 rank" if num_ranks == 1 else f"{num_ranks} ranks"
    done = f"{ranks} on {', '.join(devices)} started, met and ended in {seconds:.1f} s"
    says, mends = [f"{done}; attention kernel: {found['kernel']}"], []
    if culprit:
        says.append(f"each imports for itself, because importing {culprit} starts CUDA")
        mends.append(f"update the package of {culprit}, or remove it where nothing needs it")
    if not has_p2p:
        says.append("what they sent peer-to-peer did not arrive whole, so they do without")
        mends.append(
            "turn off ACS and the IOMMU in the BIOS, or try another driver; until then what they send takes longer"
        )
    return Tried("; ".join(says), "; ".join(mends))


def measure(devices: Sequence[str], *, timeout_s: float = 100.0, asker: Progress = SILENT) -> dict[int, Any]:
    """{number of ranks at work: what each of them measured}. Starts a rank on each device, and ends them again.

    Nothing else should work meanwhile: whoever calls this sees to that. Raises `RankFailed` or ValueError, and
    `Cancelled` where `asker` does.
    """
    with Pool(devices, limits=Limits(start_s=timeout_s, work_s=timeout_s)) as pool:
        words = f"ranks measured nothing in {timeout_s:g} s"
        progress = Deadline(timeout_s, close=pool.close, words=words, asker=asker)
        function = ".parallel.pool.measuring:on_rank"
        powers = [1 << power for power in range(len(devices).bit_length())]
        return {
            count: pool.call_every(function, {"kinds": groups_of(count)}, progress, num_ranks=count)
            for count in sorted({*powers, len(devices)})
        }


def groups_of(count: int) -> list[list[int]]:
    """[ulysses, exchange]: the plans whose groups are the kinds that there are."""
    return [[degree, count // degree] for degree in range(1, count + 1) if count % degree == 0] if count > 1 else []
