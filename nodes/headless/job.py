"""What is asked of a headless run: a workflow with values, the points of a sweep, and what is known of them before."""

import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.values import Place
from ..execution.preflight import Foretold
from ..files.picture_files import MAX_PIXELS
from ..files.workspace import Workspace
from ..graph.graph import Graph, ParamRef
from ..graph.problems import Names, short
from ..graph.ready import NO_FIT, ready
from ..graph.resolve import baked, param_socket
from ..graph.scalars import LISTS, PLAIN_TYPES, fault
from ..graph.spec import InputSpec, NodeSpec, Specs
from ..graph.unfolding.subs import with_subs
from ..registry import SPECS
from .foretold import Point, foretold
from .workflow_files import roots_of

OUT = Path("output")


@dataclass(frozen=True, kw_only=True)
class Headless:
    """How points are run, each in a folder of its own in `out`."""

    points: Sequence[Point]
    out: Path
    # Of a list of jobs, by their numbers: those that ask for nothing that can be run, and why.
    refused: Mapping[int, BadInput] = field(default_factory=dict[int, BadInput])
    is_sweep: bool = False  # whether it has several points, or is a list or a part of one
    cache_dir: Path | None = None
    resume: bool = False
    place: Place = field(default_factory=Place)
    shares_out: bool = False  # whether the number of groups is chosen, as lets the sweep end soonest
    max_pixels: int = MAX_PIXELS
    command: tuple[str, ...] | None = None  # that asks for it, for the manifest; None where none does
    overwrites: bool = False  # whether files of other runs give way to those of the same name
    is_forced: bool = False  # whether what is only reckoned (memory, disk) keeps nothing from running
    # Of a run that the page made: whether it shows what it saves nowhere, and the nodes that it was asked for, if any.
    shows: bool = False
    targets: Collection[str] | None = None


def read_points(
    file: Path,
    graph: Graph,
    *,
    settings: Mapping[str, Any],
    sweeps: Sequence[str],
    allowed: Sequence[Path],
    naming: Collection[str] = (),
) -> list[Point]:
    """A file's workflow with these values and for each point of its sweeps; all in the present folder's `output`, and
    one by number. Those of `settings` whose names are among `naming` tell points
    apart as swept ones do.

    Raises `GraphError` or `ValueError` for what is wrong with any of them.
    """
    workspace = Workspace(roots=roots_of(file, settings.values(), allowed), host="command line")
    overrides = typed_values(graph, SPECS, settings, workspace=workspace) if settings else {}
    sweep = parse_sweep(graph, SPECS, sweeps, given=overrides, workspace=workspace) if sweeps else [{}]
    check_apart(graph, overrides, sweep)
    named = [*overrides.values(), *(value for varied in sweep for value in varied.values())]
    own = {name: value for name, value in overrides.items() if name in naming}
    points = [{**own, **varied} for varied in sweep]
    return points_of(graph, overrides, points, file=file, roots=roots_of(file, named, allowed))


def points_of(
    graph: Graph,
    overrides: Mapping[str, Any],
    sweep: Sequence[Mapping[str, Any]],
    *,
    file: Path,
    roots: tuple[Path, ...],
    out: Path = OUT,
) -> list[Point]:
    """`sweep` is one dict of values for each run, on top of `overrides`. All are in `out`; see `in_folders`."""
    reading = Workspace(roots=roots, host="command line")
    points: list[Point] = []
    for varied in sweep:
        values = {**overrides, **varied}
        own = baked(graph, values)
        told: dict[str, Any] = {"overrides": values, "varied": varied, "file": file, "roots": roots}
        points.append(Point(graph=own, folder=out, ready=partial(ready, own, SPECS, workspace=reading), **told))
    return points


def told_of(job: Headless, *, is_complete: Callable[[Point], bool] = lambda point: False) -> list[Foretold]:
    """What is known of each point; those that are complete need no room."""
    workspace = Workspace(output_dir=job.out, place=job.place, max_pixels=job.max_pixels, host="command line")
    return foretold(job.points, SPECS, workspace=workspace, targets=job.targets, is_there=is_complete)


# ---- Values from the command line: `NAME=VALUE` for one run; `NAME=1..4`, `1..9:2`, `0.5..2.0:0.25` or `a,b,c` for a
# run each.

MAX_RUNS = 10_000
_NUMBER = r"-?\d{1,20}(?:\.\d{1,20})?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::({_NUMBER}))?")
_SPAN = re.compile(r"(\d{1,20})-(\d{1,20})(?::(\d{1,20}))?")  # of schedulers; a sign would make two of one text
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
# What makes a value of a text, by the type of the socket; all others take texts.
_READERS: Mapping[str, Callable[[str], Any]] = {
    **{"int": int, "float": float, "bool": lambda text: _BOOLS.get(text.strip().lower(), text)},
    **dict.fromkeys(LISTS, json.loads),
}


def split_set(texts: Sequence[str]) -> dict[str, str]:
    """The texts of values by their names, which nobody has looked at yet."""
    values: dict[str, str] = {}
    for text in texts:
        name, value = _split(text, "--set", f"{short(text)[1:-1]}=VALUE")
        if name in values:
            raise ValueError(f"--set {name} is given twice; give it once, or use --sweep {name}=a,b")
        values[name] = value
    return values


def typed_values(graph: Graph, specs: Specs, values: Mapping[str, Any], *, workspace: Workspace) -> dict[str, Any]:
    """Overrides from values by the same names, each a param or node.socket, typed by the workflow; a text is read as
    the command line reads it where none belongs. A node may get its sockets by another of these values, or by a file in
    the `workspace`."""
    own = {name: socket for name in values if (socket := _socket(graph, specs, name)) is not None}
    overrides = {name: _typed(socket, name, values[name]) for name, socket in own.items()}
    for name in values.keys() - own.keys():
        overrides[name] = _typed(_chosen_socket(graph, specs, name, overrides, workspace), name, values[name])
    return {name: overrides[name] for name in values}


def parse_sweep(
    graph: Graph, specs: Specs, texts: Sequence[str], *, given: Mapping[str, Any], workspace: Workspace
) -> list[dict[str, Any]]:
    """The overrides of each run: every combination of the swept values, the last name changing fastest.

    One empty dict without any sweep. Values with commas are written as a JSON list: `prompt=["a, b", "c"]`. `given` is
    what `typed_values` gave.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, value = _split(text, "--sweep", f"{short(text)[1:-1]}=1..4")
        if name in axes:
            raise BadInput("--sweep {} is given twice; put all its values into one", name)
        socket = _socket(graph, specs, name) or _chosen_socket(graph, specs, name, given, workspace)
        axes[name] = _values(socket, name, value)
    if (num_runs := math.prod(map(len, axes.values()))) > MAX_RUNS:
        raise BadInput("--sweep asks for {} runs; at most {} are made; sweep fewer values", num_runs, MAX_RUNS)
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def check_apart(graph: Graph, overrides: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a name that is both set and swept, and a param given beside values that replace it wherever it is used."""
    if both := [name for name in sweep[0] if name in overrides]:
        raise BadInput("--set {} and --sweep {} give the same value; leave one of them out", both[0], both[0])
    given = {**dict.fromkeys(sweep[0], "--sweep"), **dict.fromkeys(overrides, "--set")}
    for name in given.keys() & graph.params.keys():
        used = used_at(graph, name)
        if used and given.keys() >= set(used):
            raise BadInput(
                "{} {} changes nothing, because {} {} takes its place; leave one of them out",
                given[name],
                name,
                given[used[0]],
                used[0],
            )


def used_at(graph: Graph, param: str) -> list[str]:
    """The sockets that a param is the value of, each as `node.socket`."""
    return [
        f"{name}.{socket}"
        for name, node in graph.nodes.items()
        for socket, entry in (*node.inputs.items(), *node.each.items())
        if isinstance(entry, ParamRef) and entry.param == param
    ]


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
            raise BadInput("{} is no param of this workflow; {}; or write node.socket", short(name), hint)
        return param_socket(name, param)
    if (node := graph.nodes.get(node_name)) is None:
        hint = Names().offer(node_name, graph.nodes)
        raise ValueError(f"there is no node {short(node_name)} in this workflow; {hint}")
    if (spec := with_subs(graph, specs).get(node.type)) is None:
        raise ValueError(f"node type {node.type!r} is not installed; {Names().offer(node.type, specs)}")
    if spec.input(socket_name) is None and spec.chooser is not None:
        return None
    return _plain_socket(spec, name)


def _chosen_socket(graph: Graph, specs: Specs, name: str, given: Mapping[str, Any], workspace: Workspace) -> InputSpec:
    """Of a node that gets its sockets by values. It is looked at by itself: a list that a for-each goes through may be
    one of the values that are still to be read."""
    node_name = name.partition(".")[0]
    alone = {node_name: graph.nodes[node_name].model_copy(update={"each": {}})}
    found = ready(graph.model_copy(update={"nodes": alone, "outputs": {}}), specs, given, workspace=workspace)
    if problem := next((each for each in found.problems if each.code != NO_FIT), None):
        raise BadInput("{}: {}", name, problem.message)
    return _plain_socket(found.specs[node_name], name)


def _plain_socket(spec: NodeSpec, name: str) -> InputSpec:
    node_name, _, socket_name = name.partition(".")
    socket = spec.input(socket_name)
    if socket is not None and socket.type not in PLAIN_TYPES:
        raise BadInput("{} takes no value but a {}, which another node makes; link it in the file", name, socket.type)
    if socket is None:
        scalars = [s.name for s in spec.inputs if s.type in PLAIN_TYPES]
        hint = Names().offer(socket_name, scalars)
        raise BadInput("{} has no input {} that takes a value; {}", node_name, short(socket_name), hint)
    return socket


def _values(socket: InputSpec, name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise BadInput('--sweep {}={} is no JSON list; write {}=["a, b", "c"]', name, short(text), name) from None
        if not values:
            raise BadInput("--sweep {} has no values; list at least one", name)
        return [_checked(socket, name, value) for value in values]
    if socket.type not in ("int", "float"):
        return [_typed(socket, name, part) for part in text.split(",")]
    found: list[Any] = []
    for part in text.split(","):
        if match := _RANGE.fullmatch(part.strip()) or _SPAN.fullmatch(part.strip()):
            found += [_checked(socket, name, value) for value in _range(name, part.strip(), *match.groups())]
        elif ".." in part:
            raise BadInput("--sweep {}={} is no range; write one as 1..4, 1..9:2 or 0.5..2.0:0.25", name, part)
        else:
            found.append(_typed(socket, name, part))
    return found


def _range(name: str, text: str, first: str, last: str, step: str | None) -> list[int | float]:
    """From the first on, step by step, up to the last: each is the number nearest to its exact decimals."""
    begin, end, by = Decimal(first), Decimal(last), Decimal(step or 1)
    if step is None and "." in first + last:
        raise BadInput("--sweep {}={} has no step; write one behind it, as 0.5..2.0:0.25", name, text)
    if by <= 0:
        raise BadInput("--sweep {}={} has the step {}; give one above 0", name, text, step)
    if begin > end:
        tail = f":{step}" if step else ""
        raise BadInput("--sweep {}={} ends before it begins; write {}={}..{}", name, text, name, last, first + tail)
    if (count := int((end - begin) / by) + 1) > MAX_RUNS:
        raise BadInput("--sweep {}={} has {} values; at most {} are taken", name, text, count, MAX_RUNS)
    kind = float if "." in f"{first}{last}{step}" else int
    return [kind(begin + by * index) for index in range(count)]


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
