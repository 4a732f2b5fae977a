"""Files that users bring: written down as they arrive, looked at few at a time, checked, and kept by their content in a
folder that only this user's runs may read.
"""

import builtins
import contextlib
import re
import shutil
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from ...nodes.files import thumbnails
from ...nodes.files.atomic import replacing
from ...nodes.files.picture_files import MAX_PIXELS
from ...parallel.errors import BadInput
from ...parallel.machine.folders import private
from ...parallel.wording import worded
from ...pipelines.models.regular_file import sha256_of
from ..contract.kept import Upload, UploadKind, UploadRow
from ..errors import NotHere
from .paging import FIRST_ROWS, page_of
from .quota import Quota
from .user_files import KINDS, user_folder

AT_A_TIME = 2  # a packed picture may need a GiB to be read. Other requests have threads of their own.
THUMB_SIDE = 384
NAME = re.compile(r"[0-9a-f]{16}-[A-Za-z0-9._-]{1,80}")
ENDINGS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "BMP": ".bmp"}

P = ParamSpec("P")
T = TypeVar("T")


def inputs_folder(data_dir: Path, user: str) -> Path:
    return user_folder(data_dir, user) / "inputs"


class Intake:
    """Takes files of strangers in, few at a time. Belongs to the event loop of the pages."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._turns = CapacityLimiter(AT_A_TIME)

    @asynccontextmanager
    async def file(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[Path]:
        """What comes piece by piece as a file, which is gone afterwards. Raises `ValueError` when it cannot be
        written."""
        with ExitStack() as stack:
            try:
                path = Path(stack.enter_context(TemporaryDirectory(dir=self._scratch))) / "file"
                with open(path, "wb", opener=private) as file:
                    async for chunk in chunks:
                        file.write(chunk)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise BadInput("the server's disk does not take the file ({}); tell who runs it", reason) from None
            yield path

    async def look(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function says, once it is its turn."""
        return await to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self._turns)


class Uploads:
    def __init__(self, data_dir: Path, *, max_pixels: int = MAX_PIXELS, quota: Quota | None = None) -> None:
        self._data_dir = data_dir
        self._max_pixels = max_pixels
        self._quota = quota or Quota(data_dir)
        self._lock = threading.Lock()

    def add(self, user: str, name: str, file: Path, *, is_result: bool = False) -> Upload:
        """Keep a picture or, as its name's ending says, a sound, or a video that `is_result`; nodes take its `path`.
        Raises `ValueError`."""
        shown = "".join(c for c in name if c.isprintable())[-100:].strip() or "the picture"
        kind, ending, num_bytes = _kind(Path(shown)), Path(shown).suffix.lower(), file.stat().st_size
        self._quota.check(user, "uploads", num_bytes=num_bytes, count=1)  # before the work of decoding
        if kind == "audio":
            facts = thumbnails.checked_sound(file, name=shown)
        elif kind == "video" and is_result:
            facts = thumbnails.video_facts(file)
        else:
            facts, format = thumbnails.checked_picture(file, name=shown, max_pixels=self._max_pixels)
            kind, ending = "image", ENDINGS[format]
        # without folders, ending and whatever could mean something to a file system
        safe = re.sub(r"[^A-Za-z0-9_-]+", "_", Path(shown.replace("\\", "/")).stem)[:60].strip("_") or "picture"
        folder, path = inputs_folder(self._data_dir, user), f"{sha256_of(file)[:16]}-{safe}{ending}"
        with self._lock:
            self._quota.check(user, "uploads", num_bytes=num_bytes, count=1)
            count = 0 if (folder / path).exists() else 1
            with (
                self._quota.changing(user, "uploads", folder / path, count=count),
                replacing(folder / path, is_private=True) as new,
            ):
                shutil.copyfile(file, new)
        return Upload(
            path=path, name=shown, kind=kind, width=facts.width, height=facts.height, length_s=round(facts.length_s, 3)
        )

    def copy(self, user: str, file: Path) -> Upload:
        """Keep a result as an input, without a way over the user's machine. Raises `ValueError`."""
        return self.add(user, file.name, file, is_result=True)

    def path(self, user: str, path: str) -> Path:
        """The file that `add` called so. Raises `NotHere`."""
        file = inputs_folder(self._data_dir, user) / path
        if not NAME.fullmatch(path) or not file.is_file():
            raise NotHere(worded("there is no upload {!r}; upload it again", path[:100]))
        return file

    def thumbnail(self, user: str, path: str) -> bytes:
        """WebP of the picture, or of the sound's outline. Raises `NotHere`."""
        file = self.path(user, path)
        if (kind := _kind(file)) == "video":
            return thumbnails.video_thumbnail(file, side=THUMB_SIDE)
        make = thumbnails.sound_thumbnail if kind == "audio" else thumbnails.picture_thumbnail
        return make(file, side=THUMB_SIDE, name=path)

    def list(
        self, user: str, *, kind: UploadKind | None = None, limit: int = FIRST_ROWS, before: str = ""
    ) -> builtins.list[UploadRow]:
        """All of the kind, newest first, behind the one whose path is `before`. Raises `NotHere`."""
        rows = []
        for file in inputs_folder(self._data_dir, user).glob("[!.]*"):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                found = _kind(file)
                if NAME.fullmatch(file.name) and kind in (None, found):
                    info = file.stat()
                    rows.append(UploadRow(path=file.name, kind=found, bytes=info.st_size, time=info.st_mtime))
        rows.sort(key=lambda row: (row.time, row.path), reverse=True)
        return page_of(rows, lambda row: row.path, limit=limit, before=before)

    def delete(self, user: str, path: str) -> None:
        """Workflows that load it can no longer run. Raises `NotHere`."""
        with self._lock:
            file = self.path(user, path)
            with self._quota.changing(user, "uploads", file, count=-1):
                file.unlink()


def _kind(file: Path) -> UploadKind:
    # by its name; what is neither is refused as a picture
    return KINDS.get(file.suffix.lower(), "image")
