"""What ranks have found out about this machine's GPUs, so that the next need not: in memory, and in a small file of the
user's own.

Which kernels attend is kept for each kind of GPU, driver and versions; that wires carry what is sent, for each two GPUs
until the machine is started again. A file that is none, or says what cannot be, is begun anew: what it lost is tried
again. A rank looks at what it is told before it believes it (`attention/choice.py`).
"""

import contextlib
import functools
import itertools
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..errors import BadMessage
from ..machine.folders import text_of, write_object
from ..ranks.messages import Hello, Kernels, read
from .rank_process import RankProcess

logger = logging.getLogger("latentloom")
FILE = "ranks.json"
MOST = 64  # kinds of GPUs that are kept; the oldest go first
BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class OfKind:
    """What attends on GPUs of one kind."""

    gpu: str
    kernels: Kernels


@dataclass(frozen=True, kw_only=True)
class KnownFile:
    kinds: tuple[OfKind, ...] = ()
    boot: str = ""
    pairs: tuple[tuple[str, ...], ...] = ()  # GPUs, by two, whose wires were proven since that boot


class Known:
    """Owned by a pool's supervisor. Without a folder it lasts as long as the pool."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder and folder / FILE
        self._boot = text_of(BOOT).strip()
        self._kernels: dict[str, Kernels] = {}  # what this pool's ranks have told

    def kernels(self, gpu: str) -> Kernels | None:
        """What attends on GPUs of this kind; None where that is to be tried."""
        kept = {each.gpu: each.kernels for each in self._file.kinds}
        return self._kernels.get(gpu) or kept.get(gpu)

    def keep_kernels(self, gpu: str, kernels: Kernels) -> None:
        """For this pool; for others, too, where nothing that is installed was left out."""
        self._kernels[gpu] = kernels
        # What was left out may have been for want of memory, and its reason is worth a warning each time.
        new = OfKind(gpu=gpu, kernels=kernels)
        if not kernels.is_news and new not in self._file.kinds:
            kept = self._read_file()
            others = [each for each in kept.kinds if each.gpu != gpu]
            self._write(replace(kept, kinds=(*others, new)[-MOST:]))

    def hear(self, rank: RankProcess, told: Hello | Kernels) -> bool:
        """What a rank says of its GPU. Whether that was the last word before it can work."""
        if isinstance(told, Hello):
            rank.gpu, rank.uuid, rank.memory_bytes = told.gpu, told.uuid, told.memory_bytes
        else:
            self.keep_kernels(rank.gpu, told)
        if rank.has_begun or (rank.gpu and isinstance(told, Hello)):
            return False
        rank.has_begun = True
        logger.info("%s %s, process %d", rank.title, "waits" if rank.is_spare else "is ready", rank.pid)
        return True

    def tell_kernels(self, ranks: Sequence[RankProcess]) -> None:
        """To those that are new on a GPU: the first of each kind tries the kernels, the others wait for its answer."""
        # By kind, and not by device: a trial takes seconds, and ranks on equal GPUs are to attend by the same kernel,
        # or their answers would differ in the last bits.
        trying = {rank.gpu for rank in ranks if rank.is_told and not rank.has_begun}
        for rank in (each for each in ranks if each.gpu and not each.is_told):
            known = self.kernels(rank.gpu)
            if known is None:
                if rank.gpu in trying:
                    continue
                logger.info("%s tries attention kernels", rank.title)
                trying.add(rank.gpu)
            rank.is_told, rank.heard = True, time.monotonic()  # the time in which it waited counts as no silence
            rank.send(known or Kernels())

    def are_proven(self, gpus: Sequence[str]) -> bool:
        """Whether the wires between each two of them were seen to carry what is sent. Of a GPU without a name nothing
        is known."""
        pairs = _pairs(gpus)
        return bool(pairs) and pairs <= self._proven

    def keep_proof(self, gpus: Sequence[str], *, is_good: bool) -> None:
        pairs = _pairs(gpus)
        if is_good and pairs <= self._proven:
            return
        # What failed is not proven any more, whatever was seen before: the next ranks to join try all of it again.
        (self._proven.update if is_good else self._proven.difference_update)(pairs)
        self._write(replace(self._read_file(), boot=self._boot, pairs=tuple(sorted(self._proven))))

    @functools.cached_property
    def _proven(self) -> set[tuple[str, ...]]:
        return {*self._file.pairs} if self._file.boot == self._boot != "" else set()

    @functools.cached_property
    def _file(self) -> KnownFile:
        """As it was when this pool first asked, or wrote."""
        return self._read_file()

    def _read_file(self) -> KnownFile:
        text = text_of(self._path) if self._path is not None else ""
        try:
            return read(KnownFile, json.loads(text), what=FILE)
        except (ValueError, RecursionError, BadMessage):
            return KnownFile()

    def _write(self, kept: KnownFile) -> None:
        """Whole or not at all; of two processes that write at once one is forgotten."""
        self._file = kept
        if self._path is None:
            return
        with contextlib.suppress(OSError):  # the disk is full, say
            write_object(self._path, asdict(kept))


def _pairs(gpus: Sequence[str]) -> set[tuple[str, ...]]:
    return set(itertools.combinations(sorted(gpus), 2)) if all(gpus) else set()
