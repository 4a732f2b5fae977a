"""A shell: what ComfyUI holds of a model that ranks hold. A patcher as any other, for LoRAs, samplers and settings,
whose weights are without memory, so that nothing of them comes onto the host's own device.

All pools together are one more loaded model for ComfyUI (`count_ranks`): unloading it (`POST /free`, its menu, a lack
of memory) ends those that have no work. No function of ComfyUI is replaced.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....pipelines.pools import POOLS

if TYPE_CHECKING:
    from torch import nn

WITHOUT = "this MODEL comes from Spread Model, and its weights are not here; merge, extract or save it before that node"
ASKED_BY_HOST = "preprocess_text_embeds"  # a method by which some classes have the host compute with their weights


def shell_of(patcher: Any, wanted: Callable[[], int]) -> Any:
    """A clone whose model has no weights; a plain clone where the host itself computes with some of them.

    `wanted` tells how many bytes ranks still want on the host's own device, which ComfyUI makes room for.
    """
    if hasattr(patcher.model.diffusion_model, ASKED_BY_HOST):
        return patcher.clone()
    return _without(patcher, ["diffusion_model"], wanted)


def vae_shell_of(patcher: Any, decode: Callable[..., Any]) -> Any:
    """The same of a VAE's patcher, whose model is decoded with by `decode`, and which nothing loads anew."""
    found = _without(patcher, list(patcher.model._modules), lambda: 0)
    vars(found.model)["decode"] = decode
    found.cached_patcher_init = None
    return found


def _without(patcher: Any, names: list[str], wanted: Callable[[], int]) -> Any:
    """A clone whose model's modules of these names have no weights."""
    model = copy.copy(patcher.model)
    vars(model)["_modules"] = dict(patcher.model._modules)
    model._modules.update({name: weightless(each) for name in names if (each := model._modules[name]) is not None})
    model.current_patcher, model.current_weight_patches_uuid = None, None
    model.model_loaded_weight_memory, model.model_lowvram, model.lowvram_patch_counter = 0, False, 0
    vars(model).update(dynamic_vbars={}, dynamic_pins={}, dynamic_patchers=set())  # of dynamic VRAM: its own
    found = patcher.clone(model_override=(model, ({}, {}, {}, set())))
    found.__class__ = _shell_class()
    found.wanted = wanted
    return found


def is_shell(patcher: Any) -> bool:
    """Whether its model is one that `shell_of` made, without weights, and nobody else's."""
    return isinstance(patcher, _shell_class())


def count_ranks() -> None:
    """Have ComfyUI count the ranks among what it has loaded, from now until it unloads them."""
    import comfy.model_management

    comfy.model_management.load_models_gpu([_counted()])


def weightless(module: nn.Module) -> nn.Module:
    """A copy whose parameters and buffers have shapes and no memory."""
    import torch

    memo: dict[int, Any] = {}
    for each in module.parameters():
        empty = torch.empty(each.shape, dtype=each.dtype, device="meta")
        memo[id(each)] = torch.nn.Parameter(empty, requires_grad=False)
    for each in module.buffers():
        memo[id(each)] = torch.empty(each.shape, dtype=each.dtype, device="meta")
    ours = vars(module).pop("forward", None)  # a border of a Spread Model before this one
    try:
        return copy.deepcopy(module, memo)
    finally:
        if ours is not None:
            vars(module)["forward"] = ours


def bytes_of(module: nn.Module) -> int:
    """What the weights of a module take where they are whole."""
    return sum(each.numel() * each.element_size() for each in module.state_dict().values())


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

        def get_key_patches(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError(WITHOUT)

        def model_state_dict_for_saving(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError(WITHOUT)

        def patch_weight_to_device(self, *args: Any, **kwargs: Any) -> None:
            """No weight is here."""

    return Shell


@functools.cache
def _counted() -> Any:
    """The one loaded model that stands for all ranks."""
    import comfy.model_management
    import torch

    class RanksOfSpreadModel(torch.nn.Module):
        """What ComfyUI's log calls it by."""

    class Ranks(_shell_class()):
        def detach(self, unpatch_all: bool = True) -> Any:
            POOLS.close_idle()
            return super().detach(unpatch_all)

    device = comfy.model_management.get_torch_device()
    found = Ranks(RanksOfSpreadModel(), load_device=device, offload_device=device)
    found.wanted = lambda: 0
    return found
