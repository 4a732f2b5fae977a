"""The workflows that come with the page: ready ones to start from, small ones for each node, and their pictures."""

from functools import cache
from pathlib import Path

from ...nodes.graph.graph import graph_to_plain, read_graph
from ...nodes.headless.workflow_files import EXAMPLES, NODE_EXAMPLES, shipped_files
from ..contract.kept import Template

MEDIA_TYPES = {".png": "image/png", ".flac": "audio/flac"}


@cache
def templates() -> list[Template]:
    """Each that this version can open, the first to try at the top."""
    return [_read(path) for path in sorted(shipped_files(), key=lambda path: (path.stem != "first_picture", path.stem))]


@cache
def shipped_media() -> dict[str, Path]:
    """By name the pictures, and the sound, that templates load, or that show what one of them makes."""
    return {path.name: path for path in sorted(EXAMPLES.iterdir()) if path.suffix in MEDIA_TYPES}


def example_of(type: str) -> tuple[Template, str] | None:
    """The workflow that shows a node best, and the node in it; None for one from outside."""
    # ready ones of the built-in model, which run everywhere, then those that are there for this node, then the others
    built_in = {path.stem for path in EXAMPLES.glob("*.json")}
    ready = [each for each in templates() if each.id in built_in]
    for group in (ready, _examples(), templates()):
        if fitting := [each for each in group if _named(each, type)]:
            best = min(fitting, key=lambda each: (each.id != "first_picture", len(each.graph["nodes"])))
            return best, _named(best, type)
    return None


def templates_with(type: str) -> list[str]:
    """The ids of the ready workflows that have such a node."""
    return [each.id for each in templates() if _named(each, type)]


@cache
def _examples() -> list[Template]:
    return [_read(path) for path in sorted(NODE_EXAMPLES.glob("*.json"))]


def _read(path: Path) -> Template:
    graph = read_graph(path)
    return Template(id=path.stem, name=graph.name, description=graph.description, graph=graph_to_plain(graph))


def _named(template: Template, type: str) -> str:
    """The first node of this type; "" where there is none."""
    return next((name for name, node in template.graph["nodes"].items() if node["type"] == type), "")
