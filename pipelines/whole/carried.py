"""A modular pipeline's blocks and parts as plain data, from which ranks make the same ones.

Weights are written once, into a file without a name that host and ranks map: on a CPU all of them, the pipeline of the
host too, have one copy. Only classes of diffusers and transformers are made, by name.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import torch
from accelerate.utils import set_module_tensor_to_device
from diffusers.configuration_utils import ConfigMixin
from diffusers.modular_pipelines.modular_pipeline_utils import InsertableDict
from torch import Tensor, nn

from ...parallel.ranks.channel import read_body, write_body
from ..components.building import DefaultDtype, offline, quiet_libraries
from ..components.loading import load_settings
from ..spreading.handed import KIND, from_leaf, from_wire, to_leaf, to_wire

LIBRARIES = ("diffusers", "transformers")
ATTENDS = "attn_implementation"  # of a model of transformers, which its config does not tell
OWN = ("sub_blocks", "block_classes", "block_names", "_progress_bar_config")  # of a block, not told by its class
ELSEWHERE = "run the script under torchrun, where blocks take it as it is"


def name_of(kind: type) -> str:
    """Where ranks find a class. Raises ValueError for one of neither library."""
    if kind.__module__.partition(".")[0] not in LIBRARIES:
        told = f"{kind.__qualname__} of {kind.__module__} is no class of diffusers or transformers"
        raise ValueError(f"{told}, and a pool's ranks run no other; {ELSEWHERE}, or put it beside the pool's block")
    return f"{kind.__module__}:{kind.__qualname__}"


def class_of(name: str) -> Any:
    module, _, within = name.partition(":")
    assert module.partition(".")[0] in LIBRARIES, f"{name} is of neither library"
    return getattr(importlib.import_module(module), within)


# ---- Blocks: a tree of their classes


def plain_blocks(block: Any) -> dict[str, Any]:
    """Raises ValueError for a block that its class does not make so."""
    plain = _tree(block)
    _check_same(block, made_blocks(plain))
    return plain


def made_blocks(plain: Mapping[str, Any], default: Any = None) -> Any:
    """What is as its outer block makes it stays so, with what that gave to its constructor."""
    kind = class_of(plain["class"])
    block = default if type(default) is kind else kind()
    made = {name: made_blocks(each, block.sub_blocks.get(name)) for name, each in plain["blocks"].items()}
    if list(made.items()) != list(block.sub_blocks.items()):
        block.sub_blocks = InsertableDict(made)
    return block


def _tree(block: Any) -> dict[str, Any]:
    return {"class": name_of(type(block)), "blocks": {name: _tree(each) for name, each in block.sub_blocks.items()}}


def _check_same(block: Any, made: Any) -> None:
    for name in (vars(block).keys() | vars(made).keys()) - {*OWN}:
        if repr(vars(block).get(name)) != repr(vars(made).get(name)):
            raise ValueError(f"{type(block).__name__} has a {name} of its own, which ranks cannot be told; {ELSEWHERE}")
    for name, each in block.sub_blocks.items():
        _check_same(each, made.sub_blocks[name])


# ---- Parts, and values among which solvers are: leaves for `handed`, which gives others itself


def plain_part(part: Any, *, is_whole: bool = True) -> dict[str, Any]:
    """A model that is not whole has its config alone, which tells sizes. Raises ValueError for what can be given to no
    rank."""
    if isinstance(part, nn.Module):
        weights = _weights(part) if is_whole else {}
        dtype = str(part.dtype).removeprefix("torch.")
        return {KIND: "model", "class": name_of(type(part)), "config": _config(part), "dtype": dtype, **weights}
    if isinstance(part, ConfigMixin):
        return {KIND: "settings", "class": name_of(type(part)), "config": _config(part), "state": state_of(part)}
    if not hasattr(part, "save_pretrained"):
        return to_leaf(part)
    with tempfile.TemporaryDirectory() as folder:  # a tokenizer or a processor
        part.save_pretrained(folder)
        files = {str(each.relative_to(folder)): each for each in Path(folder).rglob("*") if each.is_file()}
        data = {name: torch.from_numpy(np.fromfile(each, dtype=np.uint8)) for name, each in files.items()}
    return {KIND: "files", "class": name_of(type(part)), "files": data}


def made_part(plain: dict[str, Any], device: str = "cpu") -> Any:
    """Of a rank: the part; a model on its device, the same object again while its weights are the same."""
    if plain[KIND] not in ("model", "settings", "files"):
        return from_leaf(plain)
    kind = class_of(plain["class"])
    with offline(), quiet_libraries():
        if plain[KIND] == "settings":
            return with_state(kind.from_config(plain["config"]), plain["state"])
        if plain[KIND] == "model":
            return _model(kind, plain, device)
        with tempfile.TemporaryDirectory() as folder:
            for name, data in plain["files"].items():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                data.numpy().tofile(Path(folder) / name)
            return load_settings(kind, Path(folder))


def _config(part: Any) -> dict[str, Any]:
    if isinstance(part, ConfigMixin):
        return json.loads(part.to_json_string())
    return {**json.loads(part.config.to_json_string(use_diff=False)), ATTENDS: part.config._attn_implementation}


def state_of(part: Any) -> dict[str, Any]:
    """What it holds as far as it is plain data: a solver or a guider besides its config, a layer besides its parts."""
    plain: dict[str, Any] = {}
    for name, value in vars(part).items():
        with contextlib.suppress(ValueError):
            plain[name] = to_wire(value)
    return plain


def with_state(part: Any, plain: Mapping[str, Any]) -> Any:
    vars(part).update({name: from_wire(value) for name, value in plain.items()})
    return part


# ---- Models


class _Written:
    """A model's weights in a file without a name: `mark` changes with them, and no other has this `key`."""

    numbers = itertools.count()

    def __init__(self, part: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        fd = write_body(tensors)
        self.close: Callable[[], object] = weakref.finalize(part, os.close, fd)
        self.file, self.key = f"/proc/{os.getpid()}/fd/{fd}", f"{os.getpid()}:{next(self.numbers)}"
        for name, each in _read(self.file).items():
            if tensors[name].device.type == "cpu" and tensors[name].is_contiguous():
                tensors[name].data = each
        self.mark = _mark(tensors)


# Of a host: what it has written. Of a rank: the models that it has made, by their keys.
_written: weakref.WeakKeyDictionary[nn.Module, _Written] = weakref.WeakKeyDictionary()
_made: dict[str, Any] = {}


def keys_written() -> list[str]:
    return [each.key for each in list(_written.values())]


def drop_others(keys: Collection[str]) -> None:
    """Of a rank: let go of models that the host has no more."""
    for key in _made.keys() - set(keys):
        del _made[key]


def _weights(part: Any) -> dict[str, Any]:
    _check_plain(part)
    tensors, found = _tensors(part), _written.get(part)
    if found is None or found.mark != _mark(tensors):
        if found is not None:
            found.close()
        found = _written[part] = _Written(part, tensors)
    adapters = {name: each.to_dict() for name, each in getattr(part, "peft_config", {}).items()}
    return {
        "file": found.file,
        "key": found.key,
        "attends": _attends(part),
        "adapters": json.loads(json.dumps(adapters, default=list)),
        "layers": [state_of(each) for each in _tuned(part)],
    }


def _model(kind: Any, plain: Mapping[str, Any], device: str) -> Any:
    config, adapters = dict(plain["config"]), plain.get("adapters", {})
    made: Any = _made.get(plain.get("key", ""))
    if made is None:
        with DefaultDtype(getattr(torch, plain["dtype"])), accelerate.init_empty_weights(include_buffers=False):
            if ATTENDS not in config:
                made = kind.from_config(config)
            else:
                attends = config.pop(ATTENDS)
                made = kind._from_config(kind.config_class.from_dict(config), attn_implementation=attends)
            for name, told in adapters.items():
                made.add_adapter(_lora(told), adapter_name=name)
        made.requires_grad_(False).eval()
        if "file" not in plain:
            return made
        _fill(made, plain)
        _made[plain["key"]] = made = made.to(device)
    for layer, told in zip(_tuned(made), plain["layers"], strict=True):
        with_state(layer, told)
    return made


def _fill(made: nn.Module, plain: Mapping[str, Any]) -> None:
    tensors = _read(plain["file"])
    if left := tensors.keys() ^ _tensors(made).keys() or {*_attends(made).items()} ^ {*plain["attends"].items()}:
        raise ValueError(f"{type(made).__name__} is not as its class makes it, first in {min(left)}; {ELSEWHERE}")
    for path, each in tensors.items():
        set_module_tensor_to_device(made, path, "cpu", value=each, dtype=each.dtype)


def _read(file: str) -> dict[str, Tensor]:
    return read_body(os.open(file, os.O_RDONLY))


def _tensors(part: nn.Module) -> dict[str, Tensor]:
    return {**dict(part.named_parameters(remove_duplicate=False)), **dict(part.named_buffers(remove_duplicate=False))}


def _mark(tensors: Mapping[str, Tensor]) -> int:
    told = ((name, each.data_ptr(), 0 if each.is_inference() else each._version) for name, each in tensors.items())
    return hash(tuple(told))


def _attends(part: Any) -> dict[str, str]:
    return {path: type(each).__name__ for path, each in getattr(part, "attn_processors", {}).items()}


def _check_plain(part: nn.Module) -> None:
    """ValueError for what changes a model beyond its weights, which ranks would not have."""
    title = type(part).__name__
    for each in part.modules():
        if (hooks := getattr(vars(each).get("_diffusers_hook"), "hooks", None)) or hasattr(each, "_hf_hook"):
            told = f"{title} has hooks ({', '.join(hooks or ['accelerate'])}), as of a step cache or offloading"
            raise ValueError(f"{told}, which a pool's ranks cannot be given; take them off, or {ELSEWHERE}")
    for path, each in part.named_parameters():
        if type(each.data) is not Tensor:
            told = f"{path} of {title} is a {type(each.data).__name__}"
            raise ValueError(f"{told}, which a pool's ranks cannot be given; load it unquantized, or {ELSEWHERE}")


def _tuned(part: nn.Module) -> list[Any]:
    """The layers that LoRAs of peft change."""
    if not getattr(part, "peft_config", None):
        return []
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [each for each in part.modules() if isinstance(each, BaseTunerLayer)]


def _lora(told: Mapping[str, Any]) -> Any:
    from peft import LoraConfig

    known = {name for name, each in LoraConfig.__dataclass_fields__.items() if each.init} - {"runtime_config"}
    return LoraConfig(**{name: value for name, value in told.items() if name in known})
