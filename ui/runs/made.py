"""What a run made: the facts of each picture, video and sound file, with the prompt and seed behind it.

A result is one file; its id, not its path, is what pages and programs see.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...nodes.execution.records import RunResult
from ...nodes.files.thumbnails import picture_facts, sound_facts, video_facts
from ...nodes.graph.choosing import specs_of
from ...nodes.graph.graph import Graph, Link
from ...nodes.graph.resolve import param_values, plain_value, with_overrides
from ...nodes.graph.spec import NodeSpec
from ..live.state import Made
from ..store.files import KINDS
from ..store.user_files import fresh_id, user_folder

Specs = Mapping[str, NodeSpec]
MAX_PROMPT = 2000
FACTS = {"image": picture_facts, "video": video_facts, "audio": sound_facts}


def made_by(
    result: RunResult, graph: Graph, specs: Specs, *, folder: Path, output_dir: Path, known: Sequence[Made] = ()
) -> tuple[Made, ...]:
    """The files below the run's folder, in the order in which the nodes ran; what is a link or gone is left out. The
    graph is unfolded.

    What is `known` already, since the run told of it, stays as it is, also of a node that failed afterwards.
    """
    made: list[Made] = []
    for node, record in result.nodes.items():
        own = {each.name: each for each in known if each.node == node}
        for file in map(Path, record.files):
            found = own.pop(file.name, None) or made_of(file, node, graph, specs, folder=folder, output_dir=output_dir)
            made += [found] if found is not None else []
        made += own.values()
    return tuple(made)


def made_of(file: Path, node: str, graph: Graph, specs: Specs, *, folder: Path, output_dir: Path) -> Made | None:
    """One file that a node wrote; None for a link, and for what is gone, elsewhere, or neither seen nor heard."""
    return _made(file, node, graph, specs, output_dir) if is_own_file(file, folder) else None


def is_own_file(file: Path, folder: Path) -> bool:
    """Whether it is a plain file inside the folder, by no link."""
    try:
        return not file.is_symlink() and file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def thumbnail_path(data_dir: Path, user: str, id: str) -> Path:
    """The path of a result's thumbnail, which need not have been made yet."""
    return user_folder(data_dir, user) / "thumbs" / f"{id}.webp"


def _made(file: Path, node: str, graph: Graph, specs: Specs, output_dir: Path) -> Made | None:
    if (kind := KINDS.get(file.suffix.lower())) is None:
        return None
    try:
        facts = FACTS[kind](file)
        num_bytes = file.stat().st_size
    except (ValueError, OSError):
        return None
    prompt, seed = behind(graph, node, specs)
    return Made(
        id=fresh_id(),
        node=node,
        kind=kind,
        name=file.name,
        path=file.resolve().relative_to(output_dir.resolve()).as_posix(),
        width=facts.width,
        height=facts.height,
        frames=facts.frames,
        fps=round(facts.fps, 4),
        rate=facts.rate,
        channels=facts.channels,
        length_s=round(facts.length_s, 3),
        bytes=num_bytes,
        time=time.time(),
        prompt=prompt,
        seed=seed,
    )


def behind(graph: Graph, node: str, specs: Specs) -> tuple[str, int | None]:
    """The prompt and the seed that a node's value came from: the nearest text called prompt, else any long text."""
    values = list(_values(graph, node, specs))
    texts = [(socket, str(value)) for socket, widget, value in values if widget == "multiline" and value]
    prompts = [text for socket, text in texts if socket == "prompt"]
    others = [text for socket, text in texts if "negative" not in socket]
    seeds = [value for _, widget, value in values if widget == "seed" and isinstance(value, int)]
    return next(iter(prompts or others), "")[:MAX_PROMPT], next(iter(seeds), None)


def _values(graph: Graph, node: str, specs: Specs) -> Iterator[tuple[str, str, Any]]:
    """(socket, widget, value) of all values behind a node, the nearest first; what is not set has its default."""
    params = param_values(graph, {})
    by_node = specs_of(graph, specs, {}, with_overrides(graph, {}))
    seen = {node}
    waiting = [node]
    while waiting:
        name = waiting.pop(0)
        spec = by_node.get(name)
        inputs = graph.nodes[name].inputs
        for socket, entry in inputs.items():
            if not isinstance(entry, Link):
                known = spec.input(socket) if spec else None
                yield socket, known.widget if known else "", plain_value(entry, params)
            elif entry.node not in seen and entry.node in graph.nodes:
                seen.add(entry.node)
                waiting.append(entry.node)
        for unset in spec.inputs if spec else ():
            if unset.name not in inputs:
                yield unset.name, unset.widget, unset.default
