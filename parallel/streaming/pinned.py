"""Where blocks rest that a GPU reads by itself: pinned memory, one copy for all processes that hold the same blocks.

Pages of our own are registered, rather than asked for of torch's cache of pinned memory, which is a process's own,
rounds each piece up to a power of two and gives nothing back. They are a file without a disk that ranks map together:
the first fills it while the others wait for its lock, and the last one removes it. The kernel drops the locks of who
dies; what it left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mmap
import os
import shutil
import time
import weakref
import zlib
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..machine.folders import ASK_S, SHARED, SHARED_PREFIX, lock_now, remove_unused, sweep_shared
from .layout import GPU_ALIGN, Leaf, bytes_under, leaves, num_bytes_under

logger = logging.getLogger("latentloom")

FOLDER, PREFIX = SHARED, SHARED_PREFIX
FULL = b"latentloom blocks"  # behind the last block, once all are there
FILL_S = 900.0  # for another process to read and fill what is as large as a host's memory


def shared_room(key: str) -> int:
    """Bytes that processes can share of these contents, what they share now among them; containers have 64 MB where
    nobody asked for more."""
    if not FOLDER.is_dir():
        return 0
    room = shutil.disk_usage(FOLDER).free
    for file in FOLDER.glob(f"{_name_of(key)}*"):
        with contextlib.suppress(OSError):  # it was removed meanwhile
            room += file.stat().st_size
    return room


class Pinned:
    """The tensors of blocks in memory that a GPU reads by itself, until `free`.

    Processes that give the same `key`, which names all that the blocks' numbers depend on, share it; "" for none.
    `cudart` is CUDA's runtime. Where the system pins no more, the blocks rest here all the same, and come slower.
    """

    def __init__(
        self, blocks: Sequence[nn.Module], *, cudart: Any, without: Set[int] = frozenset(), key: str = ""
    ) -> None:
        self._cudart = cudart
        places, end = list[tuple[Leaf, int]](), 0
        for block in blocks:
            end += -end % mmap.PAGESIZE
            for held in _by_address(block, without).values():
                size = max(num_bytes_under(leaf.value) for leaf in held)
                places += [(leaf, end) for leaf in held]
                end += size + -size % GPU_ALIGN
        self.num_bytes = end
        self._memory = _Memory(end, key, f"{[begin for _, begin in places]}")
        try:
            whole = torch.frombuffer(self._memory.map, dtype=torch.uint8)
            for leaf, begin in places:  # what held one before is given back before the next is filled
                self._lay(leaf, whole[begin : begin + num_bytes_under(leaf.value)])
            self._memory.fill()
        except BaseException:
            self._memory.leave()
            raise
        self._address = whole.data_ptr()
        code = int(self._cudart.cudaHostRegister(self._address, end, 0)) if end else 0
        self.is_pinned = end > 0 and code == 0
        if code:
            if torch.cuda.is_initialized():  # the error waits for this thread's next launch, and would be taken for its
                with contextlib.suppress(RuntimeError):
                    torch.zeros(1, device="cuda").add_(1)
            told = "the system does not pin %.1f GiB (CUDA error %d): blocks come slower from the host's memory"
            logger.warning(told, end / 2**30, code)

    def _lay(self, leaf: Leaf, here: Tensor) -> None:
        value = leaf.value
        if self._memory.is_mine:
            here.copy_(bytes_under(value, len(here)))
        flat = here.view(value.dtype)
        leaf.point(flat.as_strided(value.shape, value.stride(), flat.storage_offset()))

    def free(self) -> None:
        """Nothing is pinned any more; what points there still reads the same numbers."""
        if self.is_pinned:
            self._cudart.cudaHostUnregister(self._address)
            self.is_pinned = False
        self._memory.leave()


def _by_address(block: nn.Module, without: Set[int]) -> dict[int, list[Leaf]]:
    """Tensors of several names by where they begin, in the order of the block, which is the same in every process."""
    found: dict[int, list[Leaf]] = {}
    for leaf in leaves(block.modules()):
        if (address := leaf.value.data_ptr()) not in without:
            found.setdefault(address, []).append(leaf)
    return found


class _Memory:
    """Pages of this process, or of all that name the same; `is_mine` where this one is to fill them."""

    def __init__(self, num_bytes: int, key: str, lies: str = "") -> None:
        self._size, self._file, self.is_mine = num_bytes, -1, True
        self._path = FOLDER / f"{_name_of(key)}-{zlib.crc32(lies.encode()):08x}"
        if key and FOLDER.is_dir():
            sweep_shared(FOLDER)
            try:
                self._open()
            except OSError as error:  # there is no room, or it is not this user's
                logger.info("blocks rest in memory of this process alone: %s", error)
                _leave(self._path, self._file)
                self._file = -1
        if self._file >= 0:
            self._leave = weakref.finalize(self, _leave, self._path, self._file)
        else:
            self.is_mine = True
            self.map = mmap.mmap(-1, num_bytes + len(FULL), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def _open(self) -> None:
        end = time.monotonic() + FILL_S
        while True:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                told = os.fstat(self._file)
                if told.st_uid != os.getuid() or told.st_mode & 0o077:
                    raise PermissionError(f"{self._path} is open to other accounts")
            if lock_now(self._file, is_alone=False):  # nobody fills it
                if not os.fstat(self._file).st_nlink:  # the last one has removed it meanwhile
                    os.close(self._file)
                    self._file = -1
                    continue
                self.is_mine = not self._is_full()
                if not self.is_mine or (lock_now(self._file, is_alone=True) and not self._is_full()):
                    break
            if time.monotonic() > end:
                raise TimeoutError(f"{self._path} is being filled for too long")
            time.sleep(ASK_S)
        if self.is_mine:
            os.posix_fallocate(self._file, 0, self._size + len(FULL))  # else a page without room kills who writes it
        self.map = mmap.mmap(self._file, self._size + len(FULL))

    def _is_full(self) -> bool:
        return os.pread(self._file, len(FULL), self._size) == FULL

    def fill(self) -> None:
        """All is there: the others may look."""
        if self.is_mine and self._file >= 0:
            self.map[self._size :] = FULL
            lock_now(self._file, is_alone=False)

    def leave(self) -> None:
        """The last one removes the name, at its process's end at the latest; pages go with what points there."""
        if self._file >= 0:
            self._leave()
            self._file = -1


def _name_of(key: str) -> str:
    """How the names of files begin that hold blocks of these contents, however they lie."""
    return f"{PREFIX}{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _leave(path: Path, file: int) -> None:
    if file >= 0:
        remove_unused(path, file)
        os.close(file)
