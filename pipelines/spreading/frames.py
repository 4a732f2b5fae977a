"""Pixels of latents; a video's go to a file on the host a few frames at a time, as soon as they are there.

Decoders that are causal in time are called once for each frame of latents, and keep what the next call looks back at.
Of such a VAE the whole decode is run as often, each time with one of these calls, and nothing where the others stand:

    decode   first     second       third      ...
    call 0   frame 0   -            -
    call 1   -         frames 1-4   -
    call 2   -         -            frames 5-8

What comes before and behind the calls is so the class's own and the family's, the rows of several ranks included: the
bits are those of one decode, and the device holds the pixels of one call. Any other VAE makes all pixels at once.
"""

# B videos, F frames, C channels, H W height and width

from __future__ import annotations

import contextlib
import io
import mmap
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...parallel import staging
from ..failures import check_finite
from ..families import FAMILIES, family_module
from ..values import as_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from ...parallel.progress import Progress
    from ..families.family import Parts
    from ..requests import Decode

# Classes whose `_decode` calls `decoder` frame by frame, with caches that `clear_cache` alone empties.
# Others make frames together (LTX, HunyuanVideo) or in tiles that are blended afterwards (MiniMax H3), take one frame
# (AutoencoderKLQwenImage21), or are no family's (CogVideoX and Mochi, which hand their caches from call to call).
FRAME_BY_FRAME = ("AutoencoderKLQwenImage", "AutoencoderKLWan")


def decoded(parts: Parts, request: Decode, *, tensor: Tensor, progress: Progress) -> Tensor:
    """Pixels of latents, as bytes or floats: B H W C of pictures, where they were made; B F H W C of videos, on the
    host, in a file that is in no folder if they are large. A cancel is heard before each call of the decoder, but where
    ranks decode together."""
    import torch

    model, latents = request.model, request.latents
    dtype = torch.uint8 if request.depth == "bytes" else torch.float32
    as_asked = as_bytes if request.depth == "bytes" else torch.Tensor.float

    def pixels() -> Tensor:
        if request.split <= 1:  # ranks that decode together end together
            progress.check()
        found = family_module(model.family).decode(parts, request, tensor=tensor).detach()
        check_finite({"pixels": found}, parts, model, what="the decoded picture")
        return found

    if FAMILIES[model.family].output == "image":
        return as_asked(pixels())
    num_bytes, shape = latents.batch * latents.frames * latents.height * latents.width * 3 * dtype.itemsize, ()
    small = num_bytes <= staging.LARGE_BYTES  # a file that is mapped keeps a descriptor, of which a process has few
    with (
        io.BytesIO() if small else os.fdopen(staging.unnamed_file(num_bytes), "r+b") as file,
        by_calls(parts["vae"]) as calls,
    ):
        while calls.has_more():
            # Frame after frame, each of all videos: how many there will be is not known yet.
            for frame in map(as_asked, pixels().unbind(1)):  # B H W C
                shape = frame.shape
                file.writelines(staging.in_host_memory(frame))
            del frame  # which may hold what the call made
        if isinstance(file, io.BytesIO):
            mapped: Any = bytearray(file.getvalue())
        else:
            file.flush()
            mapped = mmap.mmap(file.fileno(), file.tell())  # which keeps the file, and a descriptor
    return torch.frombuffer(mapped, dtype=dtype).view(-1, *shape).transpose(0, 1)


@contextlib.contextmanager
def by_calls(vae: Any) -> Iterator[Calls]:
    """Within it a decode makes one call of the decoder, the next, where the VAE is so; else it makes all."""
    if type(vae).__name__ not in FRAME_BY_FRAME or vae.use_tiling or vae.use_slicing:
        yield Calls(None)
        return
    calls = Calls(vae.decoder)
    vae.clear_cache()
    # Beside the modules: what walks through them, or has hooked into them, finds the decoder as it is.
    vars(vae).update(decoder=calls, clear_cache=lambda: None)
    try:
        yield calls
    finally:
        del vars(vae)["decoder"], vars(vae)["clear_cache"]
        vae.clear_cache()


class Calls:
    """The calls of a decoder, of which each decode makes one."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._turn, self._number = -1, 0  # which call this decode makes, and how many it has come to
        self._nothing: Any = None  # no frames, of a call's shape

    def has_more(self) -> bool:
        """Whether there is another decode to do; the first one tells how many calls there are."""
        has_more = self._turn < 0 or self._turn + 1 < self._number
        self._turn, self._number = self._turn + 1, 0
        return has_more

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        number, self._number = self._number, self._number + 1
        if number != self._turn:
            return self._nothing
        pixels = self._decoder(*args, **kwargs)  # B C F H W
        self._nothing = pixels[:, :, :0].clone()
        return pixels
