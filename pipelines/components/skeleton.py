"""A diffusers component built without weights and filled tensor by tensor, each cast on the device where it will live.

The host holds no copy of the weights: what is read is a view of the mapped file, gone once it is on the device.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.component_files import ComponentFiles
from ..models.packing import PACKED, PARTS, part_of
from ..models.tensor_file import read_tensor_file

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from ...parallel.sharding.weights import Read, Settle
    from ...parallel.together import Readers

logger = logging.getLogger("latentloom")


def load(
    kind: Any,
    files: ComponentFiles,
    *,
    dtype: torch.dtype,
    device: str,
    settle: Settle | None = None,
    readers: Readers | None = None,
) -> Any | None:
    """What diffusers' `from_pretrained` gives, on `device`; None for files with other names, which it may convert.

    `settle` is called with each layer and the name of the parameter that it has just been given. Collective with
    `readers`, the ranks that read it together.
    """
    import torch

    component = build(kind, files.folder, dtype=dtype)
    if misfits(component, files):
        return None
    fill(component, files, dtype=dtype, device=torch.device(device), settle=settle, readers=readers)
    return component.to(device)  # the buffers that its constructor made


def build(kind: Any, folder: Path, *, dtype: torch.dtype) -> Any:
    """The component with parameters on the meta device.

    As in diffusers' `from_pretrained`, buffers and other tensors that its constructor makes (tables of positions and
    frequencies, which no file holds) are real, and of the dtype that it would give them there; but the process's
    default dtype stays as it is, because another thread may be in the middle of a step.
    """
    import accelerate

    from .default_dtype import DefaultDtype

    with DefaultDtype(dtype), accelerate.init_empty_weights(include_buffers=False):
        component = kind.from_config(kind.load_config(str(folder), local_files_only=True))
    component.register_to_config(_name_or_path=str(folder))
    return component.requires_grad_(False).eval()


def misfits(component: nn.Module, files: ComponentFiles) -> list[str]:
    """Tensors that the files lack or hold in another shape, known from the headers alone."""
    found = {name: entry.shape for file in files.weights for name, entry in file.tensors.items()}
    wanted = {name: tuple(value.shape) for name, value in component.state_dict().items()}
    return sorted(name for name, shape in wanted.items() if found.get(name) != shape)


def fill(
    component: Any,
    files: ComponentFiles,
    *,
    dtype: torch.dtype,
    device: torch.device,
    settle: Settle | None = None,
    readers: Readers | None = None,
) -> None:
    """Give it the files' weights on `device`, in the dtypes that `from_pretrained(dtype=...)` gives them.

    Of a component that is sharded by its weights, this rank's share only.
    """
    from ...parallel.sharding import weights

    dtypes = dtypes_of(component, dtype)
    if unused := sorted({name for file in files.weights for name in file.tensors} - dtypes.keys()):
        logger.warning("component %s: %d tensors are not used, first %s", files.name, len(unused), unused[0][:100])
    with moved_by(readers, device) as move, _reading(files, dtypes, move) as read:
        weights.fill(component, read, *([settle] if settle else []))


def dtypes_of(component: Any, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """What diffusers would make of each floating tensor: `dtype`, but for the modules that a class keeps in fp32."""
    import torch

    kept = set(component._keep_in_fp32_modules or ())
    return {name: torch.float32 if kept & set(name.split(".")) else dtype for name in component.state_dict()}


@contextlib.contextmanager
def moved_by(readers: Readers | None, device: torch.device) -> Iterator[Callable[[Tensor], Tensor]]:
    """What gives tensors of the host on `device`. Collective with `readers`, who compare at the end what they have."""
    from ...parallel.staging import moving

    if readers is None:
        yield moving(device)
        return
    yield readers.moving(device)
    readers.check()


@contextlib.contextmanager
def _reading(
    files: ComponentFiles, dtypes: Mapping[str, torch.dtype], move: Callable[[Tensor], Tensor]
) -> Iterator[Read]:
    """What `weights.fill` reads by, while the files are open."""
    from safetensors import safe_open

    from .unpacking import from_scaled

    held = {name: entry for file in files.weights for name, entry in file.tensors.items()}
    homes = {name: file.path for file in files.weights for name in read_tensor_file(file.path).tensors}
    with contextlib.ExitStack() as stack:
        opened = {path: stack.enter_context(safe_open(str(path), framework="pt")) for path in set(homes.values())}

        def read(name: str, rows: slice | None) -> Tensor:
            if held[name].dtype.startswith(PACKED):
                numbers, scale, zero_point = (_part(name, each, rows) for each in PARTS)
                assert numbers is not None and scale is not None, "put_together has seen to both"
                return from_scaled(numbers, scale, zero_point=zero_point, dtype=dtypes[name])
            file = opened[homes[name]]
            if rows is None:
                part = file.get_tensor(name)
            elif rows.start == rows.stop:  # safetensors reads no empty ranges
                part = file.get_slice(name)[0:1][0:0]
            else:
                part = file.get_slice(name)[rows.start : rows.stop]
            dtype = dtypes[name] if part.is_floating_point() else part.dtype
            moved = move(part)  # before the cast, which then is the device's work and not the host's
            return moved.to(dtype, copy=moved is part)

        def _part(name: str, part: str, rows: slice | None) -> Tensor | None:
            """One of what torchao made of a weight, of these rows where it has something for each."""
            place = part_of(name, part)
            if place not in homes:
                return None
            found = opened[homes[place]].get_tensor(place)
            return move(found if rows is None or found.numel() == 1 else found[rows])

        yield read
