"""What to ask differently so that a denoise fits: each way is reckoned anew, and told only where it does."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..families import FAMILIES
from ..models.describe import card_of
from ..shape import nearest_size, size_multiple
from ..values import Latents, Model, Quantization

GIB, MIB = 1 << 30, 1 << 20
SMALLEST = 4  # a picture is not made smaller than the model's own area, divided by this


@dataclass(frozen=True, kw_only=True)
class Mend:
    """One way: what it is in words, and the values by the names of sockets."""

    words: str
    values: Mapping[str, str | int]
    num_bytes: int  # what the fullest device then holds
    plan: str = ""  # the plan that was chosen for it, where one was

    def __str__(self) -> str:
        return f"{self.words} ({amount(self.num_bytes)})"


Fit = tuple[int, str]  # how a denoise fits: bytes on the fullest device, and the plan where one was chosen for it
# How a denoise of that model and size fits; None where it does not, or cannot be.
Ask = Callable[[Model, Latents], Fit | None]


def mends_of(
    model: Model, canvas: Latents, ask: Ask, *, quantizations: Sequence[Quantization], plans: Sequence[Mend] = ()
) -> list[Mend]:
    """The cheapest first: fewer bits, shared weights, a smaller picture, fewer frames, another plan, fewer at once.

    `plans` are those that fit the model as it is. Reads config files and headers only.
    """
    is_shared = [("weights=" in plan.words) for plan in plans]
    shared = [plan for plan, shares in zip(plans, is_shared, strict=True) if shares][:1]
    others = [plan for plan, shares in zip(plans, is_shared, strict=True) if not shares][:1]
    return [
        *_fewer_bits(model, canvas, ask, quantizations),
        *shared,
        *_smaller(model, canvas, ask),
        *_shorter(model, canvas, ask),
        *others,
        *_fewer(model, canvas, ask),
    ]


def amount(num_bytes: float) -> str:
    """For people."""
    return f"{num_bytes / GIB:.1f} GiB" if num_bytes >= GIB else f"{num_bytes / MIB:.0f} MiB"


def _fewer_bits(model: Model, canvas: Latents, ask: Ask, quantizations: Sequence[Quantization]) -> list[Mend]:
    if model.quantization != "none":
        return []
    for each in quantizations:
        if fit := ask(dataclasses.replace(model, quantization=each), canvas):
            return [Mend(words=f"quantization {each}", values={"quantization": each}, num_bytes=fit[0], plan=fit[1])]
    return []


def _smaller(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    """The largest picture of about this shape."""
    card, num_steps = card_of(model), max(canvas.width, canvas.height) // size_multiple(model)
    sizes = [
        nearest_size(model, canvas.width * step // num_steps, canvas.height * step // num_steps)
        for step in range(num_steps - 1, 0, -1)
    ]
    shapes = [{"width": w, "height": h} for w, h in sizes if SMALLEST * w * h >= card.width * card.height]
    return _largest(model, canvas, ask, shapes, "{width} x {height}")


def _shorter(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    """The longest video."""
    family = FAMILIES[model.family]
    step = family.frame_multiple or 1
    lengths = range(canvas.frames - step, family.least_frames - 1, -step) if family.frame_multiple else ()
    return _largest(model, canvas, ask, [{"frames": frames} for frames in lengths], "{frames} frames")


def _fewer(model: Model, canvas: Latents, ask: Ask) -> list[Mend]:
    return _largest(model, canvas, ask, [{"batch": batch} for batch in range(canvas.batch - 1, 0, -1)], "batch {batch}")


def _largest(model: Model, canvas: Latents, ask: Ask, shapes: Sequence[Mapping[str, Any]], words: str) -> list[Mend]:
    """The first of these shapes that fits, in a list; none where none does."""
    low, high, found = 0, len(shapes), list[Mend]()
    while low < high:  # each takes less than the one before, so that the first that fits is found by halves
        middle = (low + high) // 2
        values = shapes[middle]
        if fit := ask(model, dataclasses.replace(canvas, **values)):
            high = middle
            found = [Mend(words=words.format(**values), values=values, num_bytes=fit[0], plan=fit[1])]
        else:
            low = middle + 1
    return found
