"""Spread VAE: a VAE of ComfyUI's own loaders that ranks decode by rows, untiled: the picture of one device.

In the host it is ComfyUI's own VAE object with another model in it: one whose weights have no memory, and whose
`decode` asks the ranks. All around it (formats, batches, tiles where a node asks for them) stays ComfyUI's, and what
else a VAE is asked for, encoding above all, is asked of the one that was given.
"""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ....parallel.errors import BadInput
from ....parallel.group import Axis
from ....parallel.plan import ParallelPlan
from ....parallel.progress import Progress
from ....parallel.ranks.seat import Seat
from ....parallel.spatial import LEAST_ROWS
from ....pipelines.values import Place
from .border import ranks_at
from .patches import tampered
from .recipe import host_settings, made, recipe_of
from .shell import bytes_of, count_ranks, vae_shell_of
from .splits.plans import name_of

HERE = ".nodes.hosts.native.vae"
LDM = "comfy.ldm."
PICTURES, HUNYUAN = "modules.diffusionmodules.model.Decoder", "hunyuan_video"
# Classes of VAEs by module and name, each with the decoders with which it was compared by rows and whole
# (`tests/bench/comfyui_vaes.py`).
DECODERS: Mapping[str, tuple[str, ...]] = {
    "models.autoencoder.AutoencoderKL": (PICTURES,),
    "models.autoencoder.AutoencodingEngine": (PICTURES, f"{HUNYUAN}.vae.Decoder", f"{HUNYUAN}.vae_refiner.Decoder"),
    "wan.vae.WanVAE": ("wan.vae.Decoder3d",),
    "wan.vae2_2.WanVAE": ("wan.vae2_2.Decoder3d",),
}
OF_MODEL = ("encode", "encode_tiled", "get_sd")  # what is done with the weights, which the host has for these
PRECISIONS = {"float16": "fp16_vae", "bfloat16": "bf16_vae", "float32": "fp32_vae"}  # ComfyUI's options for them


def spread_vae(vae: Any, place: Place) -> Any:
    """A copy of ComfyUI's VAE that ranks decode. Raises `ValueError` where that cannot be."""
    vae.throw_exception_if_invalid()
    check(vae)
    recipe = recipe_of(vae.patcher, of_vae=True)
    found, size = copy.copy(vae), bytes_of(vae.first_stage_model)
    is_beside = str(vae.device) in place.devices  # a rank wants room on the host's own device

    def share(shape: Any, dtype: Any) -> int:
        return int(vae.memory_used_decode(shape, dtype)) // place.group_size

    def decode(z: Tensor, **options: Any) -> Tensor:
        """Pixels, in the host's memory. Latents of few rows are for as many ranks as have two each."""
        if options:
            raise ValueError(f"Spread VAE decodes without options, and was given {', '.join(options)}; leave it out")
        num_ranks = max(1, min(place.group_size, z.shape[-2] // LEAST_ROWS))
        count_ranks()
        dtype, num_bytes = str(vae.vae_dtype).removeprefix("torch."), share(z.shape, vae.vae_dtype)
        request = {"recipe": recipe, "dtype": dtype, "latents": z, "num_bytes": num_bytes, "host": host_settings()}
        with ranks_at(place, HERE, title="Spread VAE") as (pool, progress):
            return pool.call(f"{HERE}:decode", request, progress, num_ranks=num_ranks)["pixels"]

    vars(found).update({name: getattr(vae, name) for name in OF_MODEL})
    found.patcher = vae_shell_of(vae.patcher, decode)
    found.first_stage_model = found.patcher.model
    found.memory_used_decode = lambda shape, dtype: size + share(shape, dtype) if is_beside else 1
    return found


def check(vae: Any) -> None:
    """Raises `ValueError` for a VAE of which it is not known that its rows can be shared out, or that was changed."""
    model = vae.first_stage_model
    kind, decoder = (name_of(each).removeprefix(LDM) for each in (model, getattr(model, "decoder", None)))
    if decoder not in DECODERS.get(kind, ()):
        told = "{} is not decoded by rows; leave Spread VAE out, or use a VAE of FLUX, SD, Wan, Qwen-Image or Hunyuan"
        raise BadInput(told, f"{kind} with {decoder}" if kind in DECODERS else kind)
    if vae.patcher.patches or vae.patcher.object_patches or tampered(model):
        raise ValueError(
            "another node has changed this VAE, which ranks have from the file; leave it or Spread VAE out"
        )


# ---- in a rank


def decode(request: Mapping[str, Any], progress: Progress, seat: Seat) -> dict[str, Any]:
    """Collective: `pixels` of latents, by a VAE of which this rank computes its share of the rows."""
    from ....parallel.mesh import mesh_for
    from ....pipelines.spreading.vae import decoded_by_rows
    from .on_rank import HELD, clear_device, make_room, set_up

    set_up(request["host"], seat.device)
    key = json.dumps([request["recipe"], request["dtype"]], sort_keys=True)
    held = HELD.pop(key, None) or _loaded(request, progress)
    try:
        import comfy.model_management

        clear_device()
        needed = request["num_bytes"]
        comfy.model_management.load_models_gpu([held.clone], memory_required=needed, force_full_load=True)
    except BaseException:
        make_room(0)  # of what else is there, some is not on the device any more
        raise
    HELD[key] = held  # the last: what was on the device before may be there no more
    whole: Callable[..., Any] = held.base.model.decode
    z, title = request["latents"].to(seat.device), type(held.base.model).__name__
    with torch.no_grad():
        if seat.num_ranks == 1:
            return {"pixels": whole(z).contiguous()}
        group = mesh_for(ParallelPlan(ulysses=seat.num_ranks))[Axis.SEQUENCE]
        return {"pixels": decoded_by_rows(whole, z, group=group, title=title).contiguous()}


def _loaded(request: Mapping[str, Any], progress: Progress) -> Any:
    from comfy.cli_args import args

    from .on_rank import Held, make_room

    make_room(0, of_vaes=True)
    progress.phase("loading the VAE", is_loading=True)
    for dtype, option in PRECISIONS.items():  # as the host has it, whatever this device would have
        setattr(args, option, dtype == request["dtype"])
    base = made(request["recipe"])
    return Held(base=base, clone=base, is_vae=True)
