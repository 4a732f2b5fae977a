"""Modulation shared out over the ranks that share tokens: each makes that of some blocks, and all gather it.

What shifts, scales and gates the tokens of a block is one row, `temb`, times the weights of a layer. In FLUX those are
a quarter of all weights, and every rank reads all of them in every step to make the same two megabytes. So a rank runs
these layers of its blocks alone, before the first block, and one gather gives all ranks those of all:

    temb  -SiLU, layers of my blocks->  block 2 | block 5 | ...  -gather->  of each block, in place of its temb

It is the same product of the same sizes as ever, so the bits are those of a rank that makes all by itself. A block is
given what was made in place of its temb, and its layers know that by its width: the activation hands it on, and each
layer takes its part. A block that is given another temb than the first makes its own, as does every block of a class
that is not in the table; step caches, ControlNets and LoRAs, be they on these layers, change nothing.

That of all steps could be made at once instead, since `temb` depends on no picture. But a captured step has its time on
the device only: it can neither tell whether that was foreseen nor make what was not. And 28 rows are another kernel
than one, and round differently. This needs to know nothing, and leaves an eighth of the reading on eight ranks.
"""

# B batch, W numbers that a block is modulated by

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...parallel.collectives import gather_into
from ...parallel.group import Group
from .products import LIKE_FLUX

DEVICES = ("cuda",)  # where ranks share it out; on a CPU a gather costs more than the weights do
TWO = (("norm1.silu", "norm1.linear"), ("norm1_context.silu", "norm1_context.linear"))
ONE = (("norm.silu", "norm.linear"),)
# By a block's class: the activations of its argument `temb`, each with the layer that is given what it makes.
MODULATED: Mapping[str, Sequence[tuple[str, str]]] = {
    **{f"{model}TransformerBlock": TWO for model in LIKE_FLUX},
    **{f"{model}SingleTransformerBlock": ONE for model in LIKE_FLUX},
    "QwenImageTransformerBlock": (("img_mod.0", "img_mod.1"), ("txt_mod.0", "txt_mod.1")),
    "JointTransformerBlock": TWO,
    "HunyuanVideo15TransformerBlock": TWO,
}


Place = tuple[dict[str, Any], str, Any]  # where a module hangs: its parent's modules, its name among them, and itself


@dataclass(frozen=True, eq=False)
class _Block:
    module: nn.Module
    layers: Sequence[Any]
    width: int  # W


def share_modulation(transformer: nn.Module, group: Group) -> Callable[[], None]:
    """Until what this gives is called, the members of `group` share out the modulation of the transformer's blocks.

    Not collective, but all of them do it alike: then the first block of each forward is Collective.
    """
    undo: list[Callable[[], Any]] = []
    places: list[Place] = []

    def attach() -> None:
        blocks: list[_Block] = []
        for each in transformer.modules():
            if found := _places(each):
                layers = [layer for _, _, layer in found[1::2]]
                blocks.append(_Block(each, layers, sum(layer.out_features for layer in layers)))
                undo.extend(_know_the_made(found, blocks[-1].width))
                places.extend(found)
        made = _Made(blocks, group)
        undo.append(transformer.register_forward_hook(made.forget, always_call=True).remove)
        for number, block in enumerate(blocks):
            undo.append(block.module.register_forward_pre_hook(_giving(made, number), with_kwargs=True).remove)

    def detach() -> None:
        while undo:
            undo.pop()()
        places.clear()

    def follow(*_: object) -> None:
        """Attach anew if layers were exchanged since, as adapters do that wrap a layer or give it back."""
        if any(held.get(name) is not each for held, name, each in places):
            detach()
            attach()

    attach()
    hook = transformer.register_forward_pre_hook(follow)

    def end() -> None:
        hook.remove()
        detach()

    return end


def _places(block: nn.Module) -> list[Place]:
    """The activations and layers that modulate a block, in turns; none if they are not as the table has them."""
    found: list[Place] = []
    for name in itertools.chain(*MODULATED.get(type(block).__name__, ())):
        above, _, last = name.rpartition(".")
        held = block.get_submodule(above)._modules
        found.append((held, last, held[last]))
    are_plain = all(type(each) is nn.SiLU for _, _, each in found[::2])
    if not are_plain or any("forward" in vars(each) for _, _, each in found):
        return []
    return [] if getattr(block, "zero_cond_t", False) else found  # Qwen-Image's edits ask for half of the rows


def _know_the_made(found: Sequence[Place], width: int) -> Iterator[Callable[[], Any]]:
    """Let activations and layers know what was made; what it gives undoes it."""
    start = 0
    for (_, _, activation), (_, _, layer) in zip(found[::2], found[1::2], strict=True):
        vars(activation)["forward"] = _handing_on(type(activation), activation, width)
        vars(layer)["forward"] = _taking_from(type(layer), layer, width, start)
        start += layer.out_features
        for each in (activation, layer):
            yield functools.partial(vars(each).pop, "forward", None)


def _handing_on(kind: Any, activation: nn.Module, width: int) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        return x if x.shape[-1] == width else kind.forward(activation, x)

    return forward


def _taking_from(kind: Any, layer: Any, width: int, start: int) -> Callable[..., Tensor]:
    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if x.shape[-1] == width:
            return x.narrow(-1, start, layer.out_features)
        return kind.forward(layer, x, *args, **kwargs)

    return forward


def _giving(made: _Made, number: int) -> Callable[..., Any]:
    """Give a block what was made in place of its temb."""
    place = list(inspect.signature(type(made.blocks[number].module).forward).parameters).index("temb") - 1

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if "temb" in kwargs:
            return args, {**kwargs, "temb": made.of(number, kwargs["temb"])}
        return (*args[:place], made.of(number, args[place]), *args[place + 1 :]), kwargs

    return before


class _Made:
    """What modulates the blocks in the forward under way."""

    def __init__(self, blocks: Sequence[_Block], group: Group) -> None:
        self.blocks, self._group = blocks, group
        self._owners = _owners([each.width for each in blocks], group.size)
        self._temb: Tensor | None = None
        self._rows: Sequence[Tensor] = ()

    def forget(self, *_: object) -> None:
        self._temb, self._rows = None, ()

    def of(self, number: int, temb: Tensor) -> Tensor:
        """Collective in the first block of a forward: its rows, or `temb` if that is not what they were made of."""
        if self._temb is None and temb.ndim == 2:
            self._temb, self._rows = temb, self._gathered(temb)
        return self._rows[number] if self._temb is temb else temb

    def _gathered(self, temb: Tensor) -> Sequence[Tensor]:
        """Collective: of each block B W."""
        size, index, batch = self._group.size, self._group.index, len(temb)
        own = [[number for number, owner in enumerate(self._owners) if owner == member] for member in range(size)]
        lengths = [[batch * self.blocks[number].width for number in numbers] for numbers in own]
        most = max(map(sum, lengths))
        buffer = temb.new_empty(size * most)
        slot, active = buffer.narrow(0, index * most, most), F.silu(temb)
        start = 0
        for number, length in zip(own[index], lengths[index], strict=True):
            rows = slot.narrow(0, start, length).view(batch, -1)
            torch.cat([layer(active) for layer in self.blocks[number].layers], 1, out=rows)
            start += length
        gather_into(buffer, slot, group=self._group, is_async=False)
        # Tensors of their own, by one launch: of a part of a buffer each compiled block would make a copy.
        found = [temb.new_empty(batch, block.width) for block in self.blocks]
        pieces, sizes = list[Tensor](), list[int]()
        for numbers, each in zip(own, lengths, strict=True):
            pieces += [*(found[number].view(-1) for number in numbers), temb.new_empty(most - sum(each))]
            sizes += [*each, most - sum(each)]
        torch.split_with_sizes_copy(buffer, sizes, out=pieces)
        return found


def _owners(widths: Sequence[int], count: int) -> list[int]:
    """Which member makes what, so that the busiest has least to do; all members find the same."""
    loads, owners = [0] * count, [0] * len(widths)
    for number in sorted(range(len(widths)), key=lambda number: -widths[number]):
        owners[number] = loads.index(min(loads))
        loads[owners[number]] += widths[number]
    return owners
