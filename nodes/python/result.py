"""What a run gave: outputs by name, files, pictures, and its manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...parallel.errors import did_you_mean
from ...pipelines.values import Image
from ..execution.manifest import MANIFEST_FILE
from ..execution.records import RunResult
from ..files.picture_files import opened
from ..graph.spec import Saved
from ..headless.workflow_files import PICTURES

if TYPE_CHECKING:
    from PIL import Image as Pillow


class Result:
    """A run that ended well: its outputs by their names, as values of wires (`Image`, `Saved`, texts, numbers)."""

    def __init__(self, made: RunResult, folder: Path, name: str) -> None:
        self.outputs: Mapping[str, object] = made.outputs
        self.seconds = made.seconds
        self.folder = folder
        self.name = name  # the workflow's
        # What the run wrote, or found there unchanged.
        self.files: tuple[Path, ...] = tuple(Path(file) for node in made.nodes.values() for file in node.files)
        # Why work began once more, each time: a rank, a machine or memory was lost.
        self.recoveries: tuple[str, ...] = tuple(text for node in made.nodes.values() for text in node.recoveries)

    def __getitem__(self, name: str) -> object:
        if name not in self.outputs:
            hint = did_you_mean(name, self.outputs)
            raise KeyError(f"no output is called {name!r}; {hint}there is {', '.join(self.outputs) or 'none'}")
        return self.outputs[name]

    def __repr__(self) -> str:
        files = ", ".join(map(str, self.files))
        return f"<Result of {self.name!r} in {self.seconds:.2f} s: {', '.join(self.outputs) or 'no outputs'}; {files}>"

    @property
    def images(self) -> list[Pillow.Image]:
        """The pictures among the outputs, made or written; where there are none, those that the run wrote."""
        found: list[Pillow.Image] = []
        for value in self.outputs.values():
            if isinstance(value, Image):
                found += value.to_pil()
            elif isinstance(value, Saved):
                found += _read(map(Path, value.files))
        return found or [*_read(self.files)]

    @property
    def manifest(self) -> dict[str, object]:
        """What stands in the folder's `manifest.json`, which another run there replaces."""
        return json.loads((self.folder / MANIFEST_FILE).read_text(encoding="utf-8"))

    def _repr_png_(self) -> bytes | None:
        """What a notebook shows: the first few pictures of one size."""
        shown = [picture for picture in self.images if picture.size == self.images[0].size]
        return Image.from_pil(*shown)._repr_png_() if shown else None


def _read(files: Iterable[Path]) -> Iterator[Pillow.Image]:
    for file in files:
        if file.suffix.lower() in PICTURES:
            with opened(file, max_pixels=None) as picture:
                yield picture.copy()
