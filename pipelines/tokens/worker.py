"""What the counting process does: a tokenizer as the model has it, without torch, and what it makes of a text.

Run as a script by `counter.py`, one line of JSON in, one out. It is a process of its own because a tokenizer's files
are anybody's: a pattern, a template or a vocabulary that takes for ever, or all memory, costs this process only.
"""

import contextlib
import functools
import html
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_MEMORY = 6 << 30  # address space, of which a vocabulary of 250,000 pieces takes a tenth
MOST_S = 20  # for one text, after which the process is ended
IDLE_S = 900
MOST_KEPT = 4  # tokenizers
MOST_LENGTH = 1 << 20  # a tokenizer's own maximum beyond is none
MOST_CUT = 4000  # characters of what is cut that are told


def main() -> None:
    """Answers until its input ends."""
    orders, answers = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("w") as nothing:  # what libraries print is no answer
        os.dup2(nothing.fileno(), 1)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")
    sys.modules["torch"] = None  # pyrefly: ignore[unsupported-operation] (transformers then goes without)
    _end_after(MOST_S)
    import transformers  # noqa: F401 (so that the first text need not wait)

    _end_after(IDLE_S)
    while line := orders.readline():
        _end_after(MOST_S)
        order = json.loads(line)
        try:
            found = count(order)
        except BaseException as error:
            found = {"fault": type(error).__name__}
            if not isinstance(error, Exception) and found["fault"] != "PanicException":
                raise  # Rust's panic (tokenizers) is no Exception
        answers.write(json.dumps({"id": order["id"], **found}) + "\n")
        answers.flush()
        _end_after(IDLE_S)


def count(order: dict[str, Any]) -> dict[str, Any]:
    """How many tokens a text is with its template, how many of them are read (0: all), how many an empty one would
    be, and what is cut. Raises whatever the tokenizer does.
    """
    tokenizer, most, tail = _tokenizer_asked(order)
    text = CLEANERS[order["cleaning"]](order["text"])
    whole, start = _framed(tokenizer, text, order)
    ids, spans = _tokens_of(tokenizer, whole, 0)
    cut = ""
    if most and len(ids) > most:
        _, spans = _tokens_of(tokenizer, whole, most)
        first, last = _span_kept(text, [(a - start, b - start) for a, b in spans if b > a])
        cut = " ".join(part for part in (text[:first].strip(), text[last:].strip()) if part)
    own, _ = _tokens_of(tokenizer, _framed(tokenizer, "", order)[0], 0)
    return {
        "num_tokens": len(ids) + len(tail),
        "limit": most + len(tail) if most else 0,
        "num_own": len(own) + len(tail),
        "cut": cut[:MOST_CUT],
    }


def _tokenizer_asked(order: dict[str, Any]) -> tuple[Any, int, list[int]]:
    """The tokenizer, how many tokens of the text in its template are read at most (0: all), and those that follow."""
    tokenizer = _tokenizer(order["folder"], order["class"], order["mark"])
    own = int(tokenizer.model_max_length)
    length = int(order["length"]) or (own if 0 < own <= MOST_LENGTH else 0)
    tail = _tokens_of(tokenizer, order["tail"], 0)[0] if order["tail"] else []
    return tokenizer, length + int(order["more"]) if length else 0, tail


def _tokens_of(tokenizer: Any, text: str, most: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids, and where in the text each stands; a special one nowhere. `most` 0 is all."""
    cut = {"truncation": True, "max_length": most} if most else {"truncation": False}
    found = tokenizer(text, return_offsets_mapping=True, verbose=False, **cut)
    return found["input_ids"], found["offset_mapping"]


def _span_kept(text: str, spans: list[tuple[int, int]]) -> tuple[int, int]:
    """From where to where a text is read whole, by where its tokens stand: half a word is none."""
    inside = [(a, b) for a, b in spans if b > 0 and a < len(text)]
    if not inside:
        return 0, 0
    first, last = max(0, inside[0][0]), min(len(text), inside[-1][1])

    def within(at: int) -> bool:  # a word; of scripts without spaces between words every sign is one
        return 0 < at < len(text) and text[at - 1 : at + 1].isalnum() and text[at].isascii()

    while within(last):
        last -= 1
    while within(first):
        first += 1
    return first, last


def _framed(tokenizer: Any, text: str, order: dict[str, Any]) -> tuple[str, int]:
    """The text with its template, and where it begins in it."""
    if order["thinking"] is None:
        return order["before"] + text + order["after"], len(order["before"])
    messages = [{"role": "user", "content": text}]
    whole = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=order["thinking"]
    )
    start = whole.find(text)
    return whole, start if start >= 0 else whole.find(text.strip())


@functools.lru_cache(maxsize=MOST_KEPT)
def _tokenizer(folder: str, name: str, mark: str) -> Any:
    """As `components/loading.py` loads it: by the class that model_index.json names, and no code of the model's own."""
    import transformers

    cls = getattr(transformers, name)
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedTokenizerBase)):
        raise TypeError(f"{name} is no tokenizer")
    return cls.from_pretrained(folder, local_files_only=True)


def _mended(text: str) -> str:
    """What Wan's blocks make of a prompt."""
    import ftfy

    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    return re.sub(r"\s+", " ", text.strip()).strip()


CLEANERS: dict[str, Callable[[str], str]] = {"none": lambda text: text, "strip": str.strip, "ftfy": _mended}


def _end_after(seconds: int) -> None:
    """The process ends then, wherever it is, unless it is told another time; where there are no alarms its host ends
    it."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


if __name__ == "__main__":
    main()
