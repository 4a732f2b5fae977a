"""What a workflow requires besides us: packages, and modules of the owner's folder, by name and range of versions."""

import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping

from ...pipelines.doors import provided
from ..files.workspace import INSTALL, Host
from .graph import Graph
from .problems import Problem, short
from .spec import NodeSpec


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
