"""A modular pipeline's blocks and parts as plain data, from which ranks make the same ones.

Weights do not travel: they are written once into a file without a name, which host and ranks map. On a CPU all
of them, the pipeline of the host too, then have one copy. Only classes of diffusers and transformers are made, by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import torch
from diffusers.configuration_utils import ConfigMixin
from diffusers.models.modeling_utils import ModelMixin
from diffusers.modular_pipelines.modular_pipeline_utils import InsertableDict
from torch import Tensor, nn

from ...parallel.staging import in_host_memory, unnamed_file
from ..components.building import DefaultDtype, offline, quiet_libraries
from ..components.loading import load_settings
from ..spreading.handed import KIND, from_leaf, from_wire, to_leaf, to_wire

LIBRARIES = ("diffusers", "transformers")
ATTENDS = "attn_implementation"  # of a model of transformers, which its config does not tell
ALIGNED = 64  # bytes
BAR = "_progress_bar_config"
ELSEWHERE = "run the script under torchrun, where blocks take it as it is"


def name_of(kind: type) -> str:
    """Where ranks find a class. Raises ValueError for one of neither library."""
    if kind.__module__.partition(".")[0] not in LIBRARIES:
        raise ValueError(
            f"{kind.__qualname__} of {kind.__module__} is no class of diffusers or transformers, and a pool's ranks "
            f"run no other; {ELSEWHERE}, or put it beside the block that a pool runs"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def class_of(name: str) -> Any:
    module, _, within = name.partition(":")
    assert module.partition(".")[0] in LIBRARIES, f"{name} is of neither library"
    found = importlib.import_module(module)
    for each in within.split("."):
        found = getattr(found, each)
    return found


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
    for name in (vars(block).keys() | vars(made).keys()) - {"sub_blocks", "block_classes", "block_names", BAR}:
        if repr(vars(block).get(name)) != repr(vars(made).get(name)):
            raise ValueError(f"{type(block).__name__} has a {name} of its own, which ranks cannot be told; {ELSEWHERE}")
    for name, each in block.sub_blocks.items():
        _check_same(each, made.sub_blocks[name])


# ---- Parts, by what they are


def plain_parts(pipe: Any, wanted: Collection[str], devices: Collection[str]) -> dict[str, Any]:
    """Those that a block is to have, and of other models of diffusers' what tells their sizes."""
    plain: dict[str, Any] = {}
    for name, part in pipe.components.items():
        if part is None or (name not in wanted and not isinstance(part, ModelMixin)):
            continue
        plain[name] = _plain_part(name, part, name in wanted, devices)
    return plain


def _plain_part(name: str, part: Any, is_wanted: bool, devices: Collection[str]) -> dict[str, Any]:
    kind = name_of(type(part))
    if isinstance(part, nn.Module):
        plain = {"class": kind, "config": _config(part), "dtype": str(part.dtype).removeprefix("torch.")}
        return {**plain, **(_weights(name, part, devices) if is_wanted else {})}
    if isinstance(part, ConfigMixin):
        return _plain_settings(part)
    with tempfile.TemporaryDirectory() as folder:  # a tokenizer or a processor
        part.save_pretrained(folder)
        files = {str(file.relative_to(folder)): file for file in Path(folder).rglob("*") if file.is_file()}
        data = {name: torch.from_numpy(np.fromfile(file, dtype=np.uint8)) for name, file in files.items()}
    return {"class": kind, "files": data}


def _config(part: Any) -> dict[str, Any]:
    if isinstance(part, ConfigMixin):
        return json.loads(part.to_json_string())
    return {**json.loads(part.config.to_json_string(use_diff=False)), ATTENDS: part.config._attn_implementation}


def _plain_settings(part: ConfigMixin) -> dict[str, Any]:
    return {"class": name_of(type(part)), "config": _config(part), "state": state_of(part)}


def plain_values(values: Any) -> Any:
    """What blocks hand on, solvers among it. Raises ValueError for what can be given to no rank."""

    def leaf(value: Any) -> Any:
        is_solver = isinstance(value, ConfigMixin) and not isinstance(value, nn.Module)
        return {KIND: "part", **_plain_settings(value)} if is_solver else to_leaf(value)

    return to_wire(values, leaf)


def made_values(plain: Any) -> Any:
    return from_wire(plain, lambda each: made_part(each, "cpu") if each[KIND] == "part" else from_leaf(each))


def state_of(part: Any) -> dict[str, Any]:
    """What a solver or a guider holds besides its config, as far as it is plain data."""
    plain: dict[str, Any] = {}
    for name, value in vars(part).items():
        with contextlib.suppress(ValueError):
            plain[name] = to_wire(value)
    return plain


def with_state(part: Any, plain: Mapping[str, Any]) -> Any:
    vars(part).update({name: from_wire(value) for name, value in plain.items()})
    return part


def made_part(plain: Mapping[str, Any], device: str) -> Any:
    """Of a rank: the part, on its device; the same object again while its weights are the same."""
    kind = class_of(plain["class"])
    with offline(), quiet_libraries():
        if "files" in plain:
            with tempfile.TemporaryDirectory() as folder:
                for name, data in plain["files"].items():
                    (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                    data.numpy().tofile(Path(folder) / name)
                return load_settings(kind, Path(folder))
        if "state" in plain:
            return with_state(kind.from_config(plain["config"]), plain["state"])
        if "file" not in plain:
            return _shell(kind, plain)
        if plain["key"] not in _made:
            _made[plain["key"]] = _filled(_shell(kind, plain), plain).to(device)
    made = _made[plain["key"]]
    for told, layer in zip(plain.get("layers", ()), _tuned(made), strict=True):
        layer.scaling.update(told["scaling"])
        layer.merged_adapters, layer._active_adapter = told["merged"], told["active"]
        layer._disable_adapters = told["disabled"]
    return made


# Of a rank: its models, by the keys of their weights.
_made: dict[str, nn.Module] = {}


def drop_others(keys: Collection[str]) -> None:
    """Of a rank: let go of models that the host has no more."""
    for key in _made.keys() - set(keys):
        del _made[key]


def _shell(kind: Any, plain: Mapping[str, Any]) -> nn.Module:
    """The model without weights."""
    config = dict(plain["config"])
    made: Any
    with DefaultDtype(getattr(torch, plain["dtype"])), accelerate.init_empty_weights(include_buffers=False):
        if issubclass(kind, ConfigMixin):
            made = kind.from_config(config)
        else:
            attends = config.pop(ATTENDS)
            made = kind._from_config(kind.config_class.from_dict(config), attn_implementation=attends)
        for adapter, told in plain.get("adapters", {}).items():
            made.add_adapter(_lora(told), adapter_name=adapter)
    return made.requires_grad_(False).eval()


# ---- Weights


@dataclasses.dataclass
class Written:
    """A model's weights in a file without a name."""

    mark: int  # changes with the weights
    key: str  # no other has it while this process lives
    file: str
    places: dict[str, list[Any]]  # by name: where it begins, its dtype and its shape
    close: Callable[[], object]


_numbers = itertools.count()
_written: weakref.WeakKeyDictionary[nn.Module, Written] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def keys_written() -> list[str]:
    with _lock:
        return [each.key for each in _written.values()]


def _weights(name: str, part: Any, devices: Collection[str]) -> dict[str, Any]:
    _check_plain(name, part)
    tensors = dict(_tensors(part))
    if place := next((str(each.device) for each in tensors.values() if str(each.device) in {*devices} - {"cpu"}), ""):
        raise ValueError(
            f"{name} is on {place}, where a rank of the pool would hold it again; move the pipeline to the CPU"
        )
    with _lock:
        found = _written.get(part)
        if found is None or found.mark != _mark(tensors):
            found = _write(part, tensors, found)
    return {
        "file": found.file,
        "places": found.places,
        "key": found.key,
        "attends": {path: type(each).__name__ for path, each in getattr(part, "attn_processors", {}).items()},
        **_plain_loras(part),
    }


def _tensors(part: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from part.named_parameters(remove_duplicate=False)
    yield from part.named_buffers(remove_duplicate=False)


def _mark(tensors: Mapping[str, Tensor]) -> int:
    return hash(
        tuple((name, each.data_ptr(), 0 if each.is_inference() else each._version) for name, each in tensors.items())
    )


def _write(part: nn.Module, tensors: Mapping[str, Tensor], before: Written | None) -> Written:
    # As torch aligns what it makes: CPU kernels round by where memory begins.
    places, starts, end = dict[str, list[Any]](), dict[int, int](), 0
    for name, each in tensors.items():
        start = starts.setdefault(id(each), end)
        end = max(end, start + -(-each.nbytes // ALIGNED) * ALIGNED)
        places[name] = [start, str(each.dtype).removeprefix("torch."), list(each.shape)]
    fd = unnamed_file(end)
    close, file = weakref.finalize(part, os.close, fd), f"/proc/{os.getpid()}/fd/{fd}"
    os.truncate(fd, end)
    with open(fd, "wb", closefd=False) as body:
        for name, each in tensors.items():
            body.seek(places[name][0])
            body.writelines(in_host_memory(each))
    mapped = _mapped(file, places)
    for name, each in tensors.items():
        if each.device.type == "cpu" and each.is_contiguous():
            each.data = mapped[name]
    if before is not None:
        before.close()
    _written[part] = Written(_mark(tensors), f"{os.getpid()}:{next(_numbers)}", file, places, close)
    return _written[part]


def _mapped(file: str, places: Mapping[str, list[Any]]) -> dict[str, Tensor]:
    """Views of the file; who writes to one has a page of his own."""
    whole = torch.from_numpy(np.memmap(file, dtype=np.uint8, mode="c"))
    found: dict[str, Tensor] = {}
    for name, (start, dtype, shape) in places.items():
        number = getattr(torch, dtype)
        end = start + math.prod(shape) * number.itemsize
        found[name] = whole[start:end].view(number).view(shape)
    return found


def _check_plain(name: str, part: nn.Module) -> None:
    """ValueError for what changes a model beyond its weights, which ranks would not have."""
    for path, each in part.named_modules():
        hooks = getattr(vars(each).get("_diffusers_hook"), "hooks", {})
        if hooks or hasattr(each, "_hf_hook"):
            what = f"hooks of {', '.join(hooks) or 'accelerate'} ({path or 'all'}), such as a step cache or offloading"
            raise ValueError(f"{name} has {what}, which a pool's ranks cannot be given; take them off, or {ELSEWHERE}")
    for path, each in part.named_parameters():
        if type(each.data) is not Tensor:
            what = f"{path} is a {type(each.data).__name__}"
            raise ValueError(f"{name}: {what}, which a pool's ranks cannot be given; load it unquantized")


def _filled(made: Any, plain: Mapping[str, Any]) -> nn.Module:
    tensors = _mapped(plain["file"], plain["places"])
    title = type(made).__name__
    if left := tensors.keys() ^ dict(_tensors(made)).keys():
        raise ValueError(f"{title} is not as its class makes it, first in {min(left)}; {ELSEWHERE}")
    for path, each in tensors.items():
        owner, _, name = path.rpartition(".")
        module = made.get_submodule(owner)
        held = module._parameters if name in module._parameters else module._buffers
        held[name] = nn.Parameter(each, requires_grad=False) if held is module._parameters else each
    attends = {path: type(each).__name__ for path, each in getattr(made, "attn_processors", {}).items()}
    if attends != plain["attends"]:
        raise ValueError(f"{title} has attention processors other than its class's; {ELSEWHERE}")
    return made


_seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def mark_of(part: Any) -> Any:
    """Differs once the part is another, or does something else."""
    number = _seen.setdefault(part, next(_numbers))
    if not isinstance(part, nn.Module):
        return number, repr(state_of(part))
    return number, _mark(dict(_tensors(part))), repr(_plain_loras(part).get("layers"))


# ---- LoRAs of peft on a model


def _tuned(part: nn.Module) -> list[Any]:
    if not getattr(part, "peft_config", None):
        return []
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [each for each in part.modules() if isinstance(each, BaseTunerLayer)]


def _plain_loras(part: Any) -> dict[str, Any]:
    if not (layers := _tuned(part)):
        return {}
    told = {name: each.to_dict() for name, each in part.peft_config.items()}
    return {
        "adapters": json.loads(json.dumps(told, default=list)),
        "layers": [
            {
                "scaling": dict(each.scaling),
                "active": each._active_adapter,
                "disabled": each._disable_adapters,
                "merged": list(each.merged_adapters),
            }
            for each in layers
        ],
    }


def _lora(told: Mapping[str, Any]) -> Any:
    from peft import LoraConfig

    names = {each.name for each in dataclasses.fields(LoraConfig) if each.init}
    return LoraConfig(**{name: value for name, value in told.items() if name in names and name != "runtime_config"})
