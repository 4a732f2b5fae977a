"""What nodes that read or write files refuse before a run: a path that leads nowhere, a name that is not allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...pipelines.models.regular_file import Unchanged
from ..files.atomic import check_place
from ..files.workspace import numbered
from ..graph.sketch import Given, Refusal, Unknown


def refused_by(code: str, ask: Callable[[], object], *mends: Mapping[str, Any]) -> str | Refusal:
    """The `ValueError` that `ask` raises, with values that mend it; "" where it raises none."""
    try:
        ask()
    except Unknown:
        raise
    except ValueError as error:
        return Refusal(code=code, why=str(error), mends=mends)
    return ""


def file_refusals(given: Given, check: Callable[..., None], *more: Any) -> dict[str, str | Refusal]:
    """Of a node that reads the file at its socket `path`, which `check(file, *more)` looks at."""
    path = given.value("path")

    def look() -> None:
        if why := _why_unfit(check, given.workspace.input_path(path, socket="path"), *more):
            raise ValueError(why)

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


def _why_unfit(check: Callable[..., None], path: Path, *more: Any) -> str:
    """The sentence by which `check(path, *more)` refuses a file with `ValueError`, "" where it takes it. It is asked
    once while the file stays as it is."""
    return _UNFIT.get((check, path, *more), [path], lambda: _why(check, path, more))


_UNFIT = Unchanged[str](512)


def _why(check: Callable[..., None], path: Path, more: tuple[Any, ...]) -> str:
    try:
        check(path, *more)
    except ValueError as error:
        return str(error)
    return ""
