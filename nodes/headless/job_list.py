"""Lists of jobs: several files, or lines of JSON that name them, as the points of one run; their folders, and shares.

A line is an object: `workflow`, the file, and maybe `params` (values by a param's name or node.socket), `sweep` (texts
as `--sweep` takes them) and `out` (a folder inside `--out`). A *share* is every N-th point of a sweep or a list.
"""

import hashlib
import json
import logging
import re
import string
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput, code_of
from ...parallel.wording import worded
from ...pipelines.models.regular_file import open_regular
from ..execution.manifest import holds_other
from ..execution.preflight import Foretold
from ..files.workspace import Workspace, folder_name
from ..graph.graph import Graph
from ..graph.problems import GraphError, Names, parse_json, short
from ..graph.resolve import param_values
from .foretold import Point, Points
from .job import MAX_RUNS, OUT, Headless, read_points, split_set, told_of
from .workflow_files import read_workflow

logger = logging.getLogger("latentloom")

MAX_LIST_BYTES = 64 << 20
STDIN = Path("-")
EXAMPLE = '{"workflow": "FILE", "params": {"seed": 7}}'
KEYS: Mapping[str, tuple[type, str]] = {
    "workflow": (str, "the path of a file"),
    "params": (dict, "an object of values by their names"),
    "sweep": (list, 'a list of texts, such as "seed=1..4"'),
    "out": (str, "the name of a folder inside --out"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a line asks for."""

    workflow: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sweep: Sequence[str] = ()
    out: str = ""


Found = Point | BadInput


def read_jobs(
    files: Sequence[Path],
    jobs: Path | None,
    *,
    settings: Sequence[str],
    sweeps: Sequence[str],
    allowed: Sequence[Path],
    out: Path,
    name: str = "",
) -> Headless:
    """What `run` is asked for: a file, several, or the lines of `jobs`, with `--set` and `--sweep` for each of them,
    where a line's own params come first. Their folders are named by `name`, see `in_folders`.

    Raises `GraphError` or `ValueError` for what is wrong with files or values; a line that is wrong is left out.
    """
    if bool(files) == (jobs is not None):
        what = "files and --jobs are both given" if files else "no workflow is named"
        raise ValueError(worded("{}; give one or several files, or --jobs with a list of them", what))
    values, is_list = split_set(settings), jobs is not None or len(files) > 1
    reading, found = cache(read_workflow), list[Found]()  # each file is read once, however many lines name it
    lines = ((str(file), Row(workflow=str(file))) for file in files) if jobs is None else _lines(jobs)
    for origin, line in lines:
        try:
            row = line if isinstance(line, Row) else _row(line)
            file, base = Path(row.workflow), out
            if row.out:
                Workspace(output_dir=out).output_path(row.out, socket="out")  # raises where that is outside
                base = out / row.out
            elif is_list and not name:
                base = out / (folder_name(file.stem, most=100) or "run")
            points = read_points(
                file,
                settings={**values, **row.params},
                sweeps=[*sweeps, *row.sweep],
                allowed=allowed,
                graph=reading(file),
                naming=() if row.out else row.params,
            )
        except ValueError as error:
            if jobs is None:
                raise _told(origin, error) if is_list else error from error
            found.append(_told(origin, error))
        else:
            where: dict[str, Any] = {"origin": origin, "workflow": row.workflow} if is_list else {}
            found += [replace(point, folder=base, **where) for point in points]
        if len(found) > MAX_RUNS:
            raise ValueError(worded("the list asks for more than {} runs; make several of it", MAX_RUNS))
    if not found:
        raise ValueError(worded("{} has no jobs; write one on each line, such as {}", jobs, EXAMPLE))
    return as_job(found, out=out, name=name, is_list=jobs is not None)


def as_job(found: Sequence[Found], *, out: Path, name: str = "", is_list: bool = False) -> Headless:
    """These points, numbered in this order, in folders of their own."""
    is_sweep = len(found) > 1 or is_list
    found = [replace(f, number=n, is_alone=not is_sweep) if isinstance(f, Point) else f for n, f in enumerate(found, 1)]
    if is_sweep or name or any(isinstance(each, Point) and each.varied for each in found):
        found = in_folders(found, name)
    return Headless(
        points=[each for each in found if isinstance(each, Point)],
        out=out,
        refused={number: each for number, each in enumerate(found, 1) if isinstance(each, BadInput)},
        is_sweep=is_sweep,
    )


def check_file(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Points:
    """What is known of each point of a file's sweep before it runs; of a workflow that is wrong, what is wrong with it.

    Raises `ValueError` for what is no workflow at all.
    """
    try:
        job = read_jobs([file], None, settings=settings, sweeps=sweeps, allowed=allowed, out=OUT)
        return [(point.varied, told) for point, told in zip(job.points, told_of(job), strict=True)]
    except GraphError as error:
        return [({}, Foretold(problems=[*error.problems]))]


def _told(origin: str, error: ValueError) -> BadInput:
    told = BadInput(f"{origin}: {error}")
    told.code = code_of(error)
    return told


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Those that are not empty, each with its number in words. Raises `ValueError`."""
    try:
        if file == STDIN:
            text = sys.stdin.buffer.read(MAX_LIST_BYTES + 1)
        else:
            with open_regular(file) as opened:
                text = opened.read(MAX_LIST_BYTES + 1)
    except OSError as error:
        raise ValueError(
            worded("{} cannot be read: {}; give a file with a job on each line", file, error.strerror)
        ) from None
    if len(text) > MAX_LIST_BYTES:
        raise ValueError(worded("{} is larger than {} bytes, the limit; make several of it", file, MAX_LIST_BYTES))
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", line


def _row(line: bytes) -> Row:
    row = parse_json(line)
    if not isinstance(row, dict) or "workflow" not in row:
        raise ValueError(worded("{} names no workflow; write a job as {}", short(row), EXAMPLE))
    for key, value in row.items():
        if key not in KEYS:
            raise ValueError(worded("a job has no {}; {}", short(key), Names().offer(key, KEYS)))
        kind, words = KEYS[key]
        if not isinstance(value, kind) or (kind is list and not all(isinstance(each, str) for each in value)):
            raise ValueError(worded("{} is {}; it takes {}", key, short(value), words))
    return Row(**row)


# ---- Folders: by the values that tell points apart, or by a template.


def in_folders(found: Sequence[Found], template: str) -> list[Found]:
    """Each point in a folder of its own inside of the present one: named by its values, such as `seed=3,steps=8`, or by
    a template such as `{workflow}-{seed}-{index:04}`. A name of the template that is given already, or whose folder
    holds another result, gets a number. What cannot have a folder is an error in its place."""
    if not template:
        found = _by_values(found)
    taken: dict[str, str] = {}
    placed: list[Found] = []
    for each in found:
        if isinstance(each, Point):
            try:
                folder = _free(each.folder / _filled(template, each), each.graph, taken) if template else each.folder
                if each.origin and _mark(folder) in taken:
                    words = "it would write into {}, as {} does; give each an out of its own, or name them by --name"
                    raise ValueError(worded(words, folder, taken[_mark(folder)]))
                taken[_mark(folder)] = each.origin
                each = replace(each, folder=folder)
            except ValueError as error:
                if not each.origin:
                    raise
                each = _told(each.origin, error)
        placed.append(each)
    return placed


def _by_values(found: Sequence[Found]) -> list[Found]:
    texts = [",".join(f"{k}={v}" for k, v in each.varied.items()) if isinstance(each, Point) else "" for each in found]
    names = [folder_name(text, most=100) for text in texts]  # such as `seed=3,steps=8`
    named = [
        replace(each, folder=each.folder / name) if isinstance(each, Point) and name else each
        for each, name in zip(found, names, strict=True)
    ]
    points = {index: each for index, each in enumerate(named) if isinstance(each, Point)}
    digests = {index: hashlib.sha256(json.dumps(each.varied).encode()).hexdigest() for index, each in points.items()}
    counts = Counter(mark for mark, _ in {(_mark(each.folder), digests[index]) for index, each in points.items()})
    for index, each in points.items():
        if each.varied and counts[_mark(each.folder)] > 1:
            named[index] = replace(each, folder=each.folder.with_name(f"{each.folder.name} {digests[index][:12]}"))
    return named


def _mark(folder: Path) -> str:
    return str(folder).casefold()  # all differ, also where case does not count


def _free(folder: Path, graph: Graph, taken: Mapping[str, str]) -> Path:
    """This one, or with the first number behind it that is neither taken nor that of another result."""
    number, free = 1, folder
    while _mark(free) in taken or holds_other(free, graph):
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def _filled(template: str, point: Point) -> str:
    """A template with its tokens' values, each of which is one part of a path at most."""
    tokens = {
        **{name: value for name, value in param_values(point.graph, {}).items() if value is not None},
        **point.overrides,
        **{"workflow": point.file.stem, "index": point.number, "date": datetime.now().astimezone().date().isoformat()},
    }
    text = ""
    try:
        for literal, token, spec, conversion in string.Formatter().parse(template):
            text += literal
            if token is None:
                continue
            if token not in tokens or conversion:
                raise ValueError(worded("there is no {}; {}", f"{{{token}}}", Names().offer(token, tokens)))
            text += folder_name(format(tokens[token], spec or ""), most=60)
    except (ValueError, TypeError) as error:
        raise ValueError(worded("--name {}: {}", template, error)) from None
    parts = [folder_name(part, most=100) for part in text.split("/")]
    if not all(parts):
        raise ValueError(
            worded("--name {} gives {}; write a name, such as {{workflow}}-{{index:04}}", template, short(text))
        )
    return "/".join(parts)


# ---- Shares: of a Slurm array or an indexed Job of Kubernetes each task makes its own.

Environment = Mapping[str, str]


def share(job: Headless, text: str, environment: Environment) -> Headless:
    """The points of one share, `I/N` with I from 0 on. Without a text that of the array's task that this process is: by
    Slurm's variables, or JOB_COMPLETION_INDEX and JOB_COMPLETIONS.

    Raises `ValueError` for what is no share.
    """
    if text:
        index, count, why = *_parts(text), "--shard"
    elif (found := _task(environment)) is not None:
        index, count, why = found
    else:
        return job
    num_runs = len(job.points) + len(job.refused)
    mine = range(index + 1, num_runs + 1, count)
    told = logger.info if text else logger.warning
    told("share %d of %d (%s): %d of %d runs are made here", index, count, why, len(mine), num_runs)
    return replace(
        job,
        points=[point for point in job.points if point.number in mine],
        refused={number: error for number, error in job.refused.items() if number in mine},
    )


def _parts(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if not match or int(match[1]) >= int(match[2]):
        raise ValueError(worded("--shard {} is no share; write I/N with I from 0 to N-1, such as 0/3", short(text)))
    return int(match[1]), int(match[2])


def _task(environment: Environment) -> tuple[int, int, str] | None:
    """Index, count and the variable that says so. https://slurm.schedmd.com/job_array.html,
    https://kubernetes.io/docs/concepts/workloads/controllers/job/ (which tells the index, and not of how many)."""
    try:
        if "SLURM_ARRAY_TASK_ID" in environment:
            number = {
                name: int(environment.get(f"SLURM_ARRAY_TASK_{name}", other))
                for name, other in {"ID": "", "COUNT": "1", "MIN": "0", "STEP": "1"}.items()
            }
            index, rest = divmod(number["ID"] - number["MIN"], number["STEP"])
            if rest or index >= number["COUNT"]:
                raise ValueError("its numbers have gaps")
            return index, number["COUNT"], "SLURM_ARRAY_TASK_ID"
        if "JOB_COMPLETION_INDEX" in environment:
            if "JOB_COMPLETIONS" not in environment:
                logger.warning("JOB_COMPLETION_INDEX is set and JOB_COMPLETIONS is not: all runs are made here")
                return None
            return int(environment["JOB_COMPLETION_INDEX"]), int(environment["JOB_COMPLETIONS"]), "JOB_COMPLETION_INDEX"
    except ValueError as error:
        raise ValueError(
            worded("the array's task cannot have a share of its own: {}; give --shard I/N", error)
        ) from None
    return None
