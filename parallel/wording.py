"""Sentences for people, whose values are kept apart, so that a page can say them in another language.

`worded("{} is {}; give {}", name, value, most)` is the English sentence, which is made here and nowhere else. The
process remembers its template, which is its text id, and its values, each as it stands in the sentence; a value may be
such a sentence itself. Where sentences leave the process as plain data, `known_in` says what is remembered of them, and
where they come in `remember` takes it over. Whoever knows no other words for a sentence shows the English.
"""

import functools
import string
import threading
from collections.abc import Mapping
from typing import Any, TypedDict

SAID = "said"  # the key under which plain data has what is remembered of the sentences in it
MOST, LONGEST = 10_000, 4_000  # sentences that a process remembers, and characters of one


class Words(TypedDict):
    """How a sentence was made."""

    text_id: str  # its English, with `{}` for each value
    values: list[str]


_KNOWN: dict[str, Words] = {}
_LOCK = threading.Lock()


def worded(template: str, *values: object, **named: object) -> str:
    """The sentence: `template` with its holes filled, as `str.format` does it."""
    left, parts, shown = iter(values), list[str](), list[str]()
    for literal, name, form in _parts(template):
        parts.append(literal)
        if name is not None:
            shown.append(form.format(named[name] if name else next(left)))
            parts.append(shown[-1])
    sentence = "".join(parts)
    if shown:
        _keep(sentence, Words(text_id=text_id(template), values=shown))
    return sentence


def bad_value(template: str, *values: object, **named: object) -> ValueError:
    """The error that says such a sentence, to be raised."""
    return ValueError(worded(template, *values, **named))


@functools.cache
def text_id(template: str) -> str:
    """The template as tables have it: nothing but `{}` in its holes."""
    return "".join(literal + ("" if name is None else "{}") for literal, name, _ in _parts(template))


@functools.cache
def _parts(template: str) -> tuple[tuple[str, str | None, str], ...]:
    """Each text with the name of the hole behind it, which may be "", and its form; None where there is no hole."""
    return tuple(
        (literal, name, f"{{{f'!{conversion}' if conversion else ''}:{spec}}}")
        for literal, name, spec, conversion in string.Formatter().parse(template)
    )


def known_in(data: Any) -> dict[str, Words]:
    """What is remembered of the sentences in plain data, and in their values, by each sentence."""
    found: dict[str, Words] = {}
    if _KNOWN:
        _look(data, found)
    return found


def with_words(data: Any) -> Any:
    """Plain data for a page: each object has what is remembered of the sentences in it."""
    if isinstance(data, list):
        return [with_words(each) for each in data]
    return {**data, SAID: known} if isinstance(data, dict) and (known := known_in(data)) else data


def remember(known: Any) -> None:
    """What another process, or a record, says of its sentences; what is not understood is passed over."""
    for sentence, words in known.items() if isinstance(known, Mapping) else ():
        match words:
            case {"text_id": str(template), "values": [*values]} if all(isinstance(value, str) for value in values):
                _keep(sentence, Words(text_id=template, values=values))
            case _:
                pass


def _keep(sentence: str, words: Words) -> None:
    if len(sentence) > LONGEST:
        return
    with _LOCK:
        while len(_KNOWN) >= MOST:  # the oldest: who has not shown it by now shows its English
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[sentence] = words


def _look(data: Any, found: dict[str, Words]) -> None:
    """Answers have some ten thousand values, most of which are texts that are no sentences."""
    if isinstance(data, str):
        if (words := _KNOWN.get(data)) is not None and data not in found:
            found[data] = words
            _look(words["values"], found)
        return
    for value in data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ():
        if not isinstance(value, str) or value in _KNOWN:
            _look(value, found)
