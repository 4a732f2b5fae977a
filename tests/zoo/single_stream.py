"""Tiny Z-Image, Lumina, Nucleus-Image, OmniGen and PRX transformers with inputs."""

import diffusers
import torch

from zoo.cases import Built, Case, noise, text_mask, varied, words

HEAD = 16


def _latents(case: Case, channels: int = 4) -> torch.Tensor:
    return noise(case.batch, channels, 2 * case.rows, 2 * case.columns)


def z_image(case: Case) -> Built:
    """Every prompt is padded to a multiple of 32 tokens in the model; prompts of other lengths make a mask."""
    config = {
        "all_patch_size": (2,),
        "all_f_patch_size": (1,),
        "in_channels": 4,
        "dim": HEAD * case.heads,
        "n_layers": case.layers,
        "n_refiner_layers": 1,
        "n_heads": case.heads,
        "n_kv_heads": case.heads,
        "cap_feat_dim": 16,
        "axes_dims": [8, 4, 4],
        "axes_lens": [256, 32, 32],
    }
    captions = [noise(case.text, 16, seed=row) for row in range(case.batch)]
    if case.masked:
        captions[0] = noise(case.text + 32, 16)
    inputs = {
        "x": [latents[:, None] for latents in _latents(case)],
        "t": torch.full((case.batch,), 0.7),
        "cap_feats": captions,
    }
    return diffusers.ZImageTransformer2DModel, config, inputs


def z_image_controlnet(case: Case) -> Built:
    """Residuals of a ControlNet are added to the joint sequence between the layers."""
    model, config, inputs = z_image(case)
    longest = max(len(caption) for caption in inputs["cap_feats"])
    tokens = sum(length + -length % 32 for length in (case.tokens, longest))
    residual = noise(case.batch, tokens, HEAD * case.heads)
    return model, config, dict(inputs, controlnet_block_samples={0: residual})


def z_image_omni(case: Case) -> Built:
    """Edit: text, a clean reference and the noisy picture, then SigLIP features; noisy and clean tokens differ."""
    model, config, inputs = z_image(case)
    captions = [[caption, caption[:3]] for caption in inputs["cap_feats"]]
    pictures = [[noise(4, 1, 4, 6, seed=row), picture] for row, picture in enumerate(inputs["x"])]
    siglip = [[noise(2, 3, 8, seed=row), None] for row in range(case.batch)]
    inputs = dict(inputs, x=pictures, cap_feats=captions, siglip_feats=siglip)
    inputs["image_noise_mask"] = [[0, 1]] * case.batch
    return model, dict(config, siglip_feat_dim=8), inputs


def lumina2(case: Case) -> Built:
    config = {
        "sample_size": 16,
        "patch_size": 2,
        "in_channels": 4,
        "hidden_size": 8 * case.heads,
        "num_layers": case.layers,
        "num_refiner_layers": 1,
        "num_attention_heads": case.heads,
        "num_kv_heads": 2 if case.heads % 2 == 0 else 1,
        "multiple_of": 2,
        "axes_dim_rope": (4, 2, 2),
        "axes_lens": (128, 128, 128),
        "cap_feat_dim": 32,
    }
    inputs = {"hidden_states": _latents(case), **words(case, 32, 0.7), "encoder_attention_mask": text_mask(case)}
    return diffusers.Lumina2Transformer2DModel, config, inputs


def lumina_next(case: Case) -> Built:
    from diffusers.models.embeddings import get_2d_rotary_pos_embed_lumina

    config = {
        "sample_size": 16,
        "patch_size": 2,
        "in_channels": 4,
        "hidden_size": 8 * case.heads,
        "num_layers": case.layers,
        "num_attention_heads": case.heads,
        "num_kv_heads": 2 if case.heads % 2 == 0 else 1,
        "multiple_of": 4,
        "cross_attention_dim": 16,
    }
    inputs = {
        "hidden_states": _latents(case),
        **words(case, 16, 0.7),
        "encoder_mask": text_mask(case),
        "image_rotary_emb": get_2d_rotary_pos_embed_lumina(8, 16, 16),
        "cross_attention_kwargs": {},
    }
    return diffusers.LuminaNextDiT2DModel, config, inputs


# As its pipeline calls it: attention whose scale grows with the number of tokens.
lumina_next_in_proportion = varied(lumina_next, lambda _: {"cross_attention_kwargs": {"base_sequence_length": 64}})


def nucleus_image(case: Case) -> Built:
    """The last of three layers is a mixture of experts, each of which chooses its tokens among all of a picture."""
    config = {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 4,
        "num_layers": 3,
        "attention_head_dim": HEAD,
        "num_attention_heads": case.heads,
        "num_key_value_heads": 2 if case.heads % 2 == 0 else 1,
        "joint_attention_dim": 16,
        "axes_dims_rope": (8, 4, 4),
        "mlp_ratio": 12.0,
        "dense_moe_strategy": "leave_first_block_dense",
        "num_experts": 4,
        "moe_intermediate_dim": 16,
        "capacity_factors": 2.0,
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 16),
        "img_shapes": [(1, case.rows, case.columns)] * case.batch,
        **words(case, 16, 0.7),
        "encoder_hidden_states_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.NucleusMoEImageTransformer2DModel, config, inputs


def _omnigen_mask(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """The processor's mask and positions: causal text, padded on the left; the picture sees itself and the text."""
    text, length = case.text, case.text + 1 + case.tokens
    mask = torch.zeros(case.batch, length, length)
    positions = torch.zeros(case.batch, length, dtype=torch.long)
    for row, valid in enumerate(text_mask(case).sum(1).tolist()):
        start = text - valid
        mask[row, :text, :text] = torch.ones(text, text).tril()
        mask[row, text] = (torch.arange(length) <= text).float()
        mask[row, text + 1 :] = 1
        mask[row, :, :start] = 0
        mask[row, :start] = 1
        positions[row, start:] = torch.arange(length - start)
    return mask, positions


def omnigen(case: Case) -> Built:
    head = 8
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "hidden_size": head * case.heads,
        "num_attention_heads": case.heads,
        "num_key_value_heads": case.heads,
        "intermediate_size": 32,
        "num_layers": case.layers,
        "pad_token_id": 0,
        "vocab_size": 100,
        "rope_scaling": {"long_factor": list(range(1, head // 2 + 1)), "short_factor": list(range(1, head // 2 + 1))},
        "pos_embed_max_size": 16,
        "time_step_dim": 8,
    }
    mask, positions = _omnigen_mask(case)
    inputs = {
        "hidden_states": _latents(case),
        "timestep": torch.full((case.batch,), 0.7),
        "input_ids": torch.arange(case.batch * case.text).reshape(case.batch, case.text) % 99 + 1,
        "input_img_latents": [],
        "input_image_sizes": {},
        "attention_mask": mask,
        "position_ids": positions,
    }
    return diffusers.OmniGenTransformer2DModel, config, inputs


def omnigen_edit(case: Case) -> Built:
    """An input picture of 2 x 2 tokens stands in the prompt of the last row."""
    model, config, inputs = omnigen(case)
    last = case.batch - 1
    inputs = dict(
        inputs, input_img_latents=[noise(1, 4, 4, 4)], input_image_sizes={last: [(case.text - 5, case.text - 1)]}
    )
    return model, config, inputs


def prx(case: Case) -> Built:
    config = {
        "in_channels": 4,
        "patch_size": 2,
        "context_in_dim": 16,
        "hidden_size": 8 * case.heads,
        "num_heads": case.heads,
        "depth": case.layers,
        "axes_dim": [4, 4],
        "resolution_embeds": True,
    }
    inputs = {
        "hidden_states": _latents(case),
        **words(case, 16, 0.7),
        "attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.PRXTransformer2DModel, config, inputs


UNMASKED = ""
