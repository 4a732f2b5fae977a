"""Files that a user names, opened, or one sentence that says what was wanted; video and sound by FFmpeg's readers."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from ...parallel.errors import BadInput
from ...pipelines.models.regular_file import open_regular

if TYPE_CHECKING:
    from av.container import InputContainer

# What FFmpeg calls the readers, by the ending of the file's name.
READERS = {
    **dict.fromkeys((".mp4", ".mov", ".m4a"), "mov"),
    **dict.fromkeys((".webm", ".mkv"), "matroska"),
    **dict.fromkeys((".ogg", ".opus"), "ogg"),
    ".wav": "wav",
    ".flac": "flac",
    ".mp3": "mp3",
}
# What a file lacks where FFmpeg has nothing to say, and what would do.
SAID = {
    "video": ("it holds no picture", "use an MP4 file"),
    "sound": ("it holds no sound", "use WAV, FLAC, MP3, OGG, M4A, or a video with sound"),
}

Kind = Literal["picture", "sound", "video"]


def opened_file(path: Path, kind: Kind, *, name: str = "") -> BinaryIO:
    """The file, open for reading; `name` is what the sentence calls it. Raises `ValueError`."""
    try:
        return open_regular(path)
    except OSError as error:
        raise BadInput(
            "{} cannot be opened ({}); give the path of a {} file", name or path, error.strerror, kind
        ) from None


def num_bytes_of(path: Path, kind: Kind, *, name: str = "") -> int:
    """How long the file is, before anything of it is read. Raises `ValueError`."""
    with opened_file(path, kind, name=name) as file:
        return os.fstat(file.fileno()).st_size


class _Seekable:
    """A file as PyAV asks it: of what a seek raises PyAV would print a traceback, and FFmpeg takes a number for it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.read, self.tell = file, file.read, file.tell

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._file.seek(offset, whence)
        except OSError as error:  # before its beginning, in a file that is shorter than any such one
            return -(error.errno or errno.EINVAL)


@contextlib.contextmanager
def opened_container(path: Path, *, what: Literal["video", "sound"], name: str = "") -> Iterator[InputContainer]:
    """A file of video or sound, read as what its name says, by which it is called. Raises `ValueError` for what is
    none, also while it is read."""
    import av
    from av.error import FFmpegError

    name = name or str(path)
    lacking, instead = SAID[what]
    try:
        # FFmpeg is not asked what it could be: a playlist would make it open, and wait for, whatever files that names
        reader = READERS.get(Path(name).suffix.lower(), "mov")
        with open_regular(path) as file, av.open(_Seekable(file), "r", format=reader) as container:
            yield container
    except (OSError, FFmpegError, IndexError, StopIteration) as error:
        reason = getattr(error, "strerror", "") or lacking
        raise BadInput("{} is not a {} that can be read ({}); {}", name, what, reason, instead) from None
