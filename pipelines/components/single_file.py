"""A transformer from one file as its makers or ComfyUI publish it, packed or plain, tensor by tensor.

The config comes from the model folder, never the network; names are turned into diffusers' by its own converters. They
turn a file in its makers' names into one in diffusers' names, as a dict of all its tensors: they rename, cut and join.
Given `Deferred` tensors, which remember what was done to them, they do so without one weight being read, cast or
unpacked; each is made when it is asked for.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from ..models.component_files import ComponentFiles
from ..models.packing import PREFIXES, Packing, printable, read_checkpoint, read_packing
from ..models.regular_file import open_regular
from ..models.tensor_file import TensorFile
from . import building
from .unpacking import FORMULAS, unpack

if TYPE_CHECKING:
    from ...parallel.sharding.weights import Settle
    from ...parallel.together import Readers

logger = logging.getLogger("latentloom")

GGUF_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
Get = Callable[[str], Tensor]  # a tensor as it lies in the file, mapped: numbers as they are, blocks as bytes
# `make(name)`: the tensor of that name in the file, unpacked, in the dtype and on the device that are asked for.
Make = Callable[[str], Tensor]


def load(
    kind: Any,
    files: ComponentFiles,
    checkpoint: Path,
    *,
    dtype: torch.dtype,
    device: str,
    settle: Settle | None,
    readers: Readers | None = None,
    deal_out: Callable[[Any], Collection[str]] | None = None,
) -> Any:
    """The component in `files`, with the weights of `checkpoint` on `device`; Collective with `readers`. `deal_out` as
    of `building.load`.

    Raises `ValueError` for a file that is not this component's, or is packed in a way that is not known.
    """
    from ...parallel.sharding import weights

    file = read_checkpoint(checkpoint)
    packing = read_packing(file)
    component = building.build(kind, files.folder, dtype=dtype)
    wanted = _in_our_names(kind, component, file, packing)
    _check(component, wanted)
    elsewhere = deal_out(component) if deal_out else ()
    dtypes, place, maker = building.dtypes_of(component, dtype), torch.device(device), DeferredMaker(wanted)
    with _opened(file) as get, building.moved_by(readers, place) as move:

        def read(name: str, rows: slice | None) -> Tensor:
            def make(source: str) -> Tensor:
                each = packing[source]
                scale = get(each.scale) if each.scale else None
                if scale is not None and not scale.isfinite().all():
                    told = printable(each.scale[:100])
                    raise ValueError(f"scale {told} is no number or infinite; copy the file again")
                scale = scale if scale is None else scale.to(place)  # unpacked where it will live
                part = move(get(source))
                return unpack(part, scale, packing=each, entry=file.tensors[source], dtype=dtypes[name])

            assert rows is None, "weights of a single file are not shared out"
            found = maker.make(name, make)
            return found.to(place, dtypes[name] if found.is_floating_point() else found.dtype)

        weights.fill(component, read, *([settle] if settle else []), elsewhere=elsewhere)
    return component


def _in_our_names(kind: Any, component: Any, file: TensorFile, packing: Mapping[str, Packing]) -> Mapping[str, Tensor]:
    """What the file's tensors are in diffusers' names, of its own tensors, which are not read for that."""
    from diffusers.loaders import single_file_model as diffusers

    found: dict[str, Tensor] = {}
    for name in packing:
        ours = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)
        # converters see a tensor that is not unpacked yet in the dtype that it may have once it is
        seen = torch.int64 if file.tensors[name].dtype == "I64" else torch.float32
        found[ours] = Deferred(file.tensors[name].shape, seen, [name])
    if component.state_dict().keys() <= found.keys():
        return found
    known = diffusers._get_single_file_loadable_mapping_class(kind)
    if known is None:
        raise ValueError(f"{kind.__name__} cannot be read from a single file in its makers' names; use a model folder")
    convert = cast("Callable[..., Any]", diffusers.SINGLE_FILE_LOADABLE_CLASSES[known]["checkpoint_mapping_fn"])
    try:
        with torch.no_grad():
            return convert(config=dict(component.config), checkpoint=found)
    except Exception as error:  # a converter finds no tensor that it looks for, and fails anyhow
        first = printable(next(iter(packing), "none")[:100])
        reason = f"its tensors are not those of this {kind.__name__} (first {first})"
        raise ValueError(f"{reason}; use its own base") from error


def _check(component: Any, wanted: Mapping[str, Tensor]) -> None:
    kind, state = type(component).__name__, component.state_dict()
    if missing := [name for name in state if name not in wanted]:
        raise ValueError(f"the file lacks {len(missing)} tensors of {kind}, first {missing[0][:100]}; use its own base")
    for name, value in state.items():
        if wanted[name].shape != value.shape:
            shapes = f"{name[:100]} is {tuple(wanted[name].shape)}, not {tuple(value.shape)}"
            raise ValueError(f"its tensors are not those of this {kind} ({shapes}); use its own base")
    unused = sorted(wanted.keys() - state.keys())
    if weights := [name for name in unused if name.endswith((".weight", ".bias"))]:
        first = printable(weights[0][:100])
        raise ValueError(f"the file has {len(weights)} weights that this {kind} lacks, first {first}; use its own base")
    if unused:
        logger.warning(
            "%s: %d tensors of the file are not used, first %s", kind, len(unused), printable(unused[0][:100])
        )


@contextlib.contextmanager
def _opened(file: TensorFile) -> Iterator[Get]:
    if file.path.suffix.lower() != ".gguf":
        from safetensors import safe_open

        with safe_open(str(file.path), framework="pt") as opened:
            yield opened.get_tensor
        return
    with open_regular(file.path) as opened:
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)  # torch wants what could be written to

    def get(name: str) -> Tensor:
        entry = file.tensors[name]
        if plain := GGUF_DTYPES.get(entry.dtype):
            return torch.frombuffer(content, dtype=plain, count=entry.numel, offset=entry.start).reshape(entry.shape)
        block_bytes, per_block, _ = FORMULAS[entry.dtype]
        num_bytes = entry.numel // per_block * block_bytes
        return torch.frombuffer(content, dtype=torch.uint8, count=num_bytes, offset=entry.start)

    yield get


class Deferred(Tensor):
    """A tensor of the file, or what one operation makes of others; it has a shape and no numbers."""

    @staticmethod
    def __new__(cls: type[Deferred], shape: Iterable[int], dtype: torch.dtype, *_: Any) -> Deferred:
        make = Tensor._make_wrapper_subclass
        return make(cls, tuple(shape), dtype=dtype, device=torch.device("cpu"))

    def __init__(self, shape: Iterable[int], dtype: torch.dtype, sources: Sequence[str], make: Any = None) -> None:
        """Of which tensors of the file it is made, each as often as it is used, and how: by `make(read)`. Without that
        it is the one."""
        self.sources = sources
        self.make: Callable[[Make], Tensor] = make or (lambda read: read(*sources))

    def __repr__(self, **_: Any) -> str:
        return f"Deferred({', '.join(self.sources)}, {tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # pyrefly: ignore[bad-override]
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            raise NotImplementedError(f"{func} writes into a tensor that is not read yet")

        def empty(each: Tensor) -> Tensor:
            return torch.empty(each.shape, dtype=each.dtype, device="meta")

        # the shapes of what would come of it, by torch itself
        meta_args, meta_kwargs = tree_map_only(Deferred, empty, (args, kwargs))
        like = func(*meta_args, **meta_kwargs)
        sources = [name for each in tree_leaves((args, kwargs)) if isinstance(each, Deferred) for name in each.sources]
        plain = {name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")}

        def make(read: Make) -> Any:
            real_args, real_kwargs = tree_map_only(Deferred, lambda each: each.make(read), (args, plain))
            return func(*real_args, **real_kwargs)

        if isinstance(like, Tensor):
            return Deferred(like.shape, like.dtype, sources, make)

        def part(at: int) -> Callable[[Make], Tensor]:
            return lambda read: make(read)[at]

        return type(like)(Deferred(each.shape, each.dtype, sources, part(at)) for at, each in enumerate(like))


class DeferredMaker:
    """Makes deferred tensors. One of the file that is cut into several is read once, and kept till the last is made."""

    def __init__(self, wanted: Mapping[str, Tensor]) -> None:
        self._wanted = wanted
        self._uses = Counter(name for each in wanted.values() if isinstance(each, Deferred) for name in each.sources)
        self._kept: dict[str, Tensor] = {}

    def make(self, name: str, make: Make) -> Tensor:
        """The tensor of that name among those that are wanted."""

        def read(source: str) -> Tensor:
            found = self._kept.pop(source, None)
            found = make(source) if found is None else found
            self._uses[source] -= 1
            if self._uses[source] > 0:
                self._kept[source] = found
            return found

        wanted = self._wanted[name]
        return wanted.make(read) if isinstance(wanted, Deferred) else wanted
