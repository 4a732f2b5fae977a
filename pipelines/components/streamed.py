"""Components without all their weights: a transformer of which each rank reads its share, and what is not loaded.

None of the ranks ever holds all weights of such a transformer. A shell stands for a component that a stage does not
load, and is built without any.
"""

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch

from ...parallel.mesh import Mesh
from ...parallel.plan import ParallelPlan
from ...parallel.sharding.shard import shard
from ..models.component_files import ComponentFiles, inspect_component
from ..models.folder import component_in, kind_of
from ..models.regular_file import read_object
from ..spreading.transformer import Handle, attend_to, mesh_over, split_plan_of
from ..values import Dtype
from . import skeleton
from .loading import component_class, offline, one_sentence, quiet_libraries, torch_dtype


def load_sharded(
    folder: Path | str, plan: ParallelPlan | str, mesh: Mesh | None = None, *, dtype: Dtype, device: str = "cpu"
) -> tuple[Any, Handle]:
    """Collective: the transformer in `folder` (config.json and safetensors), sharded by the plan, and its handle.

    The same bits as `from_pretrained` and then `shard`, but a rank of `weights=4` reads and holds a quarter, plus a
    tensor at a time. Raises ValueError naming what does not fit, on every rank.
    """
    plan, folder = ParallelPlan.parse(plan) if isinstance(plan, str) else plan, Path(folder)
    name = read_object(folder / "config.json", what="config of the transformer").get("_class_name")
    if not isinstance(name, str):
        raise ValueError(f"{folder}/config.json does not name its class (_class_name); give a transformer's folder")
    files = inspect_component(folder.parent, folder.name, library="diffusers", class_name=name, roots=None)
    return load_share(files, mesh_over(plan, mesh), dtype=dtype, device=device)


def load_share(files: ComponentFiles, mesh: Mesh, *, dtype: Dtype, device: str) -> tuple[Any, Handle]:
    """What this rank holds of a transformer, and its handle; alike on every rank of the mesh, though none waits here.

    Raises ValueError naming what does not fit.
    """
    plan, place = mesh.plan, torch.device(device)
    with one_sentence(files, None), quiet_libraries(), offline():
        transformer = skeleton.build(component_class(files), files.folder, dtype=torch_dtype(dtype))
        if wrong := skeleton.misfits(transformer, files):
            raise ValueError(f"{len(wrong)} tensors are missing or have another shape, first {wrong[0][:100]}")
    split = None if plan.sequence == plan.weights == 1 else split_plan_of(transformer)
    handle = shard(transformer, split, mesh, handle=Handle, device=place)
    attend_to(transformer, handle)
    with one_sentence(files, None):
        skeleton.fill(transformer, files, dtype=torch_dtype(dtype), device=place)
    if plan.weights == 1:
        transformer.to(place)  # the buffers that its constructor made; FSDP has moved them otherwise
    return transformer, handle


class Shell:
    """Stands for a component that a stage does not load: blocks ask the transformer for its dtype, the VAE for how much
    it compresses. It builds the component, without weights, once somebody asks for more than its dtype. It is no
    module, so that nobody takes its device, the meta device, for one to work on.
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
