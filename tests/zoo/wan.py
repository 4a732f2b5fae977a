"""Tiny Wan, ChronoEdit, SkyReels-V2, VACE, Animate, AnyFlow and Helios transformers with inputs."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import diffusers
import torch
from diffusers.models.transformers import transformer_wan_animate_2
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from zoo.cases import Built, Case, blocks, noise, with_kept, words

HEAD = 12  # head width; the three axes of Wan's rotary embedding need a multiple of 6


def _config(case: Case) -> dict:
    return {
        "patch_size": (1, 2, 2),
        **blocks(case, HEAD, channels=4),
        "text_dim": 16,
        "freq_dim": 32,
        "ffn_dim": 32,
        "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
        "rope_max_seq_len": 32,
    }


def _inputs(case: Case, channels: int = 4) -> dict:
    return {
        "hidden_states": noise(case.batch, channels, case.frames, 2 * case.rows, 2 * case.columns),
        **words(case, 16, 700),
    }


def wan(case: Case) -> Built:
    case = replace(case, frames=3)
    return diffusers.WanTransformer3DModel, _config(case), _inputs(case)


def wan_i2v(case: Case) -> Built:
    """Wan 2.1 image to video: picture tokens before a text window whose 512 tokens are fixed in the model's code."""
    case = replace(case, frames=2, text=512)
    config = dict(_config(case), image_dim=20, added_kv_proj_dim=HEAD * case.heads)
    inputs = dict(_inputs(case), encoder_hidden_states_image=noise(case.batch, 5, 20))
    return diffusers.WanTransformer3DModel, config, inputs


def wan_ti2v(case: Case) -> Built:
    """Wan 2.2 TI2V: a timestep per token."""
    case = replace(case, frames=2)
    timestep = torch.linspace(0, 900, case.tokens)[None].repeat(case.batch, 1)
    return diffusers.WanTransformer3DModel, _config(case), dict(_inputs(case), timestep=timestep)


def chronoedit(case: Case) -> Built:
    case = replace(case, frames=2)
    return diffusers.ChronoEditTransformer3DModel, dict(_config(case), rope_temporal_skip_len=8), _inputs(case)


def chronoedit_i2v(case: Case) -> Built:
    case = replace(case, frames=3, text=512)
    config = dict(_config(case), image_dim=20, added_kv_proj_dim=HEAD * case.heads, rope_temporal_skip_len=8)
    inputs = dict(_inputs(case), encoder_hidden_states_image=noise(case.batch, 5, 20))
    return diffusers.ChronoEditTransformer3DModel, config, inputs


def skyreels_v2(case: Case) -> Built:
    case = replace(case, frames=3)
    return diffusers.SkyReelsV2Transformer3DModel, _config(case), _inputs(case)


def skyreels_v2_forcing(case: Case) -> Built:
    """Diffusion forcing: a timestep per frame, and frames see only their own block of frames and earlier ones."""
    case = replace(case, frames=4)
    config = dict(_config(case), inject_sample_info=True, num_frame_per_block=2)
    timestep = torch.linspace(100, 900, case.frames)[None].repeat(case.batch, 1).long()
    inputs = dict(_inputs(case), timestep=timestep, enable_diffusion_forcing=True, fps=[1])
    return diffusers.SkyReelsV2Transformer3DModel, config, inputs


def wan_vace(case: Case) -> Built:
    case = replace(case, frames=2, layers=3)
    config = dict(_config(case), vace_layers=[0, 2], vace_in_channels=12)
    control = noise(case.batch, 12, case.frames, 2 * case.rows, 2 * case.columns)
    return diffusers.WanVACETransformer3DModel, config, dict(_inputs(case), control_hidden_states=control)


def wan_animate(case: Case) -> Built:
    """A pose and a face: between blocks each frame attends to the tokens that tell the face's motion in it."""
    case = replace(case, frames=3, text=512)
    config = dict(
        _config(case),
        in_channels=12,
        latent_channels=4,
        image_dim=20,
        added_kv_proj_dim=HEAD * case.heads,
        motion_encoder_channel_sizes={"4": 8, "8": 8},
        motion_encoder_size=8,
        motion_style_dim=8,
        motion_dim=4,
        motion_encoder_dim=8,
        face_encoder_hidden_dim=8,
        face_encoder_num_heads=2,
        inject_face_latents_blocks=1,
    )
    inputs = dict(
        _inputs(case, channels=12),
        encoder_hidden_states_image=noise(case.batch, 5, 20),
        pose_hidden_states=noise(case.batch, 4, case.frames - 1, 2 * case.rows, 2 * case.columns),
        face_pixel_values=noise(case.batch, 3, 5, 8, 8),
    )
    return diffusers.WanAnimateTransformer3DModel, config, inputs


def _anyflow_inputs(case: Case) -> dict:
    """Latents frame by frame, and for each frame the timestep it is at and the one it goes to."""
    inputs = _inputs(case)
    timestep = torch.linspace(900, 600, case.frames)[None].repeat(case.batch, 1)
    hidden_states = inputs["hidden_states"].transpose(1, 2).contiguous()
    return dict(inputs, hidden_states=hidden_states, timestep=timestep, r_timestep=timestep - 300)


def _anyflow_config(case: Case) -> dict:
    config = dict(_config(case), gate_value=0.25, deltatime_type="r")
    del config["qk_norm"]
    return config


def anyflow(case: Case) -> Built:
    case = replace(case, frames=3)
    return diffusers.AnyFlowTransformer3DModel, _anyflow_config(case), _anyflow_inputs(case)


def anyflow_i2v(case: Case) -> Built:
    case = replace(case, frames=2)
    inputs = dict(_anyflow_inputs(case), encoder_hidden_states_image=noise(case.batch, 5, 20))
    return diffusers.AnyFlowTransformer3DModel, dict(_anyflow_config(case), image_dim=20), inputs


def anyflow_far(case: Case) -> Built:
    """Causal chunks, the first of which is seen in larger patches only, as in training."""
    case = replace(case, frames=4)
    config = dict(_anyflow_config(case), compressed_patch_size=(1, 4, 4), full_chunk_limit=2)
    return diffusers.AnyFlowFARTransformer3DModel, config, dict(_anyflow_inputs(case), chunk_partition=[1, 1, 2])


def _far_cache(case: Case, *, small: int, full: int) -> list[dict[str, Tensor]]:
    """For each layer the keys and values of so many frames in larger patches, in full, and some space."""
    in_small, in_full = (2 * case.rows // 4) * (2 * case.columns // 4), case.rows * case.columns
    return [
        {
            "compressed_cache": noise(2, case.batch, case.heads, small * in_small + 1, HEAD, seed=layer),
            "full_cache": noise(2, case.batch, case.heads, full * in_full + 2, HEAD, seed=layer),
        }
        for layer in range(case.layers)
    ]


def anyflow_far_keep(case: Case) -> Built:
    """The chunks made so far, for their keys and values only."""
    model, config, inputs = anyflow_far(case)

    def kept(cache: list[dict[str, Tensor]]) -> list[Tensor]:
        found = [x.clone() for layer in cache for x in layer.values()]
        for layer in cache:
            for x in layer.values():
                x.zero_()
        return found

    config = {**config, "full_chunk_limit": 3}
    cache, flag = _far_cache(case, small=1, full=3), {"is_cache_step": True}
    kept(cache)
    return with_kept(model, kept), config, {**inputs, "kv_cache": cache, "kv_cache_flag": flag}


def anyflow_far_step(case: Case) -> Built:
    """One chunk after others, whose keys and values are kept."""
    model, config, _ = anyflow_far(case)
    now, cache = replace(case, frames=2), _far_cache(case, small=1, full=1)
    flag = {"is_cache_step": False, "num_cached_chunks": 2}
    inputs = dict(_anyflow_inputs(now), chunk_partition=[1, 1, 2], kv_cache=cache, kv_cache_flag=flag)
    return model, config, inputs


class WanAnimate2Transformer3DModel(diffusers.WanAnimate2Transformer3DModel):
    """Without a compiler for its mask, which takes seconds."""

    def create_mask(self, *args: Any) -> BlockMask:
        with patch.object(transformer_wan_animate_2, "create_block_mask", _uncompiled):
            return super().create_mask(*args)


def _uncompiled(*args: Any, **kwargs: Any) -> BlockMask:
    return create_block_mask(*args, **dict(kwargs, _compile=False))


def _animate2(case: Case, *, frames: int, mode: str) -> Built:
    config = {
        "text_len": case.text + 3,
        "in_dim": 8,
        "dim": HEAD * case.heads,
        "ffn_dim": 32,
        "freq_dim": 32,
        "text_dim": 16,
        "out_dim": 4,
        "num_heads": case.heads,
        "num_layers": case.layers,
        "refer_stride": 2,
    }
    shape = frames, 2 * case.rows, 2 * case.columns
    inputs = {
        "hidden_states": list(noise(case.batch, 4, *shape)),
        "condition_latents": list(noise(case.batch, 4, *shape, seed=1)),
        "timestep": torch.full((case.batch,), 700),
        "encoder_hidden_states": list(noise(case.batch, case.text, 16)),
        "encoder_hidden_states_image": noise(case.batch, 5, 1280),
        "kv_cache": transformer_wan_animate_2.WanAnimate2KVCache(case.layers),
        "kv_cache_mode": mode,
        "seq_len": frames * case.rows * case.columns,
    }
    return WanAnimate2Transformer3DModel, config, inputs


def wan_animate2_reference(case: Case) -> Built:
    """The pass over the reference video, which keeps its keys and values."""
    model, config, inputs = _animate2(case, frames=2, mode="extract")
    model = with_kept(model, lambda cache: [x for c in cache.layer_caches for x in (c.key, c.value)])
    grids = torch.tensor([[2, case.rows, case.columns]] * case.batch)
    return model, config, dict(inputs, offset_grid_sizes=grids)


def wan_animate2(case: Case) -> Built:
    """A pass over a segment shorter and smaller than the video: each frame sees its own of the reference."""
    model, config, inputs = _animate2(case, frames=3, mode="cached")
    grids = torch.tensor([[2, case.rows, case.columns]] * case.batch)
    for number, layer in enumerate(inputs["kv_cache"].layer_caches):
        tokens = 2 * case.rows * case.columns
        layer.store(*noise(2, case.batch, tokens, case.heads, HEAD, seed=number))
    area = [16 * (case.rows + 1), 16 * case.columns]
    return model, config, dict(inputs, reference_grid_sizes=grids, origin_len=12, origin_area=area)


def _helios(case: Case, *, amplify: bool, zero_history: bool) -> Built:
    case = replace(case, frames=2)
    config = dict(
        _config(case),
        rope_dim=(4, 4, 4),
        has_multi_term_memory_patch=True,
        guidance_cross_attn=True,
        zero_history_timestep=zero_history,
        is_amplify_history=amplify,
    )
    del config["rope_max_seq_len"]
    short, middle, long = 2, 2, 4
    inputs = dict(_inputs(case), indices_hidden_states=torch.arange(8.0, 10.0)[None].repeat(case.batch, 1))
    starts = {"short": 6.0, "mid": 4.0, "long": 0.0}
    for name, frames in (("short", short), ("mid", middle), ("long", long)):
        indices = torch.arange(starts[name], starts[name] + frames)
        inputs[f"indices_latents_history_{name}"] = indices[None].repeat(case.batch, 1)
        inputs[f"latents_history_{name}"] = noise(case.batch, 4, frames, 2 * case.rows, 2 * case.columns, seed=frames)
    return diffusers.HeliosTransformer3DModel, config, inputs


def helios(case: Case) -> Built:
    """A chunk of video after three histories, each in larger patches than the last."""
    return _helios(case, amplify=False, zero_history=True)


def helios_amplify(case: Case) -> Built:
    """The keys of the history are scaled up, by head."""
    return _helios(case, amplify=True, zero_history=False)


def helios_first(case: Case) -> Built:
    """The first chunk, which has no history."""
    model, config, inputs = _helios(case, amplify=True, zero_history=True)
    return model, config, {name: value for name, value in inputs.items() if "history" not in name}


UNMASKED = """
    wan wan_i2v wan_ti2v chronoedit chronoedit_i2v skyreels_v2 skyreels_v2_forcing wan_vace wan_animate
    wan_animate2_reference wan_animate2 anyflow anyflow_i2v anyflow_far anyflow_far_keep anyflow_far_step helios
    helios_amplify helios_first
"""
