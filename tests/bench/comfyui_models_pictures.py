"""ComfyUI's further classes of pictures, sound and shapes, small, with random weights; for `comfyui_models.py`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from comfyui_made import Made, made_of, noise, residuals
from torch import nn

TIME = torch.tensor([0.7])


def sd_3(
    *, attends_twice: bool = False, text: int = 7, heads: int = 3, batch: int = 1, has_control: bool = False
) -> Made:
    from comfy.ldm.modules.diffusionmodules.mmdit import OpenAISignatureMMDITWrapper

    config: dict[str, Any] = {
        **{"input_size": None, "in_channels": 16, "depth": heads, "num_blocks": 3, "adm_in_channels": 32},
        **{"num_patches": 256, "pos_embed_max_size": 16, "qk_norm": "rms" if attends_twice else None},
        **{"x_block_self_attn_layers": [0, 1] if attends_twice else []},
        "context_embedder_config": {
            "target": "torch.nn.Linear",
            "params": {"in_features": 48, "out_features": 64 * heads},
        },
    }
    call: dict[str, Any] = {"x": noise(batch, 16, 13, 17), "timesteps": torch.full((batch,), 0.7)}
    call |= {"context": noise(batch, text, 48), "y": noise(batch, 32)}
    if has_control:
        call["control"] = {"output": [noise(batch, 63, 64 * heads), None, noise(batch, 63, 64 * heads)]}
    return made_of(OpenAISignatureMMDITWrapper, **config), call


def hidream(*, text: int = 7, has_picture: bool = False) -> Made:
    from comfy.ldm.hidream.model import HiDreamImageTransformer2DModel

    config = {
        **{"patch_size": 2, "in_channels": 16, "out_channels": 16, "num_layers": 2, "num_single_layers": 2},
        **{"attention_head_dim": 16, "num_attention_heads": 3, "caption_channels": [48, 40], "text_emb_dim": 32},
        **{"num_routed_experts": 4, "num_activated_experts": 2, "axes_dims_rope": (4, 6, 6)},
        **{"max_resolution": (32, 32), "llama_layers": [0, 1, 2, 2]},
    }
    call = {"x": noise(1, 16, 13, 17), "t": TIME, "y": noise(1, 32), "context": noise(1, 5, 48)}
    call["encoder_hidden_states_llama3"] = noise(1, 3, text, 40)
    if has_picture:
        call["image_cond"] = noise(1, 16, 13, 11)
    return made_of(HiDreamImageTransformer2DModel, **config), call


def ideogram_4(*, text: int = 7, mask: tuple[int, ...] = (), batch: int = 1) -> Made:
    from comfy.ldm.ideogram4.model import Ideogram4Transformer2DModel

    config = {
        **{"in_channels": 16, "num_layers": 3, "num_attention_heads": 3, "attention_head_dim": 32},
        **{"intermediate_size": 96, "adaln_dim": 24, "llm_features_dim": 48, "mrope_section": (6, 5, 5)},
    }
    call: dict[str, Any] = {"x": noise(batch, 16, 7, 9), "timesteps": torch.full((batch,), 0.7)}
    if text:
        call["context"] = noise(batch, text, 48)
    if mask:
        call["attention_mask"] = torch.tensor([mask])
    return made_of(Ideogram4Transformer2DModel, **config), call


def lens(*, text: int = 7, mask: tuple[int, ...] = (), has_control: bool = False) -> Made:
    from comfy.ldm.lens.model import LensTransformer2DModel

    config = {
        **{"in_channels": 32, "out_channels": 8, "num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 3},
        **{"enc_hidden_dim": 24, "axes_dims_rope": (4, 6, 6), "selected_layer_index": (0, 1)},
    }
    call: dict[str, Any] = {"x": noise(1, 32, 7, 9), "timestep": TIME, "context": noise(1, text, 48)}
    if mask:
        call["attention_mask"] = torch.tensor([mask])
    if has_control:
        call["control"] = residuals(1, 63, 48)
    return made_of(LensTransformer2DModel, **config), call


def next_dit_pixels(*, batch: int = 1) -> Made:
    from comfy.ldm.lumina.model import NextDiTPixelSpace

    config = {
        **{"patch_size": 4, "in_channels": 3, "dim": 256, "n_layers": 3, "n_refiner_layers": 2, "n_heads": 4},
        **{"n_kv_heads": 4, "multiple_of": 32, "ffn_dim_multiplier": 2.0, "norm_eps": 1e-5, "qk_norm": True},
        **{"cap_feat_dim": 48, "axes_dims": [16, 24, 24], "axes_lens": [64, 64, 64], "rope_theta": 256.0},
        **{"z_image_modulation": True, "time_scale": 1000.0, "pad_tokens_multiple": 32},
        **{"decoder_hidden_size": 32, "decoder_num_res_blocks": 2, "use_x0": True},
    }
    call = {"x": noise(batch, 3, 25, 33), "timesteps": torch.full((batch,), 0.7), "context": noise(batch, 11, 48)}
    return made_of(NextDiTPixelSpace, **config), call | {"num_tokens": 11}


def chroma_radiance(*, text: int = 7, is_new: bool = True) -> Made:
    from comfy.ldm.chroma_radiance.model import ChromaRadiance

    config = {
        **{"in_channels": 3, "out_channels": 3, "context_in_dim": 48, "hidden_size": 64, "mlp_ratio": 2.0},
        **{"num_heads": 4, "depth": 2, "depth_single_blocks": 2, "axes_dim": [4, 6, 6], "theta": 10000},
        **{"patch_size": 4, "qkv_bias": True, "in_dim": 64, "out_dim": 64, "hidden_dim": 64, "n_layers": 2},
        **{"txt_ids_dims": [], "vec_in_dim": None, "nerf_hidden_size": 8, "nerf_mlp_ratio": 2, "nerf_depth": 2},
        **{"nerf_max_freqs": 4, "nerf_tile_size": 20, "nerf_final_head_type": "conv", "nerf_embedder_dtype": None},
        **{"use_x0": is_new, "use_sequential_txt_ids": is_new},
    }
    call = {"x": noise(1, 3, 28, 36), "timestep": TIME, "context": noise(1, text, 48), "guidance": torch.tensor([0.0])}
    return made_of(ChromaRadiance, **config), call


def omnigen_2(*, has_references: bool = False, text: int = 7, batch: int = 1) -> Made:
    from comfy.ldm.omnigen.omnigen2 import OmniGen2Transformer2DModel

    config = {
        **{"hidden_size": 96, "num_layers": 3, "num_refiner_layers": 1, "num_attention_heads": 6, "num_kv_heads": 3},
        **{"multiple_of": 32, "axes_dim_rope": (4, 6, 6), "text_feat_dim": 48},
    }
    call: dict[str, Any] = {"x": noise(batch, 16, 13, 17), "timesteps": torch.full((batch,), 0.7)}
    call |= {"context": noise(batch, text, 48), "num_tokens": text}
    if has_references:
        call["ref_latents"] = [noise(batch, 16, 10, 7), noise(batch, 16, 5, 9)]
    return made_of(OmniGen2Transformer2DModel, **config), call


def boogu(*, has_references: bool = False, text: int = 7) -> Made:
    from comfy.ldm.boogu.model import BooguTransformer2DModel

    config = {
        **{"hidden_size": 96, "num_layers": 2, "num_double_stream_layers": 2, "num_refiner_layers": 1},
        **{"num_attention_heads": 6, "num_kv_heads": 3, "multiple_of": 32, "axes_dim_rope": (4, 6, 6)},
        "instruction_feat_dim": 48,
    }
    call: dict[str, Any] = {"x": noise(1, 16, 13, 17), "timesteps": TIME, "context": noise(1, text, 48)}
    call["num_tokens"] = text
    if has_references:
        call["ref_latents"] = [noise(1, 16, 10, 7), noise(1, 16, 5, 9)]
    return made_of(BooguTransformer2DModel, **config), call


def joy_image(*, has_references: bool = False, text: int = 7) -> Made:
    from comfy.ldm.joyimage.model import JoyImageTransformer3DModel

    config = {"hidden_size": 48, "num_attention_heads": 3, "text_dim": 40, "num_layers": 3, "rope_dim_list": [4, 6, 6]}
    call: dict[str, Any] = {"hidden_states": noise(1, 16, 1, 13, 17), "timestep": TIME, "context": noise(1, text, 40)}
    if has_references:
        call["ref_latents"] = [noise(1, 16, 1, 9, 12)]
    return made_of(JoyImageTransformer3DModel, **config), call


def mage_flow(*, has_references: bool = False, mask: tuple[int, ...] = (), has_control: bool = False) -> Made:
    from comfy.ldm.mage_flow.model import MageFlowTransformer2DModel

    config = {
        **{"in_channels": 32, "out_channels": 32, "num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 3},
        **{"joint_attention_dim": 48, "axes_dims_rope": (4, 6, 6)},
    }
    call: dict[str, Any] = {"x": noise(1, 32, 7, 9), "timestep": TIME, "context": noise(1, 7, 48)}
    if has_references:
        call["ref_latents"] = [noise(1, 32, 5, 6)]
    if mask:
        call["attention_mask"] = torch.tensor([mask])
    if has_control:
        call["control"] = residuals(1, 63, 48)
    return made_of(MageFlowTransformer2DModel, **config), call


PIXELS = {
    **{"num_groups": 3, "hidden_size": 48, "pixel_hidden_size": 8, "pixel_attn_hidden_size": 32, "patch_depth": 3},
    **{"pixel_num_groups": 2, "pixel_depth": 1, "patch_size": 4, "txt_embed_dim": 40, "txt_max_length": 9},
}


def pixel_dit(*, text: int = 7) -> Made:
    from comfy.ldm.pixeldit.model import PixDiT_T2I

    call = {"x": noise(1, 3, 27, 35), "timesteps": TIME, "context": noise(1, text, 40)}
    return made_of(PixDiT_T2I, **PIXELS), call


def pid(*, injects: bool = True) -> Made:
    from comfy.ldm.pixeldit.pid import PidNet

    config = {"lq_latent_channels": 16, "lq_hidden_dim": 16, "lq_num_res_blocks": 1, "pit_lq_inject": injects}
    call = {"x": noise(1, 3, 27, 35), "timesteps": TIME, "context": noise(1, 7, 40)}
    call |= {"lq_latent": noise(1, 16, 4, 5), "degrade_sigma": torch.tensor([0.3])}
    return made_of(PidNet, **PIXELS, **config), call


def qwen_layered() -> Made:
    """A picture as layers: latents of several frames, references counted backwards, a mark beside the time."""
    from comfy.ldm.qwen_image.model import QwenImageTransformer2DModel

    config = {
        **{"in_channels": 64, "num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 3},
        **{"joint_attention_dim": 48, "axes_dims_rope": (4, 6, 6), "use_additional_t_cond": True},
    }
    call: dict[str, Any] = {"x": noise(1, 16, 4, 9, 13), "timestep": TIME, "context": noise(1, 7, 48)}
    call |= {"additional_t_cond": torch.tensor([1]), "ref_latents": [noise(1, 16, 1, 9, 13)]}
    return made_of(QwenImageTransformer2DModel, **config, default_ref_method="negative_index"), call


def aura_flow(*, text: int = 7, batch: int = 1) -> Made:
    from comfy.ldm.aura.mmdit import MMDiT

    config = {"dim": 48, "n_layers": 4, "n_double_layers": 2, "n_heads": 3, "global_conddim": 48, "cond_seq_dim": 40}
    call = {"x": noise(batch, 4, 13, 17), "timestep": torch.full((batch,), 0.7), "context": noise(batch, text, 40)}
    return made_of(MMDiT, **config, max_seq=256), call


def hunyuan_dit() -> Made:
    from comfy.ldm.hydit.models import HunYuanDiT

    config = {
        **{"hidden_size": 48, "depth": 4, "num_heads": 3, "text_states_dim": 40, "text_states_dim_t5": 48},
        **{"text_len": 5, "text_len_t5": 7, "size_cond": True, "use_style_cond": True, "input_size": None},
    }
    call: dict[str, Any] = {"x": noise(1, 4, 13, 17), "t": TIME, "context": noise(1, 5, 40)}
    call |= {"text_embedding_mask": torch.tensor([[1, 1, 1, 0, 0]]), "encoder_hidden_states_t5": noise(1, 7, 48)}
    call |= {"text_embedding_mask_t5": torch.tensor([[1] * 4 + [0] * 3]), "image_meta_size": noise(1, 6) * 100}
    return made_of(HunYuanDiT, **config), call


def pixart(*, batch: int = 1) -> Made:
    from comfy.ldm.pixart.pixartms import PixArtMS

    config = {"hidden_size": 48, "depth": 3, "num_heads": 3, "caption_channels": 40, "micro_condition": False}
    call = {"x": noise(batch, 4, 30, 50), "timesteps": torch.full((batch,), 0.7), "context": noise(batch, 7, 40)}
    return made_of(PixArtMS, **config), call


def cosmos_2(
    *, frames: int = 1, times: tuple[float, ...] = (0.7,), is_anima: bool = False, more: bool = False,
    size: tuple[int, int] = (13, 17),
) -> Made:  # fmt: skip
    kind: type
    if is_anima:
        from comfy.ldm.anima.model import Anima as kind
    else:
        from comfy.ldm.cosmos.predict2 import MiniTrainDIT as kind

    config = {
        **{"max_img_h": 64, "max_img_w": 64, "max_frames": 8, "in_channels": 16, "out_channels": 16},
        **{"patch_spatial": 2, "patch_temporal": 1, "model_channels": 72, "num_blocks": 3, "num_heads": 3},
        **{"crossattn_emb_channels": 1024 if is_anima else 40, "pos_emb_cls": "rope3d", "mlp_ratio": 2.0},
        **{"use_adaln_lora": True, "adaln_lora_dim": 8, "extra_per_block_abs_pos_emb": more},
    }
    time = torch.tensor([times]) if len(times) > 1 else torch.tensor(times)
    call: dict[str, Any] = {"x": noise(1, 16, frames, *size), "timesteps": time}
    call["context"] = noise(1, 9, 1024) if is_anima else noise(1, 9, 40)
    if is_anima and more:
        call |= {"t5xxl_ids": torch.arange(5)[None], "t5xxl_weights": torch.full((1, 5, 1), 0.9)}
        config["extra_per_block_abs_pos_emb"] = False
    return made_of(kind, **config), call


def hidream_o1(*, is_kept: bool = True, has_references: bool = False) -> Made:
    from comfy.ldm.hidream_o1 import model as home

    text = {
        **{"vocab_size": home.TMS_TOKEN_ID + 1, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3},
        **{"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 32, "rope_dims": [6, 5, 5]},
    }
    vision = {"hidden_size": 48, "num_heads": 3, "intermediate_size": 64, "depth": 1, "num_position_embeddings": 16}
    model = made_of(home.HiDreamO1Transformer, text_config_overrides=text, vision_config_overrides=vision)
    ids, pixels = [[5, 6, 7, 8, 9, 10, 11, home.TMS_TOKEN_ID]], 5 * 7
    call: dict[str, Any] = {"x": noise(1, 3, 160, 224), "timesteps": torch.tensor([700.0])}
    if has_references:
        call |= {"ref_patches": noise(1, 6, 3 * 32 * 32), "ref_pixel_values": noise(1, 16, 1536)}
        call["ref_image_grid_thw"] = torch.tensor([[[1, 4, 4]]])
        ids[0][1:1] = [home.IMAGE_TOKEN_ID] * 4
        pixels += 6
    count = len(ids[0]) + pixels
    places = torch.arange(count) + torch.arange(3)[:, None]
    shown = torch.tensor([[False] * len(ids[0]) + [True] * pixels])
    call |= {
        "input_ids": torch.tensor(ids),
        "position_ids": places[None],
        "vinput_mask": shown,
        "ar_len": len(ids[0]) - 1,
    }
    if not is_kept:
        model.register_forward_pre_hook(lambda module, _: module.clear_kv_cache())
    return model, call


def ace_step() -> Made:
    from comfy.ldm.ace.model import ACEStepTransformer2DModel

    config = {
        **{"num_layers": 3, "inner_dim": 48, "attention_head_dim": 16, "num_attention_heads": 3, "mlp_ratio": 2.0},
        **{"max_position": 128, "speaker_embedding_dim": 16, "text_embedding_dim": 40, "lyric_hidden_size": 1024},
        **{"lyric_encoder_vocab_size": 50, "ssl_latent_dims": [8, 8]},
    }
    call = {"x": noise(1, 8, 16, 37), "timestep": torch.tensor([700.0]), "context": noise(1, 7, 40)}
    call |= {"speaker_embeds": noise(1, 16), "lyric_token_idx": torch.arange(9)[None], "lyrics_strength": 0.9}
    return made_of(ACEStepTransformer2DModel, **config), call


def ace_step_15(*, is_song: bool = False) -> Made:
    from comfy.ldm.ace.ace_step15 import AceStepConditionGenerationModel

    config = {
        **{"in_channels": 24, "hidden_size": 96, "text_hidden_dim": 40, "timbre_hidden_dim": 8, "num_heads": 6},
        **{"audio_acoustic_hidden_dim": 8, "num_dit_layers": 3, "num_lyric_layers": 1, "num_timbre_layers": 1},
        **{"num_tokenizer_layers": 1, "num_kv_heads": 2, "head_dim": 16, "intermediate_size": 64, "patch_size": 2},
        **{"sliding_window": 5, "fsq_dim": 96, "encoder_hidden_size": 96, "encoder_intermediate_size": 64},
        "encoder_num_heads": 6,
    }
    call: dict[str, Any] = {"x": noise(1, 8, 77), "timestep": TIME, "context": noise(1, 7, 40)}
    call |= {"lyric_embed": noise(1, 5, 40), "refer_audio": noise(1, 8, 77), "is_covers": is_song and None}
    if is_song:
        call["audio_codes"] = torch.arange(13)[None]
    return made_of(AceStepConditionGenerationModel, **config), call


def stable_audio(*, is_third: bool = False, is_set_off: bool = False) -> Made:
    from comfy.ldm.audio.dit import AudioDiffusionTransformer

    config: dict[str, Any] = {
        **{"io_channels": 8, "embed_dim": 128, "cond_token_dim": 64, "global_cond_dim": 24, "depth": 3, "num_heads": 4},
        "num_memory_tokens": 0,
    }
    call: dict[str, Any] = {"x": noise(1, 8, 37), "timestep": TIME, "context": noise(1, 7, 64)}
    call["global_embed"] = noise(1, 24)
    if is_set_off:
        config["attn_kwargs"] = {"qk_norm": "ln", "feat_scale": True}
    if is_third:
        config |= {"num_memory_tokens": 5, "attn_kwargs": {"qk_norm": "rms", "differential": True}}
        config |= {"norm_type": "rms_norm", "local_add_cond_dim": 9, "global_cond_type": "adaLN"}
        config |= {"global_cond_shared_embed": True, "timestep_features_type": "expo"}
        call["local_add_cond"] = noise(1, 9, 37)
    return made_of(AudioDiffusionTransformer, **config), call


def minimax_music(*, length: int = 37) -> Made:
    from comfy.ldm.minimax_music import dit
    from comfy.ldm.modules.attention import attention_pytorch

    dit.optimized_attention_for_device = lambda *_, **__: attention_pytorch  # what it takes on a CPU is not torch's

    def small(*, operations: Any, **_: Any) -> nn.Module:
        """Its sizes are no arguments: another core in a model without memory."""
        model = dit.MiniMaxMusic3DiT(dtype=torch.float32, device="meta", operations=operations)
        inner, how = model.diffusion_transformer, (torch.float32, "cpu", operations)
        core = inner.transformer
        core.project_in, core.project_out = operations.Linear(2304, 48, bias=False), operations.Linear(48, 128)
        core.rotary_pos_emb = dit.RotaryEmbedding(8, *how[:2])
        core.layers = nn.ModuleList(dit.TransformerBlock(48, 16, 64, *how) for _ in range(3))
        inner.to_timestep_embed = nn.Sequential(operations.Linear(256, 48), nn.SiLU(), operations.Linear(48, 48))
        return model.to_empty(device="cpu")

    call = {"x": noise(1, 128, length), "timestep": TIME, "context": noise(1, 9, 8 * 4096)}
    return made_of(small), call | {"conditioning_scale": torch.ones(1, 1, 1)}


def hunyuan_3d(*, text: int = 7) -> Made:
    from comfy.ldm.hunyuan3d.model import Hunyuan3Dv2

    config = {
        **{"in_channels": 8, "context_in_dim": 40, "hidden_size": 48, "mlp_ratio": 2.0, "num_heads": 3, "depth": 2},
        **{"depth_single_blocks": 2, "qkv_bias": True, "guidance_embed": True},
    }
    call = {"x": noise(1, 8, 37), "timestep": TIME, "context": noise(1, text, 40), "guidance": torch.tensor([5.0])}
    return made_of(Hunyuan3Dv2, **config), call


def hunyuan_3d_21(*, batch: int = 2) -> Made:
    from comfy.ldm.hunyuan3dv2_1.hunyuandit import HunYuanDiTPlain

    config = {
        **{"in_channels": 8, "hidden_size": 48, "context_dim": 40, "depth": 5, "num_heads": 3, "num_moe_layers": 2},
        **{"guidance_cond_proj_dim": None, "num_experts": 4},
    }
    call = {"x": noise(batch, 8, 37), "t": torch.full((batch,), 0.7), "context": noise(batch, 7, 40)}
    return made_of(HunYuanDiTPlain, **config), call


PADDED = (1, 1, 1, 1, 0, 0, 0)
CASES: dict[str, Callable[[], Made]] = {
    "sd 3": sd_3,
    "sd 3, 1 text token, batch 2": partial(sd_3, text=1, batch=2, heads=2),
    "sd 3.5 medium": partial(sd_3, attends_twice=True),
    "sd 3.5 medium, control": partial(sd_3, attends_twice=True, has_control=True),
    "hidream": hidream,
    "hidream, 1 text token": partial(hidream, text=1),
    "hidream e1": partial(hidream, has_picture=True),
    "ideogram 4": ideogram_4,
    "ideogram 4, no text, batch 2": partial(ideogram_4, text=0, batch=2),
    "ideogram 4, mask": partial(ideogram_4, mask=PADDED),
    "lens": lens,
    "lens, 1 text token": partial(lens, text=1),
    "lens, mask": partial(lens, mask=PADDED),
    "lens, control": partial(lens, has_control=True),
    "z-image in pixels": next_dit_pixels,
    "z-image in pixels, batch 2": partial(next_dit_pixels, batch=2),
    "chroma radiance": chroma_radiance,
    "chroma radiance, 1 text token": partial(chroma_radiance, text=1),
    "chroma radiance, the first": partial(chroma_radiance, is_new=False),
    "omnigen 2, batch 2": partial(omnigen_2, batch=2),
    "omnigen 2, references": partial(omnigen_2, has_references=True),
    "omnigen 2, 1 text token": partial(omnigen_2, text=1),
    "boogu": boogu,
    "boogu, references": partial(boogu, has_references=True),
    "boogu, 1 text token": partial(boogu, text=1),
    "joy image": joy_image,
    "joy image, references": partial(joy_image, has_references=True),
    "joy image, 1 text token": partial(joy_image, text=1),
    "mage flow": mage_flow,
    "mage flow, references": partial(mage_flow, has_references=True),
    "mage flow, mask": partial(mage_flow, mask=PADDED),
    "mage flow, control": partial(mage_flow, has_references=True, has_control=True),
    "qwen image layered": qwen_layered,
    "pixel dit": pixel_dit,
    "pixel dit, 1 text token": partial(pixel_dit, text=1),
    "pid": pid,
    "pid, no gate for pixels": partial(pid, injects=False),
    "aura flow, batch 2": partial(aura_flow, batch=2),
    "aura flow, 1 text token": partial(aura_flow, text=1),
    "hunyuan dit": hunyuan_dit,
    "pixart": pixart,
    "pixart, batch 2": partial(pixart, batch=2),
    "anima": partial(cosmos_2, is_anima=True),
    "anima, adapter": partial(cosmos_2, is_anima=True, more=True),
    "cosmos 2, frames": partial(cosmos_2, frames=3),
    "cosmos 2, even": partial(cosmos_2, frames=3, size=(14, 18)),
    "cosmos 2, a time per frame": partial(cosmos_2, frames=3, times=(0.0, 0.7, 0.7)),
    "cosmos 2, learned places": partial(cosmos_2, frames=3, more=True),
    "hidream o1": hidream_o1,
    "hidream o1, nothing kept": partial(hidream_o1, is_kept=False),
    "hidream o1, references": partial(hidream_o1, has_references=True, is_kept=False),
    "ace step": ace_step,
    "ace step 1.5": ace_step_15,
    "ace step 1.5, codes": partial(ace_step_15, is_song=True),
    "stable audio": stable_audio,
    "stable audio, set off": partial(stable_audio, is_set_off=True),
    "stable audio 3": partial(stable_audio, is_third=True),
    "minimax music": minimax_music,
    "minimax music, two windows": partial(minimax_music, length=1001),
    "hunyuan 3d": hunyuan_3d,
    "hunyuan 3d, 1 text token": partial(hunyuan_3d, text=1),
    "hunyuan 3d 2.1": hunyuan_3d_21,
    "hunyuan 3d 2.1, one": partial(hunyuan_3d_21, batch=1),
}
