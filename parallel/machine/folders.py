"""Where this user's results, measurements and choices are kept between runs, for nobody else on the machine to read.

What several processes write there is locked, for one at a time.
"""

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def user_cache() -> Path | None:
    """Below `XDG_CACHE_HOME`, else the home; None for a user without a home."""
    return user_folder("XDG_CACHE_HOME", ".cache")


def user_data() -> Path | None:
    """Of the page, unless it is told another: below `XDG_DATA_HOME`, else the home."""
    return user_folder("XDG_DATA_HOME", ".local/share")


def user_folder(variable: str, below_home: str) -> Path | None:
    try:
        base = os.environ.get(variable) or _home() / below_home
    except RuntimeError:
        return None
    return Path(base) / "latentloom"


def private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, that no other account may look into; one that is there stays as it
    is. Raises `OSError`."""
    for each in reversed([folder, *folder.parents]):
        if not each.is_dir():  # exist_ok: another process may be as quick
            each.mkdir(mode=0o700, exist_ok=True)


def private(path: str, flags: int) -> int:
    """For `open(..., opener=private)`: a file that is made then is for no other account to read."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


def why_open(folder: Path | None) -> str:
    """What others may do with a folder that is to be this user's alone, and the remedy; "" for one that is, or is not
    there."""
    try:
        is_open = folder is not None and os.name == "posix" and bool(folder.stat().st_mode & 0o077)
    except OSError:
        is_open = False
    told = f"other accounts of this machine can look into {folder}; close it with: chmod -R go-rwx {folder}"
    return told if is_open else ""


def text_of(path: Path) -> str:
    """What a small file says, one of the system's say; "" where there is none, or it cannot be read."""
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""  # a pipe would be waited for
    except (OSError, UnicodeDecodeError):
        return ""


def write_object(path: Path, plain: Mapping[str, Any], *, indent: int | None = None) -> None:
    """As JSON, as `write_bytes` does."""
    write_bytes(path, json.dumps(plain, indent=indent).encode())


def write_bytes(path: Path, data: bytes) -> None:
    """For this user alone. Who reads or writes it meanwhile finds it whole. It may be lost with the power. Raises
    `OSError`."""
    private_folder(path.parent)
    part = path.with_name(f".{path.stem}-{secrets.token_hex(16)}.part")
    try:
        with open(part, "wb", opener=private) as file:
            file.write(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _home() -> Path:
    return Path.home()


# ---- One process at a time, by a lock on an open file, on Linux and macOS. The kernel ends the turn of one that dies.

ASK_S = 0.05


def locked(descriptor: int, *, wait_s: float, go_on: Callable[[], object] = lambda: None) -> bool:
    """Whether the lock was got in time; `go_on` raises where nobody wants it any more. It ends with the descriptor."""
    end = time.monotonic() + wait_s
    while not lock_now(descriptor, is_alone=True):
        go_on()
        if time.monotonic() > end:
            return False
        time.sleep(ASK_S)
    return True


# ---- Files without a disk that processes of this user map together. Each holds a lock as long as it uses one.

SHARED = Path("/dev/shm")
SHARED_PREFIX = f"latentloom-{os.getuid() if hasattr(os, 'getuid') else 0}-"


def sweep_shared(folder: Path = SHARED) -> None:
    """Remove what processes have left that were killed, or ended at once."""
    for path in folder.glob(f"{SHARED_PREFIX}*"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            remove_unused(path, file)
            os.close(file)


def remove_unused(path: Path, file: int) -> None:
    with contextlib.suppress(OSError):
        if lock_now(file, is_alone=True):
            path.unlink()


def lock_now(file: int, *, is_alone: bool) -> bool:
    """Whether it could be had at once, in place of the lock that this process has."""
    import fcntl  # Windows has no such module

    try:
        fcntl.flock(file, (fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
