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
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput, code_of
from ...pipelines.models.regular_file import open_regular
from ..execution.manifest import holds_other
from ..execution.preflight import Foretold
from ..files.workspace import Workspace, folder_name
from ..graph.problems import GraphError, Names, parse_json, short
from ..graph.resolve import param_values
from .foretold import Point, Points
from .job import MAX_RUNS, OUT, Headless, read_points, split_set, told_of
from .workflow_files import read_workflow

logger = logging.getLogger("latentloom")

MAX_LIST_BYTES = 64 << 20
EXAMPLE = '{"workflow": "FILE", "params": {"seed": 7}, "sweep": ["steps=4,8"], "out": "FOLDER"}'
KINDS = {"workflow": str, "params": dict, "sweep": list, "out": str}


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

    Raises `GraphError` or `ValueError` for what is wrong with files, values or names; a line that is wrong is left out.
    """
    if bool(files) == (jobs is not None):
        what = "files and --jobs are both given" if files else "no workflow is named"
        raise BadInput("{}; give one or several files, or --jobs with a list of them", what)
    values, is_list = split_set(settings), jobs is not None or len(files) > 1
    reading, points, refused = cache(read_workflow), list[Point](), dict[int, BadInput]()  # each file is read once
    for origin, line in ((str(file), file) for file in files) if jobs is None else _lines(jobs):
        number = len(points) + len(refused) + 1
        try:
            row: dict[str, Any] = _row(line) if isinstance(line, bytes) else {"workflow": str(line)}
            file, folder, params = Path(row["workflow"]), out, row.get("params", {})
            if row.get("out"):
                Workspace(output_dir=out).output_path(row["out"], socket="out")  # raises where that is outside
                folder = out / row["out"]
            elif is_list and not name:
                folder = out / (folder_name(file.stem, most=100) or "run")
            asked = {"settings": {**values, **params}, "sweeps": [*sweeps, *map(str, row.get("sweep", ()))]}
            naming = () if row.get("out") else params
            found = read_points(file, reading(file), naming=naming, allowed=allowed, **asked)
        except ValueError as error:
            if not is_list:
                raise
            refused[number] = BadInput(f"{origin}: {error}", code=code_of(error))
            if jobs is None:
                raise refused[number] from error
        else:
            own: dict[str, Any] = {"origin": origin, "workflow": row["workflow"]} if is_list else {}
            points += [replace(point, folder=folder, number=number + k, **own) for k, point in enumerate(found)]
        if len(points) + len(refused) > MAX_RUNS:
            raise BadInput("the list asks for more than {} runs; make several of it", MAX_RUNS)
    if not points and not refused:
        raise BadInput("{} has no jobs; write one on each line, such as {}", jobs, EXAMPLE)
    return replace(as_job(points, out=out, name=name, is_sweep=jobs is not None), refused=refused)


def as_job(points: Sequence[Point], *, out: Path, name: str = "", is_sweep: bool = False) -> Headless:
    """These points in folders of their own."""
    is_sweep = is_sweep or len(points) > 1
    if not is_sweep:
        points = [replace(point, ready=cache(point.ready)) for point in points]
    if is_sweep or name or any(point.varied for point in points):
        points = in_folders(points, name)
    return Headless(points=points, out=out, is_sweep=is_sweep)


def check_file(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Points:
    """What is known of each point of a file's sweep before it runs; of a workflow that is wrong, what is wrong with it.

    Raises `ValueError` for what is no workflow at all.
    """
    try:
        job = read_jobs([file], None, settings=settings, sweeps=sweeps, allowed=allowed, out=OUT)
        return [(point.varied, told) for point, told in zip(job.points, told_of(job), strict=True)]
    except GraphError as error:
        return [({}, Foretold(problems=[*error.problems]))]


def _lines(file: Path) -> Iterator[tuple[str, bytes]]:
    """Those that are not empty, of a file or of the input (`-`), with their numbers in words. Raises `ValueError`."""
    try:
        with sys.stdin.buffer if str(file) == "-" else open_regular(file) as opened:
            text = opened.read(MAX_LIST_BYTES + 1)
    except OSError as error:
        raise BadInput("{} cannot be read: {}; give a file of jobs", file, error.strerror) from None
    if len(text) > MAX_LIST_BYTES:
        raise BadInput("{} is larger than {} bytes, the limit; make several of it", file, MAX_LIST_BYTES)
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", line


def _row(line: bytes) -> dict[str, Any]:
    row = parse_json(line)
    if not isinstance(row, dict) or "workflow" not in row:
        raise BadInput("{} names no workflow; write a job as {}", short(row), EXAMPLE)
    for key, value in row.items():
        if key not in KINDS:
            raise BadInput("a job has no {}; {}", short(key), Names().offer(key, KINDS))
        if not isinstance(value, KINDS[key]):
            raise BadInput("{} is {}; write a job as {}", key, short(value), EXAMPLE)
    return row


# ---- Folders: by the values that tell points apart, or by a template.


def in_folders(points: Sequence[Point], template: str) -> list[Point]:
    """Each point in a folder of its own inside of the present one: named by its values, such as `seed=3,steps=8`, or by
    a template such as `{workflow}-{seed}-{index:04}`. A name of the template that is given already, or whose folder
    holds another result, gets a number. Raises `ValueError` for what is no template, and for two jobs in one folder."""
    placed = [_filled(template, point) for point in points] if template else _by_values(points)
    taken: dict[str, str] = {}
    for index, point in enumerate(placed):
        mark, number = _mark(point.folder), 2
        while template and (mark in taken or holds_other(point.folder, point.graph)):
            point = replace(point, folder=placed[index].folder.with_name(f"{placed[index].folder.name}-{number}"))
            mark, number = _mark(point.folder), number + 1
        if point.origin and mark in taken:
            words = "{} would write into {}, as {} does; give each an out of its own, or name them by --name"
            raise BadInput(words, point.origin, point.folder, taken[mark])
        taken[mark], placed[index] = point.origin, point
    return placed


def _by_values(points: Sequence[Point]) -> list[Point]:
    names = [folder_name(",".join(f"{k}={v}" for k, v in point.varied.items()), most=100) for point in points]
    named = [replace(point, folder=point.folder / name) for point, name in zip(points, names, strict=True)]
    digests = [hashlib.sha256(json.dumps(point.varied).encode()).hexdigest()[:12] for point in points]
    counts = Counter(mark for mark, _ in {*zip((_mark(point.folder) for point in named), digests, strict=True)})
    return [
        replace(point, folder=point.folder.with_name(f"{point.folder.name} {digest}"))
        if point.varied and counts[_mark(point.folder)] > 1
        else point
        for point, digest in zip(named, digests, strict=True)
    ]


def _mark(folder: Path) -> str:
    return str(folder).casefold()  # all differ, also where case does not count


def _filled(template: str, point: Point) -> Point:
    """In the folder of a template with its tokens' values, each of which is one part of a path at most."""
    tokens = {
        **{name: value for name, value in param_values(point.graph, {}).items() if value is not None},
        **point.overrides,
        **{"workflow": point.file.stem, "index": point.number, "date": datetime.now().astimezone().date().isoformat()},
    }
    text = ""
    try:
        for literal, token, spec, conversion in string.Formatter().parse(template):
            if token is not None and (token not in tokens or conversion):
                raise BadInput("there is no {}; {}", f"{{{token}}}", Names().offer(token, tokens))
            text += literal + ("" if token is None else folder_name(format(tokens[token], spec or ""), most=60))
    except (ValueError, TypeError) as error:
        raise BadInput("--name {}: {}", template, error) from None
    parts = [folder_name(part, most=100) for part in text.split("/")]
    if not all(parts):
        words = "--name {} gives {}; write a name, such as {{workflow}}-{{index:04}}"
        raise BadInput(words, template, short(text))
    return replace(point, folder=point.folder.joinpath(*parts))


# ---- Shares: of a Slurm array or an indexed Job of Kubernetes each task makes its own.


def share(job: Headless, text: str, environment: Mapping[str, str]) -> Headless:
    """The points of one share, `I/N` with I from 0 on. Without a text that of the array's task that this process is, by
    Slurm's variables, or JOB_COMPLETION_INDEX and JOB_COMPLETIONS, which a pod must be given: Kubernetes tells the
    index only. https://slurm.schedmd.com/job_array.html https://kubernetes.io/docs/concepts/workloads/controllers/job/

    Raises `ValueError` for what is no share.
    """
    get, why = environment.get, "--shard"
    if not text and (task := get("SLURM_ARRAY_TASK_ID")):
        steps = (int(task) - int(get("SLURM_ARRAY_TASK_MIN", 0))) / int(get("SLURM_ARRAY_TASK_STEP", 1))
        text, why = f"{steps:g}/{get('SLURM_ARRAY_TASK_COUNT', 1)}", "SLURM_ARRAY_TASK_ID"
    elif not text and (index := get("JOB_COMPLETION_INDEX")):
        if "JOB_COMPLETIONS" not in environment:
            logger.warning("JOB_COMPLETION_INDEX is set and JOB_COMPLETIONS is not: all runs are made here")
            return job
        text, why = f"{index}/{get('JOB_COMPLETIONS')}", "JOB_COMPLETION_INDEX"
    elif not text:
        return job
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if not match or int(match[1]) >= int(match[2]):
        words = "{} gives {}, which is no share; write --shard I/N with I from 0 to N-1, such as 0/3"
        raise BadInput(words, why, short(text))
    num_runs = len(job.points) + len(job.refused)
    mine = range(int(match[1]) + 1, num_runs + 1, int(match[2]))
    told = logger.info if why == "--shard" else logger.warning
    told("share %s (%s): %d of %d runs are made here", text, why, len(mine), num_runs)
    return replace(
        job,
        is_sweep=True,
        points=[point for point in job.points if point.number in mine],
        refused={number: error for number, error in job.refused.items() if number in mine},
    )
