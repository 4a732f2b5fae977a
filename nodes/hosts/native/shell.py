"""A shell: what ComfyUI holds of a model that ranks hold. A patcher as any other, whose weights have no memory.

All pools together are one more loaded model for ComfyUI (`count_ranks`): unloading it (`POST /free`, its menu, a lack
of memory) ends those that have no work. No function of ComfyUI is replaced.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ....pipelines.pools import POOLS

WITHOUT = "this MODEL comes from Spread Model, and its weights are not here; merge, extract or save it before that node"
ASKED_BY_HOST = "preprocess_text_embeds"  # a method by which some classes have the host compute with their weights


def shell_of(patcher: Any, wanted: Callable[[], int]) -> Any:
    """A clone whose model has no weights but those that the host itself computes with.

    `wanted` tells how many bytes ranks still want on the host's own device, which ComfyUI makes room for.
    """
    kept = used_by_host(patcher.model.diffusion_model)
    return _with(patcher, {"diffusion_model": weightless(patcher.model.diffusion_model, besides=kept)}, wanted)


def vae_shell_of(patcher: Any, decode: Callable[..., Any]) -> Any:
    """The same of a VAE's patcher, whose model is decoded with by `decode`, and which nothing loads anew."""
    parts = {name: each and weightless(each) for name, each in patcher.model._modules.items()}
    found = _with(patcher, parts, lambda: 0)
    vars(found.model)["decode"] = decode
    found.cached_patcher_init = None
    return found


def _with(patcher: Any, modules: Mapping[str, Any], wanted: Callable[[], int]) -> Any:
    """A clone of the patcher that loads nothing, with these modules in its model."""
    model = copy.copy(patcher.model)
    vars(model)["_modules"] = {**patcher.model._modules, **modules}
    model.current_patcher, model.current_weight_patches_uuid = None, None
    model.model_loaded_weight_memory, model.model_lowvram, model.lowvram_patch_counter = 0, False, 0
    vars(model).update(dynamic_vbars={}, dynamic_pins={}, dynamic_patchers=set())  # of dynamic VRAM: its own
    found = patcher.clone(model_override=(model, ({}, {}, {}, set())))
    found.__class__ = _shell_class()
    found.wanted = wanted
    found.parent = None  # ComfyUI's cache alone decides how long the loader's model stays
    return found


def used_by_host(module: nn.Module) -> set[str]:
    """The modules of a diffusion model that the host asks for texts, before it samples: those that the method names."""
    method = inspect.unwrap(getattr(type(module), ASKED_BY_HOST, lambda: None))
    return set(method.__code__.co_names) & set(module._modules)


def is_shell(patcher: Any) -> bool:
    """Whether its model is one that `shell_of` made, without weights, and nobody else's."""
    return isinstance(patcher, _shell_class())


def count_ranks() -> None:
    """Have ComfyUI count the ranks among what it has loaded, from now until it unloads them."""
    import comfy.model_management

    comfy.model_management.load_models_gpu([_counted()])


def weightless(module: nn.Module, *, besides: Collection[str] = ()) -> nn.Module:
    """A copy whose parameters and buffers have shapes and no memory; those of the modules `besides` share theirs."""
    shared = {id(each) for name in besides for each in _tensors(module._modules[name])}
    memo: dict[int, Any] = {id(vars(module).get("forward")): None}  # a border of a Spread Model before this one
    for each in _tensors(module):
        data = each.data if id(each) in shared else torch.empty(each.shape, dtype=each.dtype, device="meta")
        memo[id(each)] = nn.Parameter(data, requires_grad=False) if isinstance(each, nn.Parameter) else data
    found = copy.deepcopy(module, memo)
    vars(found).pop("forward", None)
    return found


def bytes_of(module: nn.Module) -> int:
    """What the weights of a module take where they are whole."""
    return sum(each.numel() * each.element_size() for each in module.state_dict().values())


@functools.cache
def _shell_class() -> type:
    from comfy.model_patcher import ModelPatcher

    class Shell(ModelPatcher):
        """A patcher that loads nothing but what the host computes with.

        ComfyUI makes room on the host's device for `model_size` less `loaded_size`, and unloads what is loaded until
        as much is free as it wants. What ranks have there it sees as memory that is not free; so they count before
        they have loaded, and never after. What a step takes (`memory_required`) is left as the class has it: a rank
        on the host's device takes a part of it, and the host nothing.
        """

        wanted: Callable[[], int]

        def clone(self, *args: Any, **kwargs: Any) -> Any:
            found = super().clone(*args, **kwargs)
            found.wanted = self.wanted
            return found

        def model_size(self) -> int:
            here = (each for each in self.model.parameters() if not each.is_meta)
            return self.wanted() + sum(each.nbytes for each in here)

        def load(self, device_to: Any = None, lowvram_model_memory: Any = 0, *args: Any, **kwargs: Any) -> None:
            is_full = kwargs.pop("full_load", False)  # which would move what has no memory
            super().load(device_to, 1e32 if is_full else lowvram_model_memory, *args, **kwargs)

        def _load_list(self, *args: Any, **kwargs: Any) -> list[Any]:
            return [row for row in super()._load_list(*args, **kwargs) if not _is_empty(row[-2])]

        def unpatch_model(self, device_to: Any = None, unpatch_weights: bool = True) -> None:
            super().unpatch_model(None, unpatch_weights)
            if not unpatch_weights or device_to is None:
                return
            self.model.device = device_to
            for each in self.model.modules():
                if not _is_empty(each):
                    each.to(device_to)

        def get_key_patches(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError(WITHOUT)

        model_state_dict_for_saving = get_key_patches

    return Shell


def _is_empty(module: nn.Module) -> bool:
    return any(each.is_meta for each in _tensors(module))


def _tensors(module: nn.Module | None) -> list[Tensor]:
    return [] if module is None else [*module.parameters(), *module.buffers()]


@functools.cache
def _counted() -> Any:
    """The one loaded model that stands for all ranks. It has no size, so that it is unloaded whole or not at all: what
    unloading gave back ComfyUI measures at the device, and dynamic VRAM spares only what is dynamic itself."""
    import comfy.model_management

    class RanksOfSpreadModel(torch.nn.Module):
        """What ComfyUI's log calls it by."""

    class Ranks(_shell_class()):
        def detach(self, unpatch_all: bool = True) -> Any:
            if unpatch_all:  # else it is about to be counted again
                POOLS.close_idle()
            return super().detach(unpatch_all)

    device = comfy.model_management.get_torch_device()
    found = Ranks(RanksOfSpreadModel(), load_device=device, offload_device=device)
    found.wanted = lambda: 0
    return found
