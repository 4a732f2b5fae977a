"""A diffusers component built without weights and filled tensor by tensor, each cast on the device where it will live.

The host holds no copy of the weights: what is read is a view of the mapped file, gone once it is on the device. The
dtype of new tensors, which libraries set for the whole process while they build, and that no hub is asked are kept to
one thread; what they show is kept off all.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..models.component_files import ComponentFiles
from ..models.packing import PACKED, PARTS, part_of
from ..models.tensor_file import read_tensor_file

if TYPE_CHECKING:
    from ...parallel.sharding.weights import Read, Settle
    from ...parallel.together import Readers

logger = logging.getLogger("latentloom")

# Functions of torch whose tensors are of the default dtype, whatever they are asked for: made in it at once.
FACTORIES = (torch.empty, torch.ones, torch.zeros, torch.rand, torch.randn)
OF_PROCESS = torch.get_default_dtype  # Torch's own: `kept_to_this_thread` puts another in its place
# Functions that say by their name which dtype they give, and reading attributes.
CASTS = ("float", "double", "half", "bfloat16", "type", "__get__")
_INSTALLING = threading.Lock()


def load(
    kind: Any,
    files: ComponentFiles,
    *,
    dtype: torch.dtype,
    device: str,
    settle: Settle | None = None,
    readers: Readers | None = None,
    deal_out: Callable[[Any], Collection[str]] | None = None,
) -> Any | None:
    """What diffusers' `from_pretrained` gives, with its weights on `device` and the buffers of its constructor on the
    host; None for files with other names, which it may convert.

    `settle` is called with each layer and the name of the parameter that it has just been given. Collective with
    `readers`, the ranks that read it together. `deal_out` is given it before its weights, shards it, and tells which of
    them other ranks alone read; of these it gets nothing, of all others this rank's share.
    """
    from ...parallel.sharding import weights

    component = build(kind, files.folder, dtype=dtype)
    if misfits(component, files):
        return None
    elsewhere, dtypes = deal_out(component) if deal_out else (), dtypes_of(component, dtype)
    if unused := sorted({name for file in files.weights for name in file.tensors} - dtypes.keys()):
        logger.warning("component %s: %d tensors are not used, first %s", files.name, len(unused), unused[0][:100])
    with moved_by(readers, torch.device(device)) as move, _reading(files, dtypes, move) as read:
        weights.fill(component, read, *([settle] if settle else []), elsewhere=elsewhere)
    return component


def build(kind: Any, folder: Path, *, dtype: torch.dtype) -> Any:
    """The component with parameters on the meta device.

    As in diffusers' `from_pretrained`, buffers and other tensors that its constructor makes (tables of positions and
    frequencies, which no file holds) are real, and of the dtype that it would give them there; but the process's
    default dtype stays as it is, because another thread may be in the middle of a step.
    """
    import accelerate

    with DefaultDtype(dtype), accelerate.init_empty_weights(include_buffers=False):
        component = kind.from_config(kind.load_config(str(folder), local_files_only=True))
    component.register_to_config(_name_or_path=str(folder))
    return component.requires_grad_(False).eval()


def misfits(component: nn.Module, files: ComponentFiles) -> list[str]:
    """Tensors that the files lack or hold in another shape, known from the headers alone."""
    found = {name: entry.shape for file in files.weights for name, entry in file.tensors.items()}
    wanted = {name: tuple(value.shape) for name, value in component.state_dict().items()}
    return sorted(name for name, shape in wanted.items() if found.get(name) != shape)


def dtypes_of(component: Any, dtype: torch.dtype) -> dict[str, torch.dtype]:
    """What diffusers would make of each floating tensor: `dtype`, but for the modules that a class keeps in fp32."""
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


# ---- What libraries do to the whole process while they build, kept to this thread


class DefaultDtype(TorchFunctionMode):
    """Within it, tensors that would be made in the process's default dtype are of `dtype`.

    That is what no argument has decided: no dtype among them, and no tensor of floating numbers. A quotient of whole
    numbers is divided before it is rounded, as torch does.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self._of_process = OF_PROCESS()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.dtype == self._of_process:
            return func(*args, **kwargs)
        if func in FACTORIES and kwargs.get("dtype") is None and kwargs.get("out") is None:
            return func(*args, **{**kwargs, "dtype": self.dtype})
        made = func(*args, **kwargs)
        is_default = isinstance(made, Tensor) and made.dtype == self._of_process
        if not is_default or getattr(func, "__name__", "") in CASTS or any(map(_decides, _flat(args, kwargs))):
            return made
        return made.to(self.dtype)


_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def kept_to_this_thread() -> Iterator[None]:
    """Within it, `torch.set_default_dtype` called in this thread is for this thread only.

    diffusers and transformers call it around the constructors of what they load, while another thread of a rank may be
    in the middle of a step. One thread at a time: a second waits.
    """
    thread = threading.get_ident()
    with _ONE_AT_A_TIME, DefaultDtype(OF_PROCESS()) as mode:
        set_for_all, read_for_all = torch.set_default_dtype, torch.get_default_dtype

        def set_default_dtype(dtype: torch.dtype, /) -> None:
            if threading.get_ident() == thread:
                mode.dtype = dtype
            else:
                set_for_all(dtype)

        def get_default_dtype() -> torch.dtype:
            return mode.dtype if threading.get_ident() == thread else read_for_all()

        torch.set_default_dtype, torch.get_default_dtype = set_default_dtype, get_default_dtype
        try:
            yield
        finally:
            torch.set_default_dtype, torch.get_default_dtype = set_for_all, read_for_all


def _decides(value: Any) -> bool:
    """Whether it is a dtype, or holds floating numbers, of torch's kinds or of numpy's."""
    dtype = getattr(value, "dtype", None)
    is_floating = dtype.is_floating_point if isinstance(dtype, torch.dtype) else getattr(dtype, "kind", "") == "f"
    return isinstance(value, torch.dtype) or is_floating


def _flat(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, list | tuple):
            yield from _flat(value, {})
        else:
            yield value


class _Offline(threading.local):
    """Stands for the hub client's HF_HUB_OFFLINE: true within `offline()` of this thread, else as it was."""

    def __init__(self, before: Any) -> None:  # which each thread does
        self.before, self.depth = before, 0

    def __bool__(self) -> bool:
        return self.depth > 0 or bool(self.before)


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Within it this thread asks no hub, whatever a model's files or a library's code would have. Other threads may:
    in a host they are others' work."""
    from huggingface_hub import constants

    with _INSTALLING:
        if not isinstance(constants.HF_HUB_OFFLINE, _Offline):
            setattr(constants, "HF_HUB_OFFLINE", _Offline(constants.HF_HUB_OFFLINE))  # noqa: B010 (a bool by its type)
    thread = cast("_Offline", constants.HF_HUB_OFFLINE)
    thread.depth += 1
    try:
        yield
    finally:
        thread.depth -= 1


# ---- What is of the whole process, and a tokenizer, which all threads share


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """In all threads no progress bars and load reports of the libraries: ours shows progress, and errors are ours."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    with contextlib.ExitStack() as stack:
        for module in (diffusers_logging, transformers_logging):
            if module.is_progress_bar_enabled():
                stack.callback(module.enable_progress_bar)
            module.disable_progress_bar()
        # Not by their verbosity: Logger.setLevel writes to every logger there is, 3 MiB of pages that ranks share.
        for each in map(logging.getLogger, ("diffusers", "transformers")):
            stack.callback(vars(each).update, handlers=each.handlers, propagate=each.propagate)
            each.handlers = [logging.NullHandler()]
            each.propagate = False
        yield


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
