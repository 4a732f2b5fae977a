"""A VAE that decodes on several ranks, each with some of the rows: exactly the picture of its untiled decode."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from typing import Any

import torch

from ...parallel.group import Axis, Group
from ...parallel.mesh import mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.sharding.fingerprint import check_same
from ...parallel.spatial.mode import ByRows
from ...parallel.spatial.part import LEAST_ROWS, Parts, check_rows

DECODERS = ("AutoencoderKL", "AutoencoderKLHunyuanVideo", "AutoencoderKLQwenImage", "AutoencoderKLWan")
"""Classes whose decoders are known to compute nothing across rows but what `parallel.spatial` shares out."""
TILINGS = ("use_tiling", "use_framewise_decoding")
HEIGHT = -2


@contextlib.contextmanager
def split_vae(vae: Any, group: Group, *, refuses_few_rows: bool = True) -> Iterator[None]:
    """Collective: within it `vae.decode` is so too, and gives every rank the same whole pixels from the same latents.

    Each rank computes its share of the rows, from the latents to the pixels, which are gathered once; keys and values
    of the middle block's attention are whole on each. Tiling is off meanwhile, because tiles are not exact. Frames are
    not split. Without gradients. The latents need two rows for each rank: fewer are refused, or decoded whole on each
    where `refuses_few_rows` is off. A group of one changes nothing.

    Raises ValueError for a class of VAE that is not known to be exact; then nothing was changed. The VAE is as it was
    afterwards, also if a decode failed.
    """
    _check(vae)
    if group.size == 1:
        yield
        return
    tilings = {name: getattr(vae, name) for name in TILINGS if hasattr(vae, name)}
    whole_decode = vae._decode
    for name in tilings:
        setattr(vae, name, False)

    def decode(z: torch.Tensor, return_dict: bool = True) -> Any:
        if not refuses_few_rows and z.shape[HEIGHT] < LEAST_ROWS * group.size:
            return whole_decode(z, return_dict=return_dict)
        return _decoded(vae, whole_decode, z, return_dict=return_dict, group=group)

    vae._decode = decode  # decode() goes through it for each slice of the batch; hooks and slicing stay as they are
    try:
        yield
    finally:
        del vae._decode
        for name, value in tilings.items():
            setattr(vae, name, value)


@torch.no_grad()
def _decoded(vae: Any, whole_decode: Any, z: torch.Tensor, *, return_dict: bool, group: Group) -> Any:
    """Collective: what `whole_decode`, the VAE's own, gives for whole latents."""
    from diffusers.models.autoencoders.vae import DecoderOutput

    title = type(vae).__name__
    check_same({"z": z}, group, title=title, around=group)  # so that all ranks or none refuse what follows
    mode = ByRows(Parts(z.shape[HEIGHT], group=group, title=title))
    rows = mode.cut(z, HEIGHT)
    try:
        # A compiled decoder runs uncompiled: torch.compile would trace the interception, and the collectives in it.
        with torch.compiler.set_stance("force_eager"), mode:
            part = whole_decode(rows, return_dict=False)[0]
    finally:
        if hasattr(vae, "clear_cache"):  # of the frames before, which an error leaves
            vae.clear_cache()
    pixels = mode.whole(part, HEIGHT)
    return DecoderOutput(sample=pixels) if return_dict else (pixels,)


def split_over(vae: Any, num_ranks: int, *, rows: int) -> contextlib.AbstractContextManager[None]:
    """Collective if `num_ranks` is over 1: `split_vae` over that many ranks, which are the whole process group.

    Latents of too few `rows` are refused here already: what a modular block raises is no ValueError any more.
    """
    if num_ranks <= 1:
        return contextlib.nullcontext()
    check_rows(rows, num_ranks, title=type(vae).__name__)
    return split_vae(vae, mesh_for(ParallelPlan(ulysses=num_ranks))[Axis.SEQUENCE])


def _check(vae: Any) -> None:
    name = type(vae).__name__
    if name not in DECODERS:
        near = difflib.get_close_matches(name, DECODERS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"{name} cannot be split over ranks{hint}, only {', '.join(DECODERS)} can; decode it on one device"
        )
    if "_decode" in vars(vae):
        raise ValueError(f"this {name} is split already, or its _decode was replaced; split it once")
