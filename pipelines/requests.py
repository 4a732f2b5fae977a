"""The numbers in a stage's request, each checked. They raise `ValueError` that says what would be right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MAX_STEPS = 1000
NUM_SEEDS = 2**64


def number(request: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    """A number that is not negative; zero stands for the model's own."""
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} is {value}; give a number that is not negative, or 0 for the model's own")
    return float(value)


def steps_of(request: Mapping[str, Any]) -> int:
    """The number of steps; zero stands for the model's own."""
    steps = request.get("steps", 0)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps <= MAX_STEPS:
        raise ValueError(f"steps is {steps}; give a whole number from 1 to {MAX_STEPS}, or 0 for the model's own")
    return steps


def text(request: Mapping[str, Any], name: str) -> str:
    """A text, which may be empty."""
    value = request.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} is {str(value)[:100]}, a {type(value).__name__}; give one text")
    return value


def seed_of(request: Mapping[str, Any]) -> int:
    """The first picture's seed."""
    seed = request.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < NUM_SEEDS:
        raise ValueError(f"seed is {seed}; give a whole number from 0 up to {NUM_SEEDS - 1}")
    return seed
