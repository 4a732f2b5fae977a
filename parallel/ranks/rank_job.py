"""One job as a rank sees it: what its work reports to, and how it ends."""

from __future__ import annotations

import logging
import os
import time
import traceback
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from ..progress import Cancelled, Preview, Progress, RankWork
from .messages import Channel, Closed, write_body
from .seat import JobOrder

logger = logging.getLogger("latentloom")
PREVIEW_S = 1 / 12
"""Between previews: nobody sees more."""


class RankJob(Progress):
    """The progress of a rank's work. Every rank tells of its steps, the one whose answer is wanted also of phases.

    A cancel takes effect at a step border, by a vote: all ranks of the job stop at the same step, or none does. Between
    phases there is nothing to agree on, and the host ends the job on the others.
    """

    def __init__(self, order: JobOrder, channel: Channel, *, vote: Callable[[int], int] | None) -> None:
        self.order = order
        self.wants_previews = order.previews
        self.is_cancelled = False
        self.was_voted = False
        """Whether all ranks have agreed to stop."""
        self._channel = channel
        self._vote = vote
        self._preview_time = -PREVIEW_S
        self._spread: dict[str, Any] | None = None

    def phase(self, name: str) -> None:
        self.check()
        self._tell("phase", name=name)

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        if self._vote is None:
            self.check()
        elif self._vote(self.is_cancelled):
            self.was_voted = True
            raise Cancelled
        now = time.monotonic()
        if preview is not None and self.wants_previews and now - self._preview_time >= PREVIEW_S:
            self._preview_time = now
            self._send_preview(preview)
        self._tell("step", done=done, total=total)

    def _send_preview(self, preview: Preview) -> None:
        """Nothing that goes wrong with a picture on the way is worth the result."""
        try:
            send_with_body(self._channel, {"kind": "preview", "job": self.order.job}, preview())
        except Closed:
            raise
        except Exception as error:
            logger.warning("no preview: %s: %s", type(error).__name__, error)

    def check(self) -> None:
        if self.is_cancelled:
            raise Cancelled

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self._spread = {"plan": plan, "work": [asdict(each) for each in ranks]}

    def finish(self, answer: Any) -> None:
        header = {**self._end("done"), "is_whole": True, "mark": mark(answer), "spread": self._spread}
        send_with_body(self._channel, header, answer if self.order.answers else None)

    def fail(self, error: BaseException) -> None:
        """Tell what ended the work; the traceback goes with it for whoever debugs."""
        text = str(error).strip() or type(error).__name__
        told = {"type": type(error).__name__, "message": text, "traceback": "".join(traceback.format_exception(error))}
        header = {**self._end(_state(error)), "is_whole": self.was_voted, "is_last": loses_device(error)}
        send_with_body(self._channel, header, told)

    def _end(self, state: str) -> dict[str, Any]:
        return {"kind": "ended", "job": self.order.job, "state": state}

    def _tell(self, kind: str, **fields: Any) -> None:
        self._channel.send({"kind": kind, "job": self.order.job, **fields})


def send_with_body(channel: Channel, header: Mapping[str, Any], body: Any) -> None:
    fd = write_body(body)
    try:
        channel.send(header, [fd])
    finally:
        os.close(fd)


def mark(plain: Any) -> int:
    """A checksum of plain data, equal where every bit is."""
    found = 0
    for piece in _pieces(plain):
        found = zlib.crc32(piece, found)
    return found


def _pieces(plain: Any) -> list[Any]:
    if isinstance(plain, Tensor):
        flat = plain.detach().cpu().contiguous().flatten()
        return [str((plain.dtype, tuple(plain.shape))).encode(), flat.view(torch.uint8).numpy()]
    if isinstance(plain, Mapping):
        return [piece for key, value in plain.items() for piece in (key.encode(), *_pieces(value))]
    if isinstance(plain, list | tuple):
        return [piece for value in plain for piece in _pieces(value)]
    return [repr(plain).encode()]


def loses_device(error: BaseException) -> bool:
    """Whether this process can use its accelerator no more: CUDA repeats most errors until the process ends."""
    cause: BaseException | None = error
    while cause is not None:
        is_device = isinstance(cause, RuntimeError) and any(name in str(cause) for name in ("CUDA error", "HIP error"))
        if is_device and "out of memory" not in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _state(error: BaseException) -> str:
    if isinstance(error, Cancelled):
        return "cancelled"
    if isinstance(error, ValueError):
        return "refused"
    return "out_of_memory" if type(error).__name__ in ("OutOfMemory", "OutOfMemoryError", "MemoryError") else "failed"
