"""What a user types to find results: words that must all be there, and what values were, such as `steps:16`."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..live.state import MadeFile, RunRecord

Term = Callable[[RunRecord, MadeFile], bool]
MOST_TERMS = 32
PART = re.compile(r'(-?)(?:([\w.]+):)?("[^"]*"?|\S+)')
DAY_S = 86400.0


def terms_of(search: str, *, boards: Mapping[str, str]) -> list[Term]:
    """Each must hold. `boards` are the names of the user's by id.

    A term is a word or `"several words"` of prompt, name, workflow or values; `NAME:VALUE` with the name of an input,
    whose value may be `>10`, `<10` or `4..8`; `is:starred`, `tag:`, `board:`, `model:`, `workflow:`, `kind:`,
    `on:2026-11-23`, `after:`, `before:`; a minus before it turns it round.
    """
    found: list[Term] = []
    for minus, key, value in PART.findall(search)[:MOST_TERMS]:
        text = value.strip('"').casefold()
        if text:
            term = _term(key.casefold(), text, boards)
            # the second one as a default: a closure would see the last term of all
            found.append((lambda run, made, term=term: not term(run, made)) if minus else term)
    return found


def _term(key: str, text: str, boards: Mapping[str, str]) -> Term:
    if not key:
        return lambda run, made: text in _text(run, made) or text in made.words
    named: dict[str, Term] = {
        "is": lambda run, made: made.is_starred and text in ("starred", "star"),
        "tag": lambda run, made: text in (tag.casefold() for tag in made.tags),
        "board": lambda run, made: any(text in boards[id].casefold() for id in made.boards if id in boards),
        "model": lambda run, made: any(text in model.casefold() for model in made.models),
        "workflow": lambda run, made: text in run.name.casefold(),
        "kind": lambda run, made: text.rstrip("s") in (made.kind, KIND_WORDS[made.kind]),
        "seed": lambda run, made: _matches(str(made.seed), text) or _has_value(made, key, text),
    }
    if key in named:
        return named[key]
    if key in ("on", "after", "before"):
        with suppress(ValueError, OverflowError):  # where the server is, in seconds since the epoch
            day = time.mktime(time.strptime(text, "%Y-%m-%d"))
            days: dict[str, Term] = {
                "on": lambda run, made: day <= made.time < day + DAY_S,
                "after": lambda run, made: made.time >= day,
                "before": lambda run, made: made.time < day,
            }
            return days[key]
    whole = f"{key}:{text}"  # what only looks like a name and a value, as an address does
    return lambda run, made: _has_value(made, key, text) or whole in _text(run, made)


KIND_WORDS = {"image": "picture", "video": "video", "audio": "sound"}


def _text(run: RunRecord, made: MadeFile) -> str:
    values = (str(value) for value in (*run.params.values(), *run.overrides.values()))
    return "\n".join((made.name, made.prompt, str(made.seed), run.name, *made.tags, *values)).casefold()


def _has_value(made: MadeFile, key: str, text: str) -> bool:
    pairs = (line.partition("=") for line in made.words.split("\n"))
    return any(_matches(value, text) for name, _, value in pairs if name == key or name.endswith(f".{key}"))


def _matches(value: str, text: str) -> bool:
    """Numbers as numbers, texts by their parts."""
    low, dots, high = text.partition("..")
    with suppress(ValueError):
        number = float(value)
        if dots:
            return float(low or "-inf") <= number <= float(high or "inf")
        if text[0] in "<>":
            return number < float(text[1:]) if text[0] == "<" else number > float(text[1:])
        return number == float(text)
    return text in value
