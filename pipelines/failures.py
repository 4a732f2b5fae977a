"""What a stage fails with, in one sentence: numbers that are none, lacking memory, and what a library refuses.

A NaN or an infinity is told with its likely cause, at a stage's end: one of the first step would else travel to the
picture, which a decoder paints black. Of memory it is told how much was lacking, as far as torch tells.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..parallel.errors import EASED, BadInput, OutOfMemory, is_out_of_memory
from ..parallel.wording import worded

if TYPE_CHECKING:
    from torch import Tensor

    from .values import Model
    from .whole.called import Whole

DTYPES = ("torch.float32", "torch.float16", "torch.bfloat16")
CAUSE = (
    "damaged weights, a LoRA of a large scale, or numbers beyond {dtype} do this: load the model in another dtype "
    "(fp32, or bf16 in place of fp16), or leave out its LoRAs"
)


class NotFinite(BadInput):
    """A stage made what is no number; finding out took all of the stage's time."""

    code = "not-finite"


def check_finite(
    tensors: Mapping[str, Tensor | None], parts: Mapping[str, Any], model: Model | Whole, *, what: str
) -> None:
    """Raise `NotFinite` where a value is NaN or infinite; it names the weight that is so itself, if there is one.

    Costs one pass over the tensors and one wait for the device, so it belongs at the end of a stage and not in a step.
    """
    for name, tensor in tensors.items():
        if tensor is None or not tensor.is_floating_point() or _is_finite(tensor):
            continue
        num_bad = tensor.numel() - int(tensor.isfinite().sum())
        found = f"{num_bad} of {tensor.numel()} values of {what} ({name}) are not finite numbers (NaN or infinity)"
        raise NotFinite(f"{found}; {_cause(parts, model)}")


def _is_finite(tensor: Tensor) -> bool:
    import torch

    # By the least and the largest value, which are NaN if any is: `isfinite` of all would take memory like them.
    return not tensor.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(tensor.detach()))).all())


def _cause(parts: Mapping[str, Any], model: Model | Whole) -> str:
    import torch

    for name, part in parts.items():
        if not isinstance(part, torch.nn.Module):
            continue
        for weight, tensor in part.named_parameters():
            # neither quantized weights nor a rank's share of one, whose other shares are not known here
            is_plain = type(tensor) is torch.nn.Parameter and str(tensor.dtype) in DTYPES and not tensor.is_meta
            if not is_plain or _is_finite(tensor):
                continue
            owners = set(weight.split(".")) if ".lora_" in weight or ".lokr_" in weight else set[str]()
            if lora := next((each for each in model.loras if each.adapter in owners), None):
                return f"the LoRA {lora.path} holds such values itself ({weight}); remove it or get it again"
            return f"{name} of {model.source} holds such values itself ({weight}); get the model again"
    return CAUSE.format(dtype=model.dtype)


@contextlib.contextmanager
def told_by(device: str, *, doing: str, remedy: str, eases: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Within it, whatever means that memory ran out is raised as `OutOfMemory`; one that is so already stays.

    `eases` keeps less in memory from then on, where it can: then the error says so by its code.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        words = worded("{} ran out of memory{} {}; {}", device, shortage(error), doing, remedy)
        told = error if isinstance(error, OutOfMemory) else OutOfMemory(words)  # while loading it names the component
        if eases():
            told.code = EASED
        raise told from None


@contextlib.contextmanager
def refused_as(words: Callable[[Exception], str]) -> Iterator[None]:
    """Within it, whatever a library raises becomes a `ValueError` in these words; not what means that memory ran out,
    which is no mistake of the request's.
    """
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(words(error)) from error


def shortage(error: BaseException) -> str:
    """How much was asked for and how much was there, as far as torch's text tells; "" where it does not."""
    text = str(error)
    asked = re.search(r"[Tt]ried to allocate ([\d.]+) (\w+)", text)
    if asked is None:
        return ""
    free = re.search(r"of which ([\d.]+ \w+) is free", text)
    amount = f"{asked[1]} {asked[2]}" if asked[2] != "bytes" else f"{int(asked[1]) / 2**30:.2f} GiB"
    return f" ({amount} more was asked for{f', {free[1]} was free' if free else ''})"
