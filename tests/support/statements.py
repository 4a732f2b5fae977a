"""The statements of a source, wherever they stand: what looks for imports needs no expressions, most of a source."""

import ast
from collections.abc import Iterator

# Where a statement, a handler of an exception or a case of a match holds statements.
PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


def held_by(node: ast.AST) -> list[ast.AST]:
    """The next ones below."""
    parts = (getattr(node, part, ()) for part in PARTS)
    return [each for part in parts if isinstance(part, list) for each in part]  # else an expression, as a lambda's


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All below."""
    for node in held_by(tree):
        yield node
        yield from statements(node)
