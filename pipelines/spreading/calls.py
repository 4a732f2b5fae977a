"""What is known of a transformer's calls before they are made: what tells two apart, and which are never shared out."""

import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

ALL_ROWS = "perturbed attention (pag_scale) needs the rows of all branches in one call"
REPLACED = "perturbed attention (pag_scale) is none that the split plan of its transformer describes"


def _is_cached(cache: Any, given: Mapping[str, Any]) -> bool:
    return given.get("kv_cache_mode") == "cached"


# Objects that calls take and fill, by class: whether a call given them and these arguments only reads. All ranks
# compute the calls that fill it, so all have it.
CACHES: Mapping[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "Flux2KVCache": _is_cached,
    "QwenImage21KVCache": _is_cached,
    "GlmImageKVCache": lambda cache, given: all(each.mode != "write" for each in cache.caches),
}

# Pipelines whose guidance is never shared out, and why.
NEVER_SHARED = {"AnyFlowFARPipeline": "it keeps the keys of all branches from one chunk to the next"}
# Of those and of the pipelines with perturbed attention, which can be split by tokens.
BY_TOKENS = ("AnyFlowFARPipeline", "HunyuanDiTPAGPipeline", "PixArtSigmaPAGPipeline")


def is_perturbed(pipe: Any, call: Callable[..., Any], given: Mapping[str, Any]) -> bool:
    """Whether this call of the pipeline is guided by perturbed attention, for which it changes its transformer."""
    scale = inspect.signature(call).parameters.get("pag_scale")
    return scale is not None and "PAG" in type(pipe).__name__ and (given.get("pag_scale", scale.default) or 0) > 0


def opaque(value: Any, given: Mapping[str, Any]) -> str:
    """The class of a value of which nobody knows whether a call given these arguments changes it; "" for others."""
    known = Tensor | bool | int | float | str | torch.dtype | torch.device | None
    only_reads = CACHES.get(type(value).__name__, lambda *_: False)
    return "" if isinstance(value, known) or only_reads(value, given) else type(value).__name__


def signature_of(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return "tensor", tuple(value.shape), value.dtype, value.device.type
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, bool | str | torch.dtype | None):
        return value
    if isinstance(value, int | float):
        return type(value).__name__  # such as the time of a step
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(signature_of, value))
    if isinstance(value, dict):
        return "dict", tuple((str(name), signature_of(each)) for name, each in value.items())
    return type(value).__name__
