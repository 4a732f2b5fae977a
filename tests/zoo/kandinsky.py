"""Tiny Kandinsky 5 and 6, JoyImage-Edit and MiniMax-H3 transformers with inputs."""

from dataclasses import replace
from typing import Any

import diffusers
import torch

from zoo.cases import Built, Case, blocks, noise, text_mask, words

AXES = (4, 6, 6)
HEAD = sum(AXES)


def _kandinsky(case: Case, channels: int) -> tuple[dict[str, Any], dict[str, Any]]:
    config = {
        "in_visual_dim": 4,
        "out_visual_dim": 4,
        "in_text_dim": 8,
        "in_text_dim2": 6,
        "time_dim": 16,
        "patch_size": (1, 2, 2),
        "model_dim": HEAD * case.heads,
        "ff_dim": 32,
        "num_text_blocks": 1,
        "num_visual_blocks": case.layers,
        "axes_dims": AXES,
    }
    inputs = {
        "hidden_states": noise(case.batch, case.frames, 2 * case.rows, 2 * case.columns, channels),
        **words(case, 8, 700.0),
        "pooled_projections": noise(case.batch, 6),
    }
    return config, inputs


def kandinsky5(case: Case) -> Built:
    """Image to video: the picture and its mask beside the noise.

    One block: in fp32 too, the class rounds rotated queries and keys to bfloat16, so that a difference in the last bit
    after the first block (ring's) may become one of 2^-9 in the second.
    """
    case = replace(case, frames=2, layers=1)
    config, inputs = _kandinsky(case, channels=9)
    positions = [torch.arange(size) for size in (case.frames, case.rows, case.columns)]
    inputs = dict(inputs, visual_rope_pos=positions, text_rope_pos=torch.arange(case.text))
    return diffusers.Kandinsky5Transformer3DModel, dict(config, visual_cond=True), inputs


class Kandinsky5Transformer3DModel(diffusers.Kandinsky5Transformer3DModel):
    """With the attention backend of block-sparse checkpoints; the model's own setter would change other models too."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        for block in self.visual_transformer_blocks:
            block.self_attention.set_attention_backend("flex")


def kandinsky5_sparse(case: Case) -> Built:
    """Long videos: attention over blocks of 8 x 8 tokens, of which each case has 4 or 6."""
    frames, rows, columns = _blocks(case)
    _, config, inputs = kandinsky5(replace(case, rows=rows, columns=columns))
    positions = [torch.arange(size) for size in (frames, rows, columns)]
    near = torch.eye(frames * rows * columns // 64, dtype=torch.bool)[None, None]
    sparse = {"to_fractal": True, "sta_mask": near, "P": 0.4}
    video = noise(case.batch, frames, 2 * rows, 2 * columns, 9)
    inputs = {**inputs, "hidden_states": video, "visual_rope_pos": positions, "sparse_params": sparse}
    return Kandinsky5Transformer3DModel, config, inputs


def _blocks(case: Case) -> tuple[int, int, int]:
    return (3, 8, 16) if case.columns % 2 else (4, 8, 8)


def kandinsky6(case: Case) -> Built:
    """Video with sound, as the released checkpoints are configured; audio is narrower than video."""
    config, inputs = _kandinsky(replace(case, frames=2), channels=9)
    config.update(
        in_audio_dim=3,
        out_audio_dim=3,
        model_dim_a=8 * case.heads,
        time_dim_a=12,
        ff_dim_a=24,
        axes_dims_a=(2, 2, 4),
        text_token_padding=True,
        cross_gates=True,
        fix_modulation=True,
    )
    inputs["audio_hidden_states"] = noise(case.batch, 7, 3)
    if case.masked:
        inputs["encoder_attention_mask"] = text_mask(case)
    return diffusers.Kandinsky6Transformer3DModel, config, inputs


def kandinsky6_cross_rotary(case: Case) -> Built:
    """Rotary positions across video and audio, which need heads of one width, and a reference frame."""
    case = replace(case, frames=3)
    config, inputs = _kandinsky(case, channels=4)
    config.update(in_audio_dim=3, out_audio_dim=3, visual_cond=False, ca_rope=True, visual_token_type_num_embeddings=2)
    inputs.update(
        audio_hidden_states=noise(case.batch, 6, 3),
        visual_rope_pos=(torch.tensor([0, 1, 0]), torch.arange(case.rows), torch.arange(case.columns)),
        visual_token_type_ids=torch.tensor([[0, 0, 1]]).repeat(case.batch, 1),
    )
    return diffusers.Kandinsky6Transformer3DModel, config, inputs


def kandinsky6_silent(case: Case) -> Built:
    """No audio: only the video path of the blocks runs."""
    cls, config, inputs = kandinsky6(case)
    inputs.pop("audio_hidden_states")
    return cls, config, inputs


def kandinsky6_sr(case: Case) -> Built:
    """Super-resolution: attention over blocks of 8 x 8 tokens, of which each case has 4 or 6."""
    frames, rows, columns = _blocks(case)
    config = {
        "in_visual_dim": 3,
        "out_visual_dim": 4,
        "time_dim": 16,
        "patch_size": (1, 1, 1),
        "model_dim": HEAD * case.heads,
        "ff_dim": 32,
        "num_visual_blocks": case.layers,
        "axes_dims": AXES,
        "nabla_window": (1, 1, 1),
        "nabla_threshold": 0.4,
    }
    inputs = {
        "hidden_states": noise(case.batch, frames, rows, columns, 7),
        "timestep": torch.full((case.batch,), 700.0),
    }
    return diffusers.Kandinsky6SRTransformer3DModel, config, inputs


def _joy_image(case: Case) -> dict[str, Any]:
    return {
        "patch_size": [1, 2, 2],
        "in_channels": 4,
        "hidden_size": 16 * case.heads,
        "num_attention_heads": case.heads,
        "text_dim": 8,
        "mlp_width_ratio": 2.0,
        "num_layers": case.layers,
        "rope_dim_list": [4, 6, 6],
    }


def joy_image_edit(case: Case) -> Built:
    """A picture to edit and the one to make, as two items."""
    inputs = {"hidden_states": noise(case.batch, 2, 4, 1, 2 * case.rows, 2 * case.columns), **words(case, 8, 700.0)}
    return diffusers.JoyImageEditTransformer3DModel, _joy_image(case), inputs


def joy_image_edit_text_rotary(case: Case) -> Built:
    """Rotary positions for text too, and no picture to edit."""
    cls, config, inputs = joy_image_edit(case)
    return cls, dict(config, rope_type="mrope"), dict(inputs, hidden_states=inputs["hidden_states"][:, 0])


def joy_image_edit_plus(case: Case) -> Built:
    """Pictures of different sizes; in a batch of two, the second has fewer and is padded."""
    shapes = [[(1, case.rows, case.columns), (1, 2, 3), (1, 3, 1)][: 3 - index] for index in range(case.batch)]
    tokens = case.rows * case.columns + 9
    inputs = {
        "hidden_states": noise(case.batch, tokens, 4, 1, 2, 2),
        **words(case, 8, 700.0),
        "encoder_hidden_states_mask": text_mask(case, torch.float32),
        "shape_list": shapes,
    }
    return diffusers.JoyImageEditPlusTransformer3DModel, _joy_image(case), inputs


def minimax_h3(case: Case) -> Built:
    """Text, video and audio in one sequence, at two noise levels."""
    num_text, num_video, num_audio = case.text, case.tokens, 5
    num_tokens = num_text + num_video + num_audio
    config = {
        **blocks(case, 16),
        "hidden_size": 24,
        "num_refiner_layers": 1,
        "ffn_dim": 32,
        "in_channels": 4,
        "audio_in_channels": 6,
        "patch_size": (1, 2, 2),
        "text_dim": 8,
        "freq_dim": 8,
        "time_embed_hidden_dim": 24,
        "time_embed_dim": 16,
        "rope_freq_dim": 2,
    }
    text, video, audio = torch.arange(num_tokens).split([num_text, num_video, num_audio])
    tags = torch.cat([torch.full((num_text,), 1), torch.full((num_video,), 0), torch.full((num_audio,), 2)])
    inputs = {
        "hidden_states": noise(case.batch, num_video, 16),
        "audio_hidden_states": noise(case.batch, num_audio, 6),
        "encoder_hidden_states": noise(case.batch, num_text, 8),
        "timestep": torch.tensor([0.7, 0.3]),
        "timestep_indices": torch.arange(num_tokens) % 2,
        "token_tags": tags,
        "position_ids": torch.arange(num_tokens, dtype=torch.float32)[:, None].repeat(1, 3),
        "video_indices": video,
        "audio_indices": audio,
        "text_indices": text,
    }
    return diffusers.MiniMaxH3Transformer3DModel, config, inputs


UNMASKED = """
    kandinsky5 kandinsky5_sparse kandinsky6_cross_rotary kandinsky6_sr joy_image_edit joy_image_edit_text_rotary
    minimax_h3
"""
