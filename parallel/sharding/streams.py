"""The streams of a forward: how many tokens each has, which of them this rank holds, and tensors cut to that and back.

A *stream* is a sequence of tokens that the transformer carries. Each rank holds its part of a sharded one, and all of a
replicated one. Lengths are those of the tensors that the forward is given: nobody sends any.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..attention.rows import cut_along, gather_along
from ..collectives import add
from ..group import Axis
from ..layout import Layout, Stream, shares_of
from ..mesh import Mesh
from .padding import KeptKeys
from .sections.waiting import Later, Outline
from .split_plan import Along, SplitPlan

REMEDY = "give it one for each token, or one for all, or run it on one device"


class Streams:
    """Those of one sharded transformer; `forget` them before each forward."""

    def __init__(self, split: SplitPlan, mesh: Mesh, *, title: str, shards_text: bool) -> None:
        self.split, self.mesh, self.title = split, mesh, title
        self.replicated = frozenset(split.whole if shards_text else (*split.whole, *split.either))
        self.forget()

    def forget(self) -> None:
        self.streams: dict[str, Stream] = {}
        self.layouts: dict[tuple[str, ...], Layout] = {}
        self.grids: dict[tuple[str, ...], torch.Size] = {}  # of tokens that lie along several dims

    @property
    def rank(self) -> int:
        """This rank's index among those that share the sequence."""
        return self.mesh[Axis.SEQUENCE].index

    def define(self, name: str, length: int, unit: int = 1, *, what: str = "a tensor") -> None:
        """The stream has this many tokens; said again in the same forward it must be as many, or one for all."""
        known = self.streams.get(name)
        if known is not None and length not in (1, known.length):
            raise ValueError(
                f"{self.title}: its {name} stream has {known.length} tokens, but {what} has {length}; {REMEDY}"
            )
        if known is None:
            count = self.mesh[Axis.SEQUENCE].size
            # Models cut a text off by x[:, :-length], which is empty for a rank that would hold none of it: a text
            # shorter than the ranks are many is replicated.
            is_whole = name in self.replicated or (name in self.split.either and length < count)
            shares = None if is_whole else shares_of(length, count, unit)
            least = max(unit, self.split.least)
            # All ranks refuse alike, for all know all shares. One that went on with none would fail in a reshape, or
            # wait for the others for ever.
            if self.split.least and shares is not None and min(shares) < least:
                together = f" in parts of {unit} that stay together" if unit > 1 else ""
                raise ValueError(
                    f"{self.title}: its {name} stream has {length} tokens{together}, too few for the {count} ranks of "
                    f"plan {self.mesh.plan} that share it and need {least} each; lower the plan's degrees, or ask for "
                    "something larger"
                )
            self.streams[name] = Stream(name, length, shares, unit)

    def lengths(self) -> tuple[Stream, ...]:
        """The streams met so far in this forward, the same on all ranks."""
        return tuple(self.streams.values())

    def layout(self, names: tuple[str, ...]) -> Layout:
        """The layout of these streams, which must have been met in this forward."""
        if names not in self.layouts:
            missing = [name for name in names if name not in self.streams and name not in self.split.lacking]
            if missing:
                raise ValueError(
                    f"{self.title}: its {missing[0]} stream is needed before any tensor has shown its length: nothing "
                    "ran where its split plan lets it enter; run it on one device, or split guidance alone (cfg=2)"
                )
            streams = tuple(self.streams[name] for name in names if name in self.streams)
            self.layouts[names] = Layout(streams, self.mesh[Axis.SEQUENCE].size)
        return self.layouts[names]

    def without_padding(self, names: tuple[str, ...], kept: KeptKeys) -> Layout:
        """The layout of these streams without the keys of a text's padding."""
        layout, key = self.layout(names), ("without padding", *names)
        if key not in self.layouts:
            self.layouts[key] = Layout(layout.streams, layout.num_ranks, kept.left_out(layout.length))
        return self.layouts[key]

    def cut(self, x: Tensor, spec: Along, *, what: str) -> Tensor:
        """This rank's part of a tensor that runs along the streams of `spec`; a value for all tokens is everyone's."""
        layout = self.layout(spec.streams)
        if spec.grid > 1:  # rows after rows; a rank's part has no rows, and so is one of each dim but the first
            dims = range(spec.dim, spec.dim + spec.grid)
            self.grids[spec.streams] = x.shape[dims.start : dims.stop]
            part = self.cut(x.flatten(dims[0], dims[-1]), replace(spec, grid=1), what=what)
            return part[(..., *[None] * (spec.grid - 1), *[slice(None)] * (part.ndim - 1 - spec.dim))]
        if x.shape[spec.dim] == 1 != layout.length:
            return x
        if spec.batched and x.shape[spec.dim] % layout.length == 0:
            # Batch and tokens are one dim, item by item: a rank's tokens are neighbours within each item only.
            dim = spec.dim % x.ndim
            each = x.unflatten(dim, (-1, layout.length))
            return cut_along(each, dim + 1, layout=layout, rank=self.rank).flatten(dim, dim + 1)
        if x.shape[spec.dim] != layout.length:
            if spec.optional:
                return x
            raise ValueError(
                f"{self.title}: {what} has {x.shape[spec.dim]} tokens along dim {spec.dim}, but "
                f"{' and '.join(spec.streams)} have {layout.length}; {REMEDY}"
            )
        return cut_along(x, spec.dim, layout=layout, rank=self.rank)

    def gather(self, x: Tensor, dim: int, *streams: str) -> Tensor:
        """Collective: the whole of a tensor of which `dim` holds this rank's part of the streams."""
        group = self.mesh[Axis.SEQUENCE]
        layout = self.layout(streams)
        if isinstance(x, Later) and x.value is None:  # of another section: gathered if somebody looks
            shape = [*x.shape]
            shape[dim] = layout.length
            whole = Outline.of(torch.empty(shape, dtype=x.dtype, device="meta"), x.device)
            return x.waiting.later(whole, lambda: self.gather(x.finished(), dim, *streams), [x])
        if x.shape[dim] != layout.num_held(self.rank):
            raise ValueError(
                f"{self.title}: a tensor of {tuple(x.shape)} was to be gathered along dim {dim}, but this rank holds "
                f"{layout.num_held(self.rank)} tokens of {' and '.join(streams)}; its split plan does not fit: "
                "run it on one device, or split guidance alone (cfg=2)"
            )
        return gather_along(x, dim, layout=layout, rank=self.rank, group=group)

    def sum(self, x: Tensor) -> Tensor:
        """Collective: the sum over the ranks that share the sequence, with the same bits on each."""
        return add(x, group=self.mesh[Axis.SEQUENCE])
