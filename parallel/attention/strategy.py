"""What an attention strategy is: four functions, and the values they speak of.

Each strategy is a module of this package: `check` refuses what it cannot do exactly, `attend` does it. They are
composed by taking an inner `attend`. `wire` and `traced` are the same exchange as a part of a compiled block's graph
(`sharding/graphs/traced.py`). What is known of each without torch, is in `plan.EXCHANGES`, and what it sends in
`parallel/traffic.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..group import Axis
from ..layout import Layout
from ..mesh import Mesh
from ..traffic import Shape

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Kernel:
    """Two ways to attend on one device: one for any mask, one that also returns log-sum-exp.

    `plain(q, k, v, mask, scale)` -> B H S D; `with_lse(...)` -> B H S D, in fp32 where it can, and fp32 B H S. Neither
    is ever given an empty tensor. `with_lse` gets float masks and as many key heads as query heads.
    """

    name: str
    plain: Callable[[Tensor, Tensor, Tensor, Tensor | None, float | None], Tensor]
    with_lse: Callable[[Tensor, Tensor, Tensor, Tensor | None, float | None], tuple[Tensor, Tensor]]
    package: str = ""  # what has to be installed for it
    stand_in: str = ""  # what torch calls the kernel that stands in for its own flash kernel, once torch is told to
    # Whether it takes these q, k and v, of the usual widths and types, at all.
    fits: Callable[[Tensor, Tensor, Tensor], bool] = lambda q, k, v: True
    is_traced: bool = True  # whether torch can trace it, as a part of a compiled block
    error: float = 0.02  # the most that half precision may differ from plain attention to values of variance 1


@dataclass(frozen=True)
class Terms:
    """What an attention call is answered by, beside its blocks and their scale."""

    layout: Layout  # over the ranks that a strategy and its inner one work on
    mesh: Mesh
    kernel: Kernel
    mask: Tensor | None = None  # of global size


Attend = Callable[..., "Tensor"]  # `attend(q, k, v, *, scale, terms)`, all else settled
# An exchange in a graph: the name of its group, what never changes for the graph, and what each call is given.
Wired = tuple[str, Sequence[int], Any]


class Strategy(Protocol):
    """A module of this package."""

    @property
    def AXIS(self) -> Axis:
        """Along which it exchanges."""

    def check(self, layout: Layout, mesh: Mesh) -> None:
        """Refuse, by name and with a remedy, what this strategy cannot do exactly."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, terms: Terms, inner: Attend) -> Tensor:
        """Collective: attention of this rank's B H S D blocks to the whole sequence."""

    def wire(self, shape: Shape, layout: Layout, mesh: Mesh, device: torch.device) -> tuple[Sequence[int], Any]:
        """What never changes for a graph of this exchange, and what each call of it is given."""

    def traced(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, kernel: Kernel, wire: Wired) -> Tensor:
        """Collective: the same as `attend`, without a mask, by few operators that a compiler can take into a graph."""
