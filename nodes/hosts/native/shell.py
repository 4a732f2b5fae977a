"""A shell: what ComfyUI holds of a model that ranks hold. A patcher as any other, for LoRAs, samplers and settings,
whose weights are without memory, so that nothing of them comes onto the host's own device.

ComfyUI loads and unloads it as it does all its models: loading does nothing, and unloading it (`POST /free`, its menu,
a lack of memory) lets go of what ranks hold. No function of ComfyUI is replaced.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....pipelines.pools import POOLS

if TYPE_CHECKING:
    from torch import nn

KEY = "latentloom"  # under which our callbacks and wrappers hang at a patcher
ASKED_BY_HOST = "preprocess_text_embeds"  # a method by which some classes have the host compute with their weights


def shell_of(patcher: Any, wanted: Callable[[], int], *, has_weights: bool = False) -> Any:
    """A clone whose model has no weights; a plain clone where whole runs or the host itself compute with them.

    `wanted` tells how many bytes ranks still want on the host's own device, which ComfyUI makes room for.
    """
    from comfy.patcher_extension import CallbacksMP

    if has_weights or hasattr(patcher.model.diffusion_model, ASKED_BY_HOST):
        found = patcher.clone()
    else:
        model = copy.copy(patcher.model)
        vars(model)["_modules"] = dict(patcher.model._modules)
        model.diffusion_model = weightless(patcher.model.diffusion_model)
        model.current_patcher, model.current_weight_patches_uuid = None, None
        model.model_loaded_weight_memory, model.model_lowvram, model.lowvram_patch_counter = 0, False, 0
        vars(model).update(dynamic_vbars={}, dynamic_pins={}, dynamic_patchers=set())  # of dynamic VRAM: its own
        found = patcher.clone(model_override=(model, ({}, {}, {}, set())))
        found.__class__ = _shell_class()
        found.wanted = wanted
    found.remove_callbacks_with_key(CallbacksMP.ON_DETACH, KEY)
    found.add_callback_with_key(CallbacksMP.ON_DETACH, KEY, _let_go)
    return found


def weightless(module: nn.Module) -> nn.Module:
    """A copy whose parameters and buffers have shapes and no memory."""
    import torch

    memo: dict[int, Any] = {}
    for each in module.parameters():
        empty = torch.empty(each.shape, dtype=each.dtype, device="meta")
        memo[id(each)] = torch.nn.Parameter(empty, requires_grad=False)
    for each in module.buffers():
        memo[id(each)] = torch.empty(each.shape, dtype=each.dtype, device="meta")
    return copy.deepcopy(module, memo)


def bytes_of(module: nn.Module) -> int:
    """What the weights of a module take where they are whole."""
    return sum(each.numel() * each.element_size() for each in module.state_dict().values())


def _let_go(patcher: Any, is_unloaded: bool) -> None:
    """ComfyUI unloads it; not where a clone takes its place."""
    if is_unloaded:
        POOLS.close_idle()


@functools.cache
def _shell_class() -> type:
    from comfy.model_patcher import ModelPatcher

    class Shell(ModelPatcher):
        """A patcher that loads nothing."""

        wanted: Callable[[], int]

        def clone(self, *args: Any, **kwargs: Any) -> Any:
            found = super().clone(*args, **kwargs)
            found.wanted = self.wanted
            return found

        def model_size(self) -> int:
            return self.wanted()

        def loaded_size(self) -> int:
            return 0

        def load(self, *args: Any, **kwargs: Any) -> None:
            """Ranks load."""
            self.model.device = self.load_device

        def unpatch_model(self, device_to: Any = None, unpatch_weights: bool = True) -> None:
            super().unpatch_model(None, unpatch_weights)  # nothing that could be moved

        def partially_unload(self, *args: Any, **kwargs: Any) -> int:
            return 0

        def patch_weight_to_device(self, *args: Any, **kwargs: Any) -> None:
            """No weight is here."""

    return Shell
