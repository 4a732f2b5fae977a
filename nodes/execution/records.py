"""What became of a run and of each of its nodes: what is kept of a model that one gave, and how its failure is told.

They are what a run gives back, in memory; `manifest.py` writes them down.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...parallel.errors import LoomError, code_of, is_out_of_memory
from ...parallel.progress import Foreseen, RankWork
from ...parallel.wording import worded
from ...pipelines.costs.ran import Took, foreseen_to_plain, took_to_plain
from ...pipelines.models.component_files import inspect_components, inspect_model
from ...pipelines.models.folder import read_allowed_index
from ...pipelines.models.packing import read_checkpoint
from ...pipelines.models.regular_file import Unchanged, sha256_of
from ...pipelines.models.source import checkpoints_of, split_source
from ...pipelines.models.tensor_file import TensorFile
from ...pipelines.values import Model
from ..files.workspace import Host
from ..graph.problems import short
from ..graph.spec import NodeSpec

if TYPE_CHECKING:
    from ..preview.walk import Walk

MOST_BITS = 1 << 13  # of a whole number that is told: Python writes no more than 4,300 digits
State = Literal["ok", "failed", "cancelled", "skipped"]
Cached = Literal["no", "memory", "disk", "unneeded"]


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """What became of one node. `cached` is "unneeded" where everything that it feeds was cached."""

    key: str
    state: State
    cached: Cached = "no"
    seconds: float = 0.0
    # Zero where it was not measured: nodes that use no device. With ranks, of the one that needed most.
    peak_memory_bytes: int = 0
    plan: str = ""  # how the node's work was spread over ranks; empty where it was not
    ranks: tuple[RankWork, ...] = ()  # what each rank did for a stage, or this process; empty where the node runs none
    # Its plain inputs as they were in the run; at the socket of a wire that is left open, what then holds.
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    # Those of them that were written as 0, "" or "auto", or that the run's own devices came before.
    stand_ins: tuple[str, ...] = ()
    model: ModelFacts | None = None  # the model that it gave
    # What a denoise was predicted to take; None where nothing was. The next is what it took, where it ended well.
    foreseen: Foreseen | None = None
    took: Took | None = None
    files: tuple[str, ...] = ()
    message: str = ""
    code: str = ""  # what a failure is, for programs (parallel/errors.py)

    def meant(self) -> dict[str, Any]:
        return {name: self.values[name] for name in self.stand_ins}

    def prediction(self) -> dict[str, Any]:
        """`foreseen` and `took` as plain data; empty where nothing was predicted."""
        if self.foreseen is None:
            return {}
        took = {} if self.took is None else {"took": took_to_plain(self.foreseen, self.took)}
        return {"foreseen": foreseen_to_plain(self.foreseen), **took}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run made, and what became of each node that it needed, in order."""

    run: str
    state: Literal["ok", "failed", "cancelled"]
    outputs: Mapping[str, Any]
    nodes: Mapping[str, NodeRecord]
    seconds: float
    failure: NodeFailed | None = None
    replicas: int = 1  # groups of devices that worked on separate runs, this one's among them
    # Those that were chosen for denoises, by node; what the results carry.
    plans: Mapping[str, str] = field(default_factory=dict[str, str])
    # Of nodes that were unfolded: the element and the path, in words.
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    # Of nodes whose pictures are a batch of several nodes' pictures: those nodes, in order.
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def plain_outputs(self) -> dict[str, Any]:
        """Those outputs that are text, numbers, truths, and lists and dicts of them, as JSON holds them."""
        found: dict[str, Any] = {}
        for name, value in self.outputs.items():
            with contextlib.suppress(TypeError, RecursionError):
                found[name] = _plain(value)
        return found

    def part_of(self, node: str, index: int) -> str:
        """The node that gave the picture of a node's file of this index; "" where that is not known."""
        parts = self.parts.get(node, ())
        return parts[index] if len(parts) == len(self.nodes[node].files) else ""


def _plain(value: Any) -> Any:
    """As JSON holds it: without NaN and infinities, which are their names. Raises TypeError for all else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value).encode(errors="backslashreplace").decode()  # half a character is none in a file
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, int) and value.bit_length() <= MOST_BITS:
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {_plain(key): _plain(each) for key, each in value.items()}
    raise TypeError(type(value))


def has_torch() -> bool:
    """Whether this process has loaded it: what needs it first waits for that."""
    return "torch" in sys.modules


def devices_in_use() -> list[str]:
    """Those whose memory is measured: GPUs, else this process's own, the CPU."""
    # looking at CUDA must not start it, nor import torch
    if not has_torch():
        return ["cpu"]
    import torch  # waits where a node beside this one is not yet through with importing it

    if not torch.cuda.is_initialized():
        return ["cpu"]
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


# ---- The models that a workflow uses, for whoever asks later what made something: revision, LoRAs, and each file of
# weights by its size and the hash of its header. No weights are read.

MOST_FILES = 256  # what is told of one model; the largest in use have some fifty

logger = logging.getLogger("latentloom")


@dataclass(frozen=True, kw_only=True)
class WeightsFile:
    """One file of weights."""

    name: str
    """Below the model's folder; of a single file its own name."""
    num_bytes: int
    header_sha256: str
    """Of the header alone, which names each tensor, its type and its shape."""


@dataclass(frozen=True, kw_only=True)
class LoraFacts:
    """One LoRA on a model."""

    name: str
    scale: float
    sha256: str
    """Of the whole file; empty where it could not be read."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """A model as a run had it."""

    source: str
    family: str
    revision: str
    """The commit of a hub model; empty for any other."""
    fingerprint: str
    dtype: str
    quantization: str
    loras: tuple[LoraFacts, ...] = ()
    files: tuple[WeightsFile, ...] = ()
    """Of a model without LoRAs: those of one with them are told where it was loaded."""


def models_of(walk: Walk, order: Iterable[str]) -> dict[str, ModelFacts]:
    """What is kept of the models that nodes give, as far as they are known before the run."""
    names = [name for name in order if any(each.type == Model.__name__ for each in walk.specs[name].outputs)]
    given = {
        name: next((each for each in walk.gives(name).values() if isinstance(each, Model)), None) for name in names
    }
    return {name: model_facts(model) for name, model in given.items() if model is not None}


def model_facts(model: Model) -> ModelFacts:
    """What is kept of a model beside a result: its files, or the LoRAs that were put on it. Files that cannot be read
    are left out: the run itself will tell.
    """
    folder, files = Path(model.folder), [] if model.loras else weights_of(model)[:MOST_FILES]
    named = {
        name: getattr(model, name) for name in ("source", "family", "revision", "fingerprint", "dtype", "quantization")
    }
    return ModelFacts(
        **named,
        loras=tuple(
            LoraFacts(name=Path(lora.path).name, scale=lora.scale, sha256=lora.sha256 or _content(Path(lora.path)))
            for lora in model.loras
        ),
        files=tuple(
            WeightsFile(
                name=name_of(file, folder),
                num_bytes=file.size_bytes,
                header_sha256=hashlib.sha256(file.header).hexdigest(),
            )
            for file in files
        ),
    )


def weights_of(model: Model, *, roots: Sequence[Path] | None = None) -> list[TensorFile]:
    """The headers of all files of weights that a model reads, LoRAs apart; empty where they cannot be read."""
    folder, (single, _) = Path(model.folder), split_source(model.source)
    try:
        if model.family:
            parts = inspect_model(folder, roots=roots).components
        else:
            parts = inspect_components(folder, read_allowed_index(folder, roots=roots), roots=roots)
        named = {} if not single else checkpoints_of(Path(single), parts)
        own = (file for name, part in parts.items() if name not in named for file in part.weights)
        return list({file.path: file for file in (*map(read_checkpoint, named.values()), *own)}.values())
    except (ValueError, OSError) as error:
        logger.info("the weights of %s are not told: %s", model.source, error)
        return []


def name_of(file: TensorFile, folder: Path) -> str:
    """Below the model's folder; of a single file its own."""
    return file.path.relative_to(folder).as_posix() if file.path.is_relative_to(folder) else file.path.name


_CONTENTS = Unchanged[str]()  # of LoRAs: every run asks


def _content(path: Path) -> str:
    try:
        return _CONTENTS.get(path, [path], lambda: sha256_of(path))
    except (ValueError, OSError):
        return ""


# ---- How a node's failure is told: one sentence for the user, the cause kept for whoever debugs.

# For what nobody foresaw.
MORE: Mapping[Host, str] = {
    "python": "the error behind this one says where",
    "command line": "run again with --debug to see where",
    "page": "the server's log says where",
    "comfyui": "the log says where",
}


class NodeFailed(LoomError):
    """A node could not do its work. `__cause__` is the original error with its traceback.

    The code is the cause's, or "node-failed" where nobody foresaw that.
    """

    code = "node-failed"

    def __init__(self, node: str, spec: NodeSpec, title: str, cause: BaseException, host: Host) -> None:
        self.node = node
        self.type = spec.id
        self.title = title or spec.title
        self.sentence = sentence(cause, host)
        if (code := code_of(cause)) != LoomError.code:
            self.code = code
        super().__init__(worded("node {!r} ({}, {}): {}", node, self.title, self.type, self.sentence))
        self.__cause__ = cause


def sentence(error: BaseException, host: Host) -> str:
    """What speaks to the user already stays as it is; anything else gets a sentence around its first line."""
    text = str(error).strip()
    if isinstance(error, ValueError | LoomError) and text:
        return text
    kind = type(error).__name__
    if is_out_of_memory(error):
        return worded("it ran out of memory ({}); use a smaller size, batch or model", _first_line(text) or kind)
    if isinstance(error, OSError) and error.strerror:
        where = f" at {short(str(error.filename))}" if error.filename else ""
        return worded(
            "a file could not be read or written{}: {}; check the path and the free space", where, error.strerror
        )
    return worded("it stopped with {}: {}; {}", kind, _first_line(text) or "no message", MORE[host])


def _first_line(text: str) -> str:
    return text.splitlines()[0][:300] if text else ""
