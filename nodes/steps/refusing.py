"""What nodes that read or write files refuse before a run: a path that leads nowhere, a name that is not allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...pipelines.models.regular_file import Unchanged
from ..files.atomic import check_place
from ..files.workspace import Workspace, content_hash, numbered
from ..graph.sketch import Given, Refusal, Unknown
from ..graph.spec import Fingerprint

_UNFIT = Unchanged[str](512)
"""Why files are refused: a file is looked at once while it stays as it is, since a page asks at every change."""


def refused_by(code: str, ask: Callable[[], object], *mends: Mapping[str, Any]) -> str | Refusal:
    """The `ValueError` that `ask` raises, with values that mend it; "" where it raises none."""
    try:
        ask()
    except Unknown:
        raise
    except ValueError as error:
        return Refusal(code=code, why=str(error), mends=mends)
    return ""


def file_fingerprint(check_length: Callable[[Path, Workspace], None]) -> Fingerprint:
    """The content of the file at the socket `path`, of which no more is read than `check_length` lets pass."""

    def fingerprint(inputs: Mapping[str, Any], workspace: Workspace) -> str:
        file = workspace.input_path(inputs["path"], socket="path")
        check_length(file, workspace)
        return content_hash(file, socket="path")

    return fingerprint


def file_refusals(given: Given, check: Callable[..., None], *more: Any) -> dict[str, str | Refusal]:
    """Of a node that reads the file at its socket `path`, which `check(file, *more)` looks at."""
    path = given.value("path")

    def why(file: Path) -> str:
        try:
            check(file, *more)
        except ValueError as error:
            return str(error)
        return ""

    def look() -> None:
        file = given.workspace.input_path(path, socket="path")
        if found := _UNFIT.get((check, file, *more), [file], lambda: why(file)):
            raise ValueError(found)

    return {"path": refused_by("no_file", look)}


def name_refusals(given: Given, made: str, ending: str) -> dict[str, str | Refusal]:
    """Of a node that writes what stands at its socket `made` under its `name`. Where nobody knows how many files that
    makes, they are not compared with those of other nodes.
    """
    name, workspace = given.value("name"), given.workspace
    try:
        count = given.value(made).count
    except Unknown:
        count = 0
    if not count or workspace.counts_up:
        workspace, count = dataclasses.replace(workspace, claims=None), 1

    def ask() -> None:
        for file in numbered(name, count, ending):
            check_place(workspace.output_path(file, socket="name"))

    return {"name": refused_by("bad_name", ask)}
