"""What a tokenizer does to a prompt: one call at a time, and what of it a text encoder does not read."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

logger = logging.getLogger("latentloom")


def one_call_at_a_time(tokenizer: Any) -> Any:
    """The tokenizer, whose calls from several threads now wait for each other.

    All threads share it. transformers keeps truncation and padding on the Rust object inside: each call sets them there
    and then reads the text, so that two calls at once read it by the settings of one. Every way in ends in
    `_encode_plus`: `tokenizer(...)`, of diffusers' text encoders with three different settings and of `warn_if_cut`,
    and `tokenizer.tokenize(...)`, by which diffusers looks for textual inversions in FLUX's prompts and which turns
    padding off. To be removed when transformers hands these settings over with the text (seen in 5.23).
    """
    if not hasattr(tokenizer, "_encode_plus"):
        raise ValueError(
            f"{type(tokenizer).__name__} has no _encode_plus, through which its texts go: this version of transformers "
            "builds tokenizers in another way; install the version in constraints.txt"
        )
    encode, lock = tokenizer._encode_plus, threading.RLock()

    @functools.wraps(encode)
    def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return encode(*args, **kwargs)

    tokenizer._encode_plus = one_at_a_time
    return tokenizer


def warn_if_cut(tokenizer: Any, prompt: str, *, text_length: int) -> int:
    """Log one sentence when `prompt` has more tokens than `text_length`; returns how many are cut."""
    num_tokens = len(tokenizer(prompt, truncation=False, verbose=False)["input_ids"])
    cut = max(0, num_tokens - text_length)
    if cut:
        beginning = " ".join(prompt.split())[:40]
        logger.warning(
            f"the prompt '{beginning}...' has {num_tokens} tokens; the last {cut} are cut at text length {text_length}"
        )
    return cut
