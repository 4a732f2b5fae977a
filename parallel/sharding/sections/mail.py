"""What sections send each other: outputs of blocks, in the sender's order, and words that all of them hear.

Messages carry no address: sender and receiver know which outputs travel and in which order, from the words of the first
call of a kind. So a message that nobody has asked for yet lies where it is until a later one is asked for.
"""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...collectives import gather, let_go, receive, send
from ...errors import LoomError
from ...group import Axis
from ...mesh import Mesh
from ...staging import bytes_of
from .waiting import Outline

PLAIN = (type(None), bool, int, float, str)
Gave = tuple[list[Any], pytree.TreeSpec]  # leaves, of which tensors are outlines, and how they lie


@dataclass
class Message:
    """One that will come."""

    source: int
    outline: Outline
    call: int
    tag: int
    value: Tensor | None = None  # once it is here


class Unheard(LoomError):
    """What another section failed by: it was told to all."""

    code = "unheard"

    def __init__(self, reason: str, is_refusal: bool) -> None:
        super().__init__(reason)
        self.is_refusal = is_refusal


class Mail:
    """Of one rank, with the ranks of the other sections that hold the same part of a sequence."""

    def __init__(self, mesh: Mesh, device: torch.device, title: str) -> None:
        self.group, self._ways, self.device, self.title = mesh[Axis.LAYERS], mesh.ways, device, title
        self.coming = [deque[Message]() for _ in range(self.group.size)]
        # What a call that failed has sent would be taken for what the next one sends, but for another tag.
        self._tag = next(self.group.uses)

    def send(self, x: Tensor, to: int) -> None:
        """To a section; returns at once."""
        if x.numel():  # a copy: what runs next may write into it
            send(bytes_of(x).clone(), group=self._ways[self.group.index, to], tag=self._tag)

    def expect(self, source: int, outline: Outline, call: int) -> Message:
        """The next message of a section."""
        self.coming[source].append(message := Message(source, outline, call, self._tag))
        return message

    def received(self, message: Message) -> Tensor:
        """What it tells, once those before it are here."""
        while message.value is None:
            first = self.coming[message.source].popleft()
            flat = torch.empty(first.outline.num_bytes, dtype=torch.uint8, device=first.outline.device)
            if flat.numel():
                receive(flat, group=self._ways[first.source, self.group.index], tag=first.tag)
            first.value = first.outline.laid_out(flat)
            for way in self._ways.values():  # what came may follow from what was sent
                let_go(way)
        return message.value

    def give_up(self, call: int) -> None:
        """A call has failed, on all ranks alike or for good: nothing of it comes any more."""
        self.coming = [deque(each for each in queue if each.call != call) for queue in self.coming]
        self._tag = next(self.group.uses)

    def hear(self, word: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Collective: what each section says; Unheard if another tells of an error."""
        own = torch.frombuffer(bytearray(json.dumps(word).encode()), dtype=torch.uint8)
        sizes = [1] * self.group.size
        for x in (torch.tensor([own.numel()]), own):
            x = x.to(self.device) if self.group.packs else x
            said = gather(x, sizes=sizes, group=self.group).cpu()
            parts, sizes = said.split(sizes), said.tolist()
        words = [json.loads(bytes(part.tolist())) for part in parts]
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

    # ---- what a block gives, in plain words

    def told(self, output: Any) -> dict[str, Any]:
        """Raises ValueError for what is neither a tensor nor plain."""
        leaves, spec = pytree.tree_flatten(output)
        if foreign := [type(each).__name__ for each in leaves if not isinstance(each, (Tensor, *PLAIN))]:
            raise ValueError(f"{self.title}: a block gives a {foreign[0]}, which no other section could be told of")
        told = [
            [[*each.shape], [*each.stride()], str(each.dtype)[6:], each.is_cpu] if isinstance(each, Tensor) else each
            for each in leaves
        ]
        return {"leaves": told, "spec": pytree.treespec_dumps(spec)}

    def read(self, told: Mapping[str, Any]) -> Gave:
        """With outlines on this rank's device."""
        leaves = list(told["leaves"])
        for number, each in enumerate(leaves):
            if isinstance(each, list):
                shape, stride, dtype, is_cpu = each
                place = torch.device("cpu") if is_cpu else self.device
                leaves[number] = Outline(tuple(shape), tuple(stride), getattr(torch, dtype), place)
        return leaves, pytree.treespec_loads(told["spec"])
