"""Loading a transformer sharded: each rank reads only its share of the weights, so that none ever holds all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...parallel.mesh import Mesh
from ...parallel.plan import ParallelPlan
from ...parallel.sharding.shard import shard
from ..models.component_files import ComponentFiles, inspect_component
from ..models.json_file import read_object
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
    import torch

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
