"""What a model's files say of how it is used: its family's card, by its configs and its makers' card file; its
sizes and heads; and which words of a prompt a toy model cannot know, whose card lists what it can draw.

A family's card and sizes are computed from the configs of a model's components; a config that lacks what they need is
damaged, and told so by name. The card file, `latentloom.json` beside model_index.json, is by whoever made the model and
overrides the family's defaults.
"""

import dataclasses
import functools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...parallel.errors import BadInput, did_you_mean
from ...parallel.wording import worded
from ..families.family import Card, Family
from ..families.row import LEVELS, Row
from ..values import Model
from .folder import component_in, read_config, read_index
from .regular_file import FromFile, read_object

MAX_MULTIPLE = 1024
# What configs of schedulers call a shift that is the same for every size.
SHIFTS = {"FlowMatchEulerDiscreteScheduler": "shift", "UniPCMultistepScheduler": "flow_shift"}
FILE_NAME = "latentloom.json"
MAX_BYTES = 1 << 20
# Longest text of each field of the card file.
TEXTS = {"name": 200, "about": 2000, "licence": 200, "negative_prompt": 5000}
INTEGERS = {
    "width": (8, 16384),
    "height": (8, 16384),
    "most_side": (0, 16384),
    "frames": (1, 10_000),
    "steps": (1, 1000),
    "text_length": (1, 8192),
}
NUMBERS = {"fps": (0.0, 240.0), "guidance": (0.0, 100.0), "distilled_guidance": (0.0, 100.0)}
TOP_LEVEL = ("name", "about", "licence")
# What configs call the heads of attention between tokens; a model with several kinds is split by what divides all.
HEADS = ("num_attention_heads", "audio_num_attention_heads", "num_heads", "n_heads", "dit_heads")
WORD = re.compile(r"[^\W\d_]+")
BEGIN = "\u2581"  # of a piece that begins a word
BUILT_IN = "builtin:"
MOST_TOLD = 8  # words that are named; of a long text the rest is not
Configs = Callable[[str], Mapping[str, Any]]
T = TypeVar("T")


def read_card(folder: Path, family: Family) -> Card:
    """The family's defaults for this model, overridden by its card file. Raises `ValueError` for a bad card."""
    card = _find(folder, lambda config: family.card(read_index(folder), config))
    if not os.path.lexists(f"{folder}{os.sep}{FILE_NAME}"):
        return card
    path = folder / FILE_NAME
    plain = _card_file(path)
    if plain.get("format", 1) != 1:
        raise ValueError(
            f"{path} has format {str(plain['format'])[:20]}; this version reads format 1: update latentloom"
        )
    if plain.get("family", family.name) != family.name:
        raise ValueError(
            f"{path} says family {str(plain['family'])[:50]!r}, but the model is {family.name!r}; fix the card"
        )
    defaults = plain.get("defaults", {})
    if not isinstance(defaults, dict):
        raise ValueError(f"{path}: defaults is {str(defaults)[:50]}, not an object; fix the card")
    overrides = {name: plain[name] for name in TOP_LEVEL if name in plain} | defaults
    return dataclasses.replace(card, **{name: _checked(path, name, value) for name, value in overrides.items()})


_card_file = FromFile(lambda path: read_object(path, what="model card", max_bytes=MAX_BYTES))


def _checked(path: Path, name: str, value: Any) -> Any:
    # The bounds keep what anybody wrote into a card from reaching a family as a size that fills the memory.
    if name in TEXTS:
        is_right = isinstance(value, str) and len(value) <= TEXTS[name]
        right = f"a text of at most {TEXTS[name]} characters"
    elif name in INTEGERS:
        low, high = INTEGERS[name]
        is_right, right = type(value) is int and low <= value <= high, f"a whole number from {low} to {high}"
    elif name in NUMBERS:
        low, high = NUMBERS[name]
        is_right = type(value) in (int, float) and math.isfinite(value) and low <= value <= high
        value, right = float(value) if is_right else value, f"a number from {low:g} to {high:g}"
    else:
        known = (*TEXTS, *INTEGERS, *NUMBERS)
        hint = did_you_mean(name, known)
        raise ValueError(
            f"{path} sets {name[:64]!r}, which is no default of a model; {hint}it may hold {', '.join(known)}"
        )
    if not is_right:
        raise ValueError(f"{path} sets {name} to {str(value)[:50]!r}; it must be {right}")
    return value


def vocabulary_of(folder: Path) -> Mapping[str, Sequence[str]]:
    """What a toy model's card says that it can draw, by kind; nothing of any other model."""
    path = folder / FILE_NAME
    found = _card_file(path).get("vocabulary") if path.is_file() else None
    kinds = found if isinstance(found, dict) else {}
    return {kind: [str(name) for name in names] for kind, names in kinds.items() if isinstance(names, list)}


def unknown_words(model: Model, text: str) -> tuple[str, ...]:
    """As they stand in the text, each once; none of a model of which nobody can say."""
    folder, words = Path(model.folder), set[str]()
    try:
        if text and vocabulary_of(folder):
            words = words.union(*(_pieces(path) for path in sorted(folder.glob("tokenizer*/tokenizer.json"))))
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


@FromFile
def _pieces(path: Path) -> Sequence[str]:
    """The whole words of a unigram tokenizer, in lower case: one of byte pairs spells any word out of letters."""
    model: Any = read_object(path, what="tokenizer", max_bytes=MAX_BYTES).get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    pieces = [entry[0] for entry in vocabulary if isinstance(entry, list)] if isinstance(vocabulary, list) else []
    return [piece[1:].lower() for piece in pieces if isinstance(piece, str) and piece.startswith(BEGIN)]


def heads_of(config: Mapping[str, Any]) -> int:
    """The greatest number that divides all of a transformer's counts of heads; 1 where its config tells none."""
    counts = [value for name in HEADS if type(value := config.get(name)) is int and value > 0]
    width, axes = config.get("model_dim"), config.get("axes_dims")
    if not counts and type(width) is int and isinstance(axes, list):  # Kandinsky: the head width is that of its RoPE
        counts = [width // max(1, sum(axis for axis in axes if type(axis) is int))]
    return math.gcd(*counts) or 1


def family_size_multiple(folder: Path, family: Family) -> int:
    """Pixels that width and height of the model in `folder` must be a multiple of."""

    def find(config: Configs) -> int:
        multiple = family.size_multiple(config)
        if type(multiple) is not int or not 1 <= multiple <= MAX_MULTIPLE:
            raise TypeError(worded("sizes would be multiples of {}", str(multiple)[:40]))
        return multiple

    return _find(folder, find)


def levels_of(row: Row, folder: Path) -> Sequence[float]:
    """The noise levels that a model of this row was distilled for, and no others; none of a model of any number."""
    index = read_index(folder)
    return index.get(LEVELS) or row.variant(index, functools.partial(read_config, folder)).sigmas


def scheduler_of(folder: Path) -> str:
    """The class of the scheduler of the model in `folder`; "" where it has none."""
    found = component_in(read_index(folder), "scheduler")
    return "" if found is None else found[1]


def shift_of(folder: Path) -> float:
    """The flow shift in its config; 0 where it goes by the size, or stands nowhere."""
    name = SHIFTS.get(scheduler_of(folder), "")
    config = read_config(folder, "scheduler") if name else {}
    shift = 0 if config.get("use_dynamic_shifting") else config.get(name, 0)
    return float(shift) if isinstance(shift, int | float) else 0.0


def _find(folder: Path, question: Callable[[Configs], T]) -> T:
    """A family asks configs for what real models have. `ValueError` is a family's or a reader's own sentence."""
    asked = ["model_index"]

    def config(name: str) -> Mapping[str, Any]:
        asked.append(name)
        return read_config(folder, name)

    try:
        return question(config)
    except KeyError as error:
        reason = f"lacks {str(error)[:100]}"
    except (ArithmeticError, AttributeError, IndexError, TypeError) as error:
        reason = f"has a wrong value ({str(error)[:200]})"
    # what was asked for last is what was being read when it failed
    raise BadInput("component {} of {}: its config {}; copy the model again", asked[-1], folder, reason)
