"""ComfyUI's V1 node classes, made from the specs: one class per node, none written by hand."""

import contextlib
import dataclasses
import inspect
import json
import logging
import math
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...parallel.errors import Cancelled
from ...pipelines.values import Audio, Image, Mask
from ..files.audio_files import CODERS
from ..files.workspace import Workspace
from ..graph.problems import short
from ..graph.scalars import fault
from ..graph.sketch import Refusal, Unknown
from ..graph.spec import InputSpec, NodeSpec, Saved, files_of
from ..preview.meant import tagged
from ..registry import SPECS
from .comfy_file import OURS, fixed_inputs, unfolded, version_of, without_marks
from .comfy_folders import LORA, MODEL, TIPS, comfy_workspace, names
from .comfy_process import ComfyProgress, hear_unloading
from .native.node import NATIVE

logger = logging.getLogger("latentloom")

# ComfyUI's own wire types; every other value travels as `LOOM_` and its name.
TYPES = {
    **{"int": "INT", "float": "FLOAT", "bool": "BOOLEAN", "string": "STRING"},
    **{"Image": "IMAGE", "Mask": "MASK", "Audio": "AUDIO", "any": "*"},
}

# What ComfyUI has on its own wires as a bare tensor.
TENSORS: Mapping[str, type[Image | Mask]] = {"Image": Image, "Mask": Mask}

# What ComfyUI calls nodes of its own; ours of the same title say there whose they are.
CORE_TITLES = (
    *("Boolean", "Crop Image", "Float", "Format Text", "Load Audio", "Load Image", "Load LoRA", "Load Video"),
    *("Note", "Replace Text", "Save Image", "Save Video", "Seed"),
)

# The step of a FLOAT that names none: ComfyUI's page would round it to 0.1, and 23.976 frames a second are 24 then.
FINEST = 0.001

# What ComfyUI adds for nodes that write files: the prompt and the page's workflow.
HIDDEN = (("comfy_prompt", "PROMPT"), ("comfy_extra", "EXTRA_PNGINFO"))
# And for nodes with a migration, which find there what an older version saved: ComfyUI leaves out what it knows no
# socket for.
SAVED = (("comfy_prompt", "PROMPT"), ("comfy_id", "UNIQUE_ID"))


class Node:
    """What every generated class inherits: ComfyUI calls `run` with the inputs by name."""

    SPEC: ClassVar[NodeSpec]
    FUNCTION = "run"

    def run(self, comfy_prompt: Any = None, comfy_extra: Any = None, comfy_id: Any = None, **inputs: Any) -> Any:
        hear_unloading()
        spec = self.SPEC
        entry = comfy_prompt.get(str(comfy_id)) if isinstance(comfy_prompt, dict) else None
        saved = entry.get("inputs") if isinstance(entry, dict) else None
        inputs = _renewed(spec, inputs, saved if isinstance(saved, dict) else {})
        # the text chunks that ComfyUI's own Save Image writes, so that its page opens our pictures too
        told = {"prompt": without_marks(comfy_prompt), **(comfy_extra if isinstance(comfy_extra, dict) else {})}
        chunks = {str(n): json.dumps(_finite(v), allow_nan=False) for n, v in told.items() if v is not None}
        workspace = tagged(dataclasses.replace(_workspace(spec), metadata=chunks), {})
        given = {name: _from_comfy(spec, name, value) for name, value in inputs.items() if value is not None}
        progress = ComfyProgress()
        try:
            made = spec.make(unfolded(spec, given), progress=progress, workspace=workspace)
        except Cancelled:
            progress.raise_interrupt()
            raise
        parts = made if len(spec.outputs) > 1 else (made,) if spec.outputs else ()
        result = tuple(map(_to_comfy, parts))
        if any(isinstance(part, Saved) for part in parts):
            return {"ui": _shown(files_of(made), workspace), "result": result}
        return result


def node_class(spec: NodeSpec) -> type[Node]:
    """A class for ComfyUI that also carries our own spec."""
    members: dict[str, Any] = {
        "SPEC": spec,
        "CATEGORY": f"latentloom/{spec.category}",
        "DESCRIPTION": spec.help,
        "OUTPUT_NODE": spec.is_output,
        "RETURN_TYPES": tuple(comfy_type(o.type) for o in spec.outputs),
        "RETURN_NAMES": tuple(o.name for o in spec.outputs),
        "INPUT_TYPES": classmethod(lambda cls: input_types(spec)),
    }
    if spec.fingerprint is not None:
        members["IS_CHANGED"] = classmethod(_is_changed)
    if spec.refuses is not None:
        members["VALIDATE_INPUTS"] = classmethod(_validator(spec))
    return type(spec.call.__name__, (Node,), members)


def comfy_type(kind: str) -> str:
    """A list travels as one value of a type of its own, `LOOM_LIST_` and the name."""
    return TYPES.get(kind) or "LOOM_" + re.sub(r"\W+", "_", kind).strip("_").upper()


def input_types(spec: NodeSpec) -> dict[str, Any]:
    """ComfyUI's `INPUT_TYPES`. What has a default is optional, so that a prompt need not spell it out."""
    # A node always has the same sockets: ComfyUI's dynamic combo, which changes them, is for its V3 API only.
    result: dict[str, Any] = {"required": {}, "optional": {}}
    for socket in fixed_inputs(spec):
        result["required" if socket.required else "optional"][socket.name] = _input_type(socket)
    if hidden := HIDDEN * spec.is_output + SAVED * (spec.migrate is not None):
        result["hidden"] = dict(hidden)
    return result


def _input_type(socket: InputSpec) -> tuple[Any, dict[str, Any]]:
    options: dict[str, Any] = {"tooltip": socket.help} if socket.help else {}
    if socket.advanced:
        options["advanced"] = True
    if socket.type == "choice":
        return socket.choices and list(socket.choices), options | {"default": socket.default}
    if not socket.required and socket.default is not None:
        options["default"] = socket.default
    if socket.widget in TIPS and (found := names(socket.widget)) is not None:
        return found, options | {"tooltip": TIPS[socket.widget]}
    if socket.widget == "multiline":
        options["multiline"] = True
    if socket.widget == "seed":
        options["control_after_generate"] = True
    options |= {k: v for k in ("min", "max", "step") if (v := getattr(socket, k)) is not None}
    if socket.type == "float" and socket.step is None:
        options |= {"step": FINEST, "round": FINEST}
    return comfy_type(socket.type), options


def _renewed(spec: NodeSpec, inputs: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a prompt that an older version of the node saved, as today's. Raises `ValueError`."""
    given = {**{name: value for name, value in saved.items() if spec.input(name) is None}, **inputs}
    version = version_of(spec, given)
    if spec.migrate is None or version == spec.version:
        return dict(inputs)
    return {name: value for name, value in spec.migrate(version, given).items() if spec.input(name) is not None}


def _from_comfy(spec: NodeSpec, name: str, value: Any) -> Any:
    kind = next((socket.type for socket in fixed_inputs(spec) if socket.name == name), "")
    if kind == "Audio":  # some nodes decode it when it is asked for
        if not isinstance(value, Mapping) or not {"waveform", "sample_rate"} <= set(value):
            raise ValueError(f"{name} is {short(value)}; it takes ComfyUI's AUDIO, a waveform with its sample_rate")
        return Audio(waveform=value["waveform"].clone(), rate=value["sample_rate"])
    if kind not in TENSORS:
        return value
    pixels = value.clone()  # the host runs under inference mode and may reuse the tensor
    return TENSORS[kind](pixels=pixels.reshape(-1, *pixels.shape[-2:]) if kind == "Mask" else pixels)  # some give H W


def _to_comfy(value: Any) -> Any:
    if isinstance(value, Audio):
        return {"waveform": value.waveform, "sample_rate": value.rate}
    return value.pixels if isinstance(value, Image | Mask) else value


def _finite(value: Any) -> Any:
    """Without NaN and infinity, which JSON has not: other nodes may give them."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _shown(saved: Sequence[str], workspace: Workspace) -> dict[str, Any]:
    """What ComfyUI's page shows: files of its output folder; `animated` are for its player, whatever their kind."""
    root = workspace.output_dir.resolve()
    files = [Path(f).relative_to(root) for f in saved]
    shown: dict[str, Any] = {}
    for f in files:
        row = {"filename": f.name, "subfolder": f.parent.as_posix() if f.parent.name else "", "type": "output"}
        shown.setdefault("audio" if f.suffix[1:] in CODERS else "images", []).append(row)
    return shown | ({"animated": (True,)} if any(f.suffix == ".mp4" for f in files) else {})


def _is_changed(cls: type[Node], **inputs: Any) -> str:
    """A stable text, as ComfyUI wants; one that never was before where a wired input, which it gives as None, is not
    there yet, or a file cannot be read: `run` then finds out."""
    assert cls.SPEC.fingerprint is not None
    values = {socket.name: socket.default for socket in cls.SPEC.inputs} | inputs
    try:
        return cls.SPEC.fingerprint({k: v for k, v in values.items() if v is not None}, _workspace(cls.SPEC))
    except (ValueError, TypeError, KeyError, OSError):
        return secrets.token_hex(16)  # not NaN, which ComfyUI would write into pictures


def _validator(spec: NodeSpec) -> Callable[..., str | bool]:
    """What ComfyUI asks when a prompt is queued, with the values that stand at the node itself: true, or why not. What
    comes by a wire it does not give, a model among it; so nothing is said of what takes one."""

    def validate(cls: type[Node], **inputs: Any) -> str | bool:
        assert cls.SPEC.refuses is not None
        inputs = _renewed(spec, inputs, {})
        for socket in choices:
            if (value := inputs.get(socket.name)) is not None and (found := fault(socket, value)):
                return Once(found[1])
        try:
            refusals = cls.SPEC.refuses(_Standing(spec, inputs))
        except ValueError:  # not known before the run
            return True
        told = (Refusal(code="", why=each) if isinstance(each, str) else each for each in refusals.values())
        return next((Once(each.why) for each in told if each.why and each.kind == "error"), True)

    # ComfyUI leaves to us what the function names: texts, and the choices of a node with a migration, where values of
    # an older version may stand. All else it checks itself.
    choices = [socket for socket in fixed_inputs(spec) if socket.type == "choice" and spec.migrate is not None]
    names = [socket.name for socket in (*(s for s in fixed_inputs(spec) if s.type == "string"), *choices)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = [inspect.Parameter(name, kind, default=None) for name in names]
    validate.__dict__["__signature__"] = inspect.Signature([inspect.Parameter("cls", kind), *named])
    return validate


class Once(str):
    """A refusal that ComfyUI tells once. A check is given the inputs that it names, and ComfyUI repeats its answer for
    each of these; but it passes over its own `ExecutionBlocker`, which this answer is to it once it was told."""

    __slots__ = ("is_told",)

    def __str__(self) -> str:
        self.is_told = True
        return "".join(self)

    @property
    def __class__(self) -> type:
        if getattr(self, "is_told", False):
            with contextlib.suppress(ImportError):
                from comfy_execution.graph_utils import ExecutionBlocker

                return ExecutionBlocker
        return Once


def _workspace(spec: NodeSpec) -> Workspace:
    return comfy_workspace(LORA if any(socket.widget == LORA for socket in spec.inputs) else MODEL)


class _Standing:
    """The values that stand at one node, for what it refuses."""

    accelerators: Sequence[str] = ()
    is_machine_known = False

    def __init__(self, spec: NodeSpec, inputs: Mapping[str, Any]) -> None:
        self.workspace, self._inputs = _workspace(spec), inputs

    def value(self, socket: str) -> Any:
        if not self.has(socket):
            raise Unknown(f"{socket} is not known before the run")
        return self._inputs[socket]

    def has(self, socket: str) -> bool:
        return self._inputs.get(socket) is not None

    def number(self, socket: str) -> float:
        return float(self._inputs.get(socket) or 0)

    def tell(self, problem: str) -> None:
        """Of sketches, which nobody asks here."""


# Of ours, and of those from outside: whoever asks `latentloom` for it has opened the doors first.
NODE_CLASS_MAPPINGS: dict[str, type] = {id: node_class(spec) for id, spec in SPECS.items()}
NODE_DISPLAY_NAME_MAPPINGS: dict[str, str] = {
    id: spec.title + OURS if spec.title in CORE_TITLES else spec.title for id, spec in SPECS.items()
}
# What is ComfyUI's alone, on its own wires, and no step of ours.
NODE_CLASS_MAPPINGS |= NATIVE
NODE_DISPLAY_NAME_MAPPINGS |= {id: kind.TITLE for id, kind in NATIVE.items()}
