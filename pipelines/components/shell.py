"""A shell: what stands for a component that a stage does not load, for blocks that ask how it is made."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.component_files import ComponentFiles
from ..models.folder import component_in, kind_of
from . import skeleton
from .loading import component_class

if TYPE_CHECKING:
    import torch


class Shell:
    """Stands for a component that a stage does not load, for blocks that ask how it is made.

    Blocks ask the transformer for its dtype, the VAE for how much it compresses. A shell builds the component, without
    weights, once somebody asks for more than its dtype. It is no module, so that nobody takes its device, the meta
    device, for one to work on.
    """

    def __init__(self, files: ComponentFiles, dtype: torch.dtype) -> None:
        self._files = files
        self.dtype = dtype

    @functools.cached_property
    def config(self) -> Mapping[str, Any]:
        return self._built.config

    @functools.cached_property
    def _built(self) -> Any:
        return skeleton.build(component_class(self._files), self._files.folder, dtype=self.dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copy and pickle look for
            raise AttributeError(name)
        return getattr(self._built, name)


def shells(
    folder: Path, index: Mapping[str, Any], loaded: Collection[str], *, dtype: torch.dtype, fingerprint: str
) -> dict[str, Shell]:
    """Shells of diffusers' models that the folder's index names and that are not `loaded`, by name; the same ones again
    while the files have this fingerprint."""
    found: dict[str, Shell] = {}
    for name in index.keys() - loaded:
        if (part := component_in(index, name)) and part[0] == "diffusers" and kind_of(part[1]) == "model":
            found[name] = _shell(str(folder), name, *part, dtype, fingerprint)
    return found


@functools.lru_cache(maxsize=64)
def _shell(folder: str, name: str, library: str, class_name: str, dtype: torch.dtype, _: str) -> Shell:
    files = ComponentFiles(name=name, library=library, class_name=class_name, kind="model", folder=Path(folder, name))
    return Shell(files, dtype)
