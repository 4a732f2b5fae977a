"""A recipe: which core loader of ComfyUI made a MODEL, of which file and with which options, as plain data.

ComfyUI keeps at a patcher how it was made (`cached_patcher_init`). A rank makes the same model again by the loader's
name, which is one of a literal list here: no function crosses, and nothing but core's own is ever called. What loaders
of other packs made has no recipe, and is refused by name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ....parallel.errors import BadInput

# Loaders of `comfy.sd` by name, each with where its options stand in what it takes; the path is the first.
LOADERS: Mapping[str, int | None] = {"load_diffusion_model": 1, "load_checkpoint_guess_config": 6}
# Those of VAEs, likewise. What else they are given they read in the file.
VAE_LOADERS: Mapping[str, int | None] = {"load_vae_patcher": None, "load_checkpoint_vae_patcher": 2}
# Options of a loader that say where the host keeps the model; ranks have devices of their own.
OF_THE_HOST = ("load_device", "offload_device", "initial_device")
# What ComfyUI's command line decides of how a model is loaded and computes, by the names of its arguments.
SETTINGS = (
    *("force_fp32", "force_fp16", "fp32_unet", "fp64_unet", "bf16_unet", "fp16_unet"),
    *("fp8_e4m3fn_unet", "fp8_e5m2_unet", "fp8_e8m0fnu_unet", "supports_fp8_compute", "force_channels_last"),
    *("enable_triton_backend", "disable_triton_backend", "force_upcast_attention", "dont_upcast_attention"),
    *("deterministic", "mmap_torch_files", "disable_mmap"),
)


def recipe_of(patcher: Any, *, of_vae: bool = False) -> dict[str, Any]:
    """What `made` of a rank takes. Raises `ValueError` for a MODEL or VAE whose loader is none of core's, or was given
    what is no plain data.
    """
    import comfy.sd

    if not hasattr(patcher, "cached_patcher_init"):
        raise BadInput("this ComfyUI does not keep how it loaded a MODEL, and ranks load by that; update ComfyUI")
    function, given, *_ = patcher.cached_patcher_init or (None, [])
    loaders = VAE_LOADERS if of_vae else LOADERS
    name = next((name for name in loaders if function is not None and function is getattr(comfy.sd, name, None)), "")
    if not name:
        maker = f"{getattr(function, '__module__', '?')}.{getattr(function, '__name__', '?')}" if function else ""
        kind, nodes = ("VAE", "Load VAE") if of_vae else ("MODEL", "Load Diffusion Model")
        told = (
            "this {} comes from {}, which ranks cannot load by; use one of ComfyUI's own loaders ({}, Load Checkpoint)"
        )
        raise BadInput(told, kind, maker or "a loader that keeps no recipe", nodes)
    place, path = loaders[name], Path(given[0]).absolute()
    options, stat = {} if place is None else given[place] or {}, path.stat()
    return {
        "loader": name,
        "path": str(path),
        "mark": [stat.st_size, stat.st_mtime_ns],
        "options": {key: _plain(key, value) for key, value in options.items() if key not in OF_THE_HOST},
    }


def _plain(key: str, value: Any) -> Any:
    """An option of a loader as JSON has it; a number format by its name."""
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    told = "the loader of this MODEL was given {}, a {}, which cannot be told to other processes; leave it out"
    raise BadInput(told, key, type(value).__name__)


def host_settings() -> dict[str, Any]:
    """What this ComfyUI was started with, as far as it decides what a model computes; and where it lies."""
    import comfy
    from comfy.cli_args import args

    told = {name: True for name in SETTINGS if getattr(args, name, None) is True}
    fast = sorted(str(getattr(each, "value", each)) for each in getattr(args, "fast", None) or ())
    return {"folder": str(Path(comfy.sd.__file__).absolute().parent.parent), "true": told, "fast": fast}


def made(recipe: Mapping[str, Any]) -> Any:
    """In a rank whose ComfyUI is set up: the patcher, with weights that it holds itself. Raises `ValueError`."""
    import comfy.sd

    loader, path = recipe["loader"], recipe["path"]
    if loader not in LOADERS and loader not in VAE_LOADERS:
        raise BadInput("{} is no loader of ComfyUI's that ranks load by", loader)
    try:
        stat = Path(path).stat()
    except OSError:
        raise BadInput("{} is not there any more; load the model anew", path) from None
    if [stat.st_size, stat.st_mtime_ns] != list(recipe["mark"]):
        raise BadInput("{} was changed after it was loaded; load the model anew", path)
    options = {
        key: getattr(torch, value["dtype"]) if isinstance(value, Mapping) else value
        for key, value in recipe["options"].items()
    }
    if loader == "load_diffusion_model":
        return comfy.sd.load_diffusion_model(path, options, disable_dynamic=True)
    if loader == "load_vae_patcher":
        return comfy.sd.load_vae_patcher(path)
    if loader == "load_checkpoint_vae_patcher":
        return comfy.sd.load_checkpoint_vae_patcher(path, model_options=options)
    return comfy.sd.load_checkpoint_guess_config(
        path, output_vae=False, output_clip=False, model_options=options, disable_dynamic=True
    )[0]
