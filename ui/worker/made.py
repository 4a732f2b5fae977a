"""What a run made: the facts of each picture, video and sound file, with the prompt and seed behind it.

A result is one file; its id, not its path, is what pages and programs see.
"""

import functools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...nodes.execution.records import RunResult
from ...nodes.files.thumbnails import picture_facts, sound_facts, video_facts
from ...nodes.graph.graph import Link
from ...nodes.graph.ready import Ready
from ...nodes.graph.resolve import plain_value
from ..live.state import MadeFile
from ..store.user_files import KINDS, fresh_id, user_folder

MAX_PROMPT = 2000
MAX_WORD = 120  # characters of one value among the words; prompts are searched whole
MAX_WORDS = 4000
FACTS = {"image": picture_facts, "video": video_facts, "audio": sound_facts}


def made_by(
    result: RunResult, ready: Ready, *, folder: Path, output_dir: Path, known: Sequence[MadeFile] = ()
) -> tuple[MadeFile, ...]:
    """The files below the run's folder, in the order in which the nodes ran; what is a link or gone is left out.

    What is `known` already, since the run told of it, stays, also of a node that failed afterwards.
    """
    made: list[MadeFile] = []
    meant = {name: record.values for name, record in result.nodes.items()}
    for node, record in result.nodes.items():
        own = {each.name: each for each in known if each.node == node}
        for file in map(Path, record.files):
            found = own.pop(file.name, None) or made_of(file, node, ready, folder=folder, output_dir=output_dir)
            made += [found] if found is not None else []
        made += own.values()
    parts = {
        (node, Path(file).name): result.part_of(node, index)
        for node in result.parts
        for index, file in enumerate(result.nodes[node].files)
    }

    @functools.cache
    def told(node: str, part: str) -> dict[str, Any]:
        beside = {*result.parts[node]} - {part} if part else ()
        return told_of(behind(ready, node, meant, beside=beside))

    # what they were made with is told anew: the run knows by now what 0, "" and "auto" were
    found = ((each, parts.get((each.node, each.name), "")) for each in made)
    return tuple(each.model_copy(update={**told(each.node, part), "part": part}) for each, part in found)


def is_own_file(file: Path, folder: Path) -> bool:
    """Whether it is a plain file inside the folder, by no link."""
    try:
        return not file.is_symlink() and file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def thumbnail_path(data_dir: Path, user: str, id: str) -> Path:
    """The path of a result's thumbnail, which need not have been made yet."""
    return user_folder(data_dir, user) / "thumbs" / f"{id}.webp"


def made_of(file: Path, node: str, ready: Ready, *, folder: Path, output_dir: Path) -> MadeFile | None:
    """One file that a node wrote; None for a link, and for what is gone, elsewhere, or neither seen nor heard."""
    if not is_own_file(file, folder) or (kind := KINDS.get(file.suffix.lower())) is None:
        return None
    try:
        facts = FACTS[kind](file)
        num_bytes = file.stat().st_size
    except (ValueError, OSError):
        return None
    return MadeFile(
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
        **told_of(behind(ready, node)),
    )


@dataclass(frozen=True, kw_only=True)
class GivenValue:
    """A plain value that a node was given."""

    node: str
    socket: str
    widget: str
    value: Any


def behind(
    ready: Ready, node: str, meant: Mapping[str, Mapping[str, Any]] | None = None, *, beside: Collection[str] = ()
) -> list[GivenValue]:
    """All values behind a node, the nearest first; what is not set has its default, or what was `meant` by it. Of the
    nodes `beside` its own nothing is told: other parts of the batch that it is of."""
    nodes, found = ready.graph.nodes, list[GivenValue]()
    seen = {node, *beside}
    waiting = [node]
    while waiting:
        name = waiting.pop(0)
        spec, own = ready.specs.get(name), (meant or {}).get(name, {})
        inputs = nodes[name].inputs
        for socket, entry in inputs.items():
            known = spec.input(socket) if spec else None
            widget = known.widget if known else ""
            if not isinstance(entry, Link):
                value = own.get(socket, plain_value(entry, ready.params))
                found.append(GivenValue(node=name, socket=socket, widget=widget, value=value))
                continue
            if isinstance(own.get(socket), int | float | str):  # a text or number that another node made
                found.append(GivenValue(node=name, socket=socket, widget=widget, value=own[socket]))
            if entry.node not in seen and entry.node in nodes:
                seen.add(entry.node)
                waiting.append(entry.node)
        for unset in spec.inputs if spec else ():
            if unset.name not in inputs:
                value = own.get(unset.name, unset.default)
                found.append(GivenValue(node=name, socket=unset.name, widget=unset.widget, value=value))
    return found


def told_of(values: Sequence[GivenValue]) -> dict[str, Any]:
    """What is kept of these beside a result: the nearest text called prompt, else any long text; the nearest seed; the
    models; and all of them in words.
    """
    texts = [(each.socket, str(each.value)) for each in values if each.widget == "multiline" and each.value]
    prompts = [text for socket, text in texts if socket == "prompt"]
    others = [text for socket, text in texts if "negative" not in socket]
    seeds = [each.value for each in values if each.widget == "seed" and isinstance(each.value, int)]
    models = dict.fromkeys(str(each.value)[:MAX_WORD] for each in values if each.widget == "model" and each.value)
    lines = (
        f"{each.node}.{each.socket}={str(each.value)[:MAX_WORD]}" for each in values if each.value not in ("", None)
    )
    return {
        "prompt": next(iter(prompts or others), "")[:MAX_PROMPT],
        "seed": next(iter(seeds), None),
        "models": tuple(models),
        "words": "\n".join(line.replace("\n", " ") for line in lines)[:MAX_WORDS].casefold(),
    }
