"""Where a run may read and write files, and the provenance that its results carry.

A node that touches the disk takes a `Workspace` from its host, and asks it for each path: outside the folders that the
host allows nothing is read or written.
"""

import contextlib
import dataclasses
import itertools
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...parallel.errors import BadInput
from ...pipelines.models.outlines import Outlines
from ...pipelines.models.regular_file import sha256_of
from ...pipelines.values import Place
from .atomic import NotWritten
from .picture_files import MAX_PIXELS

logger = logging.getLogger("latentloom")

READ = "read"

# Who runs the nodes, where a sentence must name a remedy that only this host has.
Host = Literal["python", "command line", "page", "comfyui"]

ALLOW: dict[Host, str] = {
    "python": "move it there, or allow its folder: Session(allow=[...]), or the workspace's roots",
    "command line": "move it there, or allow its folder with --allow",
    "page": "upload it, or ask whoever runs this server to put it there",
    "comfyui": "move or link it there",
}

# For a model that is not here; the other hosts can name our command.
PULL: dict[Host, str] = {
    "page": "choose another, or fetch it first: the tab Models says how",
    "comfyui": "download its whole repository with the hub's own command (hf download), or give the path of its folder "
    "below ComfyUI's models",
}

# For a file that is not there, in place of where it was looked for.
FIND: dict[Host, str] = {"page": "choose one of those that are here, or upload it"}

# For nodes that are not here.
INSTALL: dict[Host, str] = {
    "python": "install it, or name the folder it lies in with LATENTLOOM_NODES",
    "command line": "install it, or name the folder it lies in with --nodes",
    "page": "ask whoever runs this server to install it",
    "comfyui": "install it",
}

SMALLER: dict[Host, str] = {
    "python": "make it smaller, or raise the workspace's max_pixels",
    "command line": "make it smaller, or raise the limit with --max-pixels",
    "page": "make it smaller, or ask whoever runs this server to raise its limit",
    "comfyui": "make it smaller",
}


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A run's folders. Every path is resolved; reading or writing outside the roots is refused.

    `roots` None means anywhere: a call made by hand in Python is the user's own code.
    """

    output_dir: Path = field(default_factory=lambda: Path("output"))
    roots: tuple[Path, ...] | None = None
    # Written into every picture and video, such as the workflow that made it; names are ASCII.
    metadata: Mapping[str, str] = field(default_factory=dict)
    # Files that this run reads or writes, so that no two of its nodes meet in one. None: nobody keeps count.
    claims: dict[Path, object] | None = field(default=None, compare=False)

    # Where the models of this run work, whatever the workflow says; no devices: where it says.
    place: Place = field(default_factory=Place)
    max_pixels: int = MAX_PIXELS  # the most pixels of a picture that is read from a file or made by resizing
    host: Host = "python"
    outlines: Outlines | None = None  # where nothing is run, how models that are not here stand in outline
    # Told of each file that a node writes, once it is whole and others may still follow.
    on_file: Callable[[Path], None] = field(default=lambda file: None, compare=False)
    # Each saved file is a new one, name_00001_.png and on, as ComfyUI's own; without it, a file of that name gives
    # way to the new one.
    counts_up: bool = False
    # Whether a file that is there was made by others; it stays, and the new one gets a number: name-2.png.
    is_others: Callable[[Path], bool] = field(default=lambda file: False, compare=False)

    def input_path(self, path: str, *, socket: str) -> Path:
        """The existing file or folder that `path` names, relative to the first root that has it.

        Raises `ValueError` when it is missing or lies outside the roots (links followed).
        """
        if "\0" in path or not path.strip():
            raise BadInput("{} is {!r}; give the path of a file", socket, path)
        candidates = [Path(path)] if Path(path).is_absolute() else [root / path for root in self.roots or (Path.cwd(),)]
        try:
            found = next((_real(c) for c in candidates if c.exists()), None)
        except OSError as error:
            raise BadInput(
                "{} {!r} cannot be opened: {}; give another path", socket, path[:200], error.strerror
            ) from None
        if self.roots is not None and not any((found or _real(candidates[0])).is_relative_to(r) for r in self.roots):
            listed = "" if self.host == "page" else f" ({', '.join(map(str, self.roots))})"
            raise BadInput("{} {!r} lies outside the allowed folders{}; {}", socket, path, listed, ALLOW[self.host])
        if found is None and self.host in FIND:
            raise BadInput("{} {!r} is not on this server; {}", socket, path, FIND[self.host])
        if found is None:
            where = ", ".join(str(c.parent) for c in candidates)
            raise BadInput("{} {!r} does not exist (looked in {}); check the path", socket, path, where)
        if not (found.is_file() or found.is_dir()):
            raise BadInput("{} {!r} is a pipe or a device, which is not read; give a file", socket, path)
        if self.claims is not None and self.claims.setdefault(found, READ) != READ:
            raise BadInput("{} {!r} is written by another node of this run; wire the two nodes instead", socket, path)
        return found

    def output_path(self, name: str, *, socket: str) -> Path:
        """Where an output called `name` goes; folders in it are made. Raises `ValueError` outside `output_dir`."""
        root = self.output_dir.resolve()
        target = _real(root / name) if "\0" not in name else root
        inside = target.relative_to(root).parts if target.is_relative_to(root) else ()
        if not inside or any(part.startswith(".") for part in inside):  # hidden folders are others', such as .git
            raise BadInput("{} is {!r}; give a name inside the output folder, such as 'picture'", socket, name)
        mine = object()
        if self.claims is not None and (other := self.claims.setdefault(target, mine)) is not mine:
            what = "is read by this run" if other == READ else "is written by another node of this run"
            raise BadInput("{} {!r} {}; give each file of a run a name of its own", socket, name, what)
        return target

    @contextlib.contextmanager
    def output_files(self, name: str, count: int, ending: str, *, socket: str) -> Iterator[list[Path]]:
        """Where `count` files called `name` go: name.png, or name-00.png and on for several; see `counts_up` and
        `is_others`.

        Numbers are taken when the block begins, so that no other save gets them, and given back where it fails.
        """
        if not self.counts_up:
            looking, free = dataclasses.replace(self, claims=None), name
            for number in itertools.count(2):
                files = [looking.output_path(file, socket=socket) for file in numbered(free, count, ending)]
                is_claimed = free != name and any(file in (self.claims or ()) for file in files)
                if not is_claimed and not any(file.exists() and self.is_others(file) for file in files):
                    break
                free = f"{name}-{number}"
            if free != name:
                logger.warning("%s.%s is another run's and stays; this one is %s.%s", name, ending, free, ending)
            yield [self.output_path(file, socket=socket) for file in numbered(free, count, ending)]
            return
        plain = self.output_path(f"{name}_.{ending}", socket=socket)
        taken: list[Path] = []
        try:
            taken += _take_numbers(plain.parent, plain.name.removesuffix(f"_.{ending}"), count, ending)
            yield taken
        finally:
            for file in taken:
                if file.exists() and not file.stat().st_size:  # nothing was written to it
                    file.unlink(missing_ok=True)

    def check_writable(self) -> None:
        """Raises `ValueError` now rather than after the work, when nothing can be written to `output_dir`."""
        try:
            self.output_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.output_dir) as probe:
                probe.write(b"?")
        except OSError as error:
            raise NotWritten(self.output_dir, error) from None


def _real(path: Path) -> Path:
    """Links followed; links that lead round in a circle are left as they are, where `Path.resolve` raises."""
    return Path(os.path.realpath(path))


def folder_name(text: str, *, most: int) -> str:
    """A text as a folder's name on any file system, of at most `most` characters; "" where nothing of it may stay."""
    return "".join(c if c.isalnum() or c in "=,.-_ " else "_" for c in text)[:most].strip(" .")


def numbered(name: str, count: int, ending: str) -> list[str]:
    """`name.ending`, or `name-00.ending` and so on for several."""
    width = len(str(count - 1))
    return [f"{name}.{ending}"] if count == 1 else [f"{name}-{index:0{width}}.{ending}" for index in range(count)]


def _take_numbers(folder: Path, name: str, count: int, ending: str) -> Iterator[Path]:
    """Empty new files, numbered on from the last that is there, by the rule of ComfyUI's `get_save_image_path`."""
    rule = re.compile(rf"{re.escape(name)}_(\d+)[_.]", re.IGNORECASE if os.name == "nt" else 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = max((int(match[1]) for file in folder.iterdir() if (match := rule.match(file.name))), default=0)
        while count:
            number += 1
            target = folder / f"{name}_{number:05}_.{ending}"
            with contextlib.suppress(FileExistsError):  # whoever makes a file first has its number, in any process
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                count -= 1
                yield target
    except OSError as error:
        raise NotWritten(folder / f"{name}.{ending}", error) from None


def content_hash(file: Path, *, socket: str) -> str:
    """sha256 of a file's bytes. Raises `ValueError` when it is no readable file."""
    try:
        return sha256_of(file)
    except OSError as error:
        raise BadInput("{} {!r} cannot be read ({}); give a file", socket, str(file), error.strerror) from None


HERE = Workspace()
