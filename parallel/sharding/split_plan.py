"""A split plan: how one transformer class is cut along its token sequence, as data.

It names the token streams that the class carries, where each enters the blocks, which block arguments run along a
stream, which attention calls do something else than joint self attention, and where the streams are put together
again. Nothing here runs anything: `session.py` follows the plan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# What a plan is written with: `latentloom.split_plan` is this module.
__all__ = [
    *("LOCAL", "Along", "Attend", "Halo", "Leading", "MadeAnew", "Padding", "Spans", "SplitPlan", "Tail", "Trailing"),
    *("Units", "image", "text", "tokens"),
]


@dataclass(frozen=True)
class Along:
    """A tensor, or each tensor of a tuple, list or dict, whose `dim` runs over these streams in this order."""

    dim: int
    streams: tuple[str, ...]
    ndim: int | None = None  # only a tensor with this many dims; another is left alone
    optional: bool = False  # a tensor whose dim is missing or of another length (a value for all tokens) is left alone
    batched: bool = False  # the dim runs over the streams once for each item of the batch, item by item
    grid: int = 1  # so many dims, from a `dim` that is not negative on; of a rank's part the first runs over its tokens


@dataclass(frozen=True)
class Units:
    """An integer that counts units of a stream (rows of a picture, say); each rank is told its own count."""

    stream: str


@dataclass(frozen=True)
class Leading:
    """An integer that counts tokens from the start of a stream; each rank is told how many of them it holds."""

    stream: str


@dataclass(frozen=True)
class Trailing:
    """An integer that counts tokens to the end of a stream; each rank is told how many of them it holds."""

    stream: str


@dataclass(frozen=True)
class Spans:
    """Rows of these streams by their numbers, a list of (first, one past the last or None, ...).

    Each rank is told where they are among its own, in a piece for each stream; of what follows, a tensor has a row for
    each of them, and is cut. Where a model has added the length of a stream to all numbers but 0, and had it from this
    rank's part, `behind` names that stream: the whole one's length is what stands there.
    """

    streams: tuple[str, ...]
    behind: str = ""


@dataclass(frozen=True)
class Tail:
    """A tensor whose `dim` runs over the last tokens of a stream only, as many as it is long."""

    dim: int
    stream: str


@dataclass(frozen=True)
class MadeAnew:
    """An argument that the model makes wrongly, from this rank's lengths and global positions: made anew instead."""

    make: Callable[[Any, Mapping[str, Any], Any], Any]  # (argument, all arguments, session)


OF_SOME = (Leading, Spans, Tail)  # what tells some tokens of a stream from the others
Item = Along | Units | Leading | Trailing | Spans | Tail | None
# For a tuple argument: one spec for each of its items; None leaves the argument or item alone.
Spec = Item | MadeAnew | tuple[Item, ...]


# Tensors along one stream, by their dim: `image(1)`. Of a model that keeps all its tokens in one it is `tokens`.
image = functools.partial(Along, streams=("image",))
text = functools.partial(Along, streams=("text",))
tokens = functools.partial(Along, streams=("tokens",))


@dataclass(frozen=True)
class Attend:
    """What one attention call does: the streams of its queries and of its keys.

    Equal streams: self attention over them, by the chosen strategy. No keys: keys and values are whole on every rank
    (cross attention to replicated text), so the call stays local. Different streams: keys and values are gathered,
    and queries that name no stream are whole on every rank.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    mask: Literal["global", "outer"] = "global"  # outer: the mask is m m^T of a local vector m of valid tokens


LOCAL = Attend((), ())


@dataclass(frozen=True)
class Halo:
    """A convolution that reaches `reach` units of the stream to both sides, along `dim` of its input and output."""

    stream: str
    dim: int
    reach: int


# Where the keys of a text are in attention: before or behind all others, or in calls of their own.
Place = Literal["first", "last", "alone"]


@dataclass(frozen=True)
class Padding:
    """Arguments of the transformer that are masks of B texts, and of nothing else: each row shows a text and hides the
    rest, in all attention that is masked. The texts of several masks are put together, what is shown before the rest.
    """

    masks: tuple[str, ...]
    place: Place


@dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """Everything needed to shard one transformer class from outside; paths are module paths, `*` one path part."""

    # The streams in the order of the joint sequence; an attention call not named below is self attention over them. ()
    # of a class without a sequence, whose rows alone can be shared out (cfg).
    order: tuple[str, ...] = ("image",)

    # Streams that may be sharded or replicated, as the plan's `text` says; the others are always sharded.
    either: tuple[str, ...] = ()

    # Streams that are always replicated. One that no input shows, or that only keys have, is as long as an attention
    # call shows.
    whole: tuple[str, ...] = ()

    lacking: tuple[str, ...] = ()  # streams that a forward may lack, such as that of a reference picture

    # Module lists (or modules) whose members see sharded tokens; attention elsewhere is left alone.
    blocks: tuple[str, ...]

    # {module path: {argument: spec}}: cut before the module runs. A stream's length is that of the first tensor cut
    # along it alone; "" is the transformer itself, and `.0` of a list the first of its modules that is not skipped.
    inputs: Mapping[str, Mapping[str, Spec]]

    # {module path: spec of its output}: cut after the module ran, where a stream is needed before the first block.
    made: Mapping[str, Spec] = field(default_factory=dict)

    # {module path: spec of its output}: gathered after the module ran; with the last one the streams are whole.
    outputs: Mapping[str, Spec]

    # {end of a module path: what its calls do, first to last}; the last entry holds for all further calls.
    attention: Mapping[str, tuple[Attend, ...]] = field(default_factory=dict)

    # {stream: (arguments of the module that shows its length) -> how many tokens stay together}, such as a row's.
    units: Mapping[str, Callable[[Mapping[str, Any]], int]] = field(default_factory=dict)

    # Tokens of a stream that each rank must have, or more ranks are refused: most blocks tell sizes by
    # reshape(..., -1), which has no answer without elements. 2 where they squeeze a dim of one away, or a mask of one
    # token could be anything; 0 where they are proven to run on none, as `tests/bench/matrix.py` asks of a class
    # that says so.
    least: int = 1

    # {end of a module path: halo}: convolutions along the sequence.
    halos: Mapping[str, Halo] = field(default_factory=dict)

    # {end of a module path: processor(old processor, session)}: attention that is no softmax, set while attached. Of a
    # module that has no processor, the forward: forward(module, session); behind a `:` another method than that.
    processors: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)

    # {end of a module path}: what the transformer also calls outside its block, so that shared weights are gathered
    # for it by itself.
    lent: tuple[str, ...] = ()

    # Masks by which keys may be left out; keys that others hide are attended to with the mask, as the model does.
    paddings: tuple[Padding, ...] = ()

    # What a transformer's config changes of the plan of its class.
    adapt: Callable[[SplitPlan, Any], SplitPlan] | None = None

    # (reason, config -> bool): configurations of the class that cannot be split.
    refused: tuple[tuple[str, Callable[[Any], bool]], ...] = ()

    def kinds(self) -> tuple[Attend, ...]:
        """Every thing an attention call may do; the first is self attention over all streams."""
        kinds = [Attend(self.order, self.order)]
        for calls in self.attention.values():
            kinds += [call for call in calls if call not in kinds]
        return tuple(kinds)

    def measured(self, call: Attend) -> tuple[str, ...]:
        """The streams whose length the call itself shows."""
        whole = [name for name in call.keys if name in self.whole]
        return tuple(name for name in whole if name not in call.queries or name in self._unshown)

    @functools.cached_property
    def _unshown(self) -> frozenset[str]:
        """The whole streams that no input shows."""
        specs = [spec for inputs in (*self.inputs.values(), self.made) for spec in inputs.values()]
        each = [item for spec in specs for item in (spec if isinstance(spec, tuple) else (spec,))]
        shown = {name for item in each if isinstance(item, Along) for name in item.streams}
        return frozenset(self.whole) - shown
