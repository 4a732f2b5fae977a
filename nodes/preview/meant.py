"""What stand-ins will be: the numbers and names that a run will use where 0, "" or "auto" is written;
and how many tokens its models will read of texts.
"""

import contextlib
import dataclasses
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...parallel.progress import SILENT
from ...pipelines.tokens.counter import Counter, TokenCount
from ..files.picture_files import NOISE_KEY, VALUES_KEY
from ..files.workspace import Workspace
from ..graph.graph import Link
from ..graph.ready import Ready
from ..graph.scalars import PLAIN_TYPES
from ..graph.sketch import Reading
from .preview import NodePlan
from .walk import MAX_ASKED, Walk

Meant = dict[str, dict[str, Any]]  # plain values by node and socket
MOST_TAG = 16 << 10  # characters of the tag in a result
At = tuple[str, str, Any]  # (node, socket, value)


def meant(walk: Walk, needed: Collection[str] | None = None, plans: Sequence[NodePlan] = ()) -> Meant:
    """The inputs, of all nodes or those that are needed, that will be something else than what is written there.

    What is not known before the run is left out, and so is what two nodes have different answers for, as a shared
    Sampler Options. A plan that `plans` chose is told at the node where it could be written.
    """
    told: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for node, socket, value in (*_answers(walk, needed), *_plans(walk, plans)):
        told[node, socket].append(value)
    found: Meant = defaultdict(dict)
    for (node, socket), values in told.items():
        with contextlib.suppress(ValueError):  # what is written there may not be known
            if all(value == values[0] for value in values) and walk.written(node, socket) != values[0]:
                found[node][socket] = values[0]
    return dict(found)


def brought(walk: Walk, needed: Collection[str]) -> Meant:
    """The plain values that wires bring to nodes, as far as they are known before the run: a text of Vary Text, say."""
    found: Meant = defaultdict(dict)
    for name in needed:
        for socket in walk.specs[name].inputs if name in walk.specs else ():
            if socket.type in PLAIN_TYPES and walk.link(name, socket.name):
                with contextlib.suppress(ValueError):
                    found[name][socket.name] = walk.value(name, socket)[0]
    return dict(found)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Which sizes a node's model paints, in pixels."""

    width: int
    """Its own."""
    height: int
    multiple: int
    """Of which both sides must be."""
    most_side: int
    """Beyond which it paints nothing sensible; 0 where nobody says so."""
    has_shape: bool
    """Whether a picture's shape stands for a size of zero, at the model's own area."""


def sizes(walk: Walk) -> dict[str, Sizes]:
    """Of each node that has a model and a size, as far as its model is known."""
    from ...pipelines.models.describe import card_of
    from ...pipelines.shape import size_multiple

    found: dict[str, Sizes] = {}
    asked = [name for name, spec in walk.specs.items() if all(map(spec.input, ("model", "width", "height")))]
    for name in asked[:MAX_ASKED]:
        model_socket = walk.specs[name].input("model")
        assert model_socket is not None, "it has one"
        has_shape = any(each.type == "Image" and walk.has(name, each.name) for each in walk.specs[name].inputs)
        with contextlib.suppress(ValueError):
            model = walk.value(name, model_socket)[0]
            card, multiple = card_of(model), size_multiple(model)
            own = {each: getattr(card, each) for each in ("width", "height", "most_side")}
            found[name] = Sizes(**own, multiple=multiple, has_shape=has_shape)
    return found


def tagged(workspace: Workspace, values: Meant) -> Workspace:
    """The workspace whose results say what stand-ins meant, and that they have the noise of their seeds, beside the
    workflow that they carry, if they carry one."""
    text = json.dumps(values)
    if not workspace.metadata:
        return workspace
    tag = {VALUES_KEY: text} if values and len(text) <= MOST_TAG else {}
    return dataclasses.replace(workspace, metadata={**workspace.metadata, **tag, NOISE_KEY: "seed"})


def _answers(walk: Walk, needed: Collection[str] | None) -> Iterator[At]:
    for name, told in walk.told("means", needed):
        for socket, value in told.items():
            yield from _placed(walk, name, socket, value) if isinstance(value, Mapping) else [(name, socket, value)]


def _placed(walk: Walk, name: str, socket: str, values: Mapping[str, Any]) -> Iterator[At]:
    """Values of the node that a wire comes from; without a wire they stay where it would end."""
    link = walk.link(name, socket)
    if link is None:
        if values:
            yield name, socket, dict(values)
        return
    for own, value in values.items():
        if holder := _holder(walk, link, own):
            yield holder, own, value


def _plans(walk: Walk, plans: Sequence[NodePlan]) -> Iterator[At]:
    for each in plans:
        # The plan that a result carries is nobody's hand: at the node it says "auto", or nothing.
        is_written = each.is_chosen_by_hand and each.node not in walk.carried
        chosen = "" if each.problem or is_written or each.num_ranks < 2 else each.plan
        if chosen and walk.specs[each.node].input("plan"):
            yield each.node, "plan", chosen
        elif chosen and (link := walk.link(each.node, "model")) and (holder := _holder(walk, link, "plan")):
            yield holder, "plan", chosen


def _holder(walk: Walk, link: Link | None, socket: str) -> str:
    """The first node with such an input on the way back along wires of the same name; "" where there is none."""
    seen: set[str] = set()
    while link is not None and link.node in walk.specs and link.node not in seen:
        if walk.specs[link.node].input(socket):
            return link.node
        seen.add(link.node)
        link = walk.link(link.node, link.socket)
    return ""


# ---- How many tokens of a workflow's texts its models read, before it runs, and which words are cut.
#
# A text that only a run makes is left out; one that comes by wires through nodes that say what they give is counted.

MOST_TEXTS = 64  # how many texts are counted; each may take a second of a process that all users share


def text_tokens(
    ready: Ready, *, workspace: Workspace, counter: Counter, go_on: Callable[[], None] = SILENT.check
) -> dict[str, dict[str, tuple[TokenCount, ...]]]:
    """Of each node that has a text read, by socket: what each text encoder makes of it, the one with the least room
    first, none where that is not known. An empty text is left out. `go_on` raises `Cancelled` where nobody wants to
    know any more."""
    walk = Walk(ready, workspace=workspace, go_on=go_on)
    found: dict[str, dict[str, tuple[TokenCount, ...]]] = {}
    for name, reading in readings_of(walk).items():
        for socket, text in reading.texts.items():
            if sum(map(len, found.values())) == MOST_TEXTS:
                return found
            if text:
                counted = counter.counts(reading.model, text, text_length=reading.text_length, go_on=go_on)
                found.setdefault(name, {})[socket] = counted
    return found


def readings_of(walk: Walk) -> dict[str, Reading]:
    """The texts of each node whose model is known."""
    return {name: reading for name, reading in walk.told("reads") if isinstance(reading, Reading)}
