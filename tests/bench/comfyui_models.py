"""ComfyUI's own model classes, small, with random weights and inputs that look for trouble; for `comfyui_matrix.py`.

Odd sizes, one text token, three heads, references, references at time zero, ControlNets, a time for each frame, masks,
a batch of two. `CASES`: name -> () -> (model, arguments), those of its neighbours `comfyui_models_*.py` among them.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import comfyui_models_pictures
import comfyui_models_rows
import comfyui_models_video
import comfyui_models_wan
import torch
from comfyui_made import Made, made_of, noise, residuals
from torch import nn


def flux(
    *, size: tuple[int, int] = (17, 13), text: int = 7, batch: int = 2, heads: int = 4, is_second: bool = False,
    references: str = "", has_control: bool = False,
) -> Made:  # fmt: skip
    from comfy.ldm.flux.model import Flux

    axes = [4, 4, 4, 4] if is_second else [4, 6, 6]
    config: dict[str, Any] = {
        **{"in_channels": 16, "out_channels": 16, "vec_in_dim": 32, "context_in_dim": 48, "hidden_size": heads * 16},
        **{
            "mlp_ratio": 2.0,
            "num_heads": heads,
            "depth": 2,
            "depth_single_blocks": 3,
            "axes_dim": axes,
            "theta": 10000,
        },
        **{"theta": 10000, "patch_size": 2, "qkv_bias": not is_second, "guidance_embed": True, "txt_ids_dims": []},
    }
    if is_second:
        config |= {"global_modulation": True, "mlp_silu_act": True, "ops_bias": False, "vec_in_dim": None}
        config |= {"txt_ids_dims": [3]}
    call: dict[str, Any] = {
        **{"x": noise(batch, 16, *size), "timestep": torch.full((batch,), 0.7), "context": noise(batch, text, 48)},
        **{"y": noise(batch, 32), "guidance": torch.full((batch,), 3.5)},
    }
    if references:
        call |= {"ref_latents": [noise(batch, 16, 12, 10), noise(batch, 16, 7, 9)], "ref_latents_method": references}
    if has_control:
        call["control"] = residuals(batch, -(-size[0] // 2) * -(-size[1] // 2), heads * 16)
    return made_of(Flux, **config), call


def chroma(*, has_control: bool = False) -> Made:
    from comfy.ldm.chroma.model import Chroma

    config = {
        **{"in_channels": 64, "out_channels": 16, "context_in_dim": 48, "hidden_size": 64, "mlp_ratio": 2.0},
        **{"num_heads": 4, "depth": 2, "depth_single_blocks": 2, "axes_dim": [4, 6, 6], "theta": 10000},
        **{"patch_size": 2, "qkv_bias": True, "in_dim": 64, "out_dim": 64, "hidden_dim": 64, "n_layers": 2},
        **{"txt_ids_dims": [], "vec_in_dim": None},
    }
    call = {"x": noise(1, 16, 17, 13), "timestep": torch.tensor([0.7]), "context": noise(1, 7, 48)}
    call |= {"guidance": torch.tensor([0.0])}
    return made_of(Chroma, **config), call | ({"control": residuals(1, 63, 64)} if has_control else {})


def hunyuan_video(*, more: str = "") -> Made:
    from comfy.ldm.hunyuan_video.model import HunyuanVideo

    config: dict[str, Any] = {
        **{"image_model": "x", "in_channels": 16, "out_channels": 16, "vec_in_dim": 32, "context_in_dim": 48},
        **{"hidden_size": 64, "mlp_ratio": 2.0, "num_heads": 4, "depth": 2, "depth_single_blocks": 2},
        **{"axes_dim": [4, 6, 6], "theta": 256, "patch_size": [1, 2, 2], "qkv_bias": True, "guidance_embed": True},
        **{"byt5": False, "meanflow": False, "use_cond_type_embedding": False, "vision_in_dim": None},
        **{"meanflow_sum": False},
    }
    call: dict[str, Any] = {
        **{"x": noise(1, 16, 3, 10, 14), "timestep": torch.tensor([0.7]), "context": noise(1, 9, 48)},
        **{"y": noise(1, 32), "guidance": torch.tensor([6.0])},
    }
    if more == "1.5":
        config |= {"patch_size": [1, 1, 1], "vec_in_dim": None, "guidance_embed": False, "byt5": True}
        config |= {"use_cond_type_embedding": True, "vision_in_dim": 24}
        call |= {"y": None, "guidance": None, "txt_byt5": noise(1, 5, 1472), "clip_fea": noise(1, 3, 24)}
    if more == "image":
        config |= {"patch_size": [1, 1], "axes_dim": [8, 8], "vec_in_dim": None, "byt5": True}
        call |= {"x": noise(1, 16, 9, 13), "y": None, "txt_byt5": noise(1, 5, 1472)}
    if more == "frame":
        call["guiding_frame_index"] = torch.tensor([0.0])
    if more == "mask":
        call["attention_mask"] = torch.tensor([[1] * 5 + [0] * 4])
    if more == "control":
        call["control"] = residuals(1, 105, 64)
    return made_of(HunyuanVideo, **config), call


def qwen_image(
    *, references: str = "", heads: int = 4, text: int = 11, has_mask: bool = False, has_control: bool = False
) -> Made:
    from comfy.ldm.qwen_image.model import QwenImageTransformer2DModel

    config = {
        **{"patch_size": 2, "in_channels": 64, "out_channels": 16, "num_layers": 3, "attention_head_dim": 16},
        **{"num_attention_heads": heads, "joint_attention_dim": 48, "axes_dims_rope": (4, 6, 6)},
    }
    call: dict[str, Any] = {
        "x": noise(1, 16, 1, 13, 17),
        "timestep": torch.tensor([0.7]),
        "context": noise(1, text, 48),
    }
    if has_mask:
        call["attention_mask"] = torch.tensor([[1] * 7 + [0] * (text - 7)])
    if references:
        call |= {"ref_latents": [noise(1, 16, 1, 10, 12)], "ref_latents_method": references}
    if has_control:
        call["control"] = residuals(1, 63, heads * 16)
    return made_of(QwenImageTransformer2DModel, **config), call


def wan(*, kind: str = "t2v", heads: int = 4, times: tuple[float, ...] = (700.0,), more: str = "") -> Made:
    from comfy.ldm.wan.model import WanModel

    config: dict[str, Any] = {
        **{"model_type": kind, "patch_size": (1, 2, 2), "in_dim": 16, "dim": heads * 24, "ffn_dim": 96},
        **{"freq_dim": 32, "text_dim": 48, "out_dim": 16, "num_heads": heads, "num_layers": 3},
    }
    time = torch.tensor([list(times)]) if len(times) > 1 else torch.tensor(times)
    call: dict[str, Any] = {"x": noise(1, 16, 3, 9, 13), "timestep": time, "context": noise(1, 9, 48)}
    if kind == "i2v":
        call["clip_fea"] = noise(1, 5, 1280)
    if more == "reference":
        config["in_dim_ref_conv"] = 16
        call |= {"x": noise(1, 16, 3, 10, 14), "reference_latent": noise(1, 16, 10, 14)}
    if more == "context":
        call["context_latents"] = [noise(1, 16, 1, 7, 9)]
    return made_of(WanModel, **config), call


def next_dit(*, is_z_image: bool = True, batch: int = 1, has_references: bool = False) -> Made:
    from comfy.ldm.lumina.model import NextDiT

    wide = 4 if is_z_image else 1
    config = {
        **{"patch_size": 2, "in_channels": 16, "dim": wide * 64, "n_layers": 3, "n_refiner_layers": 2, "n_heads": 4},
        **{"n_kv_heads": 4, "multiple_of": 32, "ffn_dim_multiplier": 2.0, "norm_eps": 1e-5, "qk_norm": True},
        **{"cap_feat_dim": 48, "axes_dims": [wide * each for each in (4, 6, 6)], "axes_lens": [64, 64, 64]},
    }
    if is_z_image:
        config |= {"rope_theta": 256.0, "z_image_modulation": True, "time_scale": 1000.0, "pad_tokens_multiple": 32}
    call: dict[str, Any] = {
        **{"x": noise(batch, 16, 13, 17), "timesteps": torch.full((batch,), 0.7), "context": noise(batch, 11, 48)},
        **{"num_tokens": 11, "attention_mask": None},
    }
    if has_references:
        call |= {"ref_latents": [noise(1, 16, 10, 8)], "ref_contexts": [noise(1, 5, 48)]}
    return made_of(NextDiT, **config), call


def krea_2(*, references: str = "") -> Made:
    from comfy.ldm.krea2.model import SingleStreamDiT

    config = {
        **{"features": 64, "tdim": 32, "txtdim": 24, "heads": 4, "kvheads": 2, "multiplier": 2, "layers": 3},
        **{"channels": 16, "txtlayers": 3, "txtheads": 2, "txtkvheads": 2},
    }
    call: dict[str, Any] = {"x": noise(1, 16, 13, 17), "timesteps": torch.tensor([0.7]), "context": noise(1, 7, 72)}
    if references:
        call |= {"ref_latents": [noise(1, 16, 8, 10)], "ref_latents_method": references}
    return made_of(SingleStreamDiT, **config), call


def minimax_h3(*, has_mask: bool = False) -> Made:
    from comfy.ldm.minimax.model import MiniMaxH3Model

    config = {
        **{"hidden_size": 64, "num_layers": 3, "token_refiner_num_layers": 1, "num_attention_heads": 3},
        **{"attention_head_dim": 32, "ffn_hidden_size": 96, "latents_dim": 8, "audio_latents_dim": 6, "text_dim": 40},
        **{"timestep_input_dim": 32, "time_embed_hidden_size": 48, "time_embed_dim": 24, "rope_inv_freq_len": 4},
    }
    call: dict[str, Any] = {
        **{"x": [noise(1, 8, 3, 7, 9), noise(1, 6, 2, 11)], "timestep": torch.tensor([700.0])},
        **{"context": noise(1, 9, 40)},
    }
    if has_mask:  # rows with a time of their own: a modulation for each token
        call["denoise_mask"] = (noise(1, 1, 3, 7, 9) > 0).float() * 0.5 + 0.25
    return made_of(MiniMaxH3Model, **config), call


def ernie_image() -> Made:
    from comfy.ldm.ernie.model import ErnieImageModel

    config = {
        **{"hidden_size": 64, "num_attention_heads": 4, "num_layers": 3, "ffn_hidden_size": 96, "in_channels": 16},
        **{"out_channels": 16, "text_in_dim": 48, "rope_axes_dim": (4, 6, 6)},
    }
    call = {"x": noise(1, 16, 9, 11), "timesteps": torch.tensor([0.7]), "context": noise(1, 7, 48)}
    return made_of(ErnieImageModel, **config), call


AT_ZERO = "index_timestep_zero"
CASES: dict[str, Callable[[], Made]] = {
    "flux": flux,
    "flux, 1 text token, 3 heads": partial(flux, size=(10, 26), text=1, batch=1, heads=3),
    "flux, references": partial(flux, references="offset"),
    "flux, references, control": partial(flux, references="offset", has_control=True),
    "flux 2": partial(flux, is_second=True),
    "flux 2, references": partial(flux, is_second=True, references="index"),
    "flux 2, references at zero": partial(flux, batch=1, is_second=True, references=AT_ZERO),
    "chroma": chroma,
    "chroma, control": partial(chroma, has_control=True),
    "hunyuan video": hunyuan_video,
    "hunyuan video, a frame given": partial(hunyuan_video, more="frame"),
    "hunyuan video, mask": partial(hunyuan_video, more="mask"),
    "hunyuan video, control": partial(hunyuan_video, more="control"),
    "hunyuan video 1.5": partial(hunyuan_video, more="1.5"),
    "hunyuan image 2.1": partial(hunyuan_video, more="image"),
    "qwen image": qwen_image,
    "qwen image, 1 text, 3 heads": partial(qwen_image, text=1, heads=3),
    "qwen image, mask": partial(qwen_image, has_mask=True),
    "qwen image, control": partial(qwen_image, has_control=True),
    "qwen image edit": partial(qwen_image, references="index"),
    "qwen image edit at zero": partial(qwen_image, references=AT_ZERO),
    "wan t2v": wan,
    "wan i2v, 3 heads": partial(wan, kind="i2v", heads=3),
    "wan, a time per frame": partial(wan, times=(0.0, 700.0, 700.0)),
    "wan, a reference": partial(wan, more="reference"),
    "wan, in-context latents": partial(wan, more="context"),
    "z-image": next_dit,
    "z-image, references": partial(next_dit, has_references=True),
    "lumina 2, batch 2": partial(next_dit, is_z_image=False, batch=2),
    "krea 2": krea_2,
    "krea 2, references at zero": partial(krea_2, references=AT_ZERO),
    "minimax h3": minimax_h3,
    "minimax h3, mask": partial(minimax_h3, has_mask=True),
    "ernie image": ernie_image,
    **comfyui_models_pictures.CASES,
    **comfyui_models_rows.CASES,
    **comfyui_models_video.CASES,
    **comfyui_models_wan.CASES,
}


def wide(home: str, name: str, call: dict[str, Any], **config: Any) -> Made:
    """At its real width in bf16, two blocks of it; what its weights are does not matter to a check."""
    import comfy.ops

    kind = getattr(importlib.import_module(f"comfy.ldm.{home}"), name)
    model = kind(**config, dtype=torch.bfloat16, device="cpu", operations=comfy.ops.disable_weight_init)
    for each in [*model.parameters(), *model.buffers()]:
        nn.init.constant_(each, 0.01 if each.ndim > 1 else 1.0)
    return model.eval().requires_grad_(False), call


FLUX_WIDE: dict[str, Any] = {
    **{"in_channels": 16, "out_channels": 16, "vec_in_dim": 768, "context_in_dim": 4096, "hidden_size": 3072},
    **{"mlp_ratio": 4.0, "num_heads": 24, "depth": 1, "depth_single_blocks": 1, "axes_dim": [16, 56, 56]},
    **{"theta": 10000, "patch_size": 2, "qkv_bias": True, "guidance_embed": True, "txt_ids_dims": []},
}
FLUX_2_WIDE = FLUX_WIDE | {
    **{"in_channels": 128, "out_channels": 128, "vec_in_dim": None, "context_in_dim": 15360, "hidden_size": 6144},
    **{
        "patch_size": 1,
        "mlp_ratio": 3.0,
        "num_heads": 48,
        "axes_dim": [32, 32, 32, 32],
        "theta": 2000,
        "qkv_bias": False,
    },
    **{"global_modulation": True, "mlp_silu_act": True, "ops_bias": False, "txt_ids_dims": [3]},
}
QWEN_WIDE = {"num_layers": 2, "in_channels": 64, "out_channels": 16}
WAN_WIDE = {
    **{"model_type": "t2v", "patch_size": (1, 2, 2), "in_dim": 16, "dim": 5120, "ffn_dim": 13824, "freq_dim": 256},
    **{"text_dim": 4096, "out_dim": 16, "num_heads": 40, "num_layers": 2},
}
TIME, GUIDANCE = torch.tensor([0.7]), torch.tensor([3.5])
# Of pictures of 1024 x 1024, and a video of 81 frames of 832 x 480.
WIDE: dict[str, Callable[[], Made]] = {
    "flux": lambda: wide(
        *("flux.model", "Flux"),
        {
            **{"x": noise(1, 16, 128, 128), "timestep": TIME, "context": noise(1, 512, 4096)},
            **{"y": noise(1, 768), "guidance": GUIDANCE, "control": residuals(1, 4096, 3072)},
        },
        **FLUX_WIDE,
    ),
    "flux 2": lambda: wide(
        *("flux.model", "Flux"),
        {
            **{"x": noise(1, 128, 64, 64), "timestep": TIME, "context": noise(1, 512, 15360), "guidance": GUIDANCE},
            **{"ref_latents": [noise(1, 128, 64, 48)], "ref_latents_method": AT_ZERO},
        },
        **FLUX_2_WIDE,
    ),
    "qwen image": lambda: wide(
        *("qwen_image.model", "QwenImageTransformer2DModel"),
        {
            **{"x": noise(1, 16, 1, 128, 128), "timestep": TIME, "context": noise(1, 300, 3584)},
            **{"attention_mask": torch.tensor([[1] * 280 + [0] * 20])},
        },
        **QWEN_WIDE,
    ),
    "minimax h3": lambda: wide(
        *("minimax.model", "MiniMaxH3Model"),
        {
            **{"x": [noise(1, 24, 21, 60, 104), noise(1, 32, 2, 80)], "timestep": torch.tensor([700.0])},
            **{"context": noise(1, 400, 5120)},
        },
        num_layers=2,
    ),
    "hidream": lambda: wide(
        *("hidream.model", "HiDreamImageTransformer2DModel"),
        {
            **{"x": noise(1, 16, 128, 128), "t": torch.tensor([700.0]), "y": noise(1, 2048)},
            **{"context": noise(1, 128, 4096), "encoder_hidden_states_llama3": noise(1, 2, 128, 4096)},
        },
        **{"patch_size": 2, "in_channels": 16, "out_channels": 16, "num_layers": 1, "num_single_layers": 1},
        **{"attention_head_dim": 128, "num_attention_heads": 20, "caption_channels": [4096, 4096]},
        **{"text_emb_dim": 2048, "axes_dims_rope": (64, 32, 32), "llama_layers": [0, 1]},
    ),
    "hidream o1": lambda: wide(
        *("hidream_o1.model", "HiDreamO1Transformer"),
        {
            **{"x": noise(1, 3, 1024, 1024), "timesteps": torch.tensor([700.0]), "ar_len": 63},
            **{"input_ids": torch.arange(64)[None] + 151610, "position_ids": torch.arange(1088).expand(1, 3, -1)},
            "vinput_mask": torch.tensor([[False] * 64 + [True] * 1024]),
        },
        text_config_overrides={"num_hidden_layers": 2},
    ),
    "wan 14B": lambda: wide(
        *("wan.model", "WanModel"),
        {"x": noise(1, 16, 21, 60, 104), "timestep": TIME, "context": noise(1, 512, 4096)},
        **WAN_WIDE,
    ),
    "sdxl": lambda: wide(
        *("modules.diffusionmodules.openaimodel", "UNetModel"),
        {"x": noise(1, 4, 128, 128), "timesteps": TIME, "context": noise(1, 77, 2048), "y": noise(1, 2816)},
        **{"image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 320, "context_dim": 2048},
        **{"num_res_blocks": [2, 2, 2], "channel_mult": [1, 2, 4], "transformer_depth": [0, 0, 2, 2, 10, 10]},
        **{"transformer_depth_output": [0, 0, 0, 2, 2, 2, 10, 10, 10], "transformer_depth_middle": 10},
        **{"num_classes": "sequential", "adm_in_channels": 2816, "num_head_channels": 64, "legacy": False},
        **{"use_spatial_transformer": True, "use_linear_in_transformer": True},
    ),
    "stable cascade c": lambda: wide(
        *("cascade.stage_c", "StageC"),
        {
            **{"x": noise(1, 16, 24, 24), "r": TIME, "clip_text": noise(1, 77, 1280), "sca": torch.zeros(1)},
            **{"clip_text_pooled": noise(1, 1, 1280), "clip_img": noise(1, 1, 768), "crp": torch.zeros(1)},
        },
    ),
    "ltx 2": lambda: wide(
        *("lightricks.av_model", "LTXAVModel"),
        {
            **{"x": [noise(1, 128, 16, 24, 40), noise(1, 8, 126, 16)], "timestep": TIME, "frame_rate": 25},
            **{"context": noise(1, 1024, 2 * 3840), "attention_mask": None},
        },
        **{"num_layers": 2, "connector_num_layers": 0, "rope_type": "split", "use_middle_indices_grid": True},
    ),
}
