"""A user's files below the data folder: ids in place of paths, records whole or not at all, damaged ones put aside."""

import contextlib
import hashlib
import json
import logging
import re
import secrets
import shutil
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ...nodes.files.atomic import write_atomic
from ...nodes.graph.graph import Graph, graph_text, read_graph
from ...nodes.graph.problems import MAX_BYTES, GraphError
from ...nodes.headless.workflow_files import PICTURES, SOUNDS, VIDEOS
from ...parallel.errors import BadInput
from ...parallel.wording import SAID, known_in, remember, worded
from ...pipelines.models.regular_file import read_regular
from ..contract.run import Kind
from ..errors import NotHere

# What files are, by the ends of their names.
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(PICTURES, "image"),
    **dict.fromkeys(VIDEOS, "video"),
    **dict.fromkeys(SOUNDS, "audio"),
}
MAX_NAME = 200
MAX_FOLDER = 200
MAX_DEPTH = 8
TURNS = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"


def checked_name(name: str) -> str:
    """Raises `ValueError`."""
    name = name.strip()
    if not name or len(name) > MAX_NAME or _has_controls(name):
        got = f"has {len(name)} characters" if len(name) > MAX_NAME else f"is {name[:50]!r}"
        raise BadInput("the name {}; give 1 to {} characters, without line breaks", got, MAX_NAME)
    return name


def checked_folder(folder: str) -> str:
    """`a/b`, or nothing for the top. A folder is a label: it never becomes a path. Raises `ValueError`."""
    parts = [part.strip() for part in folder.split("/") if part.strip()]
    if len(folder) > MAX_FOLDER or len(parts) > MAX_DEPTH or _has_controls(folder) or {".", ".."} & set(parts):
        raise BadInput(
            "the folder is {!r}; give names with / between them, at most {} deep and {} characters in all",
            folder[:50],
            MAX_DEPTH,
            MAX_FOLDER,
        )
    return "/".join(parts)


def _has_controls(text: str) -> bool:
    # line breaks, surrogates, and marks that turn the direction of the text around them
    return any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in TURNS for c in text)


logger = logging.getLogger("latentloom")

ID = re.compile(r"[0-9a-f]{16}")
DAMAGED = ".damaged"

Record = TypeVar("Record", bound=BaseModel)


def user_folder(data_dir: Path, user: str) -> Path:
    # a name says nothing about a path, so the folder is named by its hash
    return data_dir / "users" / hashlib.sha256(user.encode()).hexdigest()[:16]


def is_own_file(file: Path, folder: Path) -> bool:
    """Whether it is a plain file inside the folder, by no link."""
    try:
        return not file.is_symlink() and file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def thumbnail_path(data_dir: Path, user: str, id: str) -> Path:
    """The path of a result's thumbnail, which need not have been made yet."""
    return user_folder(data_dir, user) / "thumbs" / f"{id}.webp"


def remove_leftovers(data_dir: Path) -> None:
    # what a server that was killed was writing or looking at; every such name begins with a dot
    for pattern in ("users/*/*/.*", "users/*/workflows/*/.*", "shares/.*", "apps/.*", "downloads/.*", ".queue-*"):
        for path in data_dir.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()


def fresh_id() -> str:
    return secrets.token_hex(8)


def nothing(id: str, what: str) -> NotHere:
    return NotHere(worded("there is no {} {!r}; it may have been deleted, so reload the page", what, id[:40]))


def write_record(path: Path, record: BaseModel) -> None:
    """Without what says nothing. Raises `ValueError` when it cannot be written."""
    data = record.model_dump_json(exclude_defaults=True)
    if known := known_in(record.model_dump(mode="json", exclude_defaults=True)):
        data = json.dumps({**json.loads(data), SAID: known}, ensure_ascii=False)
    write_atomic(path, data.encode(), is_private=True)


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """None where there is none, one that cannot be read now, or a damaged one, which is then put aside."""
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # too many open files, or a disk that is away: the file itself may be sound
        logger.warning("%s cannot be read now: %s", path, error.strerror)
        return None
    try:
        if SAID.encode() not in data:
            return kind.model_validate_json(data)
        found = json.loads(data)
        remember(found.pop(SAID, {}))
        return kind.model_validate(found)
    except ValueError as error:
        put_aside(path, error)
        return None


def put_aside(path: Path, error: Exception) -> None:
    """Rename a file that cannot be used, so that it is neither lost nor met again."""
    reason = str(error).partition("\n")[0]
    logger.warning("%s is damaged and was put aside as %s%s: %s", path, path.name, DAMAGED, reason)
    try:
        path.replace(path.with_name(path.name + DAMAGED))
    except OSError as failure:
        logger.warning("%s cannot be put aside (%s)", path, failure.strerror)


def graph_bytes(graph: Graph) -> bytes:
    """A workflow as the command line writes it. Raises `ValueError` when it is too large to be read again."""
    try:
        data = graph_text(graph).encode()
    except UnicodeEncodeError:
        raise ValueError("the workflow holds half a character (a lone surrogate); write that text anew") from None
    if len(data) > MAX_BYTES:
        raise BadInput("the workflow has {} bytes; at most {} are kept; split it", len(data), MAX_BYTES)
    return data


def write_graph_file(path: Path, graph: Graph) -> None:
    """Raises `ValueError` when it is too large to be read again, or cannot be written."""
    write_atomic(path, graph_bytes(graph), is_private=True)


def read_graph_file(path: Path) -> Graph | None:
    """None where there is none, one that cannot be read now, or a damaged one, which is then put aside."""
    if not path.exists():
        return None
    try:
        return read_graph(path)
    except GraphError as error:
        if error.problems[0].code == "file":
            logger.warning("%s", error)
        else:
            put_aside(path, error)
        return None
