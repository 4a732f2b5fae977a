"""A scheduler's step of diffusers, for which the host does not wait for the device.

The arithmetic is diffusers', to the bit: only how numbers of the host get to the device is another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Unwaiting(TorchFunctionMode):
    """Within, what goes from the host to an accelerator is not waited for, nor are linear systems asked whether they
    can be solved: one that cannot gives no numbers, which is seen at the end of the denoise.
    """

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.to and args[0].device.type == "cpu" and not any(isinstance(each, bool) for each in args):
            kwargs = {"non_blocking": True, **kwargs}
        elif func is torch.linalg.solve and args[0].is_cuda:
            return torch.linalg.solve_ex(*args, **kwargs)[0]
        elif func is Tensor.__getitem__ and args[0].is_cuda and isinstance(args[1], list):
            args = (args[0], torch.tensor(args[1]).to(args[0].device, non_blocking=True))
        return func(*args, **kwargs)


def unwaiting(scheduler: Any) -> Any:
    """The scheduler itself, whose steps and whose mixing in of noise are now done so."""
    for name in ("step", "scale_noise"):
        if hasattr(scheduler, name):
            setattr(scheduler, name, MethodType(_done(name), scheduler))  # of a copy it is the copy's
    return scheduler


def _done(name: str) -> Callable[..., Any]:
    def done(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        with Unwaiting():
            return getattr(type(scheduler), name)(scheduler, *args, **kwargs)

    return done
