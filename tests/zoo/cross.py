"""Tiny transformers that read text by cross attention (PixArt, Sana, DiT, DreamLite) with inputs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import diffusers
import torch
from torch.overrides import TorchFunctionMode

from zoo.cases import Built, Case, blocks, noise, text_mask, varied, words


def _pixart_config(case: Case) -> dict:
    return {
        "sample_size": 2 * max(case.rows, case.columns),
        **blocks(case, 8),
        "patch_size": 2,
        "in_channels": 4,
        "cross_attention_dim": 8 * case.heads,
        "out_channels": 8,
        "attention_bias": True,
        "num_embeds_ada_norm": 8,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "use_additional_conditions": False,
        "caption_channels": 16,
    }


def _pixart_inputs(case: Case) -> dict:
    return {
        "hidden_states": noise(case.batch, 4, 2 * case.rows, 2 * case.columns),
        **words(case, 16, 700),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
        "added_cond_kwargs": {"aspect_ratio": None, "resolution": None},
    }


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
    return {
        **blocks(case, 8),
        "in_channels": 8,
        "norm_num_groups": 4,
        "cross_attention_dim": 16,
        "attention_bias": True,
    }


def _continuous_inputs(case: Case) -> dict:
    return {
        "hidden_states": noise(case.batch, 8, case.rows, case.columns),
        "encoder_hidden_states": noise(case.batch, case.text, 16),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }


def transformer_2d_continuous(case: Case) -> Built:
    """One attention stage of a UNet."""
    return diffusers.Transformer2DModel, _continuous_config(case), _continuous_inputs(case)


def dreamlite(case: Case) -> Built:
    config = dict(_continuous_config(case), qk_norm="rms_norm", ff_mult=2, use_linear_projection=True)
    return diffusers.DreamLiteTransformer2DModel, config, _continuous_inputs(case)


def _sana_config(case: Case) -> dict:
    return {
        "patch_size": 1,
        **blocks(case, 12, channels=4),
        "num_cross_attention_heads": case.heads,
        "cross_attention_head_dim": 12,
        "cross_attention_dim": 12 * case.heads,
        "caption_channels": 8,
    }


def _sana_inputs(case: Case) -> dict:
    return {**words(case, 8, 700), "encoder_attention_mask": text_mask(case) if case.masked else None}


def sana(case: Case) -> Built:
    hidden_states = noise(case.batch, 4, case.rows, case.columns)
    return diffusers.SanaTransformer2DModel, _sana_config(case), dict(_sana_inputs(case), hidden_states=hidden_states)


# Distilled: a guidance embedding and normalised queries and keys.
NORMED = {"guidance_embeds": True, "qk_norm": "rms_norm_across_heads"}
sana_sprint = varied(sana, lambda case: {"guidance": torch.full((case.batch,), 0.45)}, **NORMED)

sana_controlnet = varied(
    sana, lambda case: {"controlnet_block_samples": (noise(case.batch, case.tokens, 12 * case.heads),)}
)


def sana_video(case: Case) -> Built:
    case = replace(case, frames=5 if case.rows % 2 else 4)
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


class KeepFull(TorchFunctionMode):
    """Leaves tensors in fp32 where a model asks for bf16, whose rounding would hide errors."""

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return args[0] if func is torch.Tensor.bfloat16 else func(*args, **(kwargs or {}))


class FullSanaWM(diffusers.SanaWMTransformer3DModel):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with KeepFull():
            return super().forward(*args, **kwargs)


FullSanaWM.__name__ = diffusers.SanaWMTransformer3DModel.__name__


def sana_wm(case: Case) -> Built:
    """A camera per frame; gated delta attention in the first block, softmax attention in the second."""
    case = replace(case, frames=5 if case.rows % 2 else 4)
    config = {
        "in_channels": 4,
        "num_layers": case.layers,
        "hidden_size": 16 * case.heads,
        "num_attention_heads": case.heads,
        "softmax_every_n": 2,
        "linear_head_dim": 16,
        "chunk_plucker_channels": 6,
        "caption_channels": 16,
        "mlp_ratio": 1.0,
    }
    shape = (case.frames, case.rows, case.columns)
    poses = torch.eye(4).repeat(case.batch, case.frames, 1, 1)
    poses[..., :3, 3] = 0.3 * noise(case.batch, case.frames, 3)
    lens = torch.tensor([4.0, 4.0, case.columns / 2, case.rows / 2]).expand(case.batch, case.frames, 4)
    inputs = {
        "hidden_states": noise(case.batch, 4, *shape),
        "timestep": torch.linspace(0, 900, case.frames).expand(case.batch, 1, -1),
        "encoder_hidden_states": noise(case.batch, 1, case.text, 16),
        "encoder_attention_mask": text_mask(case),
        "camera_conditions": torch.cat([poses.flatten(2), lens], 2),
        "chunk_plucker": noise(case.batch, 6, *shape),
    }
    return FullSanaWM, config, inputs


def dit(case: Case) -> Built:
    """Class labels instead of text; the model takes square pictures only."""
    side = 3 if case.rows % 2 else 4
    config = {**blocks(case, 8), "in_channels": 4, "sample_size": 2 * side, "num_embeds_ada_norm": 8}
    inputs = {
        "hidden_states": noise(case.batch, 4, 2 * side, 2 * side),
        "timestep": torch.full((case.batch,), 700),
        "class_labels": torch.arange(case.batch) % 8,
    }
    return diffusers.DiTTransformer2DModel, config, inputs


UNMASKED = "dit"
