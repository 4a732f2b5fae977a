"""Tiny LTX, LTX-2, SANA-WM refiner, Cosmos, Mochi, Allegro, Latte and Motif-Video transformers with inputs."""

from dataclasses import replace
from typing import Any

import diffusers
import torch
from diffusers.models.transformers.transformer_sana_wm_refiner import SanaWMRefinerKVCache
from torch import Tensor

from zoo.cases import Built, Case, blocks, noise, text_mask, varied, with_kept, words


def _timesteps(case: Case) -> Tensor:
    """A timestep per token, as where a first frame is given: B S."""
    return torch.linspace(0, 900, case.tokens)[None].repeat(case.batch, 1)


def _latents(case: Case, channels: int = 4) -> Tensor:
    """In patches of 2 x 2: B C F H W."""
    return noise(case.batch, channels, case.frames, 2 * case.rows, 2 * case.columns)


def ltx(case: Case) -> Built:
    case = replace(case, frames=2)
    config = {
        **blocks(case, 16, channels=4),
        "cross_attention_dim": 16 * case.heads,
        "qk_norm": "rms_norm_across_heads",
        "caption_channels": 16,
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 4),
        **words(case, 16, 700),
        "encoder_attention_mask": text_mask(case),
        "num_frames": case.frames,
        "height": case.rows,
        "width": case.columns,
        "rope_interpolation_scale": (0.3, 8.0, 8.0),
    }
    return diffusers.LTXVideoTransformer3DModel, config, inputs


ltx_i2v = varied(ltx, lambda case: {"timestep": _timesteps(replace(case, frames=2))})


def ltx_windows(case: Case) -> Built:
    """As the pipeline of long videos calls it: a timestep per token as a column, B S 1."""
    model, config, inputs = ltx_i2v(case)
    return model, config, dict(inputs, timestep=inputs["timestep"][..., None])


def ltx2(case: Case) -> Built:
    """Video and sound in two streams that attend to each other."""
    config = {
        **blocks(case, 8, channels=4),
        "cross_attention_dim": 8 * case.heads,
        "audio_in_channels": 4,
        "audio_out_channels": 4,
        "audio_num_attention_heads": case.heads,
        "audio_attention_head_dim": 4,
        "audio_cross_attention_dim": 4 * case.heads,
        "qk_norm": "rms_norm_across_heads",
        "caption_channels": 16,
        "rope_double_precision": False,
    }
    sounds = 9
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 4),
        "audio_hidden_states": noise(case.batch, sounds, 4),
        **words(case, 16, 700.0),
        "audio_encoder_hidden_states": noise(case.batch, case.text, 16, seed=3),
        "encoder_attention_mask": text_mask(case),
        "audio_encoder_attention_mask": text_mask(case),
        "num_frames": case.frames,
        "height": case.rows,
        "width": case.columns,
        "audio_num_frames": sounds,
        "fps": 25.0,
    }
    return diffusers.LTX2VideoTransformer3DModel, config, inputs


ltx2_i2v = varied(ltx2, lambda case: {"timestep": _timesteps(case), "audio_timestep": torch.full((case.batch,), 700.0)})


def ltx2_3(case: Case) -> Built:
    """LTX-2.3: gates, a modulated prompt, rotary embeddings by head, and guidance that skips a block's attention."""
    model, config, inputs = ltx2_i2v(case)
    config = dict(
        config,
        gated_attn=True,
        cross_attn_mod=True,
        audio_gated_attn=True,
        audio_cross_attn_mod=True,
        rope_type="split",
        perturbed_attn=True,
        use_prompt_embeddings=False,
    )
    skipped = torch.zeros(case.batch)
    skipped[:-1] = 1
    inputs = dict(
        inputs,
        encoder_hidden_states=noise(case.batch, case.text, 8 * case.heads),
        audio_encoder_hidden_states=noise(case.batch, case.text, 4 * case.heads),
        sigma=torch.full((case.batch,), 700.0),
        use_cross_timestep=True,
        spatio_temporal_guidance_blocks=[1],
        perturbation_mask=skipped,
    )
    return model, config, inputs


def ltx2_reference(case: Case) -> Built:
    """Reference tokens behind those of the video, which look at them with some strength."""
    model, config, inputs = ltx2_i2v(case)
    strength = torch.ones(case.batch, case.tokens, case.tokens)
    strength[:, : case.tokens // 2, case.tokens // 2 :] = 0.9998
    strength[:, case.tokens // 2 :, : case.tokens // 2] = 0
    return model, config, dict(inputs, video_self_attention_mask=strength)


def sana_wm_refiner(case: Case) -> Built:
    """LTX-2 without its sound, for one chunk of a video."""
    _, config, inputs = ltx2(case)
    model = diffusers.SanaWMLTX2RefinerTransformer3DModel
    rotary = model(**config).build_rotary_emb_for_absolute_positions(
        case.batch, list(range(7, 7 + case.frames)), case.rows, case.columns, torch.device("cpu"), 25.0
    )
    kept = ("hidden_states", "encoder_hidden_states", "encoder_attention_mask")
    inputs = {name: inputs[name] for name in kept}
    return model, config, dict(inputs, timestep=_timesteps(case), video_rotary_emb=rotary)


def sana_wm_refiner_window(case: Case) -> Built:
    """The same after other chunks, whose keys and values are kept, and which keeps its own."""
    model, config, inputs = sana_wm_refiner(case)
    model = with_kept(
        model, lambda cache: [x for c in cache.layer_caches for x in (c.captured_k_post, c.captured_v_post)]
    )
    first, history, width = 5, 7, 8 * case.heads
    cache = SanaWMRefinerKVCache(case.layers)
    for number, layer in enumerate(cache.layer_caches):
        layer.store_sink(*noise(2, case.batch, first, width, seed=number))
        layer.store_history(*noise(2, case.batch, history, width, seed=10 + number))
    cache.sink_pe = tuple(noise(2, case.batch, first, width))
    return model, config, dict(inputs, kv_cache=cache, kv_cache_mode="inject_and_capture_post_rope")


def sana_wm_refiner_first(case: Case) -> Built:
    """The first frames, whose keys are kept as they are before they are told where they stand."""
    model, config, inputs = sana_wm_refiner(case)
    model = with_kept(
        model, lambda cache: [x for c in cache.layer_caches for x in (c.captured_k_pre, c.captured_v_pre)]
    )
    cache = SanaWMRefinerKVCache(case.layers)
    return model, config, {**inputs, "kv_cache": cache, "kv_cache_mode": "capture_pre_rope"}


def cosmos(case: Case) -> Built:
    case = replace(case, frames=2)
    config = {
        **blocks(case, 12, channels=4),
        "mlp_ratio": 2,
        "text_embed_dim": 16,
        "adaln_lora_dim": 4,
        "max_size": (4, 32, 32),
        "patch_size": (1, 2, 2),
        "rope_scale": (2.0, 1.0, 1.0),
        "concat_padding_mask": False,  # the padding mask is resized with torchvision
        "extra_pos_embed_type": "learnable",
    }
    inputs = {
        "hidden_states": _latents(case),
        **words(case, 16, 700),
        "attention_mask": text_mask(case) if case.masked else None,
        "fps": 30,
    }
    return diffusers.CosmosTransformer3DModel, config, inputs


def cosmos_frames(case: Case) -> Built:
    """Cosmos Predict 2: a timestep per frame."""
    case = replace(case, frames=3)
    model, config, inputs = cosmos(case)
    timestep = torch.linspace(100, 900, 2).view(1, 1, 2, 1, 1).repeat(case.batch, 1, 1, 1, 1)
    return model, dict(config, extra_pos_embed_type=None), dict(inputs, timestep=timestep)


def cosmos_transfer(case: Case) -> Built:
    """Cosmos Transfer 2.5: a picture beside the text, and residuals of a ControlNet on every second block."""
    model, config, inputs = cosmos(replace(case, layers=3))
    config = dict(config, controlnet_block_every_n=2, img_context_dim_in=12, img_context_dim_out=12 * case.heads)
    config = dict(config, text_embed_dim=12 * case.heads)
    residuals = [noise(case.batch, 2 * case.tokens, 12 * case.heads, seed=number) for number in range(2)]
    text = noise(case.batch, case.text, 12 * case.heads)
    inputs = dict(
        inputs,
        encoder_hidden_states=(text, noise(case.batch, 5, 12)),
        attention_mask=None,
        block_controlnet_hidden_states=residuals,
    )
    return model, config, inputs


def _cosmos3(case: Case, *, with_sound: bool) -> Built:
    """Text that sees only what comes before, then items of video that see everything; there is no batch."""
    head = 16
    config = {
        "head_dim": head,
        "hidden_size": head * case.heads,
        "intermediate_size": 32,
        "latent_channel": 4,
        "latent_patch_size": 2,
        "patch_latent_dim": 16,
        "num_attention_heads": case.heads,
        "num_hidden_layers": case.layers,
        "num_key_value_heads": case.heads // 2 if case.heads % 2 == 0 else 1,
        "rope_axes_dim": (4, 2, 2),
        "vocab_size": 40,
        "sound_gen": with_sound,
        "sound_dim": 6 if with_sound else None,
        "use_und_k_norm_for_gen": True,
        "qk_norm_for_text": False,
    }
    frames = 2
    pictures = case.rows * case.columns
    shapes = [(frames, case.rows, case.columns)] * case.batch
    video = case.batch * frames * pictures
    sounds = 5 if with_sound else 0
    length = case.text + video + sounds
    # The first frame of the first item is given; the others are noisy.
    noisy = [torch.arange(1 if item == 0 else 0, frames) for item in range(case.batch)]
    tokens = torch.arange(case.text, case.text + video)
    inputs: dict[str, Any] = {
        "input_ids": torch.arange(case.text) * 5 % 40,
        "text_indexes": torch.arange(case.text),
        "position_ids": torch.stack([torch.arange(length) // step for step in (3, 2, 1)]),
        "und_len": case.text,
        "sequence_length": length,
        "vision_tokens": [noise(1, 4, frames, 2 * case.rows, 2 * case.columns, seed=n) for n in range(case.batch)],
        "vision_token_shapes": shapes,
        "vision_sequence_indexes": tokens,
        "vision_mse_loss_indexes": tokens[pictures:],
        "vision_timesteps": torch.full((video - pictures,), 700.0),
        "vision_noisy_frame_indexes": noisy,
    }
    if with_sound:
        positions = torch.arange(case.text + video, length)
        inputs.update(
            sound_tokens=[noise(6, sounds)],
            sound_token_shapes=[(sounds, 1, 1)],
            sound_sequence_indexes=positions,
            sound_mse_loss_indexes=positions,
            sound_timesteps=torch.full((sounds,), 700.0),
            sound_noisy_frame_indexes=[torch.arange(sounds)],
        )
    return diffusers.Cosmos3OmniTransformer, config, inputs


def cosmos3(case: Case) -> Built:
    return _cosmos3(case, with_sound=False)


def cosmos3_sound(case: Case) -> Built:
    return _cosmos3(case, with_sound=True)


def mochi(case: Case) -> Built:
    config = {
        "patch_size": 2,
        **blocks(case, 8),
        "pooled_projection_dim": 16,
        "in_channels": 4,
        "text_embed_dim": 16,
        "time_embed_dim": 4,
        "activation_fn": "swiglu",
        "max_sequence_length": case.text,
    }
    inputs = {"hidden_states": _latents(case), **words(case, 16, 700), "encoder_attention_mask": text_mask(case)}
    return diffusers.MochiTransformer3DModel, config, inputs


def allegro(case: Case) -> Built:
    case = replace(case, frames=2)
    config = {
        "patch_size": 2,
        "patch_size_t": 1,
        **blocks(case, 12, channels=4),
        "cross_attention_dim": 12 * case.heads,
        "sample_height": 2 * case.rows,
        "sample_width": 2 * case.columns,
        "sample_frames": case.frames,
        "caption_channels": 16,
    }
    grid = torch.cartesian_prod(*(torch.arange(n) for n in (case.frames, case.rows, case.columns)))
    angles = [torch.outer(torch.arange(8.0), 10.0 ** -torch.arange(2.0)).repeat(1, 2) for _ in range(3)]
    rotary = tuple((angle.cos(), angle.sin()) for angle in angles)
    inputs = {
        "hidden_states": _latents(case),
        **words(case, 16, 700),
        "encoder_attention_mask": text_mask(case),
        "image_rotary_emb": (rotary, tuple(grid.T.reshape(3, 1, -1).contiguous())),
    }
    return diffusers.AllegroTransformer3DModel, config, inputs


def allegro_padded(case: Case) -> Built:
    """The last column of the picture is padding, or its last row where there is one column: of nothing but padding no
    key counts, and what is left of the scores under a bias of -10,000 is rounding."""
    model, config, inputs = allegro(case)
    valid = torch.ones(case.batch, 2, 2 * case.rows, 2 * case.columns)
    if case.columns > 1:
        valid[..., -2:] = 0
    elif case.rows > 1:
        valid[..., -2:, :] = 0
    return model, config, dict(inputs, attention_mask=valid)


def latte(case: Case) -> Built:
    """Attention within frames and across them, in turn."""
    case = replace(case, frames=3)
    config = {
        **blocks(case, 8),
        "in_channels": 4,
        "out_channels": 8,
        "cross_attention_dim": 8 * case.heads,
        "attention_bias": True,
        "sample_size": 2 * max(case.rows, case.columns),
        "patch_size": 2,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 1000,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "caption_channels": 16,
        "video_length": case.frames,
    }
    inputs = {
        "hidden_states": _latents(case),
        "encoder_hidden_states": noise(case.batch, case.text, 16),
        "timestep": torch.linspace(700, 300, case.batch).long(),
    }
    return diffusers.LatteTransformer3DModel, config, inputs


def _motif(case: Case, **changed: object) -> Built:
    config = dict(
        in_channels=4,
        out_channels=4,
        num_attention_heads=case.heads,
        attention_head_dim=8,
        num_layers=case.layers,
        num_single_layers=2 * case.layers,
        mlp_ratio=2.0,
        text_embed_dim=16,
        rope_axes_dim=(4, 2, 2),
        **changed,
    )
    inputs = {
        "hidden_states": _latents(replace(case, frames=2)),
        **words(case, 16, 700),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.MotifVideoTransformer3DModel, config, inputs


def motif_video(case: Case) -> Built:
    return _motif(case)


def motif_video_i2v(case: Case) -> Built:
    """A picture's tokens before the text; further attention to the text alone; blocks that decode without it."""
    model, config, inputs = _motif(
        case,
        num_decoder_layers=2,
        image_embed_dim=12,
        enable_text_cross_attention_dual=True,
        enable_text_cross_attention_single=True,
    )
    return model, config, dict(inputs, image_embeds=noise(case.batch, 5, 12))


UNMASKED = "ltx2_reference cosmos_transfer cosmos3 cosmos3_sound allegro_padded latte"
