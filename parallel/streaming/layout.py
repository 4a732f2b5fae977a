"""Where the tensors of a block lie, at rest and in a slot of the device, and how a block is pointed at either.

What is moved are bytes: dtypes, strides and the parts of packed weights stay what they are.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# Kernels choose how they sum by how memory is aligned: on a CPU a weight on another byte of its cache line may give
# other bits, and on a GPU cuBLAS looks at up to 256 bytes. So each tensor stays where it is modulo as many as matter:
# those of a line, or those by which torch aligns what it allocates on a GPU.
ALIGN, GPU_ALIGN = 64, 512


@dataclass(frozen=True, eq=False)
class Leaf:
    """One plain tensor: its name among a module's parameters or buffers, or in what a packed weight is made of."""

    held: dict[str, Any]
    name: str

    @property
    def value(self) -> Tensor:
        found = self.held[self.name]
        return found.data if isinstance(found, nn.Parameter) else found

    def point(self, to: Tensor) -> None:
        """Give it other memory. A parameter stays the same object: graphs and LoRAs know it by that."""
        if isinstance(found := self.held[self.name], nn.Parameter):
            found.data = to
        else:
            self.held[self.name] = to


def leaves(modules: Iterable[nn.Module]) -> Iterator[Leaf]:
    """All that these modules hold themselves and that has bytes; a tensor of two names twice."""
    for module in modules:
        yield from _leaves_in(module._parameters)
        yield from _leaves_in(module._buffers)


def _leaves_in(held: dict[str, Any], names: Iterable[str] | None = None) -> Iterator[Leaf]:
    for name in held if names is None else names:
        if hasattr(value := held[name], "__tensor_flatten__"):
            yield from _leaves_in(vars(value), value.__tensor_flatten__()[0])
        elif value is not None and value.numel():
            yield Leaf(held, name)


def outside_of(root: nn.Module, blocks: Sequence[nn.Module]) -> Iterator[nn.Module]:
    """The modules that one comes to without passing through a block."""
    if all(root is not block for block in blocks):
        yield root
        for child in root.children():
            yield from outside_of(child, blocks)


def shared_by_several(root: nn.Module, blocks: Sequence[nn.Module], *, kept: Iterable[nn.Module] = ()) -> set[int]:
    """The addresses of tensors that more than one block holds, or a block and what is in none, or that are of `kept`
    modules, which are called outside of their blocks: they move with none."""
    homes = Counter(
        address
        for modules in (outside_of(root, blocks), *(block.modules() for block in blocks))
        for address in {leaf.value.data_ptr() for leaf in leaves(modules)}
    )
    held = {leaf.value.data_ptr() for module in kept for leaf in leaves(module.modules())}
    return {address for address, count in homes.items() if count > 1} | held


@dataclass(frozen=True, eq=False)
class Spot:
    """A leaf, its tensor at rest, and at which byte of a slot that begins."""

    leaf: Leaf
    rest: Tensor
    offset: int

    def within(self, slot: Tensor) -> Tensor:
        """The leaf's tensor in a slot, which is a row of bytes."""
        flat = slot[self.offset : self.offset + num_bytes_under(self.rest)].view(self.rest.dtype)
        return flat.as_strided(self.rest.shape, self.rest.stride(), flat.storage_offset())


def bytes_under(first: Tensor, num_bytes: int) -> Tensor:
    """So much of the memory that begins with a tensor's first element."""
    begin, flat = first.storage_offset() * first.element_size(), torch.empty(0, dtype=torch.uint8, device=first.device)
    return flat.set_(first.untyped_storage(), begin, (num_bytes,), (1,))


def align_of(device: torch.device) -> int:
    return GPU_ALIGN if device.type == "cuda" else ALIGN


@dataclass(eq=False)
class _Run:
    """Tensors that lie side by side at rest, and so are copied at once."""

    first: Tensor
    offset: int
    num_bytes: int = 0

    def reaches(self, tensor: Tensor, align: int) -> bool:
        """Whether next to nothing of others' lies between them."""
        is_one = self.first.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
        return is_one and tensor.data_ptr() - self.first.data_ptr() < self.num_bytes + align


class Layout:
    """The tensors of a block in the order of their addresses, each aligned as it rests, modulo `align` bytes."""

    def __init__(self, block: nn.Module, *, without: Set[int] = frozenset(), align: int = ALIGN) -> None:
        self.spots: list[Spot] = []
        self._runs: list[_Run] = []
        end = 0
        for leaf in sorted(leaves(block.modules()), key=lambda each: each.value.data_ptr()):
            rest = leaf.value.detach()
            address = rest.data_ptr()
            if address in without:
                continue
            if not self._runs or not self._runs[-1].reaches(rest, align):
                self._runs.append(_Run(rest, end + (address - end) % align))
            run = self._runs[-1]
            begin = address - run.first.data_ptr()  # also of a second name, or of a part of the one before
            self.spots.append(Spot(leaf, rest, run.offset + begin))
            run.num_bytes = max(run.num_bytes, begin + num_bytes_under(rest))
            end = run.offset + run.num_bytes
        self.num_bytes = -(-end // align) * align

    def at_rest(self) -> list[tuple[Leaf, Tensor]]:
        return [(spot.leaf, spot.rest) for spot in self.spots]

    def within(self, slot: Tensor) -> list[tuple[Leaf, Tensor]]:
        """What each leaf is pointed at while the block lies in a slot."""
        return [(spot.leaf, spot.within(slot)) for spot in self.spots]

    @property
    def places(self) -> list[tuple[Any, ...]]:
        """What is equal where two blocks' bytes mean the same."""
        return [(spot.offset, spot.rest.dtype, spot.rest.shape, spot.rest.stride()) for spot in self.spots]

    def copies(self, into: Tensor, *, begin: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """(bytes of `into`, the bytes at rest that belong there), as few as neighbours allow. `into` stands for a slot
        from byte `begin` on, as far as it goes."""
        for run in self._runs:
            first, last = max(run.offset, begin), min(run.offset + run.num_bytes, begin + len(into))
            if first < last:
                rest = bytes_under(run.first, run.num_bytes)
                yield into[first - begin : last - begin], rest[first - run.offset : last - run.offset]


def num_bytes_under(tensor: Tensor) -> int:
    """Of the memory from a tensor's first element to its last, whatever its strides."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def point(views: Iterable[tuple[Leaf, Tensor]]) -> None:
    for leaf, to in views:
        leaf.point(to)
