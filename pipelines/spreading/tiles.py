"""A VAE's own tiles on several ranks, each with some: to the bit the pixels of one process that decodes in tiles.

The class's own loop cuts the tiles and blends them; only its calls of `decoder` are taken over, and it runs twice:

    first    call 0 1 2 3 4 ...   rank r computes the calls r, r + P, r + 2P, ...; the loop is given outlines
    vote     whether every rank has its tiles; if one has not, all raise
    second   call 0 1 2 3 4 ...   before each P calls the ranks gather what they found; the loop blends it
"""

# P ranks

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ...parallel.agreement import any_says
from ...parallel.collectives import gather
from ...parallel.errors import PeerLost
from ...parallel.group import Group
from ...parallel.sharding.fingerprint import check_same
from ...parallel.sharding.sections.waiting import Outline
from .calls import signature_of

# Of each decoder what its calls give, by what they are given: to find it out takes as long as to compute some tiles.
_outlines: weakref.WeakKeyDictionary[nn.Module, dict[Hashable, Outline]] = weakref.WeakKeyDictionary()


def decoded(vae: Any, whole_decode: Callable[..., Any], z: Tensor, *args: Any, group: Group) -> Any:
    """Collective: what `whole_decode`, the VAE's own, gives for these latents on one process, to the bit.

    Each of its calls of `decoder` has to stand alone: no caches, no random numbers. Raises ValueError if the ranks were
    given different latents, and on all ranks if one fails.
    """
    title = type(vae).__name__
    check_same({"z": z, **{f"argument {at}": arg for at, arg in enumerate(args, 2)}}, group, title=title, around=group)
    turns, error = Turns(vae.decoder, group), None
    # Beside the module: what walks through the VAE's modules, or has hooked into them, finds the decoder as it is.
    vars(vae)["decoder"] = turns.first
    try:
        try:
            whole_decode(z, *args)
        except Exception as problem:
            error = problem
        if any_says(error is not None, group=group, device=z.device):
            raise error or PeerLost(f"{title}: another rank could not decode its tiles")
        vars(vae)["decoder"] = turns.second
        return whole_decode(z, *args)
    finally:
        del vars(vae)["decoder"]


class Turns:
    """The calls of one decode: what this rank computed, and in outline what all others will give."""

    def __init__(self, decoder: nn.Module, group: Group) -> None:
        self._decoder, self._group = decoder, group
        self._fakes = FakeTensorMode(allow_non_fake_inputs=True)
        self._known = _outlines.setdefault(decoder, {})
        self._outlines: list[Outline] = []  # of each call
        self._own: dict[int, Tensor] = {}  # what this rank computed, by the number of the call
        self._number = 0
        self._round: list[Tensor] = []

    def first(self, *args: Any, **kwargs: Any) -> Tensor:
        """The outline of a tile; it is computed if it is this rank's turn."""
        signature, number = signature_of([args, kwargs]), len(self._outlines)
        if signature not in self._known:
            self._known[signature] = Outline.of(self._outline(args, kwargs))
        outline = self._known[signature]
        self._outlines.append(outline)
        if number % self._group.size == self._group.index:
            found = self._own[number] = self._decoder(*args, **kwargs)
            came, awaited = ((tuple(each.shape), each.dtype) for each in (found, outline))
            if came != awaited:
                title = type(self._decoder).__name__
                raise ValueError(f"{title}: a tile is {came}, and the others await {awaited}; decode it on one device")
        with self._fakes:
            return torch.empty(outline.shape, dtype=outline.dtype, device=outline.device)

    def second(self, *_: Any, **__: Any) -> Tensor:
        """Collective in the first of as many calls as there are ranks: the tile."""
        number, self._number = self._number, self._number + 1
        if number % self._group.size == 0:
            outlines = self._outlines[number:][: self._group.size]
            own = self._own.pop(number + self._group.index, None)
            sizes = [math.prod(each.shape) for each in outlines] + [0] * (self._group.size - len(outlines))
            nothing = torch.empty(0, dtype=outlines[0].dtype, device=outlines[0].device)
            block = nothing if own is None else own.flatten()
            parts = gather(block, sizes=sizes, group=self._group).split(sizes)
            self._round = [part.view(each.shape) for part, each in zip(parts, outlines, strict=False)]
        return self._round[number % self._group.size]

    def _outline(self, args: Any, kwargs: Any) -> Tensor:
        """What the decoder gives, in all but its numbers: computed on tensors that have none, if that can be."""
        if any("forward" in vars(each) for each in self._decoder.modules()):
            # Somebody brings its weights when it is called (`parallel/streaming`, accelerate), and needs real tensors.
            return self._decoder(*args, **kwargs)
        with self._fakes:
            given, named = pytree.tree_map_only(Tensor, self._fakes.from_tensor, (args, kwargs))
            return type(self._decoder).forward(self._decoder, *given, **named)
