"""Arithmetic in words: a formula of numbers, read and reckoned without Python's own `eval`.

Numbers, names, + - * / // % **, comparisons, and or not, `a if b else c`, brackets, and a few functions. True is 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_LENGTH = 1000
MAX_DEPTH = 50
LARGEST = 1e15
"""Of what a power may give, so that no number grows without end."""
MOST = 10**300
"""Of any other whole number on the way."""
MOST_DIGITS = 20
"""That `round` keeps, and that it rounds away: Python reckons 10 to the power of them, however long that takes."""
Number = int | float
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(\*\*|//|<=|>=|==|!=|[-+*/%()<>,]))", re.ASCII
)


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
COMPARED: Mapping[str, Callable[[Number, Number], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
WORDS = ("and", "or", "not", "if", "else")


def reckon(formula: str, values: Mapping[str, Number]) -> Number:
    """What the formula gives for these values. Raises `ValueError` for what is none, and where it has no result."""
    if len(formula) > MAX_LENGTH:
        raise ValueError(f"the formula has {len(formula)} characters; at most {MAX_LENGTH} are read; shorten it")
    try:
        found = _Reader(_tokens(formula), values).read()
        is_number = not isinstance(found, complex) and math.isfinite(found) and abs(found) <= 1e300
    except ZeroDivisionError:
        raise ValueError(f"{formula.strip()[:80]!r} divides by zero; correct what it divides by") from None
    except (OverflowError, TypeError) as error:
        raise ValueError(f"{formula.strip()[:80]!r} cannot be reckoned ({error}); correct it") from None
    if not is_number:
        raise ValueError(f"{formula.strip()[:80]!r} has no finite result; correct it")
    return found


def _tokens(formula: str) -> list[str]:
    tokens: list[str] = []
    at, formula = 0, formula.strip()
    while at < len(formula):
        found = _TOKEN.match(formula, at)
        if found is None:
            raise ValueError(f"the formula has {formula[at : at + 10]!r}, which is no number, name or sign; correct it")
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


class _Reader:
    """Recursive descent, one method for each strength of a sign, the weakest first."""

    def __init__(self, tokens: list[str], values: Mapping[str, Number]) -> None:
        self.tokens, self.values, self.at, self.depth = tokens, values, 0, 0

    def read(self) -> Number:
        found = self._choice()
        if self.at < len(self.tokens):
            raise ValueError(f"the formula has {self._next()!r} where it should end or have a sign; correct it")
        return found

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token where it is one of these; "" where it is not."""
        if self._next() not in wanted or not self._next():
            return ""
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(f"the formula lacks {token!r} before {self._next() or 'its end'!r}; write it")

    def _choice(self) -> Number:
        self._deeper()
        found = self._either()
        if self._take("if"):
            condition = self._either()
            self._expect("else")
            other = self._choice()
            found = found if condition else other
        self.depth -= 1
        return found

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"the formula has more than {MAX_DEPTH} brackets or powers inside each other; simplify it")

    def _either(self) -> Number:
        found = self._both()
        while self._take("or"):
            other = self._both()
            found = found or other
        return found

    def _both(self) -> Number:
        found = self._not()
        while self._take("and"):
            other = self._not()
            found = found and other
        return found

    def _not(self) -> Number:
        num_not = 0
        while self._take("not"):
            num_not += 1
        found = self._compared()
        return int(bool(found) == (num_not % 2 == 0)) if num_not else found

    def _compared(self) -> Number:
        found = self._sum()
        while sign := self._take(*COMPARED):
            found = int(COMPARED[sign](found, self._sum()))
        return found

    def _sum(self) -> Number:
        found = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            found = found + other if sign == "+" else found - other
        return found

    def _product(self) -> Number:
        found = self._signed()
        while sign := self._take("*", "/", "//", "%"):
            other = self._signed()
            found = _times(found, sign, other)
        return found

    def _signed(self) -> Number:
        sign = 1
        while token := self._take("-", "+"):
            sign = -sign if token == "-" else sign
        return sign * self._power()

    def _power(self) -> Number:
        found = self._value()
        if not self._take("**"):
            return found
        self._deeper()
        exponent = self._signed()
        self.depth -= 1
        if abs(exponent) > 1000 or (found and abs(exponent) * math.log10(abs(found)) > math.log10(LARGEST)):
            raise ValueError(
                f"the formula takes {found:g} to the power of {exponent:g}, which is too large; correct it"
            )
        return found**exponent

    def _value(self) -> Number:
        token = self._next()
        self.at += 1
        if token == "(":
            found = self._choice()
            self._expect(")")
            return found
        if token in FUNCTIONS and self._take("("):
            given = [self._choice()]
            while self._take(","):
                given.append(self._choice())
            self._expect(")")
            return _called(token, given)
        if token in self.values:
            return self.values[token]
        if token[:1].isdigit() or token[:1] == ".":
            return int(token) if token.isdigit() and len(token) < 16 else float(token)
        if not token or token in WORDS or not token[0].isalpha():
            raise ValueError(f"the formula has {token or 'its end'!r} where a number should stand; write one there")
        names = ", ".join([*self.values, *(f"{name}()" for name in FUNCTIONS)])
        raise ValueError(f"the formula has {token[:40]!r}, which is nothing that it knows; there is {names}")


def _called(name: str, given: list[Number]) -> Number:
    try:
        return FUNCTIONS[name](*given)
    except ValueError as error:  # such as Python's own for the root of -1
        told = ", ".join(f"{each:g}" for each in given)
        raise ValueError(f"the formula has {name}({told}), which cannot be reckoned ({error}); correct it") from None


def _times(first: Number, sign: str, second: Number) -> Number:
    if sign == "*":
        found = first * second
        if isinstance(found, int) and abs(found) > MOST:
            raise ValueError(f"the formula multiplies {first:g} by {second:g}, which is too large; correct it")
        return found
    if sign == "/":
        return first / second
    return first // second if sign == "//" else first % second
