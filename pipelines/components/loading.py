"""The one place where a component's files become an object: every failure leaves as one `ValueError` sentence.

An object with its weights; a transformer of which each rank reads its share, so that none ever holds all; or a shell,
which stands for a component that a stage does not load, and is built without any.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...parallel.errors import OutOfMemory, is_out_of_memory, one_line
from ...parallel.plan import ParallelPlan
from ...parallel.ranks.heap import give_back_large
from ..failures import shortage
from ..models.component_files import ComponentFiles, inspect_component
from ..models.config import check_size, model_config, processor_settings
from ..models.folder import LIBRARIES, component_in, kind_of
from ..models.regular_file import read_object
from ..values import Dtype, Quantization

if TYPE_CHECKING:
    import torch

    from ...parallel.mesh import Mesh
    from ...parallel.sharding.weights import Settle
    from ...parallel.together import Readers
    from ..spreading.transformer import Handle

logger = logging.getLogger("latentloom")


def load_component(
    files: ComponentFiles,
    *,
    dtype: Dtype,
    device: str = "cpu",
    checkpoint: Path | None = None,
    quantization: Quantization = "none",
    readers: Readers | None = None,
    rests: bool = False,
) -> Any:
    """A component on `device` in `dtype`. Runs no code of the model's own and never downloads.

    On the CPU weights whose files hold `dtype` are views of the mapped files: all processes share their pages, for as
    long as nobody writes to a weight in place. Who truncates a file meanwhile kills them all (SIGBUS): a model is
    replaced by new files, never by writing into the old ones. `checkpoint` is a single file that gives them instead of
    the component's folder. Collective with `readers`, the ranks of a machine that read it together, each a share. One
    that `rests` stays on the host, whatever its device; what is quantized is so there.
    """
    from .building import kept_to_this_thread, offline, one_call_at_a_time, quiet_libraries

    cls = component_class(files)
    with one_sentence(files, checkpoint), quiet_libraries(), offline(), kept_to_this_thread():
        if files.kind != "model":
            component = load_settings(cls, files.folder)
            return one_call_at_a_time(component) if files.kind == "tokenizer" else component
        if device == "cpu" and quantization != "none":
            give_back_large()  # quantized weights lie between their float copies, whose places a heap would keep
        number = torch_dtype(dtype)
        if rests and quantization == "none":
            device = "cpu"
        component = _load_weights(
            cls, files, checkpoint, dtype=number, device=device, quantization=quantization, readers=readers, rests=rests
        )
        if not rests:
            component.to(device)  # what the libraries leave behind, and buffers that its constructor made
    return component.requires_grad_(False).eval()


def component_class(files: ComponentFiles) -> Any:
    """The class that model_index.json names, if it is one of the kinds that hold no code of the model's own."""
    import transformers
    from diffusers.guiders.guider_utils import BaseGuidance
    from diffusers.models.modeling_utils import ModelMixin
    from diffusers.schedulers.scheduling_utils import SchedulerMixin

    # of another name it is diffusers' own, as `models.folder` has seen to
    library = files.library if files.library in LIBRARIES else f"diffusers.pipelines.{files.library}"
    with one_sentence(files, None):
        found = getattr(importlib.import_module(library), files.class_name, None)
    accepted: dict[str, tuple[type, ...]] = {
        "model": (ModelMixin, transformers.PreTrainedModel),
        "scheduler": (SchedulerMixin,),
        "guider": (BaseGuidance,),
        "tokenizer": (transformers.PreTrainedTokenizerBase,),
        "processor": (
            transformers.ProcessorMixin,
            transformers.ImageProcessingMixin,
            transformers.FeatureExtractionMixin,
        ),
    }
    if not isinstance(found, type) or not issubclass(found, accepted[files.kind]):
        version = importlib.metadata.version(library.partition(".")[0])
        raise ValueError(
            f"component {files.name} of {files.folder.parent}: {files.library} {version} has no "
            f"{files.kind} class {files.class_name} that works here; check model_index.json, or update {files.library}"
        )
    return found


def torch_dtype(dtype: Dtype) -> torch.dtype:
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]


def load_settings(cls: Any, folder: Path) -> Any:
    """A scheduler, tokenizer or processor. Of a tokenizer, keys that it does not know are data that nothing reads."""
    from transformers import BaseImageProcessor, ProcessorMixin

    from .building import one_call_at_a_time

    if issubclass(cls, BaseImageProcessor):
        plain, _ = cls.get_image_processor_dict(str(folder), local_files_only=True)
        return cls.from_dict(processor_settings(cls, plain))
    if not issubclass(cls, ProcessorMixin):
        return cls.from_pretrained(str(folder), local_files_only=True)
    kind = cls if importlib.util.find_spec("torchvision") else without_video(cls)
    processor = kind.from_pretrained(str(folder), local_files_only=True)
    if hasattr(processor, "tokenizer"):
        processor.tokenizer = one_call_at_a_time(processor.tokenizer)
    return processor


def without_video(cls: Any) -> Any:
    """A processor's class for texts and pictures only: what reads videos wants torchvision, which may not be here."""
    parts = [name for name in cls.get_attributes() if name != "video_processor"]
    return type(cls.__name__, (cls,), {"get_attributes": classmethod(lambda _: parts), "__module__": cls.__module__})


def _load_weights(
    cls: Any,
    files: ComponentFiles,
    checkpoint: Path | None,
    *,
    dtype: torch.dtype,
    device: str,
    quantization: Quantization,
    readers: Readers | None,
    rests: bool,
) -> Any:
    if checkpoint is not None:
        from . import single_file

        settle = _settler(quantization, device, rests=rests)
        return single_file.load(cls, files, checkpoint, dtype=dtype, device=device, settle=settle, readers=readers)
    # One by one: on an accelerator the host then holds no copy of them, and of those that are quantized as they are
    # read no other is in whole precision meanwhile.
    if files.library == "diffusers" and (device != "cpu" or quantization != "none" or files.is_packed):
        settle = _settler(quantization, device, rests=rests)
        from . import building

        component = building.load(cls, files, dtype=dtype, device=device, settle=settle, readers=readers)
        if component is not None:
            return component
        if files.is_packed:
            raise ValueError(f"its tensors, which torchao has quantized, are not those of {files.class_name}")
    # Without dtype= transformers keeps the file's own format and diffusers takes fp32: parts that do not fit.
    # With device_map transformers casts and moves a few tensors at a time; diffusers would add hooks of accelerate.
    options: dict[str, Any] = {"low_cpu_mem_usage": True}
    if files.library == "transformers":
        config = model_config(cls, files.folder, name=files.name)
        check_size(cls, config, num_held=files.num_parameters)
        options = {"device_map": device, "config": config, "trust_remote_code": False, "use_kernels": False}
        if quantization != "none":
            from .quantizing import transformers_config

            options["quantization_config"] = transformers_config(quantization)
    component, info = cls.from_pretrained(
        str(files.folder), dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True, **options
    )
    if unused := sorted(map(str, info.get("unexpected_keys", ()))):
        logger.warning("component %s: %d tensors are not used, first %s", files.name, len(unused), unused[0][:100])
    if wrong := sorted(map(str, [*info.get("missing_keys", ()), *info.get("mismatched_keys", ())])):
        raise ValueError(f"{len(wrong)} tensors are missing or have another shape, first {wrong[0][:100]}")
    if quantization != "none" and files.library == "diffusers":
        from .quantizing import quantize_loaded

        quantize_loaded(component, quantization, device=device)
    return component


def _settler(quantization: Quantization, device: str, *, rests: bool) -> Settle | None:
    """What is done to each weight once it is there: quantized where it will be used, then laid to rest on the host."""
    if quantization == "none":
        return None
    from .quantizing import settler

    settle = settler(quantization, device=device)
    if not rests or device == "cpu":
        return settle
    from ...parallel.streaming.layout import leaves

    def laid_to_rest(layer: torch.nn.Module, name: str) -> None:
        settle(layer, name)
        for leaf in leaves([layer]):
            leaf.point(leaf.value.cpu())  # a packed weight stays one of its device; its parts wait elsewhere

    return laid_to_rest


@contextlib.contextmanager
def one_sentence(files: ComponentFiles, checkpoint: Path | None) -> Iterator[None]:
    """Turn whatever a library raises while loading into a `ValueError` that names the component and its place; a lack
    of memory into `OutOfMemory`, which is no mistake of the request's."""
    place = checkpoint or files.folder
    try:
        yield
    except OutOfMemory:
        raise
    except BaseException as error:
        if isinstance(error, Exception) and is_out_of_memory(error):
            told = f"component {files.name}: {place} does not fit into memory{shortage(error)}"
            remedy = "use quantization int8, a smaller dtype, a smaller picture, or another device"
            raise OutOfMemory(f"{told}; {remedy}") from error
        # Rust's panic (tokenizers, safetensors) is no Exception; a cancel is none either, and stays what it is
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"component {files.name}: {place} cannot be loaded: {one_line(error)}") from error


# ---- Components without all their weights


def load_sharded(
    folder: Path | str, plan: ParallelPlan | str, mesh: Mesh | None = None, *, dtype: Dtype, device: str = "cpu"
) -> tuple[torch.nn.Module, Handle]:
    """Collective: the transformer in `folder` (config.json and safetensors), sharded by the plan, and its handle.

    The same bits as `from_pretrained` and then `shard`, but a rank of `weights=4` reads and holds a quarter, plus a
    tensor at a time, and one of `layers=4` its section of the blocks, plus what is outside of them. Raises ValueError
    naming what does not fit, on every rank.
    """
    from ..spreading.transformer import mesh_over

    plan, folder = ParallelPlan.parse(plan) if isinstance(plan, str) else plan, Path(folder)
    name = read_object(folder / "config.json", what="config of the transformer").get("_class_name")
    if not isinstance(name, str):
        raise ValueError(f"{folder}/config.json does not name its class (_class_name); give a transformer's folder")
    files = inspect_component(folder.parent, folder.name, library="diffusers", class_name=name, roots=None)
    return load_share(files, mesh_over(plan, mesh), dtype=dtype, device=device)


def load_share(
    files: ComponentFiles,
    mesh: Mesh,
    *,
    dtype: Dtype,
    device: str,
    checkpoint: Path | None = None,
    quantization: Quantization = "none",
    working_bytes: int = 0,
    num_alike: int = 1,
) -> tuple[Any, Handle]:
    """What this rank holds of a transformer, and its handle; alike on every rank of the mesh, though none waits here.
    Collective where its blocks are dealt out over GPUs, which have room for so many, beside `working_bytes` and other
    transformers, `num_alike` in all. `checkpoint` as of `load_component`.

    Raises ValueError naming what does not fit.
    """
    import torch

    from ...parallel.sharding.sections.dealing import rooms_among
    from ...parallel.sharding.shard import shard
    from ..spreading.transformer import BY_TIME, Handle, attend_to, split_plan_of
    from . import building, single_file
    from .memory import DTYPE_BITS, QUANTIZED_BITS, default_budget, spare_bytes

    plan, place, handles = mesh.plan, torch.device(device), list[Handle]()

    def deal_out(transformer: Any) -> Collection[str]:
        split = split_plan_of(transformer) if plan.splits_forward else None
        rooms: list[int] = []
        if plan.layers > 1 and place.type == "cuda" and mesh.voters is not None:
            room = default_budget(device) + spare_bytes(device) - working_bytes
            rooms = rooms_among(int(room) // num_alike, mesh)
        shrinks = QUANTIZED_BITS.get(quantization, DTYPE_BITS[dtype]) / DTYPE_BITS[dtype]
        how = replace(BY_TIME, rooms=rooms, shrinks=shrinks)
        handles.append(handle := shard(transformer, split, mesh, handle=Handle, device=place, how=how))
        attend_to(transformer, handle)
        return handle.sections.dealt.elsewhere if handle.sections is not None else ()

    number, settle = torch_dtype(dtype), _settler(quantization, device, rests=False)
    with one_sentence(files, checkpoint), building.quiet_libraries(), building.offline():
        cls, told = component_class(files), {"dtype": number, "device": device, "settle": settle, "deal_out": deal_out}
        if checkpoint is not None:
            transformer = single_file.load(cls, files, checkpoint, **told)
        elif (transformer := building.load(cls, files, **told)) is None:
            raise ValueError(f"its tensors are not those of {files.class_name}; only what is loaded whole is converted")
    if plan.weights == 1:  # the buffers that its constructor made; FSDP has moved them otherwise
        for module in transformer.modules():
            module._buffers.update({name: each.to(place) for name, each in module._buffers.items() if each is not None})
    return transformer, handles[0]


class Shell:
    """Stands for a component that a stage does not load: blocks ask the transformer for its dtype, the VAE for how much
    it compresses. It builds the component, without weights, once somebody asks for more than its dtype. It is no
    module, so that nobody takes its device, the meta device, for one to work on.
    """

    def __init__(self, files: ComponentFiles, dtype: torch.dtype) -> None:
        self._files = files
        self.dtype = dtype

    @functools.cached_property
    def _built(self) -> Any:
        from . import building

        return building.build(component_class(self._files), self._files.folder, dtype=self.dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name != "_hop_size":  # what copy and pickle look for, and no block
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
