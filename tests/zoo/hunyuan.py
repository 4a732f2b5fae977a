"""Tiny HunyuanVideo, HunyuanVideo 1.5, FramePack, HunyuanImage and HunyuanDiT transformers with inputs."""

from dataclasses import replace
from typing import Any

import diffusers
import torch

from zoo.cases import Built, Case, blocks, noise, text_mask, varied, words

VIDEO_HEAD = 10  # a temporal and two spatial axes of 2, 4 and 4


def _video(case: Case, **config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    shared = {
        **blocks(case, VIDEO_HEAD, channels=4),
        "num_single_layers": case.layers,
        "num_refiner_layers": 1,
        "patch_size": 1,
        "patch_size_t": 1,
        "guidance_embeds": True,
        "text_embed_dim": 16,
        "pooled_projection_dim": 8,
        "rope_axes_dim": (2, 4, 4),
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.frames, case.rows, case.columns),
        **words(case, 16, 700.0),
        "pooled_projections": noise(case.batch, 8),
        "encoder_attention_mask": text_mask(case, torch.float32),
        "guidance": torch.full((case.batch,), 600.0),
    }
    return {**shared, **config}, inputs


def hunyuan_video(case: Case) -> Built:
    config, inputs = _video(replace(case, frames=2))
    return diffusers.HunyuanVideoTransformer3DModel, config, inputs


def hunyuan_video_token_replace(case: Case) -> Built:
    """Image to video: the tokens of the first frame, one of three, have their own modulation."""
    config, inputs = _video(replace(case, frames=3), image_condition_type="token_replace")
    return diffusers.HunyuanVideoTransformer3DModel, config, inputs


def hunyuan_video_framepack(case: Case) -> Built:
    """Two frames to make, one clean frame and older ones in patches of two sizes before them."""
    case = replace(case, frames=2)
    config, inputs = _video(case, patch_size=2, has_image_proj=True, image_proj_dim=12, has_clean_x_embedder=True)
    height, width = 2 * case.rows, 2 * case.columns
    frames = {"clean": 1, "history_2x": 2, "history_4x": 4}
    inputs = dict(
        inputs,
        hidden_states=noise(case.batch, 4, 2, height, width),
        image_embeds=noise(case.batch, 3, 12),
        indices_latents=torch.arange(7, 9),
        indices_latents_history_4x=torch.arange(4),
        indices_latents_history_2x=torch.arange(4, 6),
        indices_latents_clean=torch.arange(6, 7),
        **{f"latents_{name}": noise(case.batch, 4, count, height, width) for name, count in frames.items()},
    )
    return diffusers.HunyuanVideoFramepackTransformer3DModel, config, inputs


def hunyuan_video_15(case: Case) -> Built:
    """Image to video: tokens of two text encoders and of a picture, which together are the text of the blocks."""
    config = {
        **blocks(case, 8, channels=4),
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "patch_size": 1,
        "patch_size_t": 1,
        "text_embed_dim": 16,
        "text_embed_2_dim": 8,
        "image_embed_dim": 12,
        "rope_axes_dim": (2, 2, 4),
        "target_size": 16,
        "task_type": "i2v",
    }
    second = torch.ones(case.batch, 4)
    if case.masked:
        second[-1, 2:] = 0
    inputs = {
        "hidden_states": noise(case.batch, 4, 2, case.rows, case.columns),
        **words(case, 16, 700.0),
        "encoder_attention_mask": text_mask(case, torch.float32),
        "encoder_hidden_states_2": noise(case.batch, 4, 8),
        "encoder_attention_mask_2": second,
        "image_embeds": noise(case.batch, 4, 12),
    }
    return diffusers.HunyuanVideo15Transformer3DModel, config, inputs


# No picture: its tokens are there as zeros, and masked in every case.
hunyuan_video_15_t2v = varied(
    hunyuan_video_15, lambda case: {"image_embeds": torch.zeros(case.batch, 4, 12)}, task_type="t2v"
)


def hunyuan_image(case: Case) -> Built:
    config = {
        **blocks(case, 16, channels=4),
        "num_single_layers": case.layers,
        "num_refiner_layers": 1,
        "mlp_ratio": 2.0,
        "patch_size": (1, 1),
        "text_embed_dim": 16,
        "text_embed_2_dim": None,
        "rope_axes_dim": (8, 8),
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.rows, case.columns),
        **words(case, 16, 700.0),
        "encoder_attention_mask": text_mask(case, torch.float32),
    }
    return diffusers.HunyuanImageTransformer2DModel, config, inputs


def hunyuan_image_byt5(case: Case) -> Built:
    """A second text encoder, and the refiner's distilled form: guidance and the timestep of the step's end."""
    cls, config, inputs = hunyuan_image(case)
    config = dict(config, text_embed_2_dim=8, guidance_embeds=True, use_meanflow=True)
    second = torch.ones(case.batch, 3)
    second[0, 2:] = 0
    inputs = dict(
        inputs,
        timestep_r=torch.full((case.batch,), 300.0),
        encoder_hidden_states_2=noise(case.batch, 3, 8),
        encoder_attention_mask_2=second,
        guidance=torch.full((case.batch,), 600.0),
    )
    return cls, config, inputs


def hunyuan_dit(case: Case) -> Built:
    from diffusers.models.embeddings import get_2d_rotary_pos_embed

    width = 8 * case.heads
    config = {
        "num_attention_heads": case.heads,
        "attention_head_dim": 8,
        "in_channels": 4,
        "patch_size": 2,
        "sample_size": 16,
        "hidden_size": width,
        "num_layers": 4,  # the third and fourth layer read what the first left
        "mlp_ratio": 2.0,
        "cross_attention_dim": 12,
        "cross_attention_dim_t5": 16,
        "pooled_projection_dim": 8,
        "text_len": case.text,
        "text_len_t5": 5,
        "learn_sigma": False,
    }
    grid = (case.rows, case.columns)
    rotary = get_2d_rotary_pos_embed(8, ((0, 0), grid), grid, output_type="pt")
    mask_t5 = torch.ones(case.batch, 5, dtype=torch.long)
    mask_t5[-1, 3:] = 0
    inputs = {
        "hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        **words(case, 12, 700.0),
        "text_embedding_mask": text_mask(case, torch.long),
        "encoder_hidden_states_t5": noise(case.batch, 5, 16),
        "text_embedding_mask_t5": mask_t5,
        "image_meta_size": torch.full((case.batch, 6), 32.0),
        "style": torch.zeros(case.batch, dtype=torch.long),
        "image_rotary_emb": rotary,
    }
    return diffusers.HunyuanDiT2DModel, config, inputs


# The residuals of a ControlNet, added to the long skips.
hunyuan_dit_controlnet = varied(
    hunyuan_dit,
    lambda case: {"controlnet_block_samples": [noise(case.batch, case.rows * case.columns, 8 * case.heads)]},
)


def hunyuan_dit_one_row(case: Case) -> Built:
    """Its tokens are turned by one row, as its attention allows."""
    cls, config, inputs = hunyuan_dit(case)
    return cls, config, dict(inputs, image_rotary_emb=tuple(table[1:2] for table in inputs["image_rotary_emb"]))


UNMASKED = "hunyuan_dit_one_row"
