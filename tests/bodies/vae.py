"""What ranks do in the tests of VAEs split by rows: tiny decoders of every class, whole and split."""

import contextlib
import copy
import functools
import zlib
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from diffusers import (
    AutoencoderDC,
    AutoencoderKL,
    AutoencoderKLCogVideoX,
    AutoencoderKLCosmos,
    AutoencoderKLFlux2,
    AutoencoderKLHunyuanImage,
    AutoencoderKLHunyuanImageRefiner,
    AutoencoderKLHunyuanVideo,
    AutoencoderKLHunyuanVideo15,
    AutoencoderKLKVAE,
    AutoencoderKLLTX2Video,
    AutoencoderKLLTXVideo,
    AutoencoderKLMagvit,
    AutoencoderKLMiniMaxH3,
    AutoencoderKLMochi,
    AutoencoderKLQwenImage,
    AutoencoderKLQwenImage21,
    AutoencoderKLWan,
)
from torch import Tensor, nn
from torch._C import _len_torch_function_stack
from torch._subclasses.fake_tensor import FakeTensor

from bodies.rank import message
from bodies.spatial import latents
from latentloom.parallel.errors import PeerLost
from latentloom.parallel.group import Axis, Group
from latentloom.parallel.plan import ParallelPlan
from latentloom.parallel.spatial import convolution
from latentloom.parallel.spatial.mode import RULES
from latentloom.pipelines.spreading import frames
from latentloom.pipelines.spreading import tiles as split_tiles
from latentloom.pipelines.spreading import vae as split
from latentloom.pipelines.spreading.vae import split_vae
from support.alive import Alive
from support.cells import fill, mesh_for


def image_vae(made: Any = AutoencoderKL, **config: Any) -> Any:
    return made(
        latent_channels=4,
        block_out_channels=(8, 16, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        **config,
    )


SMALL = {"base_dim": 8, "dim_mult": [1, 2, 2], "num_res_blocks": 1, "temperal_downsample": [True, False]}


def wan_vae(**config: Any) -> AutoencoderKLWan:
    return AutoencoderKLWan(z_dim=4, scale_factor_spatial=4, **{**SMALL, **config})


def ltx_vae(**config: Any) -> AutoencoderKLLTXVideo:
    """Two blocks that double frames, rows and columns, and pixels of two by two."""
    blocks = {"block_out_channels": (8, 8, 8), "decoder_block_out_channels": (8, 16, 16), "latent_channels": 4}
    scaling = dict.fromkeys(("spatio_temporal_scaling", "decoder_spatio_temporal_scaling"), (True, True, False))
    layers = {
        "layers_per_block": (1,) * 4,
        "decoder_layers_per_block": (2,) * 4,
        "down_block_types": ("LTXVideoDownBlock3D",) * 3,
    }
    more = {"decoder_inject_noise": (False,) * 4, "upsample_residual": (False,) * 3, "upsample_factor": (1,) * 3}
    return AutoencoderKLLTXVideo(patch_size=2, **blocks, **scaling, **layers, **{**more, **config})


def ltx2_vae(**config: Any) -> AutoencoderKLLTX2Video:
    return AutoencoderKLLTX2Video(
        latent_channels=4,
        block_out_channels=(8, 8),
        down_block_types=("LTX2VideoDownBlock3D",) * 2,
        layers_per_block=(1,) * 3,
        spatio_temporal_scaling=(True, True),
        downsample_type=("spatial", "temporal"),
        decoder_block_out_channels=(8, 16),
        decoder_layers_per_block=(2,) * 3,
        decoder_spatio_temporal_scaling=(True, True),
        decoder_inject_noise=(False,) * 3,
        upsample_residual=(True, True),
        upsample_factor=(2, 2),
        patch_size=2,
        **{"upsample_type": ("spatiotemporal", "spatial"), **config},
    )


def dc_vae(**config: Any) -> AutoencoderDC:
    """Two blocks of linear attention, at the latents' size."""
    both = {
        "block_types": ("ResBlock", "ResBlock", "EfficientViTBlock"),
        "block_out_channels": (8, 16, 16),
        "layers_per_block": (2, 2, 2),
        "qkv_multiscales": ((), (), (5,)),
    }
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    return AutoencoderDC(latent_channels=4, attention_head_dim=8, **sides, **config)


def cosmos_vae(**config: Any) -> AutoencoderKLCosmos:
    """Attention in one of the blocks that double rows, and wavelets at the end."""
    return AutoencoderKLCosmos(
        latent_channels=4,
        encoder_block_out_channels=(8, 8, 16),
        decode_block_out_channels=(8, 8, 16),
        attention_resolutions=(8,),
        resolution=32,
        num_layers=1,
        patch_size=2,
        spatial_compression_ratio=8,
        temporal_compression_ratio=4,
        **config,
    )


def mochi_vae() -> AutoencoderKLMochi:
    """Diffusers makes its norms of 32 groups."""
    return AutoencoderKLMochi(
        latent_channels=4,
        encoder_block_out_channels=(32,) * 4,
        decoder_block_out_channels=(32,) * 4,
        layers_per_block=(2, 1, 1, 1, 2),
        latents_mean=(0.0,) * 4,
        latents_std=(1.0,) * 4,
    )


def cogvideox_vae(**config: Any) -> AutoencoderKLCogVideoX:
    return AutoencoderKLCogVideoX(
        latent_channels=4,
        down_block_types=("CogVideoXDownBlock3D",) * 3,
        up_block_types=("CogVideoXUpBlock3D",) * 3,
        block_out_channels=(8, 8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        temporal_compression_ratio=2,
        **config,
    )


def magvit_vae(**config: Any) -> AutoencoderKLMagvit:
    return AutoencoderKLMagvit(
        latent_channels=4,
        block_out_channels=(8, 8, 16),
        down_block_types=("SpatialDownBlock3D", "SpatialTemporalDownBlock3D", "SpatialTemporalDownBlock3D"),
        up_block_types=("SpatialUpBlock3D", "SpatialTemporalUpBlock3D", "SpatialTemporalUpBlock3D"),
        layers_per_block=1,
        norm_num_groups=4,
        **config,
    )


KINDS: dict[str, Callable[[], Any]] = {
    "sd": image_vae,
    "flux": lambda: image_vae(use_quant_conv=False, use_post_quant_conv=False),
    "flux2": lambda: image_vae(AutoencoderKLFlux2, decoder_block_out_channels=(8, 8, 16)),
    "no attention": lambda: image_vae(mid_block_add_attention=False),
    "qwen": lambda: AutoencoderKLQwenImage(z_dim=4, **SMALL),
    "wan": wan_vae,
    # as in Wan 2.2 5B: residual blocks, and four pixels in one
    "wan22": lambda: wan_vae(is_residual=True, patch_size=2, in_channels=12, out_channels=12, decoder_base_dim=12),
    "hunyuan": lambda: AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 16, 16), layers_per_block=1, norm_num_groups=4
    ),
    "hunyuan15": lambda: AutoencoderKLHunyuanVideo15(
        latent_channels=4,
        block_out_channels=(8, 8, 16),
        layers_per_block=1,
        spatial_compression_ratio=4,
        temporal_compression_ratio=2,
    ),
    "qwen21": lambda: AutoencoderKLQwenImage21(
        z_dim=4, **SMALL, decoder_base_dim=8, latents_mean=[0.0] * 4, latents_std=[1.0] * 4, scale_factor_spatial=4
    ),
    "ltx": ltx_vae,
    # as in LTX-Video 0.9.5 and later: what is doubled is added, and the time is an input
    "ltx 0.9.5": lambda: ltx_vae(
        upsample_residual=(True, True, False), upsample_factor=(2, 2, 1), timestep_conditioning=True
    ),
    "ltx2": ltx2_vae,
    "ltx2 zeros": lambda: ltx2_vae(
        decoder_spatial_padding_mode="zeros", decoder_causal=False, timestep_conditioning=True
    ),
    "dc": dc_vae,
    # as of the first of the class: moments that were learned, no doubled pixels
    "dc interpolated": lambda: dc_vae(
        decoder_norm_types="batch_norm", decoder_act_fns="relu", upsample_block_type="interpolate"
    ),
    "cosmos": cosmos_vae,
    "cosmos rearranged": lambda: cosmos_vae(patch_type="rearrange"),
    "mochi": mochi_vae,
    "cogvideox": cogvideox_vae,
    "magvit": magvit_vae,
    "magvit by video": lambda: magvit_vae(spatial_group_norm=False),
    "hunyuan image": lambda: AutoencoderKLHunyuanImage(
        in_channels=3,
        out_channels=3,
        latent_channels=4,
        block_out_channels=(32, 32, 32),
        layers_per_block=1,
        spatial_compression_ratio=4,
        sample_size=32,
    ),
    "hunyuan refiner": lambda: AutoencoderKLHunyuanImageRefiner(
        latent_channels=4,
        block_out_channels=(8, 8, 16),
        layers_per_block=1,
        spatial_compression_ratio=4,
        temporal_compression_ratio=2,
    ),
    "kvae": lambda: AutoencoderKLKVAE(channels=32, num_enc_blocks=1, num_dec_blocks=1, z_channels=4, ch_mult=(1, 1, 1)),
}


@functools.cache
def vae(kind: str) -> Any:
    torch.manual_seed(0)
    made = KINDS[kind]().eval()
    fill(made)
    return made


def group_of(degree: int) -> Group | None:
    mesh = mesh_for(ParallelPlan(ulysses=degree))
    return mesh and mesh[Axis.SEQUENCE]


def decode(model: Any, z: Tensor) -> Tensor:
    time = (torch.full(z.shape[:1], 0.05),) if getattr(model.config, "timestep_conditioning", False) else ()
    with torch.no_grad():
        return model.decode(z, *time).sample


def untiled(model: Any, z: Tensor) -> Tensor:
    """The decode of one process that a split one has to equal: many frames in overlapping parts, pictures whole."""
    assert not model.use_tiling
    return decode(model, z)


def by_calls(model: Any, z: Tensor) -> list[Tensor]:
    """What each decode gives of one that is made call by call."""
    turns = []
    with frames.by_calls(model) as calls:
        while calls.has_more():
            turns.append(decode(model, z))
    return turns


def split_by_calls(rank: int, kind: str, shape: Sequence[int]) -> tuple[bool, int, bool]:
    """Whether it is the split decode to the bit, in how many decodes, and whether the VAE is as it was."""
    group = group_of(2)
    assert group is not None
    model, z = vae(kind), latents(shape)
    with split_vae(model, group):
        whole, turns = decode(model, z), by_calls(model, z)
    return torch.equal(torch.cat(turns, dim=2), whole), len(turns), not {"decoder", "_decode"} & vars(model).keys()


def equality(rank: int, kind: str, degree: int, shape: Sequence[int]) -> dict[str, Any] | None:
    group = group_of(degree)
    if group is None:
        return None
    model, z = vae(kind), latents(shape)
    whole = untiled(model, z) if rank == 0 else None
    with split_vae(model, group):
        got = decode(model, z)
    if whole is None:  # the first rank compares, and all have its bits
        whole = got
    assert got.shape == whole.shape
    return {
        "difference": float((got - whole).abs().max()),
        "largest": float(whole.abs().max()),
        "spread": float(whole.std()),
        "bits": zlib.crc32(got.contiguous().numpy().tobytes()),
    }


# ---- what would be wrong, and what it costs


def alone(rank: int, kind: str, what: str) -> float | None:
    """How far two ranks are off that do not exchange `what`: the decode goes on with what each has."""
    group = group_of(2)
    if group is None:
        return None
    model, z = vae(kind), latents((1, 4, 8, 5) if kind in ("sd", "dc") else (1, 4, 3, 8, 4))
    whole = untiled(model, z)
    local = {what: lambda parts, func, x, *args, **kwargs: parts.mark(func(x, *args, **kwargs), parts.of(x))}
    edges = patch.object(convolution, "start_edges", lambda *_, **__: lambda: (None, None))
    with edges if what == "edges" else patch.dict(RULES, local), split_vae(model, group):
        return float((decode(model, z) - whole).abs().max())


def memory(rank: int, kind: str, shape: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """Most bytes alive, of one tensor, and of the pixels in a decode by the first 1, 2 and 4 ranks."""
    model, z, found = vae(kind), latents(shape), {}
    for degree in (1, 2, 4):
        group = group_of(degree)
        if group is None:
            continue
        with split_vae(model, group), Alive() as live:
            pixels = untiled(model, z)
        found[degree] = live.most, live.largest, pixels.numel() * pixels.element_size()
    return found


# ---- refusals, and what stays


def failures(rank: int) -> list[str]:
    """What is said when something is refused, by all four ranks."""
    group = group_of(4)
    assert group is not None
    said = []
    for make in (
        lambda: _within(nn.Conv2d(3, 3, 1), group),
        lambda: _within(vae("sd"), group, latents((1, 4, 7, 4))),
        lambda: _within(vae("sd"), group, latents((1, 4, 8, 4)) + rank),
        lambda: _within(vae("flux"), group, latents((1, 4, 8, 4)), act=lambda x: x.softmax(2)),
        lambda: _within(vae("flux"), group, latents((1, 4, 8, 4)), act=lambda x: torch.from_numpy(x.numpy())),
        lambda: _within(ltx_vae(decoder_inject_noise=(True, False, False, False)), group),
        lambda: _within(vae("dc"), group, latents((1, 4, 8, 4))),
        lambda: _within(vae("cogvideox"), group, latents((1, 4, 1, 9, 4))),
    ):
        said.append(message(make))
    return said


def _within(model: Any, group: Group, z: Tensor | None = None, act: Callable[[Tensor], Tensor] | None = None) -> None:
    """A split decode, with another last activation if one is given."""
    kept = model.decoder.conv_act if act else None
    if act:
        model.decoder.conv_act = type("Act", (nn.Module,), {"forward": lambda self, x: act(x)})()
    try:
        with split_vae(model, group):
            decode(model, z)
    finally:
        if act:
            model.decoder.conv_act = kept


def unchanged(rank: int, kind: str) -> dict[str, bool]:
    """Whether a VAE is as it was after split decodes, one of which failed, and decodes as it did."""
    group = group_of(4)
    assert group is not None
    model, z = copy.deepcopy(vae(kind)), latents((2, 4, 8, 4) if kind == "sd" else (2, 4, 2, 8, 2))
    model.enable_slicing()
    if kind == "sd":
        model.enable_tiling()
        model.tile_latent_min_size, model.tile_sample_min_size = 4, 16
    else:
        model.enable_tiling(16, 16, tile_sample_stride_height=16, tile_sample_stride_width=16)
    before, attributes = decode(model, z), _attributes(model)
    with split_vae(model, group):
        split = decode(model, z)
        as_tuple = model.decode(z, return_dict=False)[0]
        twice = message(lambda: split_vae(model, group).__enter__())
    with contextlib.suppress(RuntimeError), split_vae(model, group):
        decode(model, z[:, :1])  # the first convolution needs four channels
    same, modes = _attributes(model) == attributes, _len_torch_function_stack()
    after = decode(model, z)
    model.disable_tiling()
    return {
        "attributes are as before": same,
        "no mode is left": modes == 0,
        "it decodes as before": torch.equal(before, after),
        "split is untiled": bool((untiled(model, z) - split).abs().max() <= 1e-5 * max(1.0, float(split.abs().max()))),
        "tiled differs": bool((before - split).abs().max() > 1e-3),
        "a tuple holds the same": torch.equal(as_tuple, split),
        "twice is refused": "is split already" in twice,
    }


def _attributes(model: Any) -> dict[str, str]:
    return {name: repr(value) for name, value in vars(model).items() if not name.startswith("_mod")}


def bf16(rank: int, kind: str, shape: Sequence[int]) -> tuple[float, float] | None:
    """Mean distance to the fp32 decode: of bf16 on one process, and of bf16 on two ranks."""
    group = group_of(2)
    if group is None:
        return None
    model, z = copy.deepcopy(vae(kind)).bfloat16(), latents(shape).bfloat16()
    exact = untiled(copy.deepcopy(model).float(), z.float())
    with split_vae(model, group):
        split = decode(model, z)
    alone, together = (float((x.float() - exact).abs().mean()) for x in (untiled(model, z), split))
    return alone, together


def compiled(rank: int) -> float:
    """How far a split decode of a compiled decoder is off."""
    group = group_of(4)
    assert group is not None
    model, z = copy.deepcopy(vae("sd")), latents((1, 4, 8, 4))
    whole = decode(model, z)
    model.decoder.compile(backend="eager")
    with split_vae(model, group):
        return float((decode(model, z) - whole).abs().max())


def stage(rank: int, split: int) -> tuple[float, int]:
    """How far the split pixels of `stages.decode` with bobbin are off on this rank, and a mark of their bits."""
    from latentloom.pipelines import stages
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import Latents, to_plain

    model = to_plain(describe_model("builtin:bobbin", device="cpu"))
    canvas = Latents(family="flux", width=64, height=72, batch=2, tensor=latents((2, 16, 9, 8)))
    request = {"model": model, "latents": to_plain(canvas)}
    whole, pixels = (stages.decode({**request, **more}).pixels for more in ({}, {"split": split}))
    assert pixels.shape == (2, 72, 64, 3) and pixels.std() > 0.1
    return float((pixels - whole).abs().max()), zlib.crc32(pixels.contiguous().numpy().tobytes())


# ---- tiles


def h3_vae() -> AutoencoderKLMiniMaxH3:
    """In tiles of 32 pixels by itself."""
    made = AutoencoderKLMiniMaxH3(
        latent_channels=4,
        block_out_channels=(8, 8, 8),
        layers_per_block=1,
        spatial_downsample_factors=(2, 2, 2),
        temporal_downsample_factors=(1, 2, 2),
        norm_num_groups=4,
        decoder_num_layers=2,
        decoder_num_attention_heads=2,
        decoder_attention_head_dim=16,
        latents_mean=(0.0,) * 4,
        latents_std=(1.0,) * 4,
    )
    made.enable_tiling(32, 32, 8, 8)
    return made


KINDS["h3"] = h3_vae


def in_tiles(kind: str) -> Any:
    """A VAE that decodes in tiles of four latents by four, which overlap."""
    model = copy.deepcopy(vae(kind))
    if kind == "h3":
        return model
    model.enable_tiling()
    scale = vars(model).get("spatial_compression_ratio") or model.config.get("spatial_compression_ratio") or 4
    for name, value in {
        "tile_latent_min_size": 4,
        "tile_latent_min_height": 4,
        "tile_latent_min_width": 4,
        "tile_sample_min_size": 4 * scale,
        "tile_sample_min_height": 4 * scale,
        "tile_sample_min_width": 4 * scale,
        "tile_sample_stride_height": 3 * scale,
        "tile_sample_stride_width": 3 * scale,
    }.items():
        if hasattr(model, name):
            setattr(model, name, value)
    return model


def tiles(rank: int, kind: str, degree: int, shape: Sequence[int], by_frames: bool = False) -> dict[str, Any] | None:
    """A decode in tiles alone and shared out, its calls of the decoder, what is told, and whether anything stays."""
    group = group_of(degree)
    if group is None:
        return None
    model, z = in_tiles(kind), latents(shape)
    if by_frames:
        ratio = model.temporal_compression_ratio
        model.use_framewise_decoding = True
        model.tile_sample_min_num_frames, model.tile_sample_stride_num_frames = 2 * ratio, ratio
    attributes, calls = _attributes(model), []
    hook = model.decoder.register_forward_hook(lambda *_: calls.append(1))
    whole, num_alone = decode(model, z), len(calls)
    with patch.object(split.logger, "warning") as told, split_vae(model, group, is_strict=kind == "h3"):
        got = decode(model, z)
    hook.remove()
    return {
        "is_equal": torch.equal(got, whole),
        "spread": float(whole.std()),
        "alone": num_alone,
        "here": len(calls) - num_alone,
        "told": told.call_count,
        "is_restored": _attributes(model) == attributes and "decoder" not in vars(model),
    }


def failing_tiles(rank: int) -> list[str]:
    """What two ranks say of tiles one of which cannot be decoded, and of other latents; and whether they go on."""
    group = group_of(2)
    if group is None:
        return []
    model, z = in_tiles("h3"), latents((1, 4, 7, 9, 7))
    whole, said = decode(model, z), []

    def fail(*_: Any) -> None:
        raise ValueError("no room for a tile")

    with split_vae(model, group):
        hook = model.decoder.register_forward_pre_hook(fail) if group.index else None
        try:
            decode(model, z)
        except (ValueError, PeerLost) as error:
            said.append(str(error))
        if hook:
            hook.remove()
        said.append(message(lambda: decode(model, z + rank)))
        said.append(str(torch.equal(decode(model, z), whole)))
    return said


def brought_tiles(rank: int) -> list[bool]:
    """Of two ranks, whose decoder's weights somebody brings at each call: whether tiles are the same, and computed by
    turns but for the first of all, by which the shapes of the others are known."""
    group = group_of(2)
    if group is None:
        return []
    model, z, calls = in_tiles("h3"), latents((1, 4, 7, 9, 7)), []
    whole, forward = decode(model, z), model.decoder.forward

    def bring(*args: Any, **kwargs: Any) -> Tensor:
        assert all(type(each) is not FakeTensor for each in args)
        calls.append(1)
        return forward(*args, **kwargs)

    model.decoder.forward = bring
    with split_vae(model, group):
        return [
            torch.equal(decode(model, z), whole),
            len(calls) == 4,
            torch.equal(decode(model, z), whole),
            len(calls) == 7,
        ]


def tiles_of_the_stage(rank: int, folder: str) -> tuple[bool, float]:
    """Whether two ranks' pixels of `stages.decode` with MiniMax H3 are those of one to the bit, and their spread."""
    from latentloom.pipelines import stages
    from latentloom.pipelines.models.describe import describe_model
    from latentloom.pipelines.values import Latents, to_plain

    model = to_plain(describe_model(folder, device="cpu"))
    canvas = Latents(family="minimax_h3", width=80, height=48, frames=124, tensor=latents((1, 4, 37, 6, 10)))
    request = {"model": model, "latents": to_plain(canvas)}
    with patch.object(split_tiles, "decoded", wraps=split_tiles.decoded) as shared:
        alone, together = (stages.decode({**request, **more}).pixels for more in ({}, {"split": 2}))
    return torch.equal(alone, together) and shared.call_count == 1, float(together.std())
