"""A VAE that decodes on several ranks, each with some of the rows: exactly the picture of its untiled decode. One that
decodes in tiles shares out those (`tiles.py`): the bits of its tiled decode.

Which VAEs can, and into how many ranks' rows latents can be cut, is told without torch.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...parallel.group import Axis, Group
from ...parallel.mesh import mesh_for
from ...parallel.plan import ParallelPlan
from ...parallel.spatial import LEAST_ROWS

if TYPE_CHECKING:
    from torch import Tensor

TILED = (
    "%s decodes in tiles, as it was told to, and each with what it kept of the frames before, so whole on each rank; "
    "disable_tiling() shares out its rows"
)
logger = logging.getLogger("latentloom")

# Classes whose decoders are known to compute nothing across rows but what `parallel.spatial` shares out.
#
# Not among them: AutoencoderKLAllegro, which decodes tiles only, and writes them into a tensor of its own;
# AutoencoderKLKVAEVideo, which writes frames into tensors that it makes of a rank's size; those without `_decode`, such
# as AutoencoderTiny and LTX2VideoDiffusionDecoder, which draws noise for each tile.
DECODERS = (
    *("AutoencoderKL", "AutoencoderDC", "AutoencoderKLFlux2", "AutoencoderKLHunyuanImage", "AutoencoderKLKVAE"),
    *("AutoencoderKLHunyuanImageRefiner", "AutoencoderKLQwenImage", "AutoencoderKLQwenImage21"),
    # of videos
    *("AutoencoderKLCogVideoX", "AutoencoderKLCosmos", "AutoencoderKLHunyuanVideo", "AutoencoderKLHunyuanVideo15"),
    *("AutoencoderKLLTXVideo", "AutoencoderKLLTX2Video", "AutoencoderKLMagvit", "AutoencoderKLMochi"),
    "AutoencoderKLWan",
)
# Those that decode in tiles unless they are told not to: the published pictures are those of the tiles, and the decoder
# attends to tokens besides the picture's.
OWN_TILES = ("AutoencoderKLMiniMaxH3",)
# Those that decode in tiles where they are told to, and in one call of the decoder each, which needs no other's.
TILES = (
    *(*OWN_TILES, "AutoencoderKL", "AutoencoderDC", "AutoencoderKLFlux2", "AutoencoderKLKVAE"),
    *("AutoencoderKLHunyuanImage", "AutoencoderKLHunyuanImageRefiner"),
    *("AutoencoderKLHunyuanVideo", "AutoencoderKLHunyuanVideo15", "AutoencoderKLLTXVideo", "AutoencoderKLLTX2Video"),
)
# Those that take large frames in pieces by their size: ranks with more rows than others could take other pieces.
EVEN = ("AutoencoderKLCogVideoX",)
# Options of a VAE's config that no split decode can follow: what they do.
INEXACT = {"decoder_inject_noise": "noise is drawn for each place of the picture"}
HEIGHT = -2


def why_not(name: str, config: Mapping[str, Any]) -> str | None:
    """Why a VAE of this class and config cannot be split over ranks; None if it can."""
    known = (*DECODERS, *OWN_TILES)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{name} cannot be split over ranks{hint}, only {', '.join(known)} can"
    for option, what in INEXACT.items():
        if any(config.get(option) or ()):
            return f"{name} with {option} cannot be split over ranks, because {what}"
    return None


def has_rows(name: str, config: Mapping[str, Any], shape: Sequence[int], num_ranks: int) -> bool:
    """Whether latents of this shape have rows enough for the ranks, and are decoded by each as they are whole; tiles of
    a class that decodes in tiles by itself always are."""
    if name in OWN_TILES:
        return True
    return shape[HEIGHT] >= LEAST_ROWS * num_ranks and unfit(name, config, shape, num_ranks) is None


def unfit(name: str, config: Mapping[str, Any], shape: Sequence[int], num_ranks: int) -> str | None:
    """Why latents that have rows enough would be decoded in another way by a rank than whole; None if they would not.

    Diffusers' linear attention multiplies in another order for as many places as a head is wide, and for fewer.
    """
    rows, columns = shape[HEIGHT:]
    places = config.get("attention_head_dim", 0)
    if rows // num_ranks * columns <= places:
        return (
            f"cannot be split over {num_ranks} ranks, because it attends in another way to {places} places and fewer; "
            "split them over less, or make the picture larger"
        )
    if name in EVEN and rows % num_ranks:
        return f"cannot be split over {num_ranks} ranks, which need as many each; use a number that divides {rows}"
    return None


@contextlib.contextmanager
def split_vae(vae: Any, group: Group, *, is_strict: bool = True) -> Iterator[None]:
    """Collective: within it `vae.decode` is so too, and gives every rank the same whole pixels from the same latents.

    Frames are not split. Without gradients. A group of one changes nothing.

    If it is strict, tiling is off meanwhile, because tiles are not exact, and latents of fewer than two rows for each
    rank are refused, as is what `unfit` names. If not, the pixels are those of `vae.decode` as it is set: each rank
    decodes all of such latents, and all tiles of a VAE that decodes in tiles and is none of `TILES`. Tiles of these are
    shared out, as are always those of `OWN_TILES`.

    Raises ValueError for what `why_not` names; then nothing was changed. The VAE is as it was afterwards, also if a
    decode failed.
    """
    name = type(vae).__name__
    if reason := why_not(name, getattr(vae, "config", {})):
        raise ValueError(f"{reason}; decode it on one device")
    if "_decode" in vars(vae):
        raise ValueError(f"this {name} is split already, or its _decode was replaced; split it once")
    if group.size == 1:
        yield
        return
    whole_decode, has_own = vae._decode, name in OWN_TILES
    stops_tiling = is_strict and not has_own and getattr(vae, "use_tiling", False)
    if stops_tiling:
        vae.use_tiling = False
    tell_tiles = functools.cache(lambda: logger.warning(TILED, name))  # once
    by_rows = functools.partial(_decoded, known={})  # for what a decoder keeps from one call to the next (`frames.py`)

    def decode(z: Tensor, *args: Any, **kwargs: Any) -> Any:
        in_tiles = has_own or (not is_strict and getattr(vae, "use_tiling", False))
        by_tiles = in_tiles and name in TILES
        if in_tiles and not by_tiles:
            tell_tiles()
        if not by_tiles and (in_tiles or not (is_strict or has_rows(name, vae.config, z.shape, group.size))):
            return whole_decode(z, *args, **kwargs)
        import torch

        from .tiles import decoded

        with torch.no_grad():
            by = decoded if by_tiles else by_rows
            return by(vae, functools.partial(whole_decode, **kwargs), z, *args, group=group)

    vae._decode = decode  # decode() goes through it for each slice of the batch; hooks and slicing stay as they are
    try:
        yield
    finally:
        del vae._decode
        if stops_tiling:
            vae.use_tiling = True


def _decoded(
    vae: Any, whole_decode: Callable[..., Any], z: Tensor, *args: Any, group: Group, known: dict[int, Any]
) -> Any:
    """Collective: what `whole_decode`, the VAE's own, gives for whole latents; a tensor, a tuple or an output."""
    title = type(vae).__name__
    if reason := unfit(title, vae.config, z.shape, group.size):
        raise ValueError(f"{title}: latents of {z.shape[HEIGHT]} rows and {z.shape[-1]} columns {reason}")
    try:
        return decoded_by_rows(whole_decode, z, *args, group=group, title=title, known=known)
    except BaseException:
        for clear in ("clear_cache", "_clear_conv_cache"):  # of the frames before
            getattr(vae, clear, lambda: None)()
        raise


def decoded_by_rows(
    decode: Callable[..., Any], z: Tensor, *args: Any, group: Group, title: str, known: dict[int, Any] | None = None
) -> Any:
    """Collective: what `decode`, a VAE's own, gives for whole latents; a tensor, a tuple or an output. `known` are
    tensors that hold rows already, by how many rows latents have. Raises `ValueError` on all ranks for a function that
    may mix rows; `title` names the VAE in it.
    """
    import torch

    from ...parallel.sharding.fingerprint import check_same
    from ...parallel.spatial.mode import ByRows
    from ...parallel.spatial.part import Parts

    # Each rank computes its share of the rows, from the latents to the pixels, which are gathered once; keys and values
    # of the middle block's attention are whole on each.
    known = {} if known is None else known
    # So that all ranks or none refuse what follows; an embedding of the time is among the arguments of some.
    check_same(
        {"z": z, **{f"argument {place}": arg for place, arg in enumerate(args, 2)}}, group, title=title, around=group
    )
    mode = ByRows(known.setdefault(z.shape[HEIGHT], Parts(z.shape[HEIGHT], group=group, title=title)))
    rows = mode.cut(z, HEIGHT)
    # A compiled decoder runs uncompiled: torch.compile would trace the interception, and the collectives in it.
    with torch.compiler.set_stance("force_eager"), mode:
        found = decode(rows, *args)
    if isinstance(found, torch.Tensor):
        return mode.whole(found, HEIGHT)
    pixels = mode.whole(found[0], HEIGHT)
    return (pixels,) if isinstance(found, tuple) else type(found)(sample=pixels)


def split_over(vae: Any, num_ranks: int, *, rows: int) -> contextlib.AbstractContextManager[None]:
    """Collective if `num_ranks` is over 1: `split_vae` over that many ranks, which are the whole process group.

    Latents of too few `rows` are refused here already, if they are shared out by them: what a modular block raises is
    no ValueError any more.
    """
    if num_ranks <= 1:
        return contextlib.nullcontext()
    from ...parallel.spatial.part import check_rows

    if type(vae).__name__ not in OWN_TILES:
        check_rows(rows, num_ranks, title=type(vae).__name__)
    return split_vae(vae, mesh_for(ParallelPlan(ulysses=num_ranks))[Axis.SEQUENCE])
