"""Where workflows come from: a file of their own or ComfyUI's, or a picture, video or sound; and what they may read."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...parallel.errors import BadInput
from ...parallel.wording import worded
from ...pipelines.models.source import exists, split_source
from ..files.audio_files import read_audio_metadata
from ..files.picture_files import NOISE_KEY, VALUES_KEY, WORKFLOW_KEY, read_metadata
from ..files.video_files import read_video_metadata
from ..files.workspace import Workspace
from ..graph.check import ensure
from ..graph.graph import Graph, Node, graph_from_plain, graph_text, read_graph
from ..graph.problems import parse_json, read_bytes
from ..graph.ready import ready
from ..hosts.comfy_file import from_comfy, is_comfy, read_chunk, to_comfy
from ..registry import SPECS
from ..steps.denoising import noise_recipe

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
VIDEOS = (".mp4", ".mov", ".webm", ".mkv")
SOUNDS = (".flac", ".wav", ".mp3", ".ogg", ".opus", ".m4a")
READERS = dict.fromkeys(PICTURES, read_metadata) | dict.fromkeys(VIDEOS, read_video_metadata)
READERS |= dict.fromkeys(SOUNDS, read_audio_metadata)
SHIPPED = Path(__file__).parents[2] / "workflows"
EXAMPLES = SHIPPED / "bobbin"  # with the pictures, the clip and the sound that shipped workflows load
# Small workflows that show the nodes which none of the others shows, or shows with the built-in model.
NODE_EXAMPLES = EXAMPLES / "nodes"
HALF = re.compile('"(bf16|fp16)"')  # as JSON names a model's number format


def read_workflow(path: Path) -> Graph:
    """The workflow in a file. Raises `GraphError` or `ValueError` in words for the user."""
    if not exists(path):
        shipped = next((file for file in shipped_files() if file.name == path.name), None)
        if shipped and shipped.is_relative_to(Path.cwd()):
            shipped = shipped.relative_to(Path.cwd())  # as one types it here
        hint = worded("did you mean {}?", shipped) if shipped else "check the path"
        raise ValueError(f"{path} does not exist; {hint}")
    if path.suffix.lower() not in READERS:
        return graph_of(parse_json(read_bytes(path)), name=path.stem)
    metadata = READERS[path.suffix.lower()](path)
    if WORKFLOW_KEY in metadata:
        text = metadata[WORKFLOW_KEY]
        graph = read_graph(text)
    elif "prompt" in metadata:  # ComfyUI saved it
        text = metadata["prompt"]
        graph = from_comfy(read_chunk(text), SPECS, path.stem)
    else:
        raise BadInput("{} carries no workflow; use a picture, video or sound as latentloom or ComfyUI saved it", path)
    is_old = NOISE_KEY not in metadata and HALF.search(text + metadata.get(VALUES_KEY, ""))
    return drawn_by_diffusers(graph) if is_old else graph


def is_others(path: Path, workflow: str) -> bool:
    """Whether another workflow made a file, or this one, whose text is given, with other values; as is what nobody can
    tell of. How a workflow is called and laid out is not asked."""
    plain = {"name": "", "description": "", "layout": {}, "meta": {}, "schema_uri": "", "requires": {}}
    try:
        made = READERS[path.suffix.lower()](path)[WORKFLOW_KEY]
        theirs, own = (read_graph(text).model_copy(update=plain) for text in (made, workflow))
    except (LookupError, OSError, ValueError):
        return True
    return theirs != own


def text_of(path: Path, *, for_comfyui: bool) -> str:
    """The workflow in a file as the text of a file, ours or ComfyUI's. Raises as `read_workflow`, and for ComfyUI's
    where the workflow is wrong."""
    graph = read_workflow(path)
    if not for_comfyui:
        return graph_text(graph).removesuffix("\n")
    workspace = Workspace(roots=roots_of(path, (), ()), host="command line")
    prepared = ready(graph, SPECS, workspace=workspace)
    ensure(prepared)
    return json.dumps(to_comfy(prepared), indent=2, ensure_ascii=False)


def drawn_by_diffusers(graph: Graph) -> Graph:
    """The workflow of a result in half precision that is older than the choice of noise: it gives the same again."""
    draw = {kind for kind, spec in SPECS.items() if spec.recipe is noise_recipe}

    def changed(nodes: Mapping[str, Node]) -> dict[str, Node]:
        own = {name: {"noise": "diffusers", **node.inputs} for name, node in nodes.items() if node.type in draw}
        return {**nodes, **{name: nodes[name].model_copy(update={"inputs": inputs}) for name, inputs in own.items()}}

    subs = {name: sub.model_copy(update={"nodes": changed(sub.nodes)}) for name, sub in graph.subs.items()}
    return graph.model_copy(update={"nodes": changed(graph.nodes), "subs": subs})


def graph_of(data: Any, *, name: str) -> Graph:
    """The workflow in what JSON holds, ours or ComfyUI's, which has no name of its own. Raises `GraphError`."""
    may_be_foreign = isinstance(data, dict) and "format" not in data
    return from_comfy(data, SPECS, name) if may_be_foreign and is_comfy(data) else graph_from_plain(data)


def shipped_files() -> list[Path]:
    """Every workflow to start from that comes with the package; a folder for each model."""
    return sorted(SHIPPED.glob("*/*.json"), key=lambda path: path.stem)


def models_dirs(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Folders whose models may be used. Raises `ValueError` for what is none."""
    folders = tuple(folders)
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"--models-dir {folder} is not a folder; give one that exists")
    return tuple(folder.resolve() for folder in folders)


def roots_of(file: Path, values: Iterable[Any], allowed: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that a run from the command line may read: here, the workflow's own, those that
    the user allowed, and those of files that the user named. Built-in and pulled models need none."""
    texts = [part for v in values if isinstance(v, str) and len(v) < 2048 for part in split_source(v)]
    named = [Path(text) for text in texts if text and "\0" not in text]
    beside = [EXAMPLES] if file.resolve().parent == NODE_EXAMPLES else []
    folders = [Path.cwd(), file.parent, *beside, *allowed]
    folders += [path if path.is_dir() else path.parent for path in named if path.is_absolute() and exists(path)]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))
