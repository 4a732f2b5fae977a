"""What the page may have to say: sentences of modules, read from their sources with {} where a value stands, the texts
of nodes and templates, and its words for them in each language."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import latentloom
from latentloom.nodes.headless.workflow_files import shipped_files
from latentloom.nodes.registry import SPECS

ROOT = Path(latentloom.__file__).parent
TEXTS = ROOT / "ui" / "web" / "src" / "texts"

NAMED = re.compile(r"\{\w+\}")


def sentences_in(path: Path) -> set[str]:
    """Every text in a module, of any length."""
    return set(_texts(_tree(path)))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _texts(node: ast.AST) -> Iterator[str]:
    text = _template(node)
    if text is not None:
        yield NAMED.sub("{}", text)
    for child in ast.iter_child_nodes(node):
        if text is None or not isinstance(child, ast.Constant):  # else a part of it
            yield from _texts(child)


def _template(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_template(node.left), _template(node.right)]
        return None if parts == [None, None] else "".join(part if part is not None else "{}" for part in parts)
    return None


def raised_in(path: Path) -> set[str]:
    """What `path` raises or tells as a problem, where the sentence stands there and then."""
    found: set[str] = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Raise | ast.Return | ast.Yield):
            found |= {text for text in _texts(node) if len(text.replace("{}", "").split()) > 3}
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
