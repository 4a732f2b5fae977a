"""Tiny image transformers whose picture and text attend jointly, other than the FLUX-like ones."""

from collections.abc import Callable
from typing import Any

import diffusers
import torch
from diffusers.models.attention_processor import SD3IPAdapterJointAttnProcessor2_0
from diffusers.models.embeddings import IPAdapterTimeImageProjection
from diffusers.models.transformers.transformer_ideogram4 import (
    IMAGE_POSITION_OFFSET,
    LLM_TOKEN_INDICATOR,
    OUTPUT_IMAGE_INDICATOR,
    SEQUENCE_PADDING_INDICATOR,
)
from diffusers.models.transformers.transformer_qwenimage21 import QwenImage21KVCache

from zoo.cases import Built, Case, blocks, grid_ids, noise, text_mask, varied, words


def bria(case: Case) -> Built:
    img_ids, txt_ids = grid_ids(case)
    config = {
        "in_channels": 4,
        **blocks(case, 16),
        "num_single_layers": case.layers,
        "joint_attention_dim": 32,
        "axes_dims_rope": [4, 4, 8],
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 4),
        **words(case, 32, 700.0),
        "img_ids": img_ids,
        "txt_ids": txt_ids,
    }
    return diffusers.BriaTransformer2DModel, config, inputs


def _residuals(case: Case) -> dict[str, Any]:
    """Of Bria for the first kind of blocks only: those for the second are added at a wrong place by the model."""
    shape = case.batch, case.tokens, 16 * case.heads
    return {"controlnet_block_samples": [noise(*shape, seed=seed) for seed in (1, 2)]}


bria_controlnet = varied(bria, _residuals)


def bria_fibo(case: Case) -> Built:
    _, config, inputs = bria(case)
    layers = [noise(case.batch, case.text, 12, seed=seed) for seed in range(2 * case.layers)]
    mask = {"joint_attention_kwargs": {"attention_mask": _bria_fibo_mask(case)}} if case.masked else {}
    return (
        diffusers.BriaFiboTransformer2DModel,
        {**config, "text_encoder_dim": 12},
        {**inputs, "text_encoder_layers": layers, **mask},
    )


def _bria_fibo_mask(case: Case) -> torch.Tensor:
    """As its pipeline builds it: added to the scores, 0 where both tokens are valid."""
    valid = torch.cat([text_mask(case), torch.ones(case.batch, case.tokens, dtype=torch.bool)], dim=1)
    both = valid[:, :, None] & valid[:, None, :]
    return torch.where(both, 0.0, -torch.inf)[:, None]


def bria_fibo2(case: Case) -> Built:
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "dim": 16 * case.heads,
        "n_layers": case.layers,
        "n_refiner_layers": 2,
        "n_heads": case.heads,
        "cap_feat_dim": 24,
        "injection_layer_ids": (1,),
        "perceiver_num_layers": 1,
        "min_num_gist_tokens": 3,
        "max_num_gist_tokens": 6,
        "gist_step": 1,
        "gist_min_text_len": 1,
        "gist_max_text_len": 8,
        "axes_dims": (4, 6, 6),
        "axes_lens": (32, 32, 32),
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        "timestep": torch.full((case.batch,), 0.7),
        "encoder_hidden_states": noise(case.batch, 2, case.text, 24),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.BriaFibo2Transformer2DModel, config, inputs


def bria_fibo2_edit(case: Case) -> Built:
    """With two pictures to edit, of other sizes than the new one."""
    model, config, inputs = bria_fibo2(case)
    pictures = [noise(case.batch, 4, 2 * case.rows, 4, seed=1), noise(case.batch, 4, 6, 2, seed=2)]
    return model, config, {**inputs, "context_latents": pictures}


def qwen_image(case: Case) -> Built:
    config = {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        **blocks(case, 16),
        "joint_attention_dim": 16,
        "axes_dims_rope": (8, 4, 4),
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 16),
        **words(case, 16, 0.7),
        "encoder_hidden_states_mask": text_mask(case) if case.masked else None,
        "img_shapes": [[(1, case.rows, case.columns)]] * case.batch,
    }
    return diffusers.QwenImageTransformer2DModel, config, inputs


qwen_image_controlnet = varied(qwen_image, _residuals)


def qwen_image_edit(case: Case) -> Built:
    """With two pictures to edit behind the new one, modulated for time 0."""
    model, config, inputs = qwen_image(case)
    inputs["hidden_states"] = noise(case.batch, case.tokens + 2 * case.columns + 6, 16)
    inputs["img_shapes"] = [[(1, case.rows, case.columns), (1, 2, case.columns), (1, 2, 3)]] * case.batch
    return model, {**config, "zero_cond_t": True}, inputs


def qwen_image_layered(case: Case) -> Built:
    """Several layers of one picture, then the picture itself."""
    model, config, inputs = qwen_image(case)
    inputs["hidden_states"] = noise(case.batch, 3 * case.tokens, 16)
    inputs["img_shapes"] = [[(1, case.rows, case.columns)] * 3] * case.batch
    inputs["additional_t_cond"] = torch.zeros(case.batch, dtype=torch.long)
    return model, {**config, "use_additional_t_cond": True, "use_layer3d_rope": True}, inputs


def qwen_image21(case: Case) -> Built:
    config = {**blocks(case, 16, channels=4), "context_in_dim": 16, "axes_dims_rope": (8, 4, 4)}
    # One slot of the language model stands for 2 x 2 tokens of the picture.
    slots = case.rows * case.columns
    inputs = {
        "hidden_states": noise(case.batch, 4 * slots, 4),
        **words(case, 16, 0.7),
        "img_shapes": [[(1, 2 * case.rows, 2 * case.columns)]] * case.batch,
        "img_mask": (torch.arange(case.text + slots) >= case.text).expand(case.batch, -1),
        "encoder_hidden_states_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.QwenImage21Transformer2DModel, config, inputs


def qwen_image21_edit(case: Case) -> Built:
    """With a picture of 2 x 6 tokens to edit, after the second word."""
    model, config, inputs = qwen_image21(case)
    at, slots = 2, 3

    def insert(words: torch.Tensor, pictures: torch.Tensor) -> torch.Tensor:
        return torch.cat([words[:, :at], pictures, words[:, at:]], dim=1)

    inputs["hidden_states"] = torch.cat([noise(case.batch, 4 * slots, 4, seed=1), inputs["hidden_states"]], dim=1)
    inputs["encoder_hidden_states"] = insert(inputs["encoder_hidden_states"], noise(case.batch, slots, 16, seed=1))
    inputs["img_shapes"] = [[(1, 2, 6), *shapes] for shapes in inputs["img_shapes"]]
    marks = torch.ones(case.batch, slots, dtype=torch.bool)
    inputs["img_mask"] = insert(inputs["img_mask"], marks)
    if case.masked:
        inputs["encoder_hidden_states_mask"] = insert(inputs["encoder_hidden_states_mask"], marks)
    return model, config, inputs


class FirstStep(diffusers.QwenImage21Transformer2DModel):
    """The first step with a cache, which also returns what it cached."""

    def forward(self, **inputs: Any) -> tuple[torch.Tensor, ...]:
        cache = QwenImage21KVCache(len(self.transformer_blocks))
        (output,) = super().forward(**inputs, kv_cache=cache, kv_cache_mode="extract")
        return output, *(kept for layer in cache.layer_caches for kept in layer.get())


FirstStep.__name__ = diffusers.QwenImage21Transformer2DModel.__name__


def qwen_image21_first_step(case: Case) -> Built:
    _, config, inputs = qwen_image21_edit(case)
    return FirstStep, config, inputs


def qwen_image21_later_step(case: Case) -> Built:
    model, config, inputs = qwen_image21_edit(case)
    cache = QwenImage21KVCache(case.layers)
    for index, layer in enumerate(cache.layer_caches):
        shape = (case.batch, case.text + 12, case.heads, 16)
        layer.store(noise(*shape, seed=index), noise(*shape, seed=index + 9))
    return model, config, {**inputs, "kv_cache": cache, "kv_cache_mode": "cached"}


def sd3(case: Case) -> Built:
    config = {
        "sample_size": 8,
        "patch_size": 1,
        **blocks(case, 8, channels=4),
        "caption_projection_dim": 8 * case.heads,
        "joint_attention_dim": 32,
        "pooled_projection_dim": 64,
        "pos_embed_max_size": 16,
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.rows, case.columns),
        **words(case, 32, 700),
        "pooled_projections": noise(case.batch, 64),
    }
    return diffusers.SD3Transformer2DModel, config, inputs


def sd35(case: Case) -> Built:
    """With attention among the picture's tokens alone as well, and with the residuals of a ControlNet."""
    model, config, inputs = sd3(case)
    config = {**config, "qk_norm": "rms_norm", "dual_attention_layers": (0,)}
    samples = [noise(case.batch, case.tokens, 8 * case.heads, seed=1)]
    return model, config, {**inputs, "block_controlnet_hidden_states": samples}


def _sd35_skipping(layer: int) -> Callable[[Case], Built]:
    """One of three blocks left out; the residual behind it is added all the same."""

    def build(case: Case) -> Built:
        model, config, inputs = sd35(case)
        return model, {**config, "num_layers": 3}, {**inputs, "skip_layers": [layer]}

    return build


sd35_first_skipped, sd35_middle_skipped, sd35_last_skipped = map(_sd35_skipping, range(3))


class AdaptedSD3(diffusers.SD3Transformer2DModel):
    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.image_proj = IPAdapterTimeImageProjection(
            embed_dim=12, output_dim=20, hidden_dim=16, depth=1, dim_head=8, heads=2, num_queries=3, timestep_in_dim=8
        )
        width = config["attention_head_dim"]
        names = self.attn_processors
        self.set_attn_processor(
            {
                name: SD3IPAdapterJointAttnProcessor2_0(self.inner_dim, 20, width, timesteps_emb_dim=16, scale=0.8)
                for name in names
            }
        )


AdaptedSD3.__name__ = diffusers.SD3Transformer2DModel.__name__


def sd3_adapter(case: Case) -> Built:
    _, config, inputs = sd35(case)
    pictures = noise(case.batch, 5, 12, seed=4)
    return AdaptedSD3, config, {**inputs, "joint_attention_kwargs": {"ip_adapter_image_embeds": pictures}}


def aura_flow(case: Case) -> Built:
    config = {
        "sample_size": 2 * max(case.rows, case.columns),
        "patch_size": 2,
        "in_channels": 4,
        "num_mmdit_layers": case.layers,
        "num_single_dit_layers": case.layers,
        "attention_head_dim": 8,
        "num_attention_heads": case.heads,
        "caption_projection_dim": 8 * case.heads,
        "joint_attention_dim": 32,
        "out_channels": 4,
        "pos_embed_max_size": 64,
    }
    inputs = {"hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns), **words(case, 32, 0.7)}
    return diffusers.AuraFlowTransformer2DModel, config, inputs


def hidream(case: Case) -> Built:
    """A picture that is not square is padded to 24 tokens."""
    config = {
        "patch_size": 2,
        **blocks(case, 8, channels=4),
        "num_single_layers": case.layers,
        "caption_channels": [8, 4],
        "text_emb_dim": 8,
        "num_routed_experts": 4,
        "num_activated_experts": 2,
        "axes_dims_rope": (4, 2, 2),
        "max_resolution": (12, 8),
        "llama_layers": tuple(range(2 * case.layers)),
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        "timesteps": torch.full((case.batch,), 700),
        "encoder_hidden_states_t5": noise(case.batch, case.text + 2, 8),
        "encoder_hidden_states_llama3": noise(2 * case.layers, case.batch, case.text, 4),
        "pooled_embeds": noise(case.batch, 8),
    }
    return diffusers.HiDreamImageTransformer2DModel, config, inputs


def krea2(case: Case) -> Built:
    img_ids, txt_ids = grid_ids(case)
    config = {
        "in_channels": 16,
        **blocks(case, 8),
        "num_key_value_heads": case.heads // 2 if case.heads % 2 == 0 else 1,
        "intermediate_size": 32,
        "timestep_embed_dim": 8,
        "text_hidden_dim": 16,
        "num_text_layers": 3,
        "text_num_attention_heads": 2,
        "text_num_key_value_heads": 1,
        "text_intermediate_size": 16,
        "num_layerwise_text_blocks": 1,
        "num_refiner_text_blocks": 1,
        "axes_dims_rope": (4, 2, 2),
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 16),
        "encoder_hidden_states": noise(case.batch, case.text, 3, 16),
        "timestep": torch.full((case.batch,), 0.7),
        "position_ids": torch.cat([txt_ids, img_ids]),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.Krea2Transformer2DModel, config, inputs


def ideogram4(case: Case) -> Built:
    """One sequence of words and picture; padded words are a segment of their own."""
    config = {
        "in_channels": 8,
        **blocks(case, 16),
        "intermediate_size": 32,
        "adaln_dim": 16,
        "llm_features_dim": 24,
        "rope_theta": 1000,
        "mrope_section": (4, 2, 2),
    }
    img_ids, txt_ids = grid_ids(case)
    txt_ids += torch.arange(case.text)[:, None]
    img_ids[:, 1:] += IMAGE_POSITION_OFFSET
    valid = torch.cat([text_mask(case), torch.ones(case.batch, case.tokens, dtype=torch.bool)], dim=1)
    roles = torch.tensor([LLM_TOKEN_INDICATOR] * case.text + [OUTPUT_IMAGE_INDICATOR] * case.tokens)
    length = case.text + case.tokens
    inputs = {
        "hidden_states": noise(case.batch, length, 8),
        "timestep": torch.full((case.batch,), 0.7),
        "encoder_hidden_states": noise(case.batch, length, 24),
        "position_ids": torch.cat([txt_ids, img_ids]).long().expand(case.batch, -1, -1),
        "segment_ids": torch.where(valid, 1, SEQUENCE_PADDING_INDICATOR),
        "indicator": torch.where(valid, roles, SEQUENCE_PADDING_INDICATOR),
    }
    return diffusers.Ideogram4Transformer2DModel, config, inputs


ideogram4_token_times = varied(
    ideogram4, lambda case: {"timestep": torch.linspace(0.1, 0.9, case.text + case.tokens).expand(case.batch, -1)}
)

UNMASKED = """
    bria bria_controlnet sd3 sd35 sd35_first_skipped sd35_middle_skipped sd35_last_skipped sd3_adapter aura_flow
    hidream
"""
