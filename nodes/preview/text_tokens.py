"""How many tokens of a workflow's texts its models read, before it runs, and which words are cut.

A text that only a run makes is left out; one that comes by wires through nodes that say what they give is counted.
"""

import contextlib
from collections.abc import Callable

from ...parallel.progress import SILENT
from ...pipelines.tokens.counter import Counter, TokenCount
from ..files.workspace import Workspace
from ..graph.ready import Ready
from ..graph.sketch import Reading
from .walk import Walk

MOST_TEXTS = 64  # how many texts are counted; each may take a second of a process that all users share


def text_tokens(
    ready: Ready,
    *,
    workspace: Workspace,
    counter: Counter,
    go_on: Callable[[], None] = SILENT.check,
) -> dict[str, dict[str, tuple[TokenCount, ...]]]:
    """Of each node that has a text read, by socket: what each text encoder makes of it, the one with the least room
    first, none where that is not known. An empty text is left out. `go_on` raises `Cancelled` where nobody wants to
    know any more.
    """
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
    found: dict[str, Reading] = {}
    for name in [name for name, spec in walk.specs.items() if spec.reads]:
        with contextlib.suppress(ValueError):
            reading = walk.tells(name, "reads")
            found |= {name: reading} if isinstance(reading, Reading) else {}
    return found
