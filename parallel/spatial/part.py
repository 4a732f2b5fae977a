"""Parts of pictures: which dim of a tensor holds this rank's rows, and how many rows every rank holds.

A decoder's tensors have the picture's rows in one of their dims. A rank holds a band of them, a *part*; from layer to
layer the rows become more by the same factor on all ranks.
"""

# R rows of this rank

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ..collectives import gather
from ..group import Group
from ..layout import shares_of
from . import LEAST_ROWS


@dataclass(frozen=True)
class Part:
    """Where a tensor holds this rank's rows: dim `dim` is `outer` times R, R being the same multiple everywhere.

    Tokens of a video are T H W in one dim: `outer` is then T, and each row of latents is W tokens.
    """

    dim: int
    outer: int = 1
    before: int = 0  # rows of the neighbours in it besides, for the convolution that comes next
    after: int = 0

    @property
    def has_halo(self) -> bool:
        return bool(self.before or self.after)


class Parts:
    """What the tensors of one decode hold; the others are whole on every rank, such as weights.

    Every rank derives the others' sizes from `counts`, the rows of latents each has: nothing is sent to agree on them.
    """

    def __init__(self, num_rows: int, *, group: Group, title: str) -> None:
        check_rows(num_rows, group.size, title=title)
        self.counts, self.group, self.title = shares_of(num_rows, group.size), group, title
        self._known = WeakTensorKeyDictionary()  # by the tensor itself: equal numbers are no reason to be a part
        self._zeros = WeakTensorKeyDictionary()  # made by `torch.zeros`, perhaps of the size of this rank's rows

    @property
    def own(self) -> int:
        return self.counts[self.group.index]

    def of(self, x: Tensor) -> Part | None:
        return self._known.get(x)

    def mark(self, x: Tensor, part: Part) -> Tensor:
        self._known[x] = part
        return x

    def mark_zeros(self, x: Tensor) -> Tensor:
        self._zeros[x] = True
        return x

    def is_zeros(self, x: Tensor) -> bool:
        """Whether it is zeros still: a part of the whole's, if there are as many rows of it as of others here."""
        return x in self._zeros and not x.is_inference() and not x._version

    def sizes(self, x: Tensor, part: Part) -> list[int]:
        """The rows of each rank, as many along `part.dim` for each row of latents as here."""
        rows, rest = divmod(x.shape[part.dim] // part.outer, self.own)
        assert not rest, f"{tuple(x.shape)} does not hold {part} of {self.own} rows of latents"
        return [count * rows for count in self.counts]

    def gathered(self, x: Tensor, part: Part) -> Tensor:
        """Collective: the whole of a tensor of which this rank holds a part."""
        sizes = self.sizes(x, part)
        own = x.unflatten(part.dim, (part.outer, -1)).movedim(part.dim + 1, 0)  # R ...
        line = own[0].numel()
        flat = gather(own.flatten(), sizes=[size * line for size in sizes], group=self.group)
        return flat.view(-1, *own.shape[1:]).movedim(0, part.dim + 1).flatten(part.dim, part.dim + 1)

    def refusal(self, func: Any, reason: str) -> ValueError:
        return ValueError(f"{self.title}: {func.__name__} {reason}; decode it on one device")


def check_rows(num_rows: int, num_ranks: int, *, title: str) -> None:
    """Refuse latents with too few rows for the ranks."""
    if num_rows < LEAST_ROWS * num_ranks:
        most = max(1, num_rows // LEAST_ROWS)
        raise ValueError(
            f"{title}: latents of {num_rows} rows cannot be split over {num_ranks} ranks, because each needs "
            f"{LEAST_ROWS}; split them over {most} at most, or make the picture higher"
        )
