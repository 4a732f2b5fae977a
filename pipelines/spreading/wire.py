"""Values as plain data: texts, numbers, lists and dicts as they are described, and what a leaf makes of the rest.

By default that is a pipeline's arguments and results: pictures, sounds, arrays, tensors, and generators by their state.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..values import Audio

KIND, VALUE = "kind", "value"


def to_leaf(value: Any) -> Any:
    """Raises ValueError for what can be given to no rank."""
    from PIL import Image

    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        return {KIND: "tensor", VALUE: value.detach().cpu()}
    if isinstance(value, np.ndarray):
        return {KIND: "array", VALUE: torch.from_numpy(np.ascontiguousarray(value))}
    if isinstance(value, Image.Image):
        kept = value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB")
        return {KIND: "picture", VALUE: torch.from_numpy(np.array(kept)), "mode": kept.mode}
    if isinstance(value, Audio):
        return {KIND: "audio", VALUE: value.waveform.detach().cpu(), "rate": value.rate}
    if isinstance(value, torch.Generator):
        if value.device.type != "cpu":
            raise ValueError(f"a generator on {value.device} cannot be given to ranks; give one on the CPU")
        return {KIND: "generator", VALUE: value.get_state()}
    raise ValueError(
        f"a {type(value).__name__} cannot be given to ranks; give texts, numbers, pictures, sounds, tensors, arrays, a "
        "generator, or lists of them, or dicts of them by names"
    )


def from_leaf(plain: dict[str, Any]) -> Any:
    from PIL import Image

    kind, value = plain[KIND], plain[VALUE]
    if kind == "picture":
        return Image.fromarray(value.numpy(), plain["mode"])
    if kind == "audio":
        return Audio(waveform=value, rate=plain["rate"])
    if kind == "generator":
        generator = torch.Generator()
        generator.set_state(value)
        return generator
    return value.numpy() if kind == "array" else value


def to_wire(value: Any, leaf: Callable[[Any], Any] = to_leaf) -> Any:
    """`leaf` describes all but None, texts, numbers, and lists, tuples and dicts by names; subclasses of these, too."""
    kind = type(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if kind in (list, tuple):
        return {KIND: kind.__name__, VALUE: [to_wire(each, leaf) for each in value]}
    if kind is dict and all(isinstance(name, str) for name in value):
        return {KIND: "dict", VALUE: {name: to_wire(each, leaf) for name, each in value.items()}}
    return leaf(value)


def from_wire(plain: Any, leaf: Callable[[dict[str, Any]], Any] = from_leaf) -> Any:
    """What `to_wire` was given; `leaf` is asked in the same order."""
    if not isinstance(plain, dict):
        return plain
    kind = plain[KIND]
    if kind == "dict":
        return {name: from_wire(each, leaf) for name, each in plain[VALUE].items()}
    if kind in ("list", "tuple"):
        found = [from_wire(each, leaf) for each in plain[VALUE]]
        return tuple(found) if kind == "tuple" else found
    return leaf(plain)
