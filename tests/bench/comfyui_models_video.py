"""ComfyUI's classes of video, but for Wan's, small, with random weights; for `comfyui_models.py`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from comfyui_made import Made, made_of, noise
from torch import Tensor

TIME = torch.tensor([0.7])
SIZE = (3, 5, 7)  # latent frames, rows and columns


def guided(call: dict[str, Any], *, frames: int, is_masked: bool, drops: bool, keyframes: int = 0) -> dict[str, Any]:
    """The call with so many more frames in its latents, which are guides: one of another strength, and one masked."""
    time, height, width = SIZE
    count = height * width
    video = noise(1, 16, time + frames + keyframes, height, width)
    shown = torch.ones(1, 1, time + frames + keyframes, height, width)
    shown[:, :, time + keyframes :] = 0.25
    if drops:  # guides that are there for some of their tokens only
        shown[:, :, -1, 1:3, 2:5] = -1.0
    places = torch.randint(0, 90, (1, 3, (frames + keyframes) * count, 1), generator=torch.Generator().manual_seed(1))
    entries: list[dict[str, Any]] = [
        {"pre_filter_count": count, "strength": 0.4 if is_masked else 1.0, "pixel_mask": None}
        for _ in range(frames + keyframes)
    ]
    if is_masked and not drops:
        mask = (noise(1, 1, 1, 20, 28) > 0).float()
        entries[-1] |= {"strength": 1.0, "pixel_mask": mask, "latent_shape": [1, height, width]}
    x = [video, *call["x"][1:]] if isinstance(call["x"], list) else video
    more: dict[str, Any] = {
        "x": x,
        "denoise_mask": shown,
        "keyframe_idxs": torch.cat([places, places + 32], -1).float(),
    }
    more["guide_attention_entries"] = entries
    if keyframes:
        more["generated_keyframes"] = {
            **{"tokens_per_frame": count, "first_latent_frame": time, "num_keyframes": keyframes},
        }
    per_token = (shown.clamp(min=0) * 0.7).flatten(2).transpose(1, 2)
    more["timestep"] = (per_token, TIME) if isinstance(call["x"], list) else per_token
    return call | more


def ltxv(*, has_guides: bool = False, is_masked: bool = False, times: str = "", text: int = 11) -> Made:
    from comfy.ldm.lightricks.model import LTXVModel

    config: dict[str, Any] = {
        **{"in_channels": 16, "cross_attention_dim": 48, "attention_head_dim": 16, "num_attention_heads": 3},
        **{"caption_channels": 40, "num_layers": 3},
    }
    call: dict[str, Any] = {"x": noise(1, 16, *SIZE), "timestep": TIME, "context": noise(1, text, 40)}
    call |= {"attention_mask": None, "frame_rate": 25}
    if times:
        call["timestep"] = torch.linspace(0.1, 0.9, 105)[None, :, None]
    if has_guides:
        call = guided(call, frames=2, is_masked=is_masked, drops=False)
        if not hasattr(LTXVModel, "tokens_per_latent_frame"):  # up to 0.3.64, without ends, and without masks
            call["keyframe_idxs"] = call["keyframe_idxs"][..., 0]
    return made_of(LTXVModel, **config), call


def ltx_2(
    *, sound: int = 11, text: int = 7, batch: int = 1, is_second: bool = False, times: str = "", guides: str = "",
    reference: int = 0, mask: tuple[int, ...] = (),
) -> Made:  # fmt: skip
    """`is_second`: as LTX-2.3 is built."""
    from comfy.ldm.lightricks.av_model import LTXAVModel

    config: dict[str, Any] = {
        **{"in_channels": 16, "cross_attention_dim": 48, "attention_head_dim": 16, "num_attention_heads": 3},
        **{"audio_cross_attention_dim": 24, "audio_attention_head_dim": 8, "audio_num_attention_heads": 3},
        **{"caption_channels": 40, "num_layers": 3, "rope_type": "split", "use_middle_indices_grid": True},
        **{"causal_temporal_positioning": True, "connector_num_layers": 1, "connector_num_attention_heads": 1},
        **{"frequencies_precision": "float64", "connector_attention_head_dim": 40},
    }
    if is_second:
        config |= {"caption_proj_before_connector": True, "cross_attention_adaln": True}
        config |= {"apply_gated_attention": True, "use_keyframes_abs_pos_embedding": True}
    width = 48 + 24 if is_second else 2 * 40
    call: dict[str, Any] = {
        "x": [noise(batch, 16, *SIZE), noise(batch, 8, sound, 16)],
        "timestep": torch.full((batch,), 0.7),
        "context": noise(batch, text, width),
        "frame_rate": 24.0,
    }
    if not sound:
        call["x"] = call["x"][:1]
    if times:
        frames: Tensor = torch.tensor([0.0, 0.7, 0.7]).repeat_interleave(35)
        if times == "tokens":
            frames = torch.linspace(0.1, 0.9, 105)
            call["denoise_mask"] = frames.view(1, 1, *SIZE)
        else:
            call["denoise_mask"] = (frames / 0.7).view(1, 1, *SIZE)
        call["timestep"] = (frames[None, :, None], torch.linspace(0.2, 0.8, sound)[None, :, None])
    if guides:
        kept = 1 if guides == "keyframes" else 0
        call = guided(call, frames=2, is_masked=guides != "alike", drops=guides == "part", keyframes=kept)
    if reference:
        call["ref_audio"] = {"tokens": noise(1, reference, 128)}
    if mask:
        call["attention_mask"] = torch.tensor([mask])
    return made_of(LTXAVModel, **config), call


def cosmos(*, frames: int = 3, text: int = 9, batch: int = 1, rate: float | None = None) -> Made:
    from comfy.ldm.cosmos.model import GeneralDIT

    config = {
        **{"max_img_h": 64, "max_img_w": 64, "max_frames": 8, "in_channels": 16, "out_channels": 16},
        **{"patch_spatial": 2, "patch_temporal": 1, "model_channels": 72, "num_blocks": 3, "num_heads": 3},
        **{"block_config": "FA-CA-MLP", "block_x_format": "THWBD", "crossattn_emb_channels": 40, "mlp_ratio": 2.0},
        **{"pos_emb_cls": "rope3d", "extra_per_block_abs_pos_emb": True, "affline_emb_norm": True},
        **{"extra_per_block_abs_pos_emb_type": "learnable", "use_adaln_lora": True, "adaln_lora_dim": 8},
    }
    call = {"x": noise(batch, 16, frames, 10, 14), "timesteps": torch.full((batch,), 0.7), "fps": rate}
    return made_of(GeneralDIT, **config), call | {"context": noise(batch, text, 40)}


def cog_video(*, is_second: bool = False, has_places: bool = False, text: int = 7, batch: int = 1) -> Made:
    """`is_second`: as CogVideoX 1.5 is built, of frames in pairs."""
    from comfy.ldm.cogvideo.model import CogVideoXTransformer3DModel

    config = {
        **{"num_attention_heads": 3, "attention_head_dim": 16, "in_channels": 8, "out_channels": 8, "num_layers": 3},
        **{"time_embed_dim": 24, "text_embed_dim": 40, "sample_width": 14, "sample_height": 10, "sample_frames": 9},
        **{"max_text_seq_length": 7, "use_rotary_positional_embeddings": not has_places},
        **{"use_learned_positional_embeddings": has_places},
        **({"patch_size_t": 2, "ofs_embed_dim": 24} if is_second else {}),
    }
    size = (3, 10, 14) if has_places else (3, 9, 13)
    call: dict[str, Any] = {"x": noise(batch, 8, *size), "timestep": torch.full((batch,), 700.0)}
    call["context"] = noise(batch, text, 40)
    return made_of(CogVideoXTransformer3DModel, **config), call | ({"ofs": torch.tensor([2.0])} if is_second else {})


def kandinsky_5(*, frames: int = 3, text: int = 7, batch: int = 1, is_given: bool = False) -> Made:
    from comfy.ldm.kandinsky5.model import Kandinsky5

    config = {
        **{"in_text_dim": 40, "in_text_dim2": 32, "time_dim": 24, "model_dim": 48, "ff_dim": 64, "out_visual_dim": 8},
        **{"visual_embed_dim": 16 * 4, "num_text_blocks": 1, "num_visual_blocks": 3, "axes_dims": (4, 6, 6)},
    }
    call: dict[str, Any] = {"x": noise(batch, 16, *((frames,) if frames else ()), 10, 14)}
    call |= {"timestep": torch.full((batch,), 700.0), "context": noise(batch, text, 40), "y": noise(batch, 32)}
    if is_given:
        call["time_dim_replace"] = noise(1, 8, 1, 10, 14)
    return made_of(Kandinsky5, **config), call


def mochi(*, text: int = 9, shown: int = 5, batch: int = 1) -> Made:
    from comfy.ldm.genmo.joint_model.asymm_models_joint import AsymmDiTJoint

    config = {
        **{"in_channels": 12, "hidden_size_x": 48, "hidden_size_y": 24, "depth": 3, "num_heads": 3, "use_t5": True},
        **{"mlp_ratio_x": 256.0, "t5_feat_dim": 40, "t5_token_length": 9, "learn_sigma": False, "qk_norm": True},
        **{"qkv_bias": False, "timestep_scale": 1000.0},
    }
    call = {"x": noise(batch, 12, 3, 10, 14), "timestep": torch.full((batch,), 0.7), "context": noise(batch, text, 40)}
    mask = torch.tensor([[1] * shown + [0] * (text - shown)] * batch)
    return made_of(AsymmDiTJoint, **config), call | {"attention_mask": mask, "num_tokens": shown}


CASES: dict[str, Callable[[], Made]] = {
    "ltxv": ltxv,
    "ltxv, a time per token": partial(ltxv, times="tokens"),
    "ltxv, guides": partial(ltxv, has_guides=True),
    "ltxv, weak guides": partial(ltxv, has_guides=True, is_masked=True),
    "ltxv, 1 text token": partial(ltxv, text=1),
    "ltx 2": ltx_2,
    "ltx 2, 1 text token, batch 2": partial(ltx_2, text=1, batch=2),
    "ltx 2, no sound": partial(ltx_2, sound=0),
    "ltx 2, 1 sound token": partial(ltx_2, sound=1),
    "ltx 2, mask": partial(ltx_2, mask=(1, 1, 1, 1, 0, 0, 0)),
    "ltx 2, a time per frame": partial(ltx_2, times="frames"),
    "ltx 2, a time per token": partial(ltx_2, times="tokens"),
    "ltx 2, guides": partial(ltx_2, guides="alike"),
    "ltx 2, weak guides": partial(ltx_2, guides="weak"),
    "ltx 2, guides in part": partial(ltx_2, guides="part"),
    "ltx 2.3": partial(ltx_2, is_second=True),
    "ltx 2.3, a time per frame": partial(ltx_2, is_second=True, times="frames"),
    "ltx 2.3, keyframes": partial(ltx_2, is_second=True, guides="keyframes"),
    "ltx 2.3, a voice, batch 2": partial(ltx_2, is_second=True, reference=5, batch=2),
    "cosmos": cosmos,
    "cosmos, 30 frames a second": partial(cosmos, rate=30.0),
    "cosmos, 1 frame, batch 2": partial(cosmos, frames=1, batch=2, text=1),
    "cog video": cog_video,
    "cog video, learned places": partial(cog_video, has_places=True),
    "cog video, 1 text token": partial(cog_video, text=1, batch=2),
    "cog video 1.5": partial(cog_video, is_second=True),
    "kandinsky 5": kandinsky_5,
    "kandinsky 5, a frame given": partial(kandinsky_5, is_given=True),
    "kandinsky 5, a picture": partial(kandinsky_5, frames=0, text=1, batch=2),
    "mochi": mochi,
    "mochi, no padding, batch 2": partial(mochi, shown=9, batch=2),
    "mochi, 1 text token": partial(mochi, text=4, shown=1),
}
