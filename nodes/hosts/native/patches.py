"""What a sampled clone of a MODEL carries beside its file: LoRA weights and core's own settings, as plain data.

Read from the clone that is sampled, because nodes behind ours may have patched it. Weight patches go as tensors with
their numbers, in their order, and a rank hands them to ComfyUI's own code. Whatever else a clone may carry is a
function or an object, and sees a part of the tokens there, or nothing: it is refused by name.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from ....parallel.errors import BadInput

COMPILED = "torch.compile"  # the key under which ComfyUI's own node hangs its compiled model
COMPUTE = "manual_cast_dtype"  # the one object patch that is a number format
MODEL = "diffusion_model"
# Names that core's nodes give what they hang at a model, for a sentence that its user understands.
NODES: Mapping[str, str] = {
    "optimized_attention_override": "Model Attention Backend",
    "patches_replace": "a replacement in its blocks, such as Skip Layer Guidance makes",
    "patches": "a patch in its blocks",
}


def lacking(patcher: Any) -> Iterator[str]:
    """What ranks would not have of this clone, each as words for a sentence."""
    options = patcher.model_options.get("transformer_options", {})
    yield from lacking_in(options)
    for name in patcher.object_patches:
        if name == MODEL or name.startswith(f"{MODEL}."):
            yield f"the object patch {name}"
    for holder, words in (
        ("weight_wrapper_patches", "the weight wrapper of {}"),
        ("injections", "the injection {}"),
        ("hook_patches", "LoRA hooks"),
    ):
        yield from sorted({words.format(name) for name in getattr(patcher, holder, None) or ()})
    if patcher.get_additional_models_with_key("multigpu"):
        yield "ComfyUI's own MultiGPU CFG Split"
    for kind, keys in patcher.wrappers.items():
        if kind == "apply_model" and keys.get(COMPILED):
            yield "TorchCompileModel"
    try:
        weights_of(patcher)
    except ValueError as error:
        yield str(error)


def lacking_in(options: Mapping[str, Any]) -> Iterator[str]:
    """The same of the options of one call: nodes add to them while a model is sampled."""
    for name in ("patches", "patches_replace"):
        for kind, found in (options.get(name) or {}).items():
            if found:
                yield f"{kind} ({NODES[name]})"
    if options.get("optimized_attention_override") is not None:
        yield f"the attention of {NODES['optimized_attention_override']}"


def tampered(module: nn.Module, *, ours: Any = None) -> str:
    """What another node has done to the modules themselves, which ranks have from the file; "" for nothing. `ours` is
    a forward of this package."""
    for path, each in module.named_modules():
        own = vars(each)
        found = [(name, own[name]) for name in ("forward", "_forward") if own.get(name, ours) is not ours]
        # Core puts a class's own back so.
        is_other = any(getattr(one, "__func__", one) is not getattr(type(each), name) for name, one in found)
        if is_other or own["_forward_hooks"] or own["_forward_pre_hooks"]:
            return f"a hook or another forward at {path or type(module).__name__}"
    return ""


def scaled_by_tokens(module: nn.Module) -> str:
    """Of weights in NVFP4 the first layer whose inputs are scaled by the largest of all tokens, of which a rank has a
    part; "" where there is none."""
    layers = ((name, each) for name, each in module.named_modules() if getattr(each, "quant_format", "") == "nvfp4")
    return next((name for name, each in layers if getattr(each, "input_scale", None) is None), "")


def carried(patcher: Any) -> dict[str, Any]:
    """All that a rank needs of it. Raises `ValueError`, as `lacking` says."""
    dtype = patcher.object_patches.get(COMPUTE)
    return {"weights": weights_of(patcher), "compute": str(dtype).removeprefix("torch.") if dtype is not None else ""}


def weights_of(patcher: Any) -> list[dict[str, Any]]:
    """The patches of weights, in their order for each."""
    from comfy.weight_adapter import adapters

    kinds = {each: each.__name__ for each in adapters}
    found = []
    for key, patches in patcher.patches.items():
        for strength, value, of_model, offset, function in patches:
            kind = kinds.get(type(value), "")
            if function is not None or (not kind and not isinstance(value, tuple)):
                title = getattr(function, "__qualname__", type(value).__name__)
                raise BadInput("a patch of {} that is a {}", key, title)
            row = {"key": key, "kind": kind, "strength": strength, "of_model": of_model, "offset": folded(offset, key)}
            found.append({**row, "value": folded(tuple(value.weights) if kind else value, key)})
    return found


def apply(patcher: Any, told: Mapping[str, Any]) -> Any:
    """In a rank: a clone that carries it."""
    from comfy.weight_adapter import adapters

    kinds = {each.__name__: each for each in adapters}
    clone = patcher.clone()
    if told["compute"]:
        clone.set_model_compute_dtype(getattr(torch, told["compute"]))
    patches: dict[str, list[Any]] = {}
    for row in told["weights"]:
        value = unfolded(row["value"])
        value = kinds[row["kind"]](set(), value) if row["kind"] else value
        row_of_core = (row["strength"], value, row["of_model"], unfolded(row["offset"]), None)
        patches.setdefault(row["key"], []).append(row_of_core)
    if patches:
        clone.add_patches({})  # gives it an identity of its own, by which ComfyUI sees that weights differ
        clone.patches = patches
    return clone


TUPLE = "$tuple"


def folded(value: Any, where: str) -> Any:
    """Plain data with tensors, in which tuples are told from lists. Raises `ValueError` for what is none."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach()
    if isinstance(value, tuple):
        return {TUPLE: [folded(each, where) for each in value]}
    if isinstance(value, list):
        return [folded(each, where) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: folded(each, where) for key, each in value.items()}
    raise BadInput("a patch of {} that holds a {}", where, type(value).__name__)


def unfolded(plain: Any) -> Any:
    """The inverse of `folded`."""
    if isinstance(plain, list):
        return [unfolded(each) for each in plain]
    if isinstance(plain, dict):
        if set(plain) == {TUPLE}:
            return tuple(unfolded(each) for each in plain[TUPLE])
        return {key: unfolded(each) for key, each in plain.items()}
    return plain
