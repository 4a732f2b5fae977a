"""What the page may have to say: sentences of modules, read from their sources with {} where a value stands, the texts
of nodes and templates, and its words for them in each language."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import latentloom
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.registry import SPECS
from latentloom.parallel.wording import text_id

NAMED = re.compile(r"\{\w+\}")
ROOT = Path(latentloom.__file__).parent
TEXTS = ROOT / "ui" / "web" / "src" / "texts"


def sentences_in(path: Path) -> set[str]:
    """Every text in a module, of any length; of those with values what `worded` makes, by their text ids."""
    return set(_texts(_tree(path)))


def calls_of_worded(path: Path) -> Iterator[tuple[str, int]]:
    """Each template, and how many values it is given."""
    for node in ast.walk(_tree(path)):
        if _is_worded(node):
            template, *values = node.args
            if isinstance(template, ast.Constant):
                yield template.value, len(values)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _texts(node: ast.AST, *, bare: bool = False) -> Iterator[str]:
    """With `bare` f-strings too, which nobody can say in another language."""
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield NAMED.sub("{}", node.value)
    elif isinstance(node, ast.JoinedStr):
        if bare:
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        parts = (part for part in parts if not isinstance(part, ast.Constant))
    elif _is_worded(node) and isinstance(node.args[0], ast.Constant):
        yield text_id(node.args[0].value)
        parts = (part for part in parts if part is not node.args[0])
    for part in parts:
        yield from _texts(part, bare=bare)


def _is_worded(node: ast.AST) -> TypeGuard[ast.Call]:
    names = ("worded", "bad_value")
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def raised_in(path: Path) -> set[str]:
    """What `path` raises or tells as a problem, where the sentence stands there and then."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Raise | ast.Return | ast.Yield):
            found |= {text for text in _texts(node, bare=True) if len(text.replace("{}", "").split()) > 3}
    return found


@cache
def words_of(kind: str, language: str = "") -> dict[str, str]:
    """A table of the page's texts; all of its own, where `kind` is a language."""
    path = TEXTS / kind / f"{language}.json" if language else TEXTS / kind
    tables = [path] if language else sorted(path.glob("*.json"))
    return {key: text for table in tables for key, text in json.loads(table.read_text(encoding="utf-8")).items()}


@cache
def texts_of_nodes() -> frozenset[str]:
    sockets = [socket for spec in SPECS.values() for socket in (*spec.inputs, *spec.outputs)]
    nodes = (text for spec in SPECS.values() for text in (spec.title, spec.help))
    return frozenset(filter(None, (*nodes, *(socket.help for socket in sockets))))


@cache
def texts_of_templates() -> frozenset[str]:
    graphs = [json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob("workflows/**/*.json")]
    helps = (param.get("help", "") for graph in graphs for param in graph.get("params", {}).values())
    names = (path.stem.replace("_", " ").capitalize() for path in shipped_files())
    return frozenset(filter(None, (*names, *(graph["description"] for graph in graphs), *helps)))
