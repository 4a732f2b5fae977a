"""Tiny CogVideoX, ConsisID, CogView, EasyAnimate, GLM-Image and ERNIE-Image transformers with inputs."""

from dataclasses import replace
from typing import Any

import diffusers
import torch

from zoo.cases import Built, Case, blocks, noise, text_mask, words


def _rotary(case: Case, head: int) -> tuple[torch.Tensor, torch.Tensor]:
    from diffusers.models.embeddings import get_3d_rotary_pos_embed

    grid = (case.rows, case.columns)
    return get_3d_rotary_pos_embed(head, ((0, 0), grid), grid, case.frames, use_real=True)


def _cogvideox(case: Case, **config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    shared = {
        **blocks(case, 16, channels=4),
        "time_embed_dim": 8,
        "text_embed_dim": 8,
        "sample_width": 2 * case.columns,
        "sample_height": 2 * case.rows,
        "sample_frames": 1 + 4 * (case.frames - 1),
        "patch_size": 2,
        "temporal_compression_ratio": 4,
        "max_text_seq_length": case.text,
    }
    inputs = {
        "hidden_states": noise(case.batch, case.frames, 4, 2 * case.rows, 2 * case.columns),
        **words(case, 8, 700),
    }
    return {**shared, **config}, inputs


def cogvideox(case: Case) -> Built:
    """CogVideoX 2b: positions added to the tokens."""
    config, inputs = _cogvideox(replace(case, frames=2), patch_size_t=None)
    return diffusers.CogVideoXTransformer3DModel, config, inputs


def cogvideox_rotary(case: Case) -> Built:
    """CogVideoX 5b: rotary positions."""
    case = replace(case, frames=2)
    config, inputs = _cogvideox(case, patch_size_t=None, use_rotary_positional_embeddings=True)
    return diffusers.CogVideoXTransformer3DModel, config, dict(inputs, image_rotary_emb=_rotary(case, 16))


def cogvideox_15(case: Case) -> Built:
    """CogVideoX 1.5 image to video: patches of two frames, and the offset embedding."""
    config, inputs = _cogvideox(
        replace(case, frames=2), patch_size_t=2, use_rotary_positional_embeddings=True, ofs_embed_dim=8
    )
    inputs = dict(inputs, image_rotary_emb=_rotary(replace(case, frames=1), 16), ofs=torch.full((1,), 2.0))
    return diffusers.CogVideoXTransformer3DModel, config, inputs


def consisid(case: Case) -> Built:
    """A face, looked at by cross attention between the blocks."""
    case = replace(case, frames=2)
    config, inputs = _cogvideox(
        case,
        use_rotary_positional_embeddings=True,
        is_train_face=True,
        cross_attn_interval=1,
        cross_attn_dim_head=8,
        cross_attn_num_heads=2,
        LFE_id_dim=8,
        LFE_vit_dim=12,
        LFE_depth=2,
        LFE_dim_head=4,
        LFE_num_heads=2,
        LFE_num_id_token=2,
        LFE_num_querie=3,
        LFE_output_dim=32 * case.heads // 3,
        LFE_num_scale=2,
    )
    inputs = dict(
        inputs,
        image_rotary_emb=_rotary(case, 16),
        id_cond=noise(case.batch, 8),
        id_vit_hidden=[noise(case.batch, 5, 12, seed=seed) for seed in range(2)],
    )
    return diffusers.ConsisIDTransformer3DModel, config, inputs


def _cogview(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    config = {
        "patch_size": 2,
        **blocks(case, 8, channels=4),
        "text_embed_dim": 8,
        "time_embed_dim": 8,
        "condition_dim": 4,
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        **words(case, 8, 700),
        "target_size": torch.full((case.batch, 2), 32.0),
        "crop_coords": torch.zeros(case.batch, 2),
    }
    return config, inputs


def cogview3_plus(case: Case) -> Built:
    config, inputs = _cogview(case)
    inputs = dict(inputs, original_size=torch.full((case.batch, 2), 32.0))
    return diffusers.CogView3PlusTransformer2DModel, dict(config, pos_embed_max_size=8), inputs


def cogview4(case: Case) -> Built:
    config, inputs = _cogview(case)
    inputs = dict(inputs, original_size=torch.full((case.batch, 2), 32.0))
    if case.masked:
        inputs["attention_mask"] = text_mask(case)
    return diffusers.CogView4Transformer2DModel, config, inputs


def easyanimate(case: Case) -> Built:
    """A block for both streams with weights of their own, then one with shared weights; a second text encoder."""
    config = {
        **blocks(case, 16, channels=4),
        "patch_size": 2,
        "mmdit_layers": 1,
        "time_embed_dim": 8,
        "text_embed_dim": 8,
        "text_embed_dim_t5": 6,
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, 2, 2 * case.rows, 2 * case.columns),
        **words(case, 8, 700),
        "encoder_hidden_states_t5": noise(case.batch, 3, 6),
    }
    return diffusers.EasyAnimateTransformer3DModel, config, inputs


def easyanimate_inpaint(case: Case) -> Built:
    """Image to video: mask and masked video beside the noise."""
    cls, config, inputs = easyanimate(case)
    config = dict(config, in_channels=4 + 5, after_norm=True, add_norm_text_encoder=True, text_embed_dim_t5=None)
    inputs.pop("encoder_hidden_states_t5")
    return cls, config, dict(inputs, inpaint_latents=noise(case.batch, 5, 2, 2 * case.rows, 2 * case.columns))


def glm_image(case: Case) -> Built:
    config, inputs = _cogview(case)
    drop = torch.zeros(case.batch, case.rows * case.columns, dtype=torch.bool)
    drop[-1, :3] = True
    inputs = dict(inputs, prior_token_id=torch.arange(drop.numel()).view_as(drop) % 11, prior_token_drop=drop)
    if case.masked:
        inputs["attention_mask"] = text_mask(case)
    return diffusers.GlmImageTransformer2DModel, dict(config, prior_vq_quantizer_codebook_size=11), inputs


class GlmImageTransformer2DModel(diffusers.GlmImageTransformer2DModel):
    """Looks at the pictures to edit first, as its pipeline does, and then makes one with their keys and values."""

    @torch.no_grad()
    def __call__(self, *, pictures: list[list[dict[str, Any]]], **inputs: Any) -> Any:
        from diffusers.models.transformers.transformer_glm_image import GlmImageKVCache

        caches = GlmImageKVCache(num_layers=len(self.transformer_blocks))
        caches.set_mode("write")
        for of_one_prompt in pictures:
            for picture in of_one_prompt:
                super().__call__(**picture, kv_caches=caches)
            caches.next_sample()
        caches.set_mode("read")
        return super().__call__(**inputs, kv_caches=caches)


def _picture(rows: int, columns: int) -> dict[str, Any]:
    case = Case("picture", rows=rows, columns=columns)
    _, _, inputs = glm_image(case)
    return {**inputs, "encoder_hidden_states": inputs["encoder_hidden_states"][:, :0]}


def glm_image_edit(case: Case) -> Built:
    """Two pictures to edit, of different sizes, for each prompt."""
    _, config, inputs = glm_image(replace(case, masked=False))
    pictures = [[_picture(3, 3), _picture(2, 5)] for _ in range(case.batch)]
    return GlmImageTransformer2DModel, config, {**inputs, "pictures": pictures}


def ernie_image(case: Case) -> Built:
    width = 16 * case.heads
    config = {
        "hidden_size": width,
        "num_attention_heads": case.heads,
        "num_layers": case.layers,
        "ffn_hidden_size": 32,
        "in_channels": 4,
        "out_channels": 4,
        "patch_size": 1,
        "text_in_dim": 8,
        "rope_axes_dim": (4, 6, 6),
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.rows, case.columns),
        "timestep": torch.full((case.batch,), 700),
        "text_bth": noise(case.batch, case.text, 8),
        "text_lens": text_mask(case).sum(1),
    }
    return diffusers.ErnieImageTransformer2DModel, config, inputs


UNMASKED = """
    cogvideox cogvideox_rotary cogvideox_15 consisid cogview3_plus easyanimate easyanimate_inpaint glm_image_edit
"""
