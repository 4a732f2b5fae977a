"""Watches what Python does with a stranger's file: programs started, pickles read, sockets, files opened or written."""

import os
import sys
from pathlib import Path
from typing import Any

CODE = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "pty.spawn")
NETWORK = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("outside", "evil", "/etc/passwd")  # in the name of a file that no stranger's file may lead to


class Audit:
    """Python's own audit hook. With `writable`, whatever is written or changed elsewhere is an offence too."""

    def __init__(self) -> None:
        self.offences: list[str] = []
        self._folder: Path | None = None
        self._writable: tuple[str, ...] | None = None
        sys.addaudithook(self._see)  # for the life of the process; idle unless watching

    def watching(self, folder: Path, *, writable: tuple[Path, ...] | None = None) -> "Audit":
        """`folder` holds what the stranger sent: nothing in it may run."""
        self.offences.clear()
        self._next = folder
        self._writable = None if writable is None else tuple(os.path.realpath(path) for path in writable)
        return self

    def __enter__(self) -> None:
        self._folder = self._next

    def __exit__(self, *_: object) -> None:
        self._folder = None

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        folder = self._folder
        if folder is None:
            return
        if event in CODE or event in NETWORK:
            self.offences.append(f"{event} {args!r:.200}")
        elif event == "open" and isinstance(args[0], str | bytes):
            real = os.path.realpath(os.fsdecode(args[0]))
            if any(word in real for word in FORBIDDEN):
                self.offences.append(f"open {real}")
            elif args[2] & WRITES:
                self._check_place("write", real)
        elif event in CHANGES and isinstance(args[0], str | bytes | os.PathLike):
            self._check_place(event, os.path.realpath(Path(os.fsdecode(args[0])).parent))
        elif event == "exec" and str(folder) in str(getattr(args[0], "co_filename", "")):
            self.offences.append(f"exec {args[0]!r:.200}")
        elif event == "import" and "evil" in str(args[0]):
            self.offences.append(f"import {args[0]}")

    def _check_place(self, what: str, real: str) -> None:
        if self._writable is None or real == os.devnull:
            return
        if not any(real == place or real.startswith(place + os.sep) for place in self._writable):
            self.offences.append(f"{what} {real}")
