"""The sentences that a module may say, read from its source: each with {} where a value stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

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
