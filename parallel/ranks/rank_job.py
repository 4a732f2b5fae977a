"""One job as a rank sees it: what its work reports to, and how it ends."""

import logging
import os
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..collectives import highest
from ..errors import Cancelled, Closed, LoomError, OutOfMemory, PeerLost, code_of
from ..process_groups import ballot
from ..progress import Preview, Progress, RankWork
from ..staging import bytes_of
from ..wording import known_in
from . import messages
from .channel import Channel, write_body
from .grants import Granted
from .messages import Ended, Failure, Phase, RunJob, SpreadWork, StepDone, ToRank

logger = logging.getLogger("latentloom")
PREVIEW_S = 1 / 12  # between previews: nobody sees more
PIECE_WORDS = 1 << 17  # how many words a digest takes at a time: their products take so much memory again
WEIGHT, FACTOR = 7046029254386353131, 6364136223846793005  # odd numbers without a pattern


class RankJob(Progress):
    """The progress of a rank's work. Every rank tells of its steps, the one whose answer is wanted also of phases.

    A cancel takes effect at a step border: all ranks of the job stop after the same step, or none does. The host grants
    them their steps; ranks of several machines, which share no memory, vote. Between phases there is nothing to agree
    on, and the host ends the job on the others.
    """

    def __init__(self, order: RunJob, channel: Channel[ToRank]) -> None:
        self.order = order
        self.wants_previews = order.previews
        self.is_cancelled = False
        self.aborted = threading.Event()
        self.granted: Granted | None = None  # where the host grants steps; there before the work begins
        # Whether all ranks stop after the same step as this one, so that their process group stays whole.
        self.is_in_step = False
        self.thread_id = 0  # whose work it is, once it has begun
        self._place: tuple[tuple[int, int], ...] = ()
        self._channel = channel
        self._num_steps = 0
        self._preview_time = -PREVIEW_S
        self._spread: SpreadWork | None = None

    def phase(self, text: str, *, is_loading: bool = False) -> None:
        self.check()
        self._channel.send(Phase(job=self.order.job, text=text, is_loading=is_loading))

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        now = time.monotonic()
        # The picture before the word that the step is done: the host tells both together.
        if preview is not None and self.wants_previews and now - self._preview_time >= PREVIEW_S:
            self._preview_time = now
            self._send_preview(preview)
        self._channel.send(StepDone(job=self.order.job, done=done, total=total))
        self._num_steps += 1
        if not self._may_begin(self._num_steps + 1):
            self.is_in_step = True
            raise Cancelled

    def _may_begin(self, step: int) -> bool:
        # The same on every rank, which all come here as often: by a word that all of them read, or by one vote.
        if self.granted is not None:
            return self.granted.may_begin(step, self.aborted)
        if self.order.num_ranks > 1:
            return not highest(int(self.is_cancelled), ballot())
        return not self.is_cancelled

    def _send_preview(self, preview: Preview) -> None:
        """Nothing that goes wrong with a picture on the way is worth the result."""
        try:
            self._send(messages.Preview(self.order.job), preview())
        except Closed:
            raise
        except Exception as error:
            logger.warning("no preview: %s: %s", type(error).__name__, error)

    def check(self) -> None:
        if self.is_cancelled:
            raise Cancelled

    def has_moved(self) -> bool:
        """Whether its thread is at another place in a model than when this was asked last."""
        # One that waits for others, or hangs, is not: only calls of `forward` count, not the loop that it may wait in.
        frame, place = sys._current_frames().get(self.thread_id), list[tuple[int, int]]()
        while frame is not None:  # the innermost first
            if frame.f_code.co_name == "forward":
                place.append((id(frame.f_code), frame.f_lasti))
            frame = frame.f_back
        before, self._place = self._place, tuple(place)
        return self._place not in ((), before)

    def spread(self, plan: str, ranks: Sequence[RankWork]) -> None:
        self._spread = SpreadWork(plan=plan, work=tuple(ranks))

    def finish(self, answer: Any) -> None:
        """Tell the answer, or only its mark where another rank's is wanted; its tensors are where they were made."""
        compared = mark(answer) if self.order.num_ranks > 1 else 0
        ended = Ended(job=self.order.job, state="done", is_whole=True, mark=compared, spread=self._spread)
        self._send(ended, answer if self.order.answers else None)

    def fail(self, error: BaseException, *, is_late: bool = False) -> None:
        """Tell what ended the work; the traceback goes with it for whoever debugs.

        What `is_late` came after the job was aborted: torch's words for a group that is gone, or what follows from what
        was not received. It is never the cause.
        """
        state, failure = _state(error), failure_of(error)
        if is_late and state != "cancelled":  # a user's cancel is no failure, whatever else went wrong with it
            state, failure = "failed", replace(failure, code=PeerLost.code)
        is_whole = self.is_in_step and not is_late
        ended = Ended(job=self.order.job, state=state, is_whole=is_whole, is_last=loses_device(error))
        self._send(ended, asdict(failure))

    def _send(self, message: Ended | messages.Preview, body: Any) -> None:
        fd = write_body(body)
        try:
            self._channel.send(message, [fd])
        finally:
            os.close(fd)


def mark(plain: Any) -> int:
    """A checksum of plain data, equal where every bit is; what is large is summed up on the device where it is."""
    return zlib.crc32(repr(_summed_up(plain)).encode())


def _summed_up(plain: Any) -> Any:
    if isinstance(plain, Tensor):
        return plain.dtype, tuple(plain.shape), digest(plain)
    if isinstance(plain, Mapping):
        return {key: _summed_up(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [_summed_up(value) for value in plain]
    return plain


def digest(tensor: Tensor) -> int:
    """A number of 64 bits that is the same on every device where a tensor's bits are the same, and differs for any one
    word of 8 bytes that does: the words are summed up, each times an odd weight of its place. One wait for the device.
    """
    flat = bytes_of(tensor)
    num_words, rest = divmod(flat.numel(), 8)
    tail = bytes(flat[num_words * 8 :].tolist()) if rest else b""
    if not num_words:
        return int.from_bytes(tail, "little")
    aligned = flat[: num_words * 8]
    # Torch views bytes as words only where they begin at a multiple of one.
    words = (aligned.clone() if aligned.storage_offset() % 8 else aligned).view(torch.int64)
    weights = torch.arange(1, 2 * min(num_words, PIECE_WORDS), 2, device=words.device) * WEIGHT
    # Sums of whole numbers are the same in any order, as those of a device's many threads are made; they wrap around.
    sums = torch.stack([(piece * weights[: len(piece)]).sum() for piece in words.split(PIECE_WORDS)]).tolist()
    total = int.from_bytes(tail, "little")
    for each in sums:  # in order, so that pieces which change places are told apart
        total = (total * FACTOR + each) % 2**64
    return total


def loses_device(error: BaseException) -> bool:
    """Whether this process can use its accelerator no more: CUDA repeats most errors until the process ends."""
    cause: BaseException | None = error
    while cause is not None:
        is_device = isinstance(cause, RuntimeError) and any(name in str(cause) for name in ("CUDA error", "HIP error"))
        if is_device and "out of memory" not in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _state(error: BaseException) -> Literal["cancelled", "refused", "failed"]:
    if isinstance(error, Cancelled):
        return "cancelled"
    return "refused" if isinstance(error, ValueError) else "failed"


# What torch says when it was another rank that failed; it has no class for it.
LOST_CONNECTION = (
    *("closed by peer", "reset by peer", "broken pipe", "connection", "aborted", "nccl", "gloo"),
    "resolve the process group",
)


def failure_of(error: BaseException) -> Failure:
    """What the host is told: its code, and one text for the user."""
    code, text = code_of(error), str(error).strip() or type(error).__name__
    if code == LoomError.code and any(words in text.lower() for words in LOST_CONNECTION):
        code = PeerLost.code
    speaks = isinstance(error, LoomError | Cancelled | ValueError) or code == OutOfMemory.code
    if not speaks and type(error) is not RuntimeError:  # whose name says nothing
        text = f"{type(error).__name__}: {text}"
    told = "".join(traceback.format_exception(error))
    return Failure(code=code, text=text, traceback=told, said=dict(known_in(text)))
