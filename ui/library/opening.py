"""Reading the workflow out of any file that a user drops onto the page."""

from collections.abc import Callable
from pathlib import Path

from ...nodes.graph.graph import Graph
from ...nodes.graph.problems import GraphError
from ...nodes.headless.workflow_files import read_text, read_workflow

HEAD_BYTES = 16
KINDS: dict[str, Callable[[bytes], bool]] = {
    ".png": lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"),
    ".jpg": lambda head: head.startswith(b"\xff\xd8\xff"),
    ".webp": lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP",
    ".bmp": lambda head: head.startswith(b"BM"),
    ".mp4": lambda head: head[4:8] == b"ftyp",
    ".webm": lambda head: head.startswith(b"\x1aE\xdf\xa3"),
    ".flac": lambda head: head.startswith(b"fLaC"),
    ".wav": lambda head: head[:4] == b"RIFF" and head[8:12] == b"WAVE",
    ".ogg": lambda head: head.startswith(b"OggS"),
    ".mp3": lambda head: head.startswith(b"ID3"),  # without tags it carries nothing
}


def open_file(path: Path, *, name: str) -> Graph:
    """The workflow in a file, told by its first bytes and not by its name. Raises `ValueError` that says `name`."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    ending = next((ending for ending, is_kind in KINDS.items() if is_kind(head)), "")
    if not ending:
        return read_text(path, name=Path(name).stem)
    named = path.rename(path.with_suffix(ending))
    try:
        return read_workflow(named)
    except GraphError:
        raise
    except ValueError as error:
        raise ValueError(str(error).replace(str(named), name)) from None
