"""The checker: everything that is wrong with a workflow, found before anything runs and reported all at once.

Packages that it requires and that are not here are a part of that.
"""

import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ...parallel.wording import worded
from ...pipelines.doors import provided
from ..files.workspace import INSTALL, Host
from .graph import Graph, Link, ParamRef, in_order
from .problems import GraphError, Names, Problem, short
from .ready import UNDECIDED, Ready
from .resolve import param_socket, plain_value
from .scalars import PLAIN_TYPES, can_feed, fault
from .spec import InputSpec, NodeSpec

SHOWN_CYCLES = 10


def installed_version(package: str) -> str | None:
    """The version of an installed distribution, or of a module in the folder for nodes; None where there is none."""
    try:
        return _version(package)
    except importlib.metadata.PackageNotFoundError:
        pass
    if package == "latentloom":  # run from a checkout that is not installed
        from ... import __version__

        return __version__
    return provided().get(package)


@functools.lru_cache(maxsize=256)
def _version(package: str) -> str:
    """Kept, because its file is parsed each time; one that is not there may yet come."""
    return importlib.metadata.version(package)


def check(ready: Ready, require: Callable[[str], str | None] = installed_version) -> list[Problem]:
    """All problems of a workflow, but for those of nodes that are switched off. `require` tells a package's installed
    version."""
    names, plain = Names(), ready.graph
    folded = {problem.node for problem in ready.unfolding.problems}
    unknown = {problem.node for problem in ready.problems if problem.code in UNDECIDED}
    known = {name: spec for name, spec in ready.specs.items() if name not in unknown}
    found = [
        *unmet(plain, require, ready.host),
        *ready.unfolding.problems,
        *(problem for problem in ready.problems if problem.node in plain.nodes),
        *_params(plain),
        *_overrides(ready, names),
        *(problem for problem in _nodes(ready, known, names, require) if problem.node not in folded),
        *_outputs(plain, known, names),
        *_cycles(plain),
    ]
    return ready.unfolding.told(found)


def ensure(ready: Ready) -> None:
    """Raise `GraphError` with all problems, if there are any."""
    if problems := check(ready):
        raise GraphError(problems)


def _params(graph: Graph) -> Iterator[Problem]:
    for name, param in graph.params.items():
        if (value := param.default) is None:
            lacks = worded("param {} has no value; give it a default in the workflow, or a value when it is run", name)
            yield Problem("", name, "missing_param", lacks)
        elif found := fault(param_socket(name, param), value):
            yield Problem("", name, found[0], worded("param {}", found[1]))


def _overrides(ready: Ready, names: Names) -> Iterator[Problem]:
    graph = ready.file
    for target in ready.asked:
        node, dot, _ = target.partition(".")
        if not dot:
            if target not in graph.params:
                hint = names.offer(target, graph.params)
                message = worded("{} is no param of this workflow; {}; or write node.socket", short(target), hint)
                yield Problem("", target, "unknown_param", message)
        elif node not in graph.nodes:
            message = worded("there is no node {}; {}", short(node), names.offer(node, graph.nodes))
            yield Problem("", target, "unknown_node", message)


def _nodes(
    ready: Ready, known: Mapping[str, NodeSpec], names: Names, require: Callable[[str], str | None]
) -> Iterator[Problem]:
    graph = ready.graph
    for name, node in graph.nodes.items():
        spec = ready.types.get(node.type)
        if spec is None:
            kind, remedy = node.type, INSTALL[ready.host]
            if package := from_where(graph, kind, require):
                message = worded(
                    "node type {!r} is not installed; it comes from {}, which is not here: {}", kind, package, remedy
                )
            else:
                hint = names.offer(kind, ready.types)
                message = worded(
                    "node type {!r} is not installed; {}; correct it, or install the nodes it comes from", kind, hint
                )
            yield Problem(name, "", "unknown_type", message)
        elif node.version > spec.version:
            message = worded(
                "the file was saved with version {} of {}, version {} is installed; install a newer "
                "latentloom, or set the node up again",
                node.version,
                node.type,
                spec.version,
            )
            yield Problem(name, "", "node_too_new", message)
        elif node.version == spec.version and name in known:
            yield from _node(name, ready, known, names)


def _node(name: str, ready: Ready, known: Mapping[str, NodeSpec], names: Names) -> Iterator[Problem]:
    spec, graph, params = known[name], ready.graph, ready.params
    entries = graph.nodes[name].inputs
    num_known = 0
    for socket in spec.inputs:
        if socket.name not in entries:
            if socket.required:
                yield Problem(name, socket.name, "missing_input", _missing(socket))
            continue
        num_known += 1
        entry = entries[socket.name]
        if isinstance(entry, Link):
            found = _link_fault(socket, entry, graph, known, names)
        elif isinstance(entry, ParamRef):
            found = _param_fault(socket, entry, graph, params, names)
        else:
            found = fault(socket, plain_value(entry, params))
        if found:
            yield Problem(name, socket.name, *found)
    if num_known < len(entries) and spec.chooser is None:
        sockets = [socket.name for socket in spec.inputs]
        for socket_name in entries.keys() - sockets:
            hint = spec.left_out.get(socket_name) or names.offer(socket_name, sockets)
            message = worded(
                "{} has no input {}; {}; correct or remove it", spec.chosen or spec.id, short(socket_name), hint
            )
            yield Problem(name, socket_name, "unknown_input", message)


def _missing(socket: InputSpec) -> str:
    if socket.type in PLAIN_TYPES:
        return worded("{} is not given; it takes a {}; set it", socket.name, socket.type)
    return worded(
        '{} is not connected; wire a {} to it (in the file: {{"from": "node.socket"}})', socket.name, socket.type
    )


def _link_fault(
    socket: InputSpec, link: Link, graph: Graph, known: Mapping[str, NodeSpec], names: Names
) -> tuple[str, str] | None:
    source_name, _, output_name = link.source.partition(".")
    source = graph.nodes.get(source_name)
    if source is None:
        hint = names.offer(source_name, graph.nodes)
        return "unknown_node", worded(
            "{} comes from {}, but there is no node {}; {}", socket.name, link.source, source_name, hint
        )
    if (spec := known.get(source_name)) is None:
        return None  # reported at the source
    output = spec.output(output_name)
    if output is None:
        hint = names.offer(output_name, [o.name for o in spec.outputs])
        return "unknown_output", worded(
            "{} comes from {}, but {} has no such output; {}", socket.name, link.source, source.type, hint
        )
    if not can_feed(output.type, socket.type):
        name, gives, takes = socket.name, output.type, socket.type
        message = worded("{} comes from {}, a {}; it takes a {}; link one of those", name, link.source, gives, takes)
        return "type_mismatch", message
    return None


def _param_fault(
    socket: InputSpec, ref: ParamRef, graph: Graph, params: Mapping[str, Any], names: Names
) -> tuple[str, str] | None:
    param = graph.params.get(ref.param)
    if param is None:
        hint = names.offer(ref.param, graph.params)
        return "unknown_param", worded(
            "{} is set by the param {}, which the workflow lacks; {}", socket.name, ref.param, hint
        )
    if not can_feed(param.type, socket.type) and (param.type, socket.type) != ("string", "choice"):
        name, takes = socket.name, socket.type
        message = worded(
            "{} takes a {}, but param {} is a {}; change the param's type", name, takes, ref.param, param.type
        )
        return "param_type", message
    value = params[ref.param]
    if value is None or fault(param_socket(ref.param, param), value):
        return None  # reported at the param
    return fault(socket, value)


def _outputs(graph: Graph, known: Mapping[str, NodeSpec], names: Names) -> Iterator[Problem]:
    for name, link in graph.outputs.items():
        node = graph.nodes.get(link.node)
        if node is None:
            message = worded(
                "output {} is {}, but there is no such node; {}", name, link.source, names.offer(link.node, graph.nodes)
            )
            yield Problem("", name, "unknown_node", message)
        elif (spec := known.get(link.node)) and spec.output(link.socket) is None:
            hint = names.offer(link.socket, [o.name for o in spec.outputs])
            message = worded("output {} is {}, but {} has no such output; {}", name, link.source, node.type, hint)
            yield Problem("", name, "unknown_output", message)


def _cycles(graph: Graph) -> Iterator[Problem]:
    sources = {
        name: {entry.node for entry in node.inputs.values() if isinstance(entry, Link) and entry.node in graph.nodes}
        for name, node in graph.nodes.items()
    }
    if len(in_order(sources)) == len(sources):
        return
    for _ in range(SHOWN_CYCLES):
        try:
            TopologicalSorter(sources).prepare()
            return
        except CycleError as error:
            cycle: list[str] = error.args[1]
        way = " -> ".join(cycle if len(cycle) <= 12 else [*cycle[:10], "...", cycle[-1]])
        yield Problem(cycle[0], "", "cycle", worded("it needs its own result ({}); remove one of these links", way))
        sources[cycle[1]].discard(cycle[0])


# ---- What a workflow requires besides us: packages, and modules of the owner's folder, by name and range of versions.


def with_requires(graph: Graph, specs: Mapping[str, NodeSpec]) -> Graph:
    """The workflow that also says which packages its nodes from outside come from, unless it does already."""
    nodes = [*graph.nodes.values(), *(node for sub in graph.subs.values() for node in sub.nodes.values())]
    origins = (specs[node.type].origin for node in nodes if node.type in specs)
    sources = dict(origin.split(" ", 1) for origin in origins if origin)
    lacking = {
        source: "" if version.startswith("sha256:") else f">={version.partition('+')[0]}"
        for source, version in sorted(sources.items())
        if source not in graph.requires
    }
    return graph.model_copy(update={"requires": {**graph.requires, **lacking}}) if lacking else graph


def unmet(graph: Graph, require: Callable[[str], str | None], host: Host) -> Iterator[Problem]:
    """One problem for each package that is not here, or in another version."""
    for package, wanted in graph.requires.items():
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        have = require(package)
        try:
            if have is not None and SpecifierSet(wanted).contains(have, prereleases=True):
                continue
            got = f"{have} is installed; install that version" if have else f"none is installed; {INSTALL[host]}"
            message = f"{f'the workflow needs {package} {wanted}'.rstrip()}, and {got}"
        except (InvalidSpecifier, ValueError):
            message = f"requires says {short(wanted)} of {package}; write a range of versions such as >=0.1,<1"
        yield Problem("", package, "requires_unmet", message)


def from_where(graph: Graph, kind: str, require: Callable[[str], str | None]) -> str:
    """The required package that is not here and that a type of nodes comes from, by its name; "" where none does."""
    missing = (package for package in graph.requires if require(package) is None)
    return next((each for each in missing if kind.startswith(f"{each.replace('-', '_')}_")), "")
