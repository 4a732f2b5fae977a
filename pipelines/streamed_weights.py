"""Loading a transformer sharded: each rank reads only its share of the weights, so that none ever holds all of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..parallel import weights
from ..parallel.mesh import Mesh
from ..parallel.plan import ParallelPlan
from ..parallel.shard import shard
from .inspect_model import ComponentFiles, inspect_component
from .json_file import read_object
from .loading import component_class, one_sentence, quiet_libraries, torch_dtype
from .sharding import Handle, mesh_over, split_plan_of
from .values import Dtype

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

logger = logging.getLogger("latentloom")


def load_sharded(
    folder: Path | str, plan: ParallelPlan | str, mesh: Mesh | None = None, *, dtype: Dtype, device: str = "cpu"
) -> tuple[Any, Handle]:
    """Collective: the transformer in `folder` (config.json and safetensors), sharded by the plan, and its handle.

    The same bits as `from_pretrained` and then `shard`, but a rank of `weights=4` reads and holds a quarter, plus a
    tensor at a time. Raises ValueError naming what does not fit, on every rank.
    """
    plan = ParallelPlan.parse(plan) if isinstance(plan, str) else plan
    files = _inspect(Path(folder))
    with one_sentence(files, None), quiet_libraries():
        transformer = _skeleton(component_class(files), files, torch_dtype(dtype))
        _check_names(transformer, files)
    split = None if plan.sequence == plan.weights == 1 else split_plan_of(transformer)
    place = _device(device)
    handle = shard(transformer, split, mesh_over(plan, mesh), handle=Handle, device=place)
    with one_sentence(files, None), _reading(files, _dtypes(transformer, torch_dtype(dtype)), place) as read:
        weights.fill(transformer, read)
    if plan.weights == 1:
        transformer.to(place)  # the buffers that its constructor made; FSDP has moved them otherwise
    return transformer, handle


def _inspect(folder: Path) -> ComponentFiles:
    name = read_object(folder / "config.json", what="config of the transformer").get("_class_name")
    if not isinstance(name, str):
        raise ValueError(f"{folder}/config.json does not name its class (_class_name); give a transformer's folder")
    return inspect_component(folder.parent, folder.name, library="diffusers", class_name=name, roots=None)


def _skeleton(kind: Any, files: ComponentFiles, dtype: torch.dtype) -> Any:
    """The transformer with parameters on the meta device.

    As in diffusers' `from_pretrained`, buffers and other tensors that its constructor makes (tables of positions and
    frequencies, which no file holds) are real, and of the dtype that it would give them there.
    """
    import accelerate
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with accelerate.init_empty_weights(include_buffers=False):
            transformer = kind.from_config(kind.load_config(str(files.folder), local_files_only=True))
    finally:
        torch.set_default_dtype(before)
    transformer.register_to_config(_name_or_path=str(files.folder))
    return transformer.requires_grad_(False).eval()


def _check_names(transformer: nn.Module, files: ComponentFiles) -> None:
    """Every tensor is there and has its shape, known from the files' headers alone."""
    found = {name: entry.shape for file in files.weights for name, entry in file.tensors.items()}
    wanted = {name: tuple(value.shape) for name, value in transformer.state_dict().items()}
    wrong = sorted(name for name, shape in wanted.items() if found.get(name) != shape)
    if wrong:
        raise ValueError(f"{len(wrong)} tensors are missing or have another shape, first {wrong[0][:100]}")
    if unused := sorted(found.keys() - wanted.keys()):
        logger.warning("component %s: %d tensors are not used, first %s", files.name, len(unused), unused[0][:100])


def _dtypes(transformer: Any, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """What diffusers would make of each floating tensor: `dtype`, but for the modules that a class keeps in fp32."""
    import torch

    kept = set(transformer._keep_in_fp32_modules or ())
    return {name: torch.float32 if kept & set(name.split(".")) else dtype for name in transformer.state_dict()}


@contextlib.contextmanager
def _reading(files: ComponentFiles, dtypes: Mapping[str, torch.dtype], device: torch.device) -> Iterator[weights.Read]:
    """What `fill` reads by, while the files are open."""
    from safetensors import safe_open

    homes = {name: file.path for file in files.weights for name in file.tensors}
    with contextlib.ExitStack() as stack:
        opened = {path: stack.enter_context(safe_open(str(path), framework="pt")) for path in set(homes.values())}

        def read(name: str, rows: slice | None) -> Tensor:
            file = opened[homes[name]]
            part = file.get_tensor(name) if rows is None else _rows(file.get_slice(name), rows)
            dtype = dtypes[name] if part.is_floating_point() else part.dtype
            return part.to(device=device, dtype=dtype, copy=True)  # what was read is a view of the mapped file

        yield read


def _rows(piece: Any, rows: slice) -> Tensor:
    if rows.start == rows.stop:  # safetensors reads no empty ranges
        return piece[0:1][0:0]
    return piece[rows.start : rows.stop]


def _device(name: str) -> torch.device:
    import torch

    return torch.device(name)
