"""Text edits: Replace Text, Split Text, Format Text and Change Case.

Python's `re` tries one way after the other, which can take for ever. So only patterns are taken whose ways can be
counted: what is repeated is one character or a class of them, and nothing refers back or looks around.
"""

import re
from re import _constants as sre  # pyrefly: ignore[missing-module-attribute]
from re import _parser  # pyrefly: ignore[missing-module-attribute]
from typing import Annotated, Any, Literal

from ...graph.problems import short
from ...graph.scalars import MAX_STRING
from ...graph.spec import Socket
from ..arguments import checked, reckoning
from ..sockets import NewText, Text

PLACE = re.compile(r"\{(\w*)(?::(\d{0,2})(?:\.(\d{1,2}))?)?\}", re.ASCII)

LONGEST_NUMBER = 400  # characters: 1e308 and 99 digits


@checked
def replace_text(
    text: Text,
    *,
    find: Annotated[str, "What is replaced, wherever it stands"] = "",
    replacement: str = "",
    pattern: Annotated[bool, "find is a regular expression, and \\1 in the replacement its group"] = False,
) -> NewText:
    """A text with some of its words replaced; with nothing to find as it is."""
    if not find:
        return text
    if not pattern:
        size = len(text) + text.count(find) * (len(replacement) - len(find))
        return text.replace(find, replacement) if size <= MAX_STRING else _too_long()
    compiled = bounded(find, text)
    if (len(replacement) + 1) * (len(text) + 1) > 100 * MAX_STRING:
        return _too_long()
    try:
        found = compiled.sub(replacement, text)
    except (re.error, IndexError) as error:
        raise ValueError(f"replacement is {replacement[:60]!r}, which names no group of find ({error})") from None
    return found if len(found) <= MAX_STRING else _too_long()


def _too_long() -> str:
    raise ValueError(f"the text would have more than {MAX_STRING:,} characters; replace less")


@checked
def split_text(
    text: Text,
    *,
    separator: Annotated[str, "Between the parts; empty splits at each end of a line"] = ",",
    index: Annotated[int, "Which part, from 0; -1 is the last"] = 0,
) -> tuple[Annotated[str, Socket(name="part")], Annotated[int, Socket(name="count", help="How many parts there are")]]:
    """One part of a text, without the spaces around it, and how many parts there are."""
    parts = [part.strip() for part in (text.split(separator) if separator else text.splitlines())] or [""]
    if not -len(parts) <= index < len(parts):
        raise ValueError(f"index is {index}, and the text has {len(parts)} parts; give 0 to {len(parts) - 1}")
    return parts[index], len(parts)


@checked
def format_text(
    # {a} to {d} are texts, {x} and {y} numbers; {x:03} is 007, {y:.2} is 0.50
    template: Text = "{a} {x}",
    *,
    a: str = "",
    b: str = "",
    c: str = "",
    d: str = "",
    x: float = 0.0,
    y: float = 0.0,
) -> NewText:
    """Texts and numbers at their places in a text, such as the name of a file."""
    texts, numbers = {"a": a, "b": b, "c": c, "d": d}, {"x": x, "y": y}

    def filled(found: re.Match[str]) -> str:
        name, width, digits = found[1], found[2] or "", found[3]
        if name in texts:
            return texts[name]
        if name not in numbers:
            raise ValueError(f"the template has {found[0]!r}; there is {{a}}, {{b}}, {{c}}, {{d}}, {{x}} and {{y}}")
        value = numbers[name]
        shown = f"{value:.{digits}f}" if digits else f"{value:.0f}" if value.is_integer() else f"{value:g}"
        return shown.zfill(int(width)) if width.startswith("0") and width != "0" else shown.rjust(int(width or 0))

    if len(template) + template.count("{") * max(LONGEST_NUMBER, *map(len, texts.values())) > MAX_STRING * 10:
        return _too_long()
    found = PLACE.sub(filled, template)
    return found if len(found) <= MAX_STRING else _too_long()


@checked
def change_case(
    text: Text,
    *,
    case: Literal["as it is", "lower", "upper", "title", "sentence"] = "as it is",
    trim: Annotated[bool, "Without spaces at its ends, and never two together"] = True,
) -> NewText:
    """A text in small or capital letters, and without needless spaces."""
    if trim:
        text = "\n".join(re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().split("\n"))
    sentence = text[:1].upper() + text[1:].lower()
    cases = {"lower": text.lower(), "upper": text.upper(), "title": text.title(), "sentence": sentence}
    return cases.get(case, text)


# ---- regular expressions whose work is bounded before they are asked

MAX_WORK = 50_000_000  # characters that are compared at most, about a second of them
MAX_PATTERN = 500
ONE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.CATEGORY)


def bounded(pattern: str, text: str) -> re.Pattern[str]:
    """The pattern, ready for this text. Raises `ValueError` for what is none, and for what might take too long."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN} are taken; shorten it")
    try:
        compiled = re.compile(pattern)
        _, work = _all_of(_parser.parse(pattern), len(text))
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{short(pattern)} is no regular expression ({error}); correct it") from None
    if work * (len(text) + 1) > MAX_WORK:
        raise ValueError(
            f"{short(pattern)} may have to compare too much in a text of {len(text):,} characters; repeat fewer "
            "things, and not as often (as in [^,]{1,20}), or shorten the text"
        )
    return compiled


def _all_of(parsed: Any, length: int) -> tuple[int, int]:
    """Of a pattern at one place of a text: in how many ways at most it can lie there, and how many characters are
    compared until all of them are tried. What follows is tried anew after each way of what stands before it."""
    ways, work = 1, 0
    for kind, given in parsed:
        own_ways, own_work = _one_of(kind, given, length)
        work += ways * own_work
        ways *= own_ways
    return ways, max(1, work)


def _members(kind: Any, given: Any) -> int:
    """What one character costs: in a class it may be compared with each member, which is quick for a few."""
    return 1 + len(given) // 8 if kind == sre.IN else 1


def _one_of(kind: Any, given: Any, length: int) -> tuple[int, int]:
    """The ways and the work of one part of a pattern."""
    if kind in ONE or kind == sre.AT:
        return 1, _members(kind, given)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, inner = given
        if len(inner) != 1 or inner[0][0] not in ONE:
            raise ValueError("the pattern repeats a group; repeat single characters or classes of them, as [a-z]+")
        longest = min(int(most), length)
        return max(1, longest - int(least) + 1), max(1, longest) * _members(*inner[0])
    if kind == sre.SUBPATTERN:
        return _all_of(given[-1], length)
    if kind == sre.BRANCH:
        each = [_all_of(branch, length) for branch in given[1]]
        return sum(ways for ways, _ in each), sum(work for _, work in each)
    raise ValueError("the pattern refers back or looks around, which may take too long; write it without that")


NODES = {
    "LoomReplaceText": reckoning(replace_text, title="Replace Text", category="text"),
    "LoomSplitText": reckoning(split_text, title="Split Text", category="text"),
    "LoomFormatText": reckoning(format_text, title="Format Text", category="text"),
    "LoomChangeCase": reckoning(change_case, title="Change Case", category="text"),
}
