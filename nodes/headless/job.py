"""What is asked of a headless run: a workflow with values, the points of a sweep, and what is known of them before."""

import contextlib
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...parallel.wording import worded
from ...pipelines.values import Place
from ..execution.preflight import Foretold
from ..files.picture_files import MAX_PIXELS
from ..files.workspace import Workspace, folder_name
from ..graph.graph import Graph, ParamRef
from ..graph.problems import GraphError, Names, short
from ..graph.ready import NO_FIT, ready
from ..graph.resolve import baked, param_socket
from ..graph.scalars import LISTS, PLAIN_TYPES, fault
from ..graph.spec import InputSpec, NodeSpec, Specs
from ..graph.unfolding.subs import with_subs
from ..registry import SPECS
from .foretold import Point, Points, foretold
from .workflow_files import read_workflow, roots_of, workspace_of


@dataclass(frozen=True, kw_only=True)
class Headless:
    """How a file is run. `sweep` is one dict of overrides per run, on top of `overrides`."""

    graph: Graph
    overrides: Mapping[str, Any]
    sweep: Sequence[Mapping[str, Any]]
    out: Path
    roots: tuple[Path, ...]
    cache_dir: Path | None = None
    resume: bool = False
    place: Place = field(default_factory=Place)
    shares_out: bool = False  # whether the number of groups is chosen, as lets the sweep end soonest
    max_pixels: int = MAX_PIXELS
    command: tuple[str, ...] | None = None  # that asks for it, for the manifest; None where none does
    is_forced: bool = False  # whether what is only reckoned (memory, disk) keeps nothing from running


def read_job(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Headless:
    """The workflow of a file with what `--set` and `--sweep` say of it, to be run in the present folder's `output`.

    Raises `GraphError` or `ValueError` for what is wrong with any of them.
    """
    graph, workspace = read_workflow(file), workspace_of(file, settings, allowed)
    overrides = parse_set(graph, SPECS, settings, workspace=workspace)
    sweep = parse_sweep(graph, SPECS, sweeps, given=overrides, workspace=workspace)
    check_apart(graph, overrides, sweep)
    named = [*overrides.values(), *(value for varied in sweep for value in varied.values())]
    roots = roots_of(file, named, allowed)
    return Headless(graph=graph, overrides=overrides, sweep=sweep, out=workspace.output_dir, roots=roots)


def check_file(file: Path, *, settings: Sequence[str], sweeps: Sequence[str], allowed: Sequence[Path]) -> Points:
    """What is known of each point of a file's sweep before it runs; of a workflow that is wrong, what is wrong with it.

    Raises `ValueError` for what is no workflow at all.
    """
    try:
        job = read_job(file, settings=settings, sweeps=sweeps, allowed=allowed)
        return list(zip(job.sweep, told_of(job, points_of(job)), strict=True))
    except GraphError as error:
        return [({}, Foretold(problems=[*error.problems]))]


def told_of(
    job: Headless, points: Sequence[Point], *, is_complete: Callable[[Point], bool] = lambda point: False
) -> list[Foretold]:
    """What is known of these; those that are complete need no room."""
    workspace = Workspace(
        output_dir=job.out, roots=job.roots, place=job.place, max_pixels=job.max_pixels, host="command line"
    )
    return foretold(points, SPECS, workspace=workspace, is_there=is_complete)


def points_of(job: Headless) -> list[Point]:
    reading = Workspace(roots=job.roots, host="command line")
    texts = [",".join(f"{name}={value}" for name, value in varied.items()) for varied in job.sweep]
    names = [folder_name(text, most=100) for text in texts]  # such as `seed=3,steps=8`
    counts = Counter(name.casefold() for name in names)
    points: list[Point] = []
    for number, (name, varied) in enumerate(zip(names, job.sweep, strict=True), 1):
        if counts[name.casefold()] > 1:  # all differ, also where case does not count
            name += f" {hashlib.sha256(json.dumps(varied).encode()).hexdigest()[:12]}"
        overrides = {**job.overrides, **varied}
        graph, folder = baked(job.graph, overrides), job.out / name if name else job.out
        prepare = partial(ready, graph, SPECS, workspace=reading)
        of_sweep = {"is_alone": len(job.sweep) == 1, "number": number}
        points.append(Point(overrides=overrides, graph=graph, folder=folder, prepare=prepare, **of_sweep))
    return points


# ---- Values from the command line: `NAME=VALUE` for one run, `NAME=1..4` or `NAME=a,b,c` for a run each.

MAX_RUNS = 10_000
_RANGE = re.compile(r"(-?\d{1,20})\.\.(-?\d{1,20})")
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# What makes a value of a text, by the type of the socket; all others take texts.
_READERS: Mapping[str, Callable[[str], Any]] = {
    **{"int": int, "float": float, "bool": lambda text: _BOOLS.get(text.strip().lower(), text)},
    **dict.fromkeys(LISTS, json.loads),
}


def parse_set(
    graph: Graph, specs: Specs, texts: Sequence[str], *, workspace: Workspace | None = None
) -> dict[str, Any]:
    """Overrides from `NAME=VALUE` texts, typed by the workflow. NAME is a param, or node.socket.

    A node may get its sockets by another of these values, or by a file in the `workspace`.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, value = _split(text, "--set", f"{short(text)[1:-1]}=VALUE")
        if name in values:
            raise ValueError(f"--set {name} is given twice; give it once, or use --sweep {name}=a,b")
        values[name] = value
    return typed_values(graph, specs, values, workspace=workspace) if values else {}


def typed_values(
    graph: Graph, specs: Specs, values: Mapping[str, Any], *, workspace: Workspace | None = None
) -> dict[str, Any]:
    """Overrides from values by the same names; a text is read as the command line reads it where none belongs."""
    own = {name: socket for name in values if (socket := _socket(graph, specs, name)) is not None}
    overrides = {name: _typed(socket, name, values[name]) for name, socket in own.items()}
    for name in values.keys() - own.keys():
        overrides[name] = _typed(_chosen_socket(graph, specs, name, overrides, workspace), name, values[name])
    return {name: overrides[name] for name in values}


def parse_sweep(
    graph: Graph,
    specs: Specs,
    texts: Sequence[str],
    *,
    given: Mapping[str, Any] | None = None,
    workspace: Workspace | None = None,
) -> list[dict[str, Any]]:
    """The overrides of each run: every combination of the swept values, the last name changing fastest.

    One empty dict without any sweep. Values with commas are written as a JSON list: `prompt=["a, b", "c"]`. `given` is
    what `parse_set` gave.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, value = _split(text, "--sweep", f"{short(text)[1:-1]}=1..4")
        if name in axes:
            raise ValueError(worded("--sweep {} is given twice; put all its values into one", name))
        socket = _socket(graph, specs, name) or _chosen_socket(graph, specs, name, given or {}, workspace)
        axes[name] = _values(socket, name, value)
    if (num_runs := math.prod(map(len, axes.values()))) > MAX_RUNS:
        raise ValueError(
            worded("--sweep asks for {} runs; at most {} are made; sweep fewer values", num_runs, MAX_RUNS)
        )
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def check_apart(graph: Graph, overrides: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a name that is both set and swept, and a param given beside values that replace it wherever it is used."""
    if both := [name for name in sweep[0] if name in overrides]:
        raise ValueError(worded("--set {} and --sweep {} give the same value; leave one of them out", both[0], both[0]))
    given = {**dict.fromkeys(sweep[0], "--sweep"), **dict.fromkeys(overrides, "--set")}
    for name in given.keys() & graph.params.keys():
        used = [
            f"{node_name}.{socket}"
            for node_name, node in graph.nodes.items()
            for socket, entry in (*node.inputs.items(), *node.each.items())
            if isinstance(entry, ParamRef) and entry.param == name
        ]
        if used and given.keys() >= set(used):
            raise ValueError(
                worded(
                    "{} {} changes nothing, because {} {} takes its place; leave one of them out",
                    given[name],
                    name,
                    given[used[0]],
                    used[0],
                )
            )


def _split(text: str, flag: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{flag} {short(text)} names no value; write {flag} {example}")
    return name.strip(), value


def _socket(graph: Graph, specs: Specs, name: str) -> InputSpec | None:
    """None for what may be a socket of a node that gets its sockets by its values."""
    node_name, dot, socket_name = name.partition(".")
    if not dot:
        if (param := graph.params.get(name)) is None:
            hint = Names().offer(name, graph.params)
            raise ValueError(worded("{} is no param of this workflow; {}; or write node.socket", short(name), hint))
        return param_socket(name, param)
    if (node := graph.nodes.get(node_name)) is None:
        hint = Names().offer(node_name, graph.nodes)
        raise ValueError(f"there is no node {short(node_name)} in this workflow; {hint}")
    if (spec := with_subs(graph, specs).get(node.type)) is None:
        raise ValueError(f"node type {node.type!r} is not installed; {Names().offer(node.type, specs)}")
    if spec.input(socket_name) is None and spec.chooser is not None:
        return None
    return _plain_socket(spec, name)


def _chosen_socket(
    graph: Graph, specs: Specs, name: str, given: Mapping[str, Any], workspace: Workspace | None
) -> InputSpec:
    """Of a node that gets its sockets by values. It is looked at by itself: a list that a for-each goes through may be
    one of the values that are still to be read."""
    node_name = name.partition(".")[0]
    alone = {node_name: graph.nodes[node_name].model_copy(update={"each": {}})}
    found = ready(graph.model_copy(update={"nodes": alone, "outputs": {}}), specs, given, workspace=workspace)
    if problem := next((each for each in found.problems if each.code != NO_FIT), None):
        raise ValueError(worded("{}: {}", name, problem.message))
    return _plain_socket(found.specs[node_name], name)


def _plain_socket(spec: NodeSpec, name: str) -> InputSpec:
    node_name, _, socket_name = name.partition(".")
    socket = spec.input(socket_name)
    if socket is not None and socket.type not in PLAIN_TYPES:
        raise ValueError(
            worded("{} takes no value but a {}, which another node makes; link it in the file", name, socket.type)
        )
    if socket is None:
        scalars = [s.name for s in spec.inputs if s.type in PLAIN_TYPES]
        hint = Names().offer(socket_name, scalars)
        raise ValueError(worded("{} has no input {} that takes a value; {}", node_name, short(socket_name), hint))
    return socket


def _values(socket: InputSpec, name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(
                worded('--sweep {}={} is no JSON list; write {}=["a, b", "c"]', name, short(text), name)
            ) from None
        if not values:
            raise ValueError(worded("--sweep {} has no values; list at least one", name))
        return [_checked(socket, name, value) for value in values]
    if (match := _RANGE.fullmatch(text.strip())) and socket.type in ("int", "float"):
        first, last = int(match[1]), int(match[2])
        if first > last:
            raise ValueError(
                worded("--sweep {}={} ends before it begins; write {}={}..{}", name, text, name, last, first)
            )
        if last - first >= MAX_RUNS:
            raise ValueError(
                worded("--sweep {}={} has {} values; at most {} are taken", name, text, last - first + 1, MAX_RUNS)
            )
        return [_checked(socket, name, value) for value in range(first, last + 1)]
    if ".." in text and socket.type in ("int", "float"):
        raise ValueError(
            worded("--sweep {}={}: only whole numbers have ranges, as 1..4; list others, as 1.0,1.5,2.0", name, text)
        )
    return [_typed(socket, name, part) for part in text.split(",")]


def _typed(socket: InputSpec, name: str, value: Any) -> Any:
    """The value that a text means at a socket; any other is as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):  # `fault` says what would be right
            value = _READERS.get(socket.type, str)(value)
    return _checked(socket, name, value)


def _checked(socket: InputSpec, name: str, value: Any) -> Any:
    if found := fault(socket, value):
        raise ValueError(worded("{}: {}", name, found[1]) if "." in name else found[1])
    return value
