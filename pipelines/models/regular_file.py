"""The one gate to files that somebody else names: only a regular file is opened, and JSON is read with limits.

What was made of a small one is kept while the file stays as it is: every stage asks for the same few configs.
"""

import errno
import hashlib
import json
import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Generic, TypeVar

from ...parallel.errors import BadInput

MOST_FILES = 256
MOST_FOLDERS = 64
MOST_BYTES = 64 << 10  # of a file; what is made of a larger one is not kept
# Clocks of file systems tick as rarely as every two seconds: a file changed so shortly before it was read may be
# changed once more without another time.
SETTLED_NS = 2_000_000_000

T = TypeVar("T")
Mark = tuple[int, int, int, int, int]


def sha256_of(path: Path) -> str:
    """In hexadecimal; reads the whole file. Raises `OSError` where it cannot, or it is no regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_regular(path: Path) -> BufferedReader:
    """The file, open for reading. Raises `OSError` for a missing one, and for whatever is no regular file."""
    check_regular(path)  # a device may do something when it is opened
    # Not to wait: a pipe may have taken the file's place by now. Regular files know no such waiting.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Raises `OSError`, for a pipe too, which would be waited for."""
    with open_regular(path) as file:
        return file.read()


def check_regular(path: Path) -> os.stat_result:
    """What the system knows of a regular file; for readers that take a name only. Raises `OSError` for others."""
    status = path.stat()
    _check(status, path)
    return status


def _check(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def is_settled(times: Iterable[int]) -> bool:
    """Whether any later change of a file shows in its times of change, which are in nanoseconds."""
    return time.time_ns() - max(times) > SETTLED_NS


class Unchanged(Generic[T]):
    """What was made of files, kept while they stay as they are. What it gives is shared, and not to be changed.

    It must depend on nothing that may change but the files that are named with its key. A file that was written or
    replaced since is another one: it has another inode, size or time of change. All is forgotten beyond so `many`.
    """

    def __init__(self, many: int = MOST_FILES) -> None:
        self._many = many
        self._made: dict[Hashable, tuple[Sequence[Mark | None], T]] = {}

    def get(self, key: Hashable, paths: Iterable[Path | str], make: Callable[[], T]) -> T:
        """Raises what `make` raises, which is asked again next time."""
        return self._of(key, [_mark_of(str(path)) for path in paths], make)

    def _of(self, key: Hashable, marks: Sequence[Mark | None], make: Callable[[], T]) -> T:
        """The marks are from before anything is read: a change in between is seen next time."""
        known = self._made.get(key)
        if known is not None and known[0] == marks:
            return known[1]
        made = make()
        if marks and all(mark is not None and is_settled(mark[:2]) for mark in marks):
            if len(self._made) >= self._many:
                self._made.clear()
            self._made[key] = marks, made
        return made


class FromFile(Unchanged[T]):
    """`make` of a path, called again once the file there has changed; what a large file gives is not kept."""

    def __init__(self, make: Callable[[Path], T]) -> None:
        super().__init__()
        self._make = make

    def __call__(self, path: Path) -> T:
        mark = _mark_of(str(path))
        is_small = mark is not None and mark[2] <= MOST_BYTES
        return self._of(str(path), [mark] if is_small else [], lambda: self._make(path))


class FromFolder(Unchanged[T]):
    """As `FromFile`, of a folder with all that lies in it and in the folders in it, links followed; one of very many
    files is looked at anew each time.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        super().__init__(MOST_FOLDERS)
        self._make = make

    def __call__(self, folder: Path, *more: Hashable) -> T:
        """What `make(folder, *more)` gives."""
        return self._of((str(folder), *more), _marks_in(str(folder)), lambda: self._make(folder, *more))


def _marks_in(folder: str, depth: int = 2) -> tuple[Mark, ...]:
    """Of a folder and what lies in it, in order; nothing where one cannot be looked at, or they are too many."""
    found = [_mark_of(folder)]
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                inner = _marks_in(entry.path, depth - 1) if depth > 1 and entry.is_dir() else (_mark_of(entry.path),)
                found += inner or (None,)
                if len(found) > MOST_FILES:
                    return ()
    except OSError:
        return ()
    return tuple(mark for mark in found if mark) if None not in found else ()


def _mark_of(path: str) -> Mark | None:
    """Times of change in nanoseconds, size and place of a file; None where it cannot be looked at."""
    try:
        found = os.stat(path)  # noqa: PTH116 (asked so often that a Path would cost as much again)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


# ---- Small JSON files: what somebody else wrote is read with limits, so that a bad one is one clear sentence.

MAX_BYTES = 4 << 20
MAX_DEPTH = 32
MAX_DIGITS = 40

# Possessive, and the closing quote is optional, so that neither goes back.
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^"\[\]{}]++', re.DOTALL)
_RUNS = re.compile(r"[\[{]++|[\]}]++")


class JsonFault(BadInput):
    """Why JSON is refused: `fault` is one word for programs, `reason` a clause for the reader's sentence."""

    code = "bad-json"

    def __init__(self, fault: str, reason: str) -> None:
        self.fault = fault
        self.reason = reason
        super().__init__(reason)


def read_bytes(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a regular file. Raises `ValueError` for anything else: folders, pipes, devices, too large."""
    try:
        with open_regular(path) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ValueError(f"{what} {path} cannot be read ({error.strerror}); copy the model again") from None
    if len(data) > max_bytes:
        raise ValueError(f"{what} {path} has more than the {max_bytes} bytes that are allowed; check the file")
    return data


def read_object(path: Path, *, what: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """A JSON object; `what` names the file in errors. Raises `ValueError` for what `parse_strict` refuses."""
    takes_nan = path.name == "scheduler_config.json"  # diffusers writes DPM solvers' lambda_min_clipped of -Infinity
    return parse_object(read_bytes(path, what=what, max_bytes=max_bytes), what=f"{what} {path}", takes_nan=takes_nan)


def parse_object(
    data: str | bytes, *, what: str, remedy: str = "copy the model again", takes_nan: bool = False
) -> dict[str, Any]:
    try:
        value = parse_strict(data, takes_nan=takes_nan)
    except JsonFault as fault:
        raise ValueError(f"{what} is not valid JSON ({fault.reason}); {remedy}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} holds a {type(value).__name__} instead of an object; {remedy}")
    return value


def parse_strict(source: str | bytes, *, max_depth: int = MAX_DEPTH, takes_nan: bool = False) -> Any:
    """Plain data from JSON, with one meaning only: no duplicate keys, no NaN or infinity, no halves of characters.

    `takes_nan` is for writers that put NaN and infinity where they do not matter.

    Raises `JsonFault`, and nothing else, whatever the text is; its size is the caller's to bound.
    """
    try:
        text = source if isinstance(source, str) else source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JsonFault("not_text", f"byte {error.start} is not UTF-8") from None
    _check_depth(text, max_depth)
    try:
        data = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=float if takes_nan else _no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise JsonFault("not_json", f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    if "\\u" in text:
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise JsonFault("not_text", "a string holds half of a \\ud800 pair") from None
    return data


def without_texts(data: bytes, *, max_texts: int) -> bytes:
    """What of JSON lies between its strings, to count before parsing. Raises `JsonFault` beyond `max_texts` strings."""
    # A string has two quotes without a backslash before them, or one where it ends in a backslash of its own.
    if data.count(b'"') - data.count(b'\\"') > 2 * max_texts:
        raise JsonFault("too_many", f"it holds more than {max_texts:,} texts")
    between, num_texts = _TEXTS.subn(b"", data)
    if num_texts > max_texts:
        raise JsonFault("too_many", f"it holds more than {max_texts:,} texts")
    return between


def _check_depth(text: str, max_depth: int) -> None:
    brackets = _NO_BRACKETS.sub("", text)
    for _ in range(max_depth):  # each turn takes away the innermost: much faster than to walk through a large text
        # a space in between, or one turn would take away "{}" and what it left of "[{}]"
        brackets = brackets.replace("[]", " ").replace("{}", " ").replace(" ", "")
    depth = max_depth if "[]" in brackets or "{}" in brackets else 0
    for match in _RUNS.finditer(brackets):  # empty now, but for what is too deep or no JSON
        run = match.group()
        depth += len(run) if run[0] in "[{" else -len(run)
        if depth > max_depth:
            raise JsonFault("too_deep", f"it nests more than {max_depth} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise JsonFault("duplicate_key", f"the key {twice[:60]!r} is there twice in one object")
    return data


def _no_constant(name: str) -> Any:
    raise JsonFault("not_a_number", f"{name} is not a number that JSON has")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise JsonFault("not_a_number", f"{text[:60]} is too large for a number")
    return value


def _integer(text: str) -> int:
    # int() of a long text is slow and refused beyond 4,300 digits; nothing takes more than 64 bits
    if len(text) > MAX_DIGITS:
        raise JsonFault("not_a_number", f"{text[:60]} is too large for a whole number")
    return int(text)
