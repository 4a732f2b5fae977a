"""Models whose keys and values, kept for later forwards, are compared as if they were output."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor


def with_kept(model: type, kept: Callable[[Any], list[Tensor]]) -> type:
    """`model`, giving back what it left in `kv_cache` too; under its own name, by which split plans are found."""
    run: Callable[..., Any] = getattr(model, "forward")  # noqa: B009 (a bare type has none to a type checker)

    @functools.wraps(run)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(self, *args, **kwargs), kept(kwargs["kv_cache"])

    return type(model.__name__, (model,), {"forward": forward})
