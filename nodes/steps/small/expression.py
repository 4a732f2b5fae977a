"""Arithmetic in words: a formula of numbers, read by Python's own parser and reckoned here, never by `eval`.

Numbers, names, + - * / // % **, comparisons, and or not, `a if b else c`, brackets, and a few functions. True is 1.
What is not on these lists is refused. All parts are reckoned, also those that `or` and `if` do not take.
"""

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

MAX_LENGTH = 1000
MAX_DEPTH = 50
LARGEST = 1e15  # of what a power may give, so that no number grows without end
MOST = 10**300  # of any other whole number on the way
# That `round` keeps, and that it rounds away: Python reckons 10 to the power of them, however long that takes.
MOST_DIGITS = 20
Number = int | float
# What no formula has: the one `=` of an assignment too.
_FOREIGN = re.compile(r"[^\w\s.,()<>=!%*/+-]|(?<![<>=!])=(?!=)|!(?!=)", re.ASCII)


def _rounded(value: Number, digits: Number = 0) -> Number:
    if not abs(digits) <= MOST_DIGITS:
        raise ValueError(f"it takes -{MOST_DIGITS} to {MOST_DIGITS} digits")
    return round(value, int(digits)) if digits else round(value)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": lambda *given: max(given),
    "min": lambda *given: min(given),
    "round": _rounded,
    "sqrt": math.sqrt,
}


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > 1000 or (base and abs(exponent) * math.log10(abs(base)) > math.log10(LARGEST)):
        raise ValueError(f"the formula takes {base:g} to the power of {exponent:g}, which is too large; correct it")
    return base**exponent


def _times(first: Number, second: Number) -> Number:
    found = first * second
    if isinstance(found, int) and abs(found) > MOST:
        raise ValueError(f"the formula multiplies {first:g} by {second:g}, which is too large; correct it")
    return found


SIGNS: Mapping[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _times,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.And: lambda first, second: first and second,
    ast.Or: lambda first, second: first or second,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def reckon(formula: str, values: Mapping[str, Number]) -> Number:
    """What the formula gives for these values. Raises `ValueError` for what is none, and where it has no result."""
    if len(formula) > MAX_LENGTH:
        raise ValueError(f"the formula has {len(formula)} characters; at most {MAX_LENGTH} are read; shorten it")
    text = " ".join(formula.split())
    tree = _read(text)
    found: dict[ast.AST, Number] = {}
    try:
        # Level by level from the deepest up, so that each part is there when a larger one asks: no recursion.
        for node in reversed(_parts(tree)):
            found[node] = _reckoned(node, found, values, text)
        result = found[tree]
        is_number = not isinstance(result, complex) and math.isfinite(result) and abs(result) <= 1e300
    except ZeroDivisionError:
        raise ValueError(f"{text[:80]!r} divides by zero; correct what it divides by") from None
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{text[:80]!r} cannot be reckoned ({error}); correct it") from None
    if not is_number:
        raise ValueError(f"{text[:80]!r} has no finite result; correct it")
    return result


def _read(text: str) -> ast.expr:
    if (foreign := _FOREIGN.search(text)) is not None:
        shown = text[foreign.start() :][:10]
        raise ValueError(f"the formula has {shown!r}, which is no number, name or sign; correct it")
    depth = max(accumulate((sign == "(") - (sign == ")") for sign in text), default=0)
    if depth > MAX_DEPTH or text.count("**") > MAX_DEPTH:
        raise ValueError(f"the formula has more than {MAX_DEPTH} brackets or powers inside each other; simplify it")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        at = (getattr(error, "offset", None) or 1) - 1
        raise ValueError(
            f"the formula cannot be read at {text[at : at + 10] or 'its end'!r} ({error.args[0]}); correct it"
        ) from None


def _parts(tree: ast.expr) -> list[ast.expr]:
    """The tree and all below it that has a value, level by level; what is called is a name, and has none."""
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.expr)]
    called = {node.func for node in parts if isinstance(node, ast.Call)}
    return [node for node in parts if node not in called]


def _reckoned(node: ast.expr, found: Mapping[ast.AST, Number], values: Mapping[str, Number], text: str) -> Number:
    """One part of a formula, from its own parts, which are `found`; what is true is 1."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value if isinstance(value, int) and value < LARGEST else float(value)
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=sign, operand=part):
            return +SIGNS[type(sign)](found[part])
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in SIGNS:
            return SIGNS[type(sign)](found[left], found[right])
        case ast.BoolOp(op=sign, values=parts):
            return functools.reduce(SIGNS[type(sign)], [found[part] for part in parts])
        case ast.Compare(left=left, ops=signs, comparators=parts) if all(type(sign) in SIGNS for sign in signs):
            # One after the other, as + and - are: 3 > 2 > 1 is 1 > 1.
            pairs = zip(signs, parts, strict=True)
            return functools.reduce(lambda have, pair: +SIGNS[type(pair[0])](have, found[pair[1]]), pairs, found[left])
        case ast.IfExp(test=test, body=body, orelse=other):
            return found[body] if found[test] else found[other]
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as given, keywords=[]) if name in FUNCTIONS:
            return _called(name, [found[part] for part in given])
        case _:
            shown = text[node.col_offset : node.end_col_offset][:40]
            names = ", ".join([*values, *(f"{name}()" for name in FUNCTIONS)])
            raise ValueError(f"the formula has {shown!r}, which is nothing that it knows; there is {names}")


def _called(name: str, given: list[Number]) -> Number:
    try:
        return FUNCTIONS[name](*given)
    except ValueError as error:  # such as Python's own for the root of -1
        told = ", ".join(f"{each:g}" for each in given)
        raise ValueError(f"the formula has {name}({told}), which cannot be reckoned ({error}); correct it") from None
