"""What of a prompt a text encoder does not read."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("latentloom")


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
