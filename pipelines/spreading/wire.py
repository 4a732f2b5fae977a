"""A pipeline's arguments and results as plain data: pictures, arrays, tensors, and generators by their state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

KIND, VALUE = "kind", "value"


def to_wire(value: Any) -> Any:
    """Raises ValueError for what is none of these."""
    from PIL import Image

    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        return {KIND: "tensor", VALUE: value.detach().cpu()}
    if isinstance(value, np.ndarray):
        return {KIND: "array", VALUE: torch.from_numpy(np.ascontiguousarray(value))}
    if isinstance(value, Image.Image):
        kept = value if value.mode in ("L", "RGB", "RGBA") else value.convert("RGB")
        return {KIND: "picture", VALUE: torch.from_numpy(np.array(kept)), "mode": kept.mode}
    if isinstance(value, torch.Generator):
        if value.device.type != "cpu":
            raise ValueError(f"a generator on {value.device} cannot be given to ranks; give one on the CPU")
        return {KIND: "generator", VALUE: value.get_state()}
    if isinstance(value, list | tuple):
        return {KIND: "tuple" if isinstance(value, tuple) else "list", VALUE: [to_wire(each) for each in value]}
    if isinstance(value, dict):
        return {KIND: "dict", VALUE: {str(name): to_wire(each) for name, each in value.items()}}
    raise ValueError(
        f"a {type(value).__name__} cannot be given to ranks; give texts, numbers, pictures, tensors, arrays, a "
        "generator, or lists of them"
    )


def from_wire(plain: Any) -> Any:
    """What `to_wire` was given."""
    from PIL import Image

    if not isinstance(plain, dict):
        return plain
    kind, value = plain[KIND], plain[VALUE]
    if kind == "tensor":
        return value
    if kind == "array":
        return value.numpy()
    if kind == "picture":
        return Image.fromarray(value.numpy(), plain["mode"])
    if kind == "generator":
        generator = torch.Generator()
        generator.set_state(value)
        return generator
    if kind == "dict":
        return {name: from_wire(each) for name, each in value.items()}
    found = [from_wire(each) for each in value]
    return tuple(found) if kind == "tuple" else found
