"""The dtype of new tensors, for one thread: `torch.set_default_dtype` sets it for what other threads compute, too."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Functions of torch whose tensors are of the default dtype, whatever they are asked for: made in it at once.
FACTORIES = (torch.empty, torch.ones, torch.zeros, torch.rand, torch.randn)
OF_PROCESS = torch.get_default_dtype  # Torch's own: `kept_to_this_thread` puts another in its place
# Functions that say by their name which dtype they give, and reading attributes.
CASTS = ("float", "double", "half", "bfloat16", "type", "__get__")


class DefaultDtype(TorchFunctionMode):
    """Within it, tensors that would be made in the process's default dtype are of `dtype`.

    That is what no argument has decided: no dtype among them, and no tensor of floating numbers. A quotient of whole
    numbers is divided before it is rounded, as torch does.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self._of_process = OF_PROCESS()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.dtype == self._of_process:
            return func(*args, **kwargs)
        if func in FACTORIES and kwargs.get("dtype") is None and kwargs.get("out") is None:
            return func(*args, **{**kwargs, "dtype": self.dtype})
        made = func(*args, **kwargs)
        is_default = isinstance(made, Tensor) and made.dtype == self._of_process
        if not is_default or getattr(func, "__name__", "") in CASTS or any(map(_decides, _flat(args, kwargs))):
            return made
        return made.to(self.dtype)


_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def kept_to_this_thread() -> Iterator[None]:
    """Within it, `torch.set_default_dtype` called in this thread is for this thread only.

    diffusers and transformers call it around the constructors of what they load, while another thread of a rank may be
    in the middle of a step. One thread at a time: a second waits.
    """
    thread = threading.get_ident()
    with _ONE_AT_A_TIME, DefaultDtype(OF_PROCESS()) as mode:
        set_for_all, read_for_all = torch.set_default_dtype, torch.get_default_dtype

        def set_default_dtype(dtype: torch.dtype, /) -> None:
            if threading.get_ident() == thread:
                mode.dtype = dtype
            else:
                set_for_all(dtype)

        def get_default_dtype() -> torch.dtype:
            return mode.dtype if threading.get_ident() == thread else read_for_all()

        torch.set_default_dtype, torch.get_default_dtype = set_default_dtype, get_default_dtype
        try:
            yield
        finally:
            torch.set_default_dtype, torch.get_default_dtype = set_for_all, read_for_all


def _decides(value: Any) -> bool:
    """Whether it is a dtype, or holds floating numbers, of torch's kinds or of numpy's."""
    dtype = getattr(value, "dtype", None)
    is_floating = dtype.is_floating_point if isinstance(dtype, torch.dtype) else getattr(dtype, "kind", "") == "f"
    return isinstance(value, torch.dtype) or is_floating


def _flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, list | tuple):
            yield from _flat(value, {})
        else:
            yield value
