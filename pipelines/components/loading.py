"""The one place where a component's files become an object: every failure leaves as one `ValueError` sentence."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...parallel.errors import OutOfMemory, is_out_of_memory, one_line
from ...parallel.ranks.heap import give_back_large
from ..failures import shortage
from ..models.component_files import ComponentFiles
from ..models.config import check_size, model_config, processor_settings
from ..models.folder import LIBRARIES
from ..values import Dtype, Quantization
from . import skeleton

if TYPE_CHECKING:
    import torch

    from ...parallel.sharding.weights import Settle
    from ...parallel.together import Readers

logger = logging.getLogger("latentloom")

_INSTALLING = threading.Lock()


def load_component(
    files: ComponentFiles,
    *,
    dtype: Dtype,
    device: str = "cpu",
    checkpoint: Path | None = None,
    quantization: Quantization = "none",
    readers: Readers | None = None,
) -> Any:
    """A component on `device` in `dtype`. Runs no code of the model's own and never downloads.

    On the CPU weights whose files hold `dtype` are views of the mapped files: all processes share their pages, for as
    long as nobody writes to a weight in place. Who truncates a file meanwhile kills them all (SIGBUS): a model is
    replaced by new files, never by writing into the old ones. `checkpoint` is a single file that gives them instead of
    the component's folder. Collective with `readers`, the ranks of a machine that read it together, each a share.
    """
    from .default_dtype import kept_to_this_thread

    cls = component_class(files)
    with one_sentence(files, checkpoint), quiet_libraries(), offline(), kept_to_this_thread():
        if files.kind != "model":
            component = _load_settings(cls, files)
            return one_call_at_a_time(component) if files.kind == "tokenizer" else component
        if device == "cpu" and quantization != "none":
            give_back_large()  # quantized weights lie between their float copies, whose places a heap would keep
        number = torch_dtype(dtype)
        component = _load_weights(
            cls, files, checkpoint, dtype=number, device=device, quantization=quantization, readers=readers
        )
        component.to(device)  # what the libraries leave behind
    return component.requires_grad_(False).eval()


def component_class(files: ComponentFiles) -> Any:
    """The class that model_index.json names, if it is one of the kinds that hold no code of the model's own."""
    import diffusers
    import transformers
    from diffusers.guiders.guider_utils import BaseGuidance
    from diffusers.models.modeling_utils import ModelMixin
    from diffusers.schedulers.scheduling_utils import SchedulerMixin

    with one_sentence(files, None):
        library = {"diffusers": diffusers, "transformers": transformers}.get(files.library)
        if library is None:  # diffusers' own, as `models.folder` has seen to
            library = importlib.import_module(f"diffusers.pipelines.{files.library}")
        found = getattr(library, files.class_name, None)
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
        version = importlib.metadata.version(files.library if files.library in LIBRARIES else "diffusers")
        raise ValueError(
            f"component {files.name} of {files.folder.parent}: {files.library} {version} has no "
            f"{files.kind} class {files.class_name} that works here; check model_index.json, or update {files.library}"
        )
    return found


def torch_dtype(dtype: Dtype) -> torch.dtype:
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]


def _load_settings(cls: Any, files: ComponentFiles) -> Any:
    """A scheduler, tokenizer or processor. Of a tokenizer, keys that it does not know are data that nothing reads."""
    from transformers import BaseImageProcessor, ProcessorMixin

    if issubclass(cls, BaseImageProcessor):
        plain, _ = cls.get_image_processor_dict(str(files.folder), local_files_only=True)
        return cls.from_dict(processor_settings(cls, plain))
    if not issubclass(cls, ProcessorMixin):
        return cls.from_pretrained(str(files.folder), local_files_only=True)
    kind = cls if importlib.util.find_spec("torchvision") else without_video(cls)
    processor = kind.from_pretrained(str(files.folder), local_files_only=True)
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
) -> Any:
    if checkpoint is not None:
        from . import single_file

        settle = _settler(quantization, device)
        return single_file.load(cls, files, checkpoint, dtype=dtype, device=device, settle=settle, readers=readers)
    # One by one: on an accelerator the host then holds no copy of them, and of those that are quantized as they are
    # read no other is in whole precision meanwhile.
    if files.library == "diffusers" and (device != "cpu" or quantization != "none" or files.is_packed):
        settle = _settler(quantization, device)
        component = skeleton.load(cls, files, dtype=dtype, device=device, settle=settle, readers=readers)
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


def _settler(quantization: Quantization, device: str) -> Settle | None:
    if quantization == "none":
        return None
    from .quantizing import settler

    return settler(quantization, device=device)


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
            raise OutOfMemory(out_of_memory(files.name, str(place), shortage(error))) from error
        # Rust's panic (tokenizers, safetensors) is no Exception; a cancel is none either, and stays what it is
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"component {files.name}: {place} cannot be loaded: {one_line(error)}") from error


def out_of_memory(name: str, place: str, short: str) -> str:
    return (
        f"component {name}: {place} does not fit into memory{short}; use quantization int8, a smaller dtype, "
        "a smaller picture, or another device"
    )


class _Offline:
    """Stands for the hub client's HF_HUB_OFFLINE: true within `offline()` of this thread, else as it was."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.thread = threading.local()

    def __bool__(self) -> bool:
        return getattr(self.thread, "depth", 0) > 0 or bool(self.before)


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Within it this thread asks no hub, whatever a model's files or a library's code would have. Other threads may:
    in a host they are others' work."""
    from huggingface_hub import constants

    with _INSTALLING:
        if not isinstance(constants.HF_HUB_OFFLINE, _Offline):
            setattr(constants, "HF_HUB_OFFLINE", _Offline(constants.HF_HUB_OFFLINE))  # noqa: B010 (a bool by its type)
    thread = cast("_Offline", constants.HF_HUB_OFFLINE).thread
    thread.depth = getattr(thread, "depth", 0) + 1
    try:
        yield
    finally:
        thread.depth -= 1


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Without the libraries' progress bars and load reports: ours shows progress, and errors are ours."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    modules = (diffusers_logging, transformers_logging)
    bars = [module for module in modules if module.is_progress_bar_enabled()]
    # Not by their verbosity: Logger.setLevel writes to every logger there is, 3 MiB of pages that ranks share.
    loggers = [logging.getLogger(name) for name in ("diffusers", "transformers")]
    before = [(each, each.handlers, each.propagate) for each in loggers]
    for module in modules:
        module.disable_progress_bar()
    for each in loggers:
        each.handlers = [logging.NullHandler()]
        each.propagate = False
    try:
        yield
    finally:
        for each, handlers, propagate in before:
            each.handlers, each.propagate = handlers, propagate
        for module in bars:
            module.enable_progress_bar()


def one_call_at_a_time(tokenizer: Any) -> Any:
    """The tokenizer, whose calls from several threads now wait for each other.

    All threads share it. transformers keeps truncation and padding on the Rust object inside: each call sets them there
    and then reads the text, so that two calls at once read it by the settings of one. Every way in ends in
    `_encode_plus`: `tokenizer(...)`, of diffusers' text encoders with three different settings and of `warn_if_cut`,
    and `tokenizer.tokenize(...)`, by which diffusers looks for textual inversions in FLUX's prompts and which turns
    padding off. To be removed when transformers hands these settings over with the text (seen in 5.23).
    """
    if not hasattr(tokenizer, "_encode_plus"):
        raise ValueError(
            f"{type(tokenizer).__name__} has no _encode_plus, through which its texts go: this version of transformers "
            "builds tokenizers in another way; install the version in constraints.txt"
        )
    encode, lock = tokenizer._encode_plus, threading.RLock()

    @functools.wraps(encode)
    def one_at_a_time(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return encode(*args, **kwargs)

    tokenizer._encode_plus = one_at_a_time
    return tokenizer
