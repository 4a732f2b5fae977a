"""What a family finds in a model's configs, and the sentence where a config is damaged.

A family's card and sizes are computed from the configs of a model's components; a config that lacks what they need is
damaged, and told so by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ...parallel.wording import worded
from ..families.card import Card
from ..families.family import Family
from .folder import component_in, read_config, read_index

MAX_MULTIPLE = 1024
SHIFTS = {"FlowMatchEulerDiscreteScheduler": "shift", "UniPCMultistepScheduler": "flow_shift"}
"""What configs of schedulers call a shift that is the same for every size."""
Configs = Callable[[str], Mapping[str, Any]]
T = TypeVar("T")


def family_card(folder: Path, family: Family) -> Card:
    """The family's defaults for the model in `folder`."""
    return _find(folder, lambda config: family.card(read_index(folder), config))


def family_size_multiple(folder: Path, family: Family) -> int:
    """Pixels that width and height of the model in `folder` must be a multiple of."""

    def find(config: Configs) -> int:
        multiple = family.size_multiple(config)
        if type(multiple) is not int or not 1 <= multiple <= MAX_MULTIPLE:
            raise TypeError(worded("sizes would be multiples of {}", str(multiple)[:40]))
        return multiple

    return _find(folder, find)


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
    asked: list[str] = []

    def config(name: str) -> Mapping[str, Any]:
        asked.append(name)
        return read_config(folder, name)

    try:
        return question(config)
    except KeyError as error:
        reason = f"lacks {str(error)[:100]}"
    except (ArithmeticError, AttributeError, IndexError, TypeError) as error:
        reason = f"has a wrong value ({str(error)[:200]})"
    raise ValueError(
        worded(
            "component {} of {}: its config {}; copy the model again",
            asked[-1] if asked else "model_index",
            folder,
            reason,
        )
    )
