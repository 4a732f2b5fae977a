"""A family that paints the negative of what FLUX paints, from the parts of one of its models."""

import dataclasses
from typing import TYPE_CHECKING, Any

from latentloom.pipelines.families import flux
from latentloom.pipelines.families.flux import denoise, encode_image, encode_text

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["FAMILY", "decode", "denoise", "encode_image", "encode_text"]

FAMILY = dataclasses.replace(flux.FAMILY, name="loom_example", title="Example", pipelines=("LoomExamplePipeline",))


def decode(parts: Any, *, tensor: "Tensor") -> "Tensor":
    return 1 - flux.decode(parts, tensor=tensor)
