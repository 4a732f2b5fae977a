"""ComfyUI's classes that are spread by their rows alone, small, with random weights; for `comfyui_models.py`.

Convolutions over a picture: UNets as of SD 1.5, SD 2, SDXL, KOALA, Stable Video Diffusion and the upscaler of SD 2, and
both stages of Stable Cascade, with ControlNets.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from comfyui_made import Made, made_of, noise

ODD = (17, 13)


def halved(size: int, times: int) -> int:
    return -(-size // 2**times)


def unet(*, kind: str = "sd 1.5", has_control: bool = False, rows: int = 1) -> Made:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    config: dict[str, Any] = {
        **{"image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 32, "context_dim": 48},
        **{"num_res_blocks": [2, 2, 2, 2], "channel_mult": [1, 2, 4, 4], "transformer_depth_middle": 1},
        **{"transformer_depth": [1, 1, 1, 1, 1, 1, 0, 0], "num_heads": 4, "use_spatial_transformer": True},
        **{"transformer_depth_output": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0], "legacy": False},
    }
    call: dict[str, Any] = {"x": noise(rows, 4, *ODD), "timesteps": torch.full((rows,), 700.0)}
    call |= {"context": noise(rows, 9, 48)}
    if kind != "sd 1.5":
        config |= {"num_heads": -1, "num_head_channels": 16, "use_linear_in_transformer": True}
    if kind in ("sdxl", "koala"):
        config |= {"num_res_blocks": [2, 2, 2], "channel_mult": [1, 2, 4], "transformer_depth": [0, 0, 2, 2, 3, 3]}
        config |= {"transformer_depth_output": [0, 0, 0, 2, 2, 2, 3, 3, 3], "transformer_depth_middle": 3}
        config |= {"num_classes": "sequential", "adm_in_channels": 40}
        call["y"] = noise(rows, 40)
    if kind == "koala":  # without a middle
        config |= {"num_res_blocks": [1, 1, 1], "transformer_depth": [0, 2, 3], "transformer_depth_middle": -2}
        config |= {"transformer_depth_output": [0, 0, 2, 2, 3, 3]}
    if kind == "inpainting":
        config["in_channels"] = 9
        call["x"] = noise(rows, 9, *ODD)
    if kind == "upscaler":
        config |= {"in_channels": 7, "num_classes": 1000, "disable_self_attentions": [True, True, True, False]}
        call |= {"x": noise(rows, 7, *ODD), "y": torch.full((rows,), 20)}
    if kind == "video":  # rows are the frames of one video after another
        config |= {"in_channels": 8, "use_temporal_attention": True, "use_temporal_resblock": True}
        config |= {"num_classes": "sequential", "adm_in_channels": 40, "extra_ff_mix_layer": True}
        config |= {"use_spatial_context": True, "merge_strategy": "learned_with_images", "video_kernel_size": [3, 1, 1]}
        frames = 5
        call = {"x": noise(2 * frames, 8, *ODD), "timesteps": torch.full((2 * frames,), 1.6)}
        call |= {"context": noise(2 * frames, 1, 48), "y": noise(2 * frames, 40), "num_video_frames": frames}
    if has_control:  # as a ControlNet adds to what goes in, is in the middle, and skips
        widths = [32, 32, 32, 32, 64, 64, 64, 128, 128, 128, 128, 128]
        levels = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
        sizes = [(width, *(halved(size, level) for size in ODD)) for width, level in zip(widths, levels, strict=True)]
        call["control"] = {
            "input": [noise(rows, *sizes[0]), None],
            "middle": [noise(rows, *sizes[-1])],
            "output": [noise(rows, *each) for each in sizes],
        }
    return made_of(UNetModel, **config), call


def stage_c(*, has_control: bool = False) -> Made:
    from comfy.ldm.cascade.stage_c import StageC

    config = {
        **{"c_cond": 48, "c_hidden": [48, 48], "nhead": [3, 3], "blocks": [[2, 3], [3, 2]], "c_clip_text": 40},
        **{"c_clip_text_pooled": 40, "c_clip_img": 24, "c_r": 16},
    }
    call: dict[str, Any] = {"x": noise(1, 16, 11, 13), "r": torch.tensor([0.7]), "clip_text": noise(1, 9, 40)}
    call |= {"clip_text_pooled": noise(1, 1, 40), "clip_img": noise(1, 1, 24), "sca": torch.zeros(1)}
    call["crp"] = torch.zeros(1)
    if has_control:
        call["control"] = {"input": [noise(1, 48, 5, 7) if number % 2 else None for number in range(10)]}
    return made_of(StageC, **config), call


def stage_b(*, has_pixels: bool = False) -> Made:
    from comfy.ldm.cascade.stage_b import StageB

    config = {
        **{"c_cond": 48, "c_hidden": [16, 24, 48, 48], "nhead": [-1, -1, 3, 3], "c_clip": 40, "c_r": 16},
        **{"blocks": [[2, 2, 3, 2], [2, 3, 2, 2]], "block_repeat": [[1, 1, 1, 1], [3, 3, 2, 2]]},
    }
    call = {"x": noise(1, 4, 38, 34), "r": torch.tensor([0.7]), "effnet": noise(1, 16, 9, 7), "clip": noise(1, 1, 40)}
    call["sca"] = torch.zeros(1)
    if has_pixels:
        call["pixels"] = noise(1, 3, 8, 8)
    return made_of(StageB, **config), call


CASES: dict[str, Callable[[], Made]] = {
    "sd 1.5": unet,
    "sd 1.5, control": partial(unet, has_control=True),
    "sd 1.5, inpainting": partial(unet, kind="inpainting"),
    "sd 1.5, batch 4": partial(unet, rows=4),
    "sd 2": partial(unet, kind="sd 2"),
    "sd 2, upscaler": partial(unet, kind="upscaler"),
    "sdxl": partial(unet, kind="sdxl"),
    "sdxl, batch 2": partial(unet, kind="sdxl", rows=2),
    "koala": partial(unet, kind="koala"),
    "stable video": partial(unet, kind="video"),
    "stable cascade c": stage_c,
    "stable cascade c, control": partial(stage_c, has_control=True),
    "stable cascade b": stage_b,
    "stable cascade b, pixels": partial(stage_b, has_pixels=True),
}
