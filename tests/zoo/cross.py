"""Tiny transformers that read text by cross attention (PixArt, Sana, DiT, DreamLite) with inputs."""

from __future__ import annotations

from dataclasses import replace

import diffusers
import torch

from .cases import Built, Case, Variant, noise, text_mask


def _pixart_config(case: Case) -> dict:
    return dict(
        sample_size=2 * max(case.rows, case.columns),
        num_layers=case.layers,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=case.heads,
        in_channels=4,
        cross_attention_dim=8 * case.heads,
        out_channels=8,
        attention_bias=True,
        num_embeds_ada_norm=8,
        norm_type="ada_norm_single",
        norm_elementwise_affine=False,
        norm_eps=1e-6,
        use_additional_conditions=False,
        caption_channels=16,
    )


def _pixart_inputs(case: Case) -> dict:
    return dict(
        hidden_states=noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        timestep=torch.full((case.batch,), 700),
        encoder_hidden_states=noise(case.batch, case.text, 16),
        encoder_attention_mask=text_mask(case) if case.masked else None,
        added_cond_kwargs={"aspect_ratio": None, "resolution": None},
    )


def pixart(case: Case) -> Built:
    return diffusers.PixArtTransformer2DModel, _pixart_config(case), _pixart_inputs(case)


def pixart_picture_mask(case: Case) -> Built:
    """A mask of picture tokens as well."""
    mask = torch.ones(case.batch, case.tokens)
    mask[:, -case.columns :] = 0
    return diffusers.PixArtTransformer2DModel, _pixart_config(case), dict(_pixart_inputs(case), attention_mask=mask)


def transformer_2d_patches(case: Case) -> Built:
    """The class that PixArt was published with."""
    return diffusers.Transformer2DModel, _pixart_config(case), _pixart_inputs(case)


def _continuous_config(case: Case) -> dict:
    return dict(
        num_attention_heads=case.heads,
        attention_head_dim=8,
        in_channels=8,
        num_layers=case.layers,
        norm_num_groups=4,
        cross_attention_dim=16,
        attention_bias=True,
    )


def _continuous_inputs(case: Case) -> dict:
    return dict(
        hidden_states=noise(case.batch, 8, case.rows, case.columns),
        encoder_hidden_states=noise(case.batch, case.text, 16),
        encoder_attention_mask=text_mask(case) if case.masked else None,
    )


def transformer_2d_continuous(case: Case) -> Built:
    """One attention stage of a UNet."""
    return diffusers.Transformer2DModel, _continuous_config(case), _continuous_inputs(case)


def dreamlite(case: Case) -> Built:
    config = dict(_continuous_config(case), qk_norm="rms_norm", ff_mult=2, use_linear_projection=True)
    return diffusers.DreamLiteTransformer2DModel, config, _continuous_inputs(case)


def _sana_config(case: Case) -> dict:
    return dict(
        patch_size=1,
        in_channels=4,
        out_channels=4,
        num_layers=case.layers,
        attention_head_dim=12,
        num_attention_heads=case.heads,
        num_cross_attention_heads=case.heads,
        cross_attention_head_dim=12,
        cross_attention_dim=12 * case.heads,
        caption_channels=8,
    )


def _sana_inputs(case: Case) -> dict:
    return dict(
        encoder_hidden_states=noise(case.batch, case.text, 8),
        timestep=torch.full((case.batch,), 700),
        encoder_attention_mask=text_mask(case) if case.masked else None,
    )


def sana(case: Case) -> Built:
    hidden_states = noise(case.batch, 4, case.rows, case.columns)
    return diffusers.SanaTransformer2DModel, _sana_config(case), dict(_sana_inputs(case), hidden_states=hidden_states)


def sana_sprint(case: Case) -> Built:
    """Distilled: a guidance embedding and normalised queries and keys."""
    model, config, inputs = sana(case)
    config = dict(config, guidance_embeds=True, qk_norm="rms_norm_across_heads")
    return model, config, dict(inputs, guidance=torch.full((case.batch,), 0.45))


def sana_controlnet(case: Case) -> Built:
    model, config, inputs = sana(case)
    residual = noise(case.batch, case.tokens, 12 * case.heads)
    return model, config, dict(inputs, controlnet_block_samples=(residual,))


def sana_video(case: Case) -> Built:
    case = replace(case, frames=5 if case.rows % 2 else 3)
    config = dict(_sana_config(case), patch_size=(1, 2, 2), rope_max_seq_len=32)
    hidden_states = noise(case.batch, 4, case.frames, 2 * case.rows, 2 * case.columns)
    return diffusers.SanaVideoTransformer3DModel, config, dict(_sana_inputs(case), hidden_states=hidden_states)


def sana_video_i2v(case: Case) -> Built:
    """Image to video: a timestep per token, zero in the first frame."""
    model, config, inputs = sana_video(case)
    frames = inputs["hidden_states"].shape[2]
    timestep = torch.full((case.batch, 1, frames, case.rows, case.columns), 700.0)
    timestep[:, :, 0] = 0
    return model, config, dict(inputs, timestep=timestep)


def dit(case: Case) -> Built:
    """Class labels instead of text; the model takes square pictures only."""
    side = 3 if case.rows % 2 else 4
    config = dict(
        num_attention_heads=case.heads,
        attention_head_dim=8,
        in_channels=4,
        num_layers=case.layers,
        sample_size=2 * side,
        num_embeds_ada_norm=8,
    )
    inputs = dict(
        hidden_states=noise(case.batch, 4, 2 * side, 2 * side),
        timestep=torch.full((case.batch,), 700),
        class_labels=torch.arange(case.batch) % 8,
    )
    return diffusers.DiTTransformer2DModel, config, inputs


VARIANTS: dict[str, Variant] = {
    "pixart": Variant(pixart, masks=True),
    "pixart_picture_mask": Variant(pixart_picture_mask, masks=True),
    "transformer_2d_patches": Variant(transformer_2d_patches, masks=True),
    "transformer_2d_continuous": Variant(transformer_2d_continuous, masks=True),
    "dreamlite": Variant(dreamlite, masks=True),
    "sana": Variant(sana, masks=True),
    "sana_sprint": Variant(sana_sprint, masks=True),
    "sana_controlnet": Variant(sana_controlnet, masks=True),
    "sana_video": Variant(sana_video, masks=True),
    "sana_video_i2v": Variant(sana_video_i2v, masks=True),
    "dit": Variant(dit),
}
