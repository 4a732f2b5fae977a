"""Tiny checkpoints in ComfyUI's own format, with random weights, a LoRA, a ControlNet and VAEs.

python comfyui_native_models.py FOLDER NAME...

Run by ComfyUI's Python, in its folder, for `comfyui_native.py`. The widths are those by which ComfyUI tells classes.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from comfyui_made import built
from safetensors.torch import save_file

folder, names = Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, ".")
import comfy.options  # noqa: E402

comfy.options.enable_args_parsing(False)
from comfy.cli_args import args  # noqa: E402

args.cpu = True
import comfy.ops  # noqa: E402

ON_CPU = {"dtype": torch.float32, "device": "cpu", "operations": comfy.ops.disable_weight_init}
FLUX: dict[str, Any] = {
    **{"in_channels": 16, "out_channels": 16, "vec_in_dim": 32, "context_in_dim": 64, "hidden_size": 256},
    **{"mlp_ratio": 4.0, "num_heads": 2, "depth": 2, "depth_single_blocks": 3, "axes_dim": [16, 56, 56]},
    **{"theta": 10000, "patch_size": 2, "qkv_bias": True, "guidance_embed": True, "txt_ids_dims": []},
}


def flux() -> Any:
    from comfy.ldm.flux.model import Flux

    return Flux(**FLUX, **ON_CPU)


def control() -> Any:
    from comfy.ldm.flux.controlnet import ControlNetFlux

    return ControlNetFlux(**(FLUX | {"depth": 2, "depth_single_blocks": 1}), **ON_CPU)


def flux_gb() -> Any:
    """About a gigabyte, for what is told of memory."""
    from comfy.ldm.flux.model import Flux

    given = {"in_channels": 16, "out_channels": 16, "vec_in_dim": 32, "context_in_dim": 64, "hidden_size": 1024}
    given |= {"mlp_ratio": 4.0, "num_heads": 8, "depth": 4, "depth_single_blocks": 8, "axes_dim": [16, 56, 56]}
    given |= {"theta": 10000, "patch_size": 2, "qkv_bias": True, "guidance_embed": True, "txt_ids_dims": []}
    return built(Flux, **given, **ON_CPU)


def qwen() -> Any:
    from comfy.ldm.qwen_image.model import QwenImageTransformer2DModel

    given = {"num_layers": 2, "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 3584}
    return QwenImageTransformer2DModel(in_channels=64, **given, **ON_CPU)


def wan() -> Any:
    from comfy.ldm.wan.model import WanModel

    given = {"model_type": "t2v", "in_dim": 16, "dim": 256, "ffn_dim": 512, "freq_dim": 256, "text_dim": 4096}
    return WanModel(out_dim=16, num_heads=2, num_layers=3, **given, **ON_CPU)


def z_image() -> Any:
    from comfy.ldm.lumina.model import NextDiT

    given = {"patch_size": 2, "in_channels": 16, "dim": 3840, "n_layers": 1, "n_refiner_layers": 2, "n_heads": 30}
    given |= {"n_kv_heads": 30, "ffn_dim_multiplier": 8 / 3, "qk_norm": True, "cap_feat_dim": 64}
    given |= {"axes_dims": [32, 48, 48], "axes_lens": [1536, 512, 512], "rope_theta": 256.0, "time_scale": 1000.0}
    return NextDiT(z_image_modulation=True, pad_tokens_multiple=32, **given, **(ON_CPU | {"dtype": torch.bfloat16}))


def h3() -> Any:
    from comfy.ldm.minimax.model import MiniMaxH3Model

    given = {"hidden_size": 128, "num_layers": 3, "token_refiner_num_layers": 1, "num_attention_heads": 4}
    given |= {"attention_head_dim": 32, "ffn_hidden_size": 192, "latents_dim": 24, "audio_latents_dim": 32}
    given |= {"text_dim": 80, "timestep_input_dim": 32, "time_embed_hidden_size": 48, "time_embed_dim": 24}
    return MiniMaxH3Model(rope_inv_freq_len=4, **given, **ON_CPU)


def sd3() -> Any:
    from comfy.ldm.modules.diffusionmodules.mmdit import OpenAISignatureMMDITWrapper

    given = {"input_size": None, "in_channels": 16, "depth": 2, "num_patches": 256, "pos_embed_max_size": 16}
    words = {"target": "torch.nn.Linear", "params": {"in_features": 64, "out_features": 128}}
    return OpenAISignatureMMDITWrapper(adm_in_channels=32, context_embedder_config=words, **given, **ON_CPU)


def joy() -> Any:
    from comfy.ldm.joyimage.model import JoyImageTransformer3DModel

    return JoyImageTransformer3DModel(hidden_size=256, num_attention_heads=2, num_layers=2, **ON_CPU)


SD15: dict[str, Any] = {
    **{"image_size": 32, "in_channels": 4, "model_channels": 320, "context_dim": 768, "num_heads": 8},
    **{"num_res_blocks": [1, 1], "channel_mult": [1, 2], "transformer_depth_middle": 1, "legacy": False},
    **{"use_spatial_transformer": True, "transformer_depth": [1, 1]},
}


def sd15() -> Any:
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel

    return UNetModel(out_channels=4, transformer_depth_output=[1, 1, 1, 1], **SD15, **ON_CPU)


def control_sd15() -> Any:
    from comfy.cldm.cldm import ControlNet

    return ControlNet(hint_channels=3, **SD15, **ON_CPU)


def filled(model: Any, std: float, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    for name, each in [*model.named_parameters(), *model.named_buffers()]:
        if not each.is_floating_point() or not each.numel():
            continue
        if each.ndim > 1:
            torch.nn.init.normal_(each, std=std)
        else:
            is_scale = "norm" in name or "inv_freq" in name
            torch.nn.init.normal_(each, mean=1.0 if is_scale else 0.0, std=0.05)
    return model.eval().requires_grad_(False)


def lora(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    made, generator = {}, torch.Generator().manual_seed(3)
    for key, each in weights.items():
        if key.endswith(("qkv.weight", "linear1.weight", "qkv_proj.weight", "condition_proj.weight", "to_q.weight")):
            path = "diffusion_model." + key.removesuffix(".weight")
            made[f"{path}.lora_up.weight"] = torch.randn(each.shape[0], 4, generator=generator) * 0.1
            made[f"{path}.lora_down.weight"] = torch.randn(4, each.shape[1], generator=generator) * 0.1
            made[f"{path}.alpha"] = torch.tensor(4.0)
    return made


def vaes() -> dict[str, Any]:
    from comfy.ldm.modules.diffusionmodules.model import Decoder
    from comfy.ldm.wan.vae import WanVAE

    given = {"ch": 32, "out_ch": 3, "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2, "attn_resolutions": []}
    picture = torch.nn.Module()
    picture.decoder = Decoder(in_channels=3, resolution=256, z_channels=16, **given)
    more = {"num_res_blocks": 2, "temperal_downsample": [False, True, True]}
    return {"flux": picture, "wan": WanVAE(dim=16, z_dim=16, dim_mult=[1, 2, 4, 4], **more)}


MODELS = {
    "flux": flux,
    "flux_gb": flux_gb,
    "qwen": qwen,
    "wan": wan,
    "z_image": z_image,
    "h3": h3,
    "sd3": sd3,
    "joy": joy,
    "sd15": sd15,
}
CONTROLS = {"flux": control, "sd15": control_sd15}
for name in names:
    std = {"z_image": 0.01, "qwen": 0.01}.get(name, 0.03)  # about 1 / sqrt(width): wider ones would overflow
    model = filled(MODELS[name](), std)
    weights = {key: each.detach().contiguous().clone() for key, each in model.state_dict().items()}
    save_file(weights, folder / "diffusion_models" / f"tiny_{name}.safetensors")
    print(name, f"{sum(each.numel() for each in weights.values()) / 1e6:.1f} M", flush=True)
    if name == "wan":  # the expert for the last steps
        low = {key: each.detach().clone() for key, each in filled(model, std, seed=1).state_dict().items()}
        save_file(low, folder / "diffusion_models" / "tiny_wan_low.safetensors")
    if name in ("flux", "h3", "sd15"):
        save_file(lora(weights), folder / "loras" / f"tiny_{name}.safetensors")
    if name in CONTROLS:
        whole = {f"model.diffusion_model.{key}": each for key, each in weights.items()}
        save_file(whole, folder / "checkpoints" / f"tiny_{name}.safetensors")
        net = {key: each.detach().clone() for key, each in filled(CONTROLS[name](), 0.05).state_dict().items()}
        net = {key.replace("_norm.weight", "_norm.scale"): each for key, each in net.items()}  # as its files have it
        save_file(net, folder / "controlnet" / f"tiny_{name}.safetensors")
for name, model in vaes().items():
    torch.manual_seed(0)
    for key, each in model.state_dict().items():
        width = each.shape[1:].numel() if each.ndim > 1 and "gamma" not in key else 400
        torch.nn.init.normal_(each, mean=float("norm" in key or "gamma" in key), std=width**-0.5)
    save_file(
        {key: each.contiguous() for key, each in model.state_dict().items()},
        folder / "vae" / f"tiny_{name}.safetensors",
    )
