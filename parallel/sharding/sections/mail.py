"""What sections send each other: outputs of blocks, in the sender's order, and words that all of them hear.

Messages carry no address: sender and receiver know which outputs travel and in which order, from the words of the first
call of a kind. So a message that nobody has asked for yet lies where it is until a later one is, and a value of which
nobody asks any more is taken out of its way and let go.
"""

import json
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...collectives import gather, receive, send
from ...group import Axis
from ...mesh import Mesh
from ...staging import bytes_of
from .waiting import Later, Outline

PLAIN = (type(None), bool, int, float, str)


@dataclass
class Due:
    """A message that will come."""

    number: int  # among all of its sender
    call: int
    tag: int
    outline: Outline
    wanted: weakref.ref[Later] | None = None


class Mail:
    """Of one rank, with the ranks of the other sections that hold the same part of a sequence."""

    def __init__(self, mesh: Mesh, device: torch.device, title: str) -> None:
        self.group, self._ways, self.device, self.title = mesh[Axis.LAYERS], mesh.ways, device, title
        self._due: dict[int, deque[Due]] = {other: deque() for other in range(self.group.size)}
        self._num_due = dict.fromkeys(range(self.group.size), 0)
        # What a call that failed has sent would be taken for what the next one sends, but for another tag.
        self._tag = next(self.group.uses)

    def send(self, x: Tensor, to: int) -> None:
        """To a section; returns at once."""
        if x.numel():  # a copy: what runs next may write into it
            send(bytes_of(x).clone(), group=self._ways[self.group.index, to], tag=self._tag)

    def expect(self, source: int, outline: Outline, call: int) -> Due:
        """The next message of a section tells of this tensor."""
        self._num_due[source] += 1
        due = Due(self._num_due[source], call, self._tag, outline)
        self._due[source].append(due)
        return due

    def received(self, source: int, number: int) -> Tensor:
        """The message of this number, and what comes before it goes to those who want it."""
        while True:
            due = self._due[source].popleft()
            flat = torch.empty(due.outline.num_bytes, dtype=torch.uint8, device=due.outline.device)
            if flat.numel():
                receive(flat, group=self._ways[source, self.group.index], tag=due.tag)
            value = due.outline.laid_out(flat)
            if due.number == number:
                return value
            if due.wanted is not None and (later := due.wanted()) is not None:
                later.arrive(value)

    def give_up(self, call: int) -> None:
        """A call has failed, on all ranks alike or for good: nothing of it comes any more."""
        for queue in self._due.values():
            kept = [due for due in queue if due.call != call]
            queue.clear()
            queue.extend(kept)
        self._tag = next(self.group.uses)

    def hear(self, word: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Collective: what each section says; Unheard if another tells of an error."""
        own = torch.frombuffer(bytearray(json.dumps(word).encode()), dtype=torch.uint8)
        sizes = gather(self._on_wire(torch.tensor([own.numel()])), sizes=[1] * self.group.size, group=self.group)
        lengths = sizes.tolist()
        text = gather(self._on_wire(own), sizes=lengths, group=self.group).cpu()
        words = [json.loads(bytes(part.tolist())) for part in text.split(lengths)]
        for section, each in enumerate(words):
            if section != self.group.index and "error" in each:
                raise Unheard(each["error"], each["is_refusal"])
        return words

    def shared(self, x: Tensor | None, outline: Outline, source: int) -> Tensor:
        """Collective: a tensor of one section, on all of them."""
        flat = torch.empty(0, dtype=torch.uint8, device=outline.device) if x is None else bytes_of(x)
        sizes = [outline.num_bytes if each == source else 0 for each in range(self.group.size)]
        found = gather(flat, sizes=sizes, group=self.group)
        return outline.laid_out(found) if x is None else x

    def _on_wire(self, x: Tensor) -> Tensor:
        return x.to(self.device) if self.group.packs else x


class Unheard(Exception):
    """What another section failed by: it was told to all."""

    def __init__(self, reason: str, is_refusal: bool) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal


# ---- A tree of tensors in plain words


def described(tree: Any, title: str) -> Any:
    """As JSON can hold it. Raises ValueError for what is neither a tensor nor plain."""
    if isinstance(tree, Tensor):
        kind = "cpu" if tree.device.type == "cpu" else ""
        return {"shape": [*tree.shape], "stride": [*tree.stride()], "dtype": str(tree.dtype)[6:], "device": kind}
    if isinstance(tree, list | tuple):
        return {"list": [described(each, title) for each in tree], "is_tuple": isinstance(tree, tuple)}
    if isinstance(tree, dict):
        return {"names": [*tree], "values": [described(each, title) for each in tree.values()]}
    if type(tree) not in PLAIN:
        raise ValueError(f"{title}: a block gives a {type(tree).__name__}, which no other section could be told of")
    return {"plain": tree}


def outlined(told: Any, device: torch.device) -> Any:
    """The tree with an outline for each tensor, on this rank's device."""
    if "shape" in told:
        place = torch.device("cpu") if told["device"] else device
        return Outline(tuple(told["shape"]), tuple(told["stride"]), getattr(torch, told["dtype"]), place)
    if "list" in told:
        found = [outlined(each, device) for each in told["list"]]
        return tuple(found) if told["is_tuple"] else found
    if "names" in told:
        return {name: outlined(each, device) for name, each in zip(told["names"], told["values"], strict=True)}
    return told["plain"]
