"""The step border: where a running stage reports progress and learns that it was cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

Preview = Callable[[], "Tensor"]
"""Makes a small picture of the latents, uint8 H W 3; called only when somebody is watching."""


class Cancelled(BaseException):
    """The user asked for the run to end. No `Exception`, because diffusers' loops turn every `Exception` into a log."""


class Border(Protocol):
    """What a stage calls between steps. Both methods may raise `Cancelled`, and nothing else."""

    def phase(self, name: str) -> None:
        """A part of the work begins, such as "loading transformer"; it has no steps of its own."""
        ...

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        """`done` of `total` steps are finished."""
        ...


class Silent:
    """The border of a call made by hand: nobody watches and nobody cancels."""

    def phase(self, name: str) -> None:
        pass

    def step(self, done: int, total: int, preview: Preview | None = None) -> None:
        pass


SILENT = Silent()
