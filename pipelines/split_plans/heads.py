"""How many heads a transformer's attention has, found in its config."""

import math
from collections.abc import Mapping
from typing import Any

# What configs call the heads of attention between tokens; a model with several kinds is split by what divides all.
HEADS = ("num_attention_heads", "audio_num_attention_heads", "num_heads", "n_heads", "dit_heads")


def heads_of(config: Mapping[str, Any]) -> int:
    """The greatest number that divides all of a transformer's counts of heads; 1 where its config tells none."""
    counts = [value for name in HEADS if type(value := config.get(name)) is int and value > 0]
    width, axes = config.get("model_dim"), config.get("axes_dims")
    if not counts and type(width) is int and isinstance(axes, list):  # Kandinsky: the head width is that of its RoPE
        counts = [width // max(1, sum(axis for axis in axes if type(axis) is int))]
    return math.gcd(*counts) or 1
