"""Which words of a prompt a toy model cannot know, told before it runs: one whose card lists what it can draw, as that
of the built-in model does. Of a model that was trained on what people write nobody can say it, and nothing is said.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...parallel.wording import worded
from ..models.facts import vocabulary_of
from ..models.regular_file import FromFile, read_object
from ..values import Model

WORD = re.compile(r"[^\W\d_]+")
BEGIN = "\u2581"  # of a piece that begins a word
MAX_BYTES = 1 << 20
BUILT_IN = "builtin:"
MOST_TOLD = 8  # words that are named; of a long text the rest is not


def unknown_words(model: Model, text: str) -> tuple[str, ...]:
    """As they stand in the text, each once; none of a model of which nobody can say."""
    folder, words = Path(model.folder), set[str]()
    try:
        if text and vocabulary_of(folder):
            words = words.union(*(_PIECES(path) for path in sorted(folder.glob("tokenizer*/tokenizer.json"))))
    except (ValueError, OSError):  # what is wrong with its files is told elsewhere
        return ()
    return tuple(dict.fromkeys(word for word in WORD.findall(text) if word.lower() not in words)) if words else ()


def why_unknown(model: Model, text: str) -> str:
    """A sentence for whoever wrote the text; "" where all of it may be known."""
    if not (words := unknown_words(model, text)):
        return ""
    named = ", ".join(f'"{word}"' for word in words[:MOST_TOLD]) + (", ..." if len(words) > MOST_TOLD else "")
    known = ", ".join(name for names in vocabulary_of(Path(model.folder)).values() for name in names)
    return worded(
        "{} cannot know {}: a toy model of coloured shapes: knows {}", model.source.removeprefix(BUILT_IN), named, known
    )


def _pieces(path: Path) -> Sequence[str]:
    """The whole words of a unigram tokenizer, in lower case: one of byte pairs spells any word out of letters."""
    model: Any = read_object(path, what="tokenizer", max_bytes=MAX_BYTES).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    pieces = [entry[0] for entry in vocabulary if isinstance(entry, list)] if isinstance(vocabulary, list) else []
    return [piece[1:].lower() for piece in pieces if isinstance(piece, str) and piece.startswith(BEGIN)]


_PIECES = FromFile(_pieces)
