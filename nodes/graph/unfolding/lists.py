"""The elements of a for-each's list, and why they cannot be had.

A list is known when the workflow is read: it stands there, or is a param, the lines of a text, a range of numbers, or
the files of a folder.
"""

import fnmatch
import math
from collections.abc import Callable
from typing import Any

from ...files.workspace import Workspace
from ..graph import MAX_NODES, Folder, Lines, Link, Listed, ParamRef, Span
from ..problems import short

MAX_FILES = 100_000  # of a folder that are looked at
# The plain value of a param. Raises `ValueError` where it comes by a wire, or is not there.
Lookup = Callable[[ParamRef], Any]


def elements(source: Listed, value: Lookup, workspace: Workspace | None) -> list[Any]:
    """The elements in order, at most as many as a workflow may have nodes. Raises `ValueError`."""
    found = _elements(source, value, workspace)
    if not found:
        raise ValueError("its list has no elements; give at least one")
    if len(found) > MAX_NODES:
        raise ValueError(f"its list has {len(found):,} elements; at most {MAX_NODES:,} are taken; shorten it")
    return found


def _elements(source: Listed, value: Lookup, workspace: Workspace | None) -> list[Any]:
    if isinstance(source, Link):
        raise made_while_running(source.source)
    if isinstance(source, Lines):
        text = _text(source.lines, value, "lines")
        return [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(source, Span):
        return _span([value(each) if isinstance(each, ParamRef) else each for each in source.range])
    if isinstance(source, Folder):
        return _files(_text(source.folder, value, "folder"), source.match, workspace)
    found = value(source) if isinstance(source, ParamRef) else source
    if not isinstance(found, list | tuple):
        raise ValueError(f"its list is {short(found)}; give a list, or write its lines or a range of numbers")
    return list(found)


def made_while_running(source: str) -> ValueError:
    return ValueError(
        f"its list comes from {source} and is made while running, when it is too late to say which nodes there are; "
        "give a list, a param, the lines of a text, a range of numbers or a folder"
    )


def _text(given: str | ParamRef, value: Lookup, what: str) -> str:
    found = value(given) if isinstance(given, ParamRef) else given
    if not isinstance(found, str):
        raise ValueError(f"{what} of its list is {short(found)}; it takes a text")
    return found


def _span(numbers: list[Any]) -> list[int | float]:
    if wrong := [each for each in numbers if type(each) not in (int, float) or not math.isfinite(each)]:
        raise ValueError(f"range of its list has {short(wrong[0])}; it takes finite numbers")
    first, last, step = [*numbers, 1][:3]
    if not step or (last - first) / step < 0:
        raise ValueError(f"range of its list goes from {first} to {last} by {step} and has no end; correct the step")
    count = (last - first) / step + 1e-9  # 0 to 1 by 0.1 has its last one
    if count >= MAX_NODES:
        raise ValueError(f"range of its list has {count:,.0f} numbers; at most {MAX_NODES:,} are taken; shorten it")
    numbers = [first + index * step for index in range(int(count) + 1)]
    return [round(each, 12) if isinstance(each, float) else each for each in numbers]


def _files(folder: str, match: str, workspace: Workspace | None) -> list[str]:
    """Paths as a workflow names them, below the folder as it is named there."""
    if workspace is None:
        raise ValueError(f"its list is the folder {folder[:200]!r}, which cannot be looked into here")
    found = workspace.input_path(folder, socket="folder")
    if not found.is_dir():
        raise ValueError(f"folder {folder[:200]!r} is a file; give the folder that it lies in")
    names: list[str] = []
    try:
        for number, file in enumerate(found.iterdir()):
            if number >= MAX_FILES:
                raise ValueError(f"folder {folder[:200]!r} has more than {MAX_FILES:,} entries; take a smaller one")
            if not file.name.startswith(".") and fnmatch.fnmatch(file.name.lower(), match.lower()) and file.is_file():
                names.append(file.name)
    except OSError as error:
        raise ValueError(f"folder {folder[:200]!r} cannot be read: {error.strerror}; give another") from None
    if not names:
        raise ValueError(f"folder {folder[:200]!r} has no files like {match!r}; put some there, or take another")
    return [f"{folder.rstrip('/')}/{name}" for name in sorted(names, key=lambda name: (name.casefold(), name))]
