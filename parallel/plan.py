"""A parallel plan: how one denoise uses the devices, written `cfg=2,ulysses=2,ring=2`.

An *axis* says what is split (`cfg` guidance, `layers` the transformer's blocks, `ulysses` heads, `ring` or `allgather`
keys and values, `weights` the weights), its *degree* over how many ranks. Plain data: it imports no torch, so that
whoever only plans need not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .errors import did_you_mean

Text = Literal["auto", "sharded", "replicated"]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What a plan knows of an attention strategy by which keys and values reach all ranks of a sequence."""

    rounds: bool  # whether it merges what it attended to part by part, so that it rounds otherwise than one device


# By the name of its degree, which is that of its module in `attention/` and of its field in `ParallelPlan`.
EXCHANGES: Mapping[str, Exchange] = {"ring": Exchange(rounds=True), "allgather": Exchange(rounds=False)}
# The exchange that is taken where nobody names one.
EXACT = next(name for name, exchange in EXCHANGES.items() if not exchange.rounds)
SHARDING = ("ulysses", *EXCHANGES)  # the strategies that split the token sequence, outermost first
DEGREES = ("cfg", "layers", *SHARDING, "weights")


@dataclass(frozen=True)
class ParallelPlan:
    """Degrees of the mesh's axes; cfg x layers x ulysses x (ring or allgather) is the number of ranks.

    `cfg` splits the branches of guidance; `layers` puts consecutive blocks on consecutive devices, each *section* of
    them on the ranks of one sequence; `ulysses` splits attention's heads, `ring` and `allgather` its keys and
    values, and all three split the token sequence; `weights` ranks hold one copy of the weights between them. `text`
    says what joint attention does with the text stream: `auto` shards it where the model offers that.
    """

    cfg: int = 1
    layers: int = 1
    ulysses: int = 1
    ring: int = 1
    allgather: int = 1
    weights: int = 1
    text: Text = "auto"

    def __post_init__(self) -> None:
        for name in DEGREES:
            degree = getattr(self, name)
            if type(degree) is not int or degree < 1:
                raise ValueError(f"plan: {name} is {degree!r}; give a whole number from 1")
        if self.text not in get_args(Text):
            raise ValueError(f"plan: text is {self.text!r}; give one of {', '.join(get_args(Text))}")
        if len(both := [name for name in self.strategies if name in EXCHANGES]) > 1:
            raise ValueError(
                f"plan {self}: {' and '.join(both)} are two ways to exchange the same keys and values; "
                "set one of them to 1"
            )
        if self.layers > 1 and self.weights > 1:
            raise ValueError(
                f"plan {self}: layers puts each block's weights on the ranks of one section, and weights would share "
                "out the same weights; set one of them to 1"
            )
        if self.num_ranks % self.weights:
            raise ValueError(
                f"plan {self}: {self.num_ranks} ranks cannot be put into groups of {self.weights} that share weights; "
                f"give weights a number that divides {self.num_ranks}"
            )
        if self.sequence % self.weights and self.weights % self.sequence:
            raise ValueError(
                f"plan {self}: groups of {self.weights} that share weights would hold parts of several sequences of "
                f"{self.sequence} ranks, and one that fails would leave others waiting; give weights a number that "
                f"divides {self.sequence}, or a multiple of it"
            )

    @property
    def num_ranks(self) -> int:
        return self.cfg * self.branch

    @property
    def branch(self) -> int:
        """The ranks that work on one branch of guidance."""
        return self.layers * self.sequence

    @property
    def num_shares(self) -> int:
        """The parts of the weights that ranks hold between them."""
        return self.weights * self.layers

    @property
    def splits_forward(self) -> bool:
        """Whether ranks share a forward: its tokens, its weights or its blocks."""
        return max(self.sequence, self.weights, self.layers) > 1

    @property
    def sequence(self) -> int:
        """The ranks that share one token sequence."""
        return self.ulysses * self.exchange

    @property
    def exchange(self) -> int:
        """The ranks between which keys and values travel, by one of the exchanges."""
        return math.prod(getattr(self, name) for name in EXCHANGES)

    @property
    def rounds(self) -> bool:
        """Whether its exchange rounds otherwise than one device."""
        return any(EXCHANGES[name].rounds for name in self.strategies if name in EXCHANGES)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The attention strategies in use, outermost first."""
        return tuple(name for name in SHARDING if getattr(self, name) > 1)

    def __str__(self) -> str:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        parts = [f"{name}={getattr(self, name)}" for name in defaults if getattr(self, name) != defaults[name]]
        return ",".join(parts) or "ulysses=1"

    @classmethod
    def exact(cls, *, cfg: int = 1, ulysses: int = 1, exchange: int = 1) -> ParallelPlan:
        """With the exchange that computes each number by the same sums as one device."""
        return dataclasses.replace(cls(cfg=cfg, ulysses=ulysses), **{EXACT: exchange})

    @classmethod
    def parse(cls, text: str) -> ParallelPlan:
        """Read `ulysses=2,ring=2`; what is not named keeps its default."""
        names = [field.name for field in dataclasses.fields(cls)]
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if part == "auto":
                raise ValueError(
                    f"plan {text!r}: auto is a word of --plan and of the node Parallel Plan, which choose for a model "
                    "and its devices; name the axes here, like cfg=2,ulysses=2"
                )
            if part == "compiled":
                raise ValueError(
                    f"plan {text!r}: compiled goes with auto alone, as auto,compiled, which may choose it; beside axes "
                    "turn compiled of Load Model on"
                )
            if not equals or name not in names:
                hint = "" if name in names else did_you_mean(name, names)
                raise ValueError(
                    f"plan {text!r}: {part!r} is no axis; {hint}write it like cfg=2,ulysses=2,ring=2 "
                    f"with {', '.join(names)}"
                )
            if name in values:
                raise ValueError(f"plan {text!r}: {name} is given twice; give it once")
            values[name] = _value(text, name, value)
        return cls(**values)


def _value(text: str, name: str, value: str) -> int | str:
    if name not in DEGREES:
        return value
    if not (value.isascii() and value.isdigit()):
        raise ValueError(f"plan {text!r}: {name} is {value!r}; give a whole number from 1")
    return int(value)
