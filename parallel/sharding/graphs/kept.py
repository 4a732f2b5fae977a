"""What a process knows of each kind of block: the attention calls that it makes, by shapes, and its graphs, by states.

Graphs outlive the transformer that they were made for: another of the class, or the same after it was spread anew,
finds them again. What was not used for longest makes way, and is let go of by torch, too.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .traced import AttentionCall, free

# Of one kind of block, for all states and the like that a process meets; those not used for longest are dropped.
MOST_GRAPHS = 64
MOST_SHAPES = 512  # of one kind of block, for which its attention calls are known


@dataclass
class Graphs:
    """Those of one kind of block in one state: for the lengths that were met first, and the twin for all others."""

    number: int
    first: Hashable = None
    is_broken: bool = False  # torch cannot take the block in one graph
    made: dict[bool, Callable[..., Any]] = field(default_factory=dict)  # by whether it is for the first lengths

    def get(
        self, kind: type[nn.Module], make: Callable[..., Any], *, is_first: bool, options: Any
    ) -> Callable[..., Any]:
        made = self.made
        is_automatic = options.get("dynamic") is None
        which = is_first or not is_automatic  # whoever says what is dynamic has one graph for all lengths
        if which not in made:
            more = {"dynamic": True} if is_automatic and not is_first else {}
            name = f"{kind.__name__}_{self.number}_{'first' if which else 'any'}"
            made[which] = make(name=name, options={**_without_mode(options), **more, "fullgraph": True})
        return made[which]

    def drop(self) -> None:
        for each in self.made.values():
            free(each)


class KeptGraphs:
    """What this process knows of one kind of block: attention calls by shapes, and graphs by states."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._calls = OrderedDict[Hashable, tuple[AttentionCall, ...]]()
        self._graphs = OrderedDict[Hashable, Graphs]()
        self._num_made = 0

    def calls_of(self, sort: Hashable) -> tuple[AttentionCall, ...] | None:
        return self._calls.get(sort)

    def learn(self, sort: Hashable, calls: tuple[AttentionCall, ...]) -> None:
        self._calls[sort] = calls
        if len(self._calls) > MOST_SHAPES:
            self._calls.popitem(last=False)

    def graphs_of(self, key: Hashable) -> Graphs:
        if key not in self._graphs:
            self._num_made += 1
            self._graphs[key] = Graphs(self._num_made)
            if len(self._graphs) > MOST_GRAPHS:
                self._graphs.popitem(last=False)[1].drop()
        self._graphs.move_to_end(key)
        return self._graphs[key]

    def forget(self) -> None:
        while self._graphs:
            self._graphs.popitem()[1].drop()
        self._calls.clear()


_kinds: weakref.WeakKeyDictionary[type[nn.Module], KeptGraphs] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def kept_of(kind: type[nn.Module]) -> KeptGraphs:
    with _making:  # two threads that meet a kind first would each keep graphs of their own
        return _kinds.setdefault(kind, KeptGraphs())


def forget() -> None:
    """Drop all graphs of blocks that this process has made."""
    for kept in list(_kinds.values()):
        with kept.lock:
            kept.forget()


def _without_mode(options: Mapping[str, Any]) -> dict[str, Any]:
    """A mode of torch.compile as the options that it stands for: it takes one of both."""
    given = dict(options)
    mode = given.pop("mode", None)
    if mode is not None:
        given["options"] = torch._inductor.list_mode_options(mode)
    return given
