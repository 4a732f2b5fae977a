"""Pictures that a user brings: checked, kept by their content in a folder that only this user's runs may read."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path
from typing import Any

from ..nodes.atomic import replacing
from ..nodes.picture_files import MAX_PIXELS
from ..nodes.thumbnails import checked_picture, picture_thumbnail
from ..pipelines.file_hash import sha256_of
from .errors import NotHere
from .user_files import user_folder

MAX_USER_BYTES = 8 << 30
THUMB_SIDE = 384
NAME = re.compile(r"[0-9a-f]{16}-[A-Za-z0-9._-]{1,80}")
ENDINGS = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "BMP": ".bmp"}


def inputs_folder(data_dir: Path, user: str) -> Path:
    return user_folder(data_dir, user) / "inputs"


class Uploads:
    def __init__(self, data_dir: Path, *, max_pixels: int = MAX_PIXELS) -> None:
        self._data_dir = data_dir
        self._max_pixels = max_pixels
        self._lock = threading.Lock()

    def add(self, user: str, name: str, file: Path) -> dict[str, Any]:
        """Keep a picture; its `path` is what Load Image takes. Raises `ValueError` for what is no sound picture."""
        shown = "".join(c for c in name if c.isprintable())[:100].strip() or "the picture"
        folder = inputs_folder(self._data_dir, user)
        with self._lock:
            self._check_room(folder, file.stat().st_size)
            facts, kind = checked_picture(file, name=shown, max_pixels=self._max_pixels)
            path = f"{sha256_of(file)[:16]}-{_safe(shown)}{ENDINGS[kind]}"
            with replacing(folder / path) as temporary:
                shutil.copyfile(file, temporary)
        return {"path": path, "name": shown, "width": facts.width, "height": facts.height}

    def thumbnail(self, user: str, path: str) -> bytes:
        """WebP of the picture that `add` called so. Raises `NotHere`."""
        file = inputs_folder(self._data_dir, user) / path
        if not NAME.fullmatch(path) or not file.is_file():
            raise NotHere(f"there is no uploaded picture {path[:100]!r}; upload it again")
        return picture_thumbnail(file, side=THUMB_SIDE, name=path)

    def _check_room(self, folder: Path, num_bytes: int) -> None:
        used = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0
        if used + num_bytes > MAX_USER_BYTES:
            raise ValueError(
                f"your uploaded pictures fill {used >> 20} MiB of {MAX_USER_BYTES >> 20}; "
                f"ask whoever runs this server to clear {folder.name} in your data folder"
            )


def _safe(name: str) -> str:
    """Without folders, ending and whatever could mean something to a file system."""
    stem = Path(name.replace("\\", "/")).stem
    return re.sub(r"[^A-Za-z0-9_-]+", "_", stem)[:60].strip("_") or "picture"
