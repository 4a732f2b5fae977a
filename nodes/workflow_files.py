"""Where workflows come from: a file of their own, or a picture or video that carries one; and what they may read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .comfy_format import from_comfy
from .graph import Graph, read_graph
from .json_text import parse_json
from .picture_files import WORKFLOW_KEY, read_metadata
from .registry import SPECS
from .video_files import read_video_metadata

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
VIDEOS = (".mp4", ".mov", ".webm", ".mkv")


def read_workflow(path: Path) -> Graph:
    """The workflow in a file. Raises `GraphError` or `ValueError` in words for the user."""
    ending = path.suffix.lower()
    if ending not in (*PICTURES, *VIDEOS):
        return read_graph(path)
    if not path.is_file():
        raise ValueError(f"{path} does not exist; check the path")
    metadata = read_metadata(path) if ending in PICTURES else read_video_metadata(path)
    if WORKFLOW_KEY in metadata:
        return read_graph(metadata[WORKFLOW_KEY])
    if "prompt" in metadata:  # ComfyUI saved it
        prompt = parse_json(metadata["prompt"].encode())
        return from_comfy(prompt, SPECS, path.stem)
    raise ValueError(f"{path} carries no workflow; use a picture or video as latentloom or ComfyUI saved it")


def roots_of(file: Path, values: Iterable[Any], allowed: Iterable[Path]) -> tuple[Path, ...]:
    """The folders that a run from the command line may read: here, the workflow's own, those that
    the user allowed, and those of files that the user named. Built-in and pulled models need none."""
    from ..pipelines.source import split_source

    texts = [part for v in values if isinstance(v, str) and len(v) < 2048 for part in split_source(v)]
    named = [Path(text) for text in texts if text and "\0" not in text]
    folders = [Path.cwd(), file.parent, *allowed]
    folders += [path if path.is_dir() else path.parent for path in named if path.is_absolute() and path.exists()]
    return tuple(dict.fromkeys(folder.resolve() for folder in folders))
