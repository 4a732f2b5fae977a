"""A workflow with its values and its sweep as a template of the Open Job Description, which render farms run.

https://github.com/OpenJobDescription/openjd-specifications/wiki (2023-09, RFC 0001 for chunks). Params are parameters
of the job, what is swept are those of its tasks; a task is one run, or several in one process.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput
from ..graph.graph import Param
from ..graph.problems import short
from .job import read_points, split_set, used_at
from .workflow_files import read_workflow

CANCEL_S = 120  # from the signal, at which a run ends with its step, until the process is ended
NUMBERS = {"int": "INT", "float": "FLOAT"}


def template(
    file: Path, *, settings: Sequence[str], sweeps: Sequence[str], chunk: int, out: Path, more: Sequence[str] = ()
) -> dict[str, Any]:
    """As plain data. A task has `chunk` values of the whole number that has most of them; `more` are options of `run`.
    Raises `GraphError` or `ValueError`."""
    if braces := next((text for text in (*settings, *sweeps, *more) if "{{" in text), None):
        raise BadInput("{} has {{{{, which means a parameter in a template; leave it out", short(braces))
    graph = read_workflow(file)
    points = read_points(file, graph, settings=split_set(settings), sweeps=sweeps, allowed=())
    swept = {
        name: [*{json.dumps(p.varied[name]): p.varied[name] for p in points}.values()] for name in points[0].varied
    }
    tasks = {name: _task(name, values) for name, values in swept.items()}
    whole = [name for name, task in tasks.items() if task["type"] == "INT" and min(swept[name]) >= 0]
    if chunk > 1 and not whole:
        raise BadInput("--chunk {} has nothing to group; sweep whole numbers, as --sweep seed=1..4", chunk)
    if chunk > 1:
        chunks = {"defaultTaskCount": chunk, "rangeConstraint": "NONCONTIGUOUS"}
        tasks[max(whole, key=lambda name: len(swept[name]))] |= {"type": "CHUNK[INT]", "chunks": chunks}
    given, own = points[0].overrides, graph.params.items()
    params = {n: p for n, p in own if n not in swept and not given.keys() >= {*(used_at(graph, n) or [""])}}
    run = ["run", "{{Param.Workflow}}", "--out", "{{Param.Out}}", "--resume", "--openjd", *more]
    run += [part for n in params for part in ("--set", f"{n}={{{{Param.{n}}}}}")]
    run += [part for text in settings if text.partition("=")[0].strip() not in params for part in ("--set", text)]
    run += [part for n, task in tasks.items() for part in ("--sweep", f"{n}={{{{Task.Param.{task['name']}}}}}")]
    cancel = {"mode": "NOTIFY_THEN_TERMINATE", "notifyPeriodInSeconds": CANCEL_S}
    step: dict[str, Any] = {"name": "Run"}
    if tasks:
        step["parameterSpace"] = {"taskParameterDefinitions": [*tasks.values()]}
    step["script"] = {"actions": {"onRun": {"command": "latentloom", "args": run, "cancelation": cancel}}}
    return {
        "specificationVersion": "jobtemplate-2023-09",
        **({"extensions": ["TASK_CHUNKING"]} if chunk > 1 else {}),
        "name": graph.name or file.stem,
        "parameterDefinitions": [
            _path("Workflow", file, objectType="FILE", dataFlow="IN"),
            _path("Out", out, objectType="DIRECTORY", dataFlow="OUT"),
            *(_parameter(name, param, given.get(name, param.default)) for name, param in params.items()),
        ],
        "steps": [step],
    }


def _path(name: str, path: Path, **of_path: str) -> dict[str, Any]:
    """A default is beside the template; a path from the root is the same on each machine, and only a text to a farm."""
    kind = {"type": "STRING"} if path.is_absolute() else {"type": "PATH", **of_path}
    return {"name": name, **kind, "default": str(path)}


def _parameter(name: str, param: Param, value: Any) -> dict[str, Any]:
    choices = ["true", "false"] if param.type == "bool" else [*map(str, param.choices)]
    told = {"description": param.help, "allowedValues": choices, "minValue": param.min, "maxValue": param.max}
    text = value if isinstance(value, int | float | str) and not isinstance(value, bool) else json.dumps(value)
    found = {"name": name, "type": NUMBERS.get(param.type, "STRING"), **({} if value is None else {"default": text})}
    return found | {key: told for key, told in told.items() if told not in (None, "", [])}


def _task(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """The values of a name that is swept; texts are such that `--sweep` takes each as one value."""
    told: dict[str, Any] = {"name": name.replace(".", "_")}
    kinds = {type(value) for value in values}
    if kinds == {int}:
        is_row = len(values) > 1 and values == [*range(values[0], values[-1] + 1)] and values[0] >= 0
        return told | {"type": "INT", "range": f"{values[0]}-{values[-1]}" if is_row else [*values]}
    if kinds <= {int, float}:
        return told | {"type": "FLOAT", "range": [*values]}
    texts = [
        value if isinstance(value, str) and "," not in value and value[:1] != "[" else json.dumps([value])
        for value in values
    ]
    return told | {"type": "STRING", "range": texts}
