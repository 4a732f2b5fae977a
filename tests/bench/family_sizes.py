"""The table of models whose sizes are known without their files, `pipelines/models/outlines.json`, and what runs where.

    python tests/bench/family_sizes.py --scripts FOLDER    # makes the table
    python tests/bench/family_sizes.py                     # prints which model runs on which card, for README.md

FOLDER is `scripts/` of https://github.com/huggingface/diffusers at the commit `DIFFUSERS` below. A part's config is
taken from there, or is what its class of diffusers takes by default, or stands in another project's code at a commit,
which is then its source. Each class is built on the `meta` device, so that names and shapes are those of its weights.
A model one of whose parts has no source is not in the table.
"""

import argparse
import importlib
import inspect
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import support.checkout  # noqa: F401 (makes the checkout importable)
from latentloom.nodes.headless.plans import plan_model
from latentloom.pipelines.costs.chips import GIB
from latentloom.pipelines.costs.machine import Machine, named_machine
from latentloom.pipelines.costs.run import Run, duration
from latentloom.pipelines.forecast.choice import spelt
from latentloom.pipelines.models.component_files import WEIGHT_NAMES
from latentloom.pipelines.models.folder import CONFIGS, kind_of
from latentloom.pipelines.models.outlines import unfolded

TABLE = Path(__file__).resolve().parents[2] / "pipelines" / "models" / "outlines.json"
DIFFUSERS = "58eb52c0"
DEFAULTS = f"defaults of diffusers {metadata.version('diffusers')}"
COMFY = "Comfy-Org/ComfyUI@a125cd84"
SGLANG = "sgl-project/sglang"
XTUNER = "InternLM/xtuner@062ecf47"
GEMMA = "huggingface/transformers"
LEFT_OUT = ("latents_mean", "latents_std", "dtype", "transformers_version", "architectures")
MACHINES = ("1x4060Laptop", "1x4090", "2x4090-pcie4", "4xL40S-pcie4", "1xH100", "8xH100-nvlink")
# The largest model of each family, those first that people run most (tests/bench/share_of_use.json).
SHOWN = {
    "MiniMax H3": "MiniMaxAI/MiniMax-H3",
    "Qwen-Image 2.1": "Qwen/Qwen-Image-2.1",
    "LTX-2.5": "Lightricks/LTX-2.5-Diffusers",
    "Z-Image Turbo": "Tongyi-MAI/Z-Image-Turbo",
    "Wan 2.2 14B": "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    "Krea 2 Turbo": "krea/Krea-2-Turbo",
    "Qwen-Image": "Qwen/Qwen-Image",
    "FLUX.2 dev": "black-forest-labs/FLUX.2-dev",
    "FLUX.3 klein": "black-forest-labs/flux-3-image-klein",
    "FLUX.1 dev": "black-forest-labs/FLUX.1-dev",
    "Cosmos 3 Nano": "nvidia/Cosmos3-Nano",
    "HunyuanVideo 1.5": "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
    "ERNIE-Image": "baidu/ERNIE-Image",
    "SD 3.5 large": "stabilityai/stable-diffusion-3.5-large",
    "LTX-2": "Lightricks/LTX-2",
    "Cosmos 3 Super": "nvidia/Cosmos3-Super",
}
NUM_SHORT = 12  # of these in README.md


@dataclass(frozen=True)
class Part:
    """A component: its class, the config that it is built of, and who says so. `layers` is the number in its config."""

    class_name: str
    config: Mapping[str, Any]
    source: str
    library: str = "diffusers"


def tuned(name: str, source: str = "", **config: Any) -> Part:
    """A class of diffusers with all its defaults but these."""
    return Part(name, config, source or DEFAULTS)


def scripted(name: str, script: str, config: Mapping[str, Any]) -> Part:
    return Part(name, config, f"huggingface/diffusers@{DIFFUSERS} scripts/{script}.py")


def encoder(name: str, source: str, **config: Any) -> Part:
    return Part(name, config, source, "transformers")


def of_no_weights(name: str, library: str = "transformers", **config: Any) -> Part:
    return Part(name, config, "", library)


# ---- text encoders

T5 = {"d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24, "feed_forward_proj": "gated-gelu"}
CLIP_L = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
CLIP_G = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 20}
QWEN_25 = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
HEADS = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
QWEN_3 = {"vocab_size": 151936, "num_hidden_layers": 36, **HEADS}
QWEN_3_4B = {**QWEN_3, "hidden_size": 2560, "intermediate_size": 9728, "tie_word_embeddings": True}
QWEN_3_06B = {
    **QWEN_3,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "tie_word_embeddings": False,
}
QWEN_3_8B = {**QWEN_3, "hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False}
QWEN_3_32B = {
    **QWEN_3,
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "tie_word_embeddings": False,
}
SEES_SMALL = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "deepstack_visual_indexes": [5, 11, 17],
}
GEMMA_3_12B = {
    "vocab_size": 262208,
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_attention_heads": 16,
    "head_dim": 256,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "sliding_window": 1024,
}
SIGLIP = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
    "vision_use_head": False,
}
GEMMA_4_12B = {
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "num_hidden_layers": 48,
    "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
}
MINISTRAL = {"vocab_size": 131072, "hidden_size": 3072, "intermediate_size": 9216, "num_hidden_layers": 26, **HEADS}


def qwen_vl(name: str, size: str, text: Mapping[str, Any], why: str = "", **vision: Any) -> Part:
    told = XTUNER if size != "32B" else f"{SGLANG}@06b7f6cc minimax_h3_qwen3vl.py"
    parts = {"text_config": text, "vision_config": {"out_hidden_size": text["hidden_size"], **vision}}
    source = f"Qwen3-VL-{size} ({told}{'; ' if why else ''}{why})"
    return encoder(name, source, **parts, tie_word_embeddings=text["tie_word_embeddings"])


VL = "Qwen3VLForConditionalGeneration"
VL_4B, VL_8B = partial(qwen_vl, size="4B", text=QWEN_3_4B, **SEES_SMALL), partial(qwen_vl, size="8B", text=QWEN_3_8B)
PARTS: dict[str, Part] = {
    "clip_l": encoder("CLIPTextModel", f"{COMFY} sd1_clip_config.json", **CLIP_L),
    "clip_l_projected": encoder(
        "CLIPTextModelWithProjection", f"{COMFY} sd1_clip_config.json", **CLIP_L, projection_dim=768
    ),
    "clip_g": encoder("CLIPTextModelWithProjection", f"{COMFY} clip_config_bigg.json", **CLIP_G, projection_dim=1280),
    "siglip": encoder(
        "SiglipVisionModel",
        f"{COMFY} clip_vision_siglip_384.json",
        hidden_size=1152,
        intermediate_size=4304,
        num_hidden_layers=27,
        num_attention_heads=16,
        image_size=384,
        patch_size=14,
    ),
    "clip_h_vision": encoder(
        "CLIPVisionModel",
        f"{COMFY} clip_vision_config_h.json",
        hidden_size=1280,
        intermediate_size=5120,
        num_hidden_layers=32,
        num_attention_heads=16,
        patch_size=14,
    ),
    "t5_xxl": encoder("T5EncoderModel", f"{COMFY} t5_config_xxl.json", **T5, vocab_size=32128),
    "umt5_xxl": encoder("UMT5EncoderModel", f"{COMFY} umt5_config_xxl.json", **T5, vocab_size=256384),
    "byt5": encoder(
        "T5EncoderModel",
        f"{COMFY} byt5_config_small_glyph.json",
        **{**T5, "d_model": 1472, "d_ff": 3584, "num_heads": 6, "num_layers": 12},
        vocab_size=1510,
    ),
    "qwen_25_vl_7b": encoder(
        "Qwen2_5_VLForConditionalGeneration",
        f"Qwen2.5-VL-7B ({COMFY} llama.py; acproject/duorou@11191b4f qwen2.5vl_graph.md)",
        text_config=QWEN_25,
        vision_config={"hidden_size": 1280, "out_hidden_size": 3584},
        tie_word_embeddings=False,
    ),
    "qwen_25_vl_7b_text": encoder("Qwen2_5_VLTextModel", f"Qwen2.5-VL-7B ({COMFY} llama.py)", **QWEN_25),
    "qwen_3_06b_body": encoder("Qwen3Model", "Qwen3-0.6B (Comfy-Org/ComfyUI@783545f6 llama.py)", **QWEN_3_06B),
    "qwen_3_4b": encoder("Qwen3ForCausalLM", f"Qwen3-4B ({SGLANG}@44dec921 qwen3.py)", **QWEN_3_4B),
    "qwen_3_4b_body": encoder("Qwen3Model", f"Qwen3-4B ({SGLANG}@44dec921 qwen3.py)", **QWEN_3_4B),
    "qwen_3_8b": encoder(
        "Qwen3ForCausalLM", "Qwen3-8B (sanjithudupa/compute-aware-arch-search@38147a2f config.json)", **QWEN_3_8B
    ),
    "qwen_3_vl_4b": VL_4B(VL, why="8 layers of 2560 make joint_attention_dim 20480"),
    "qwen_3_vl_4b_body": VL_4B("Qwen3VLModel", why="named by diffusers' pipeline_krea2.py"),
    "qwen_3_vl_8b": VL_8B(VL, why="context_in_dim 4096"),
    "qwen_3_vl_32b": qwen_vl(VL, "32B", QWEN_3_32B),
    "mistral_24b": encoder(
        "Mistral3ForConditionalGeneration",
        "Mistral-Small-3.2-24B (transformers' defaults of Mistral3Config)",
        tie_word_embeddings=False,
    ),
    "ministral_3b": encoder(
        "Mistral3Model",
        f"Ministral-3-3B ({SGLANG}@16ba880c mistral3.py)",
        text_config={"model_type": "mistral", **MINISTRAL},
    ),
    "gemma_3_12b": encoder(
        "Gemma3ForConditionalGeneration",
        f"Gemma 3 12B ({GEMMA}@0d7e95d9 convert_gemma3_weights.py)",
        text_config=GEMMA_3_12B,
        vision_config=SIGLIP,
    ),
    "gemma_4_12b": encoder(
        "Gemma4UnifiedForConditionalGeneration",
        f"Gemma 4 12B ({GEMMA}@05babaa3 convert_gemma4_unified_weights.py)",
        text_config=GEMMA_4_12B,
    ),
}

# ---- what decodes

VAE = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
    "latent_channels": 16,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}
PARTS |= {
    "flux_vae": tuned(
        "AutoencoderKL", "edkamesh/FluX-optimized@2557da90 vae/config.json, that of SD3 and Z-Image too", **VAE
    ),
    "flux_2_vae": tuned("AutoencoderKLFlux2"),
    "qwen_vae": tuned("AutoencoderKLQwenImage"),
    "qwen_21_vae": tuned("AutoencoderKLQwenImage21"),
    "wan_vae": tuned("AutoencoderKLWan"),
    "hunyuan_vae": tuned("AutoencoderKLHunyuanVideo15"),
    "h3_sound": tuned("AutoencoderKLMiniMaxH3Audio"),
    "cosmos_sound": tuned("Cosmos3AVAEAudioTokenizer"),
}

# ---- transformers whose classes' defaults are what was published, and those of code at a commit

MM_DIT = "huggingface/diffusers@58eb52c0 scripts/convert_sd3_to_diffusers.py, and the layers that make {} billion"
PARTS |= {
    "flux_dev": tuned("FluxTransformer2DModel", guidance_embeds=True),
    "flux_schnell": tuned("FluxTransformer2DModel"),
    "flux_3": tuned("Flux3Transformer2DModel"),
    "qwen_image": tuned("QwenImageTransformer2DModel"),
    "qwen_layered": tuned("QwenImageTransformer2DModel", use_additional_t_cond=True, use_layer3d_rope=True),
    "qwen_layered_vae": tuned("AutoencoderKLQwenImage", input_channels=4),
    "qwen_image_21": tuned("QwenImage21Transformer2DModel"),
    "z_image": tuned("ZImageTransformer2DModel"),
    "krea_2": tuned("Krea2Transformer2DModel"),
    "cosmos_nano": tuned("Cosmos3OmniTransformer", sound_gen=True, sound_dim=64),
    "cosmos_super": tuned(
        "Cosmos3OmniTransformer",
        "two of Qwen3-32B, which make the 65 billion that its makers tell",
        hidden_size=5120,
        intermediate_size=25600,
        num_hidden_layers=64,
        num_attention_heads=64,
        sound_gen=True,
        sound_dim=64,
    ),
    "anima_text": tuned("AnimaTextConditioner"),
    "hunyuan_15": tuned("HunyuanVideo15Transformer3DModel"),
    "ernie": tuned(
        "ErnieImageTransformer2DModel",
        f"{SGLANG}@416ddfc4 ernie_image.py",
        hidden_size=4096,
        num_attention_heads=32,
        num_layers=36,
        ffn_hidden_size=12288,
        text_in_dim=3072,
    ),
    "sd_35_medium": tuned(
        "SD3Transformer2DModel",
        MM_DIT.format(2.5),
        num_layers=24,
        num_attention_heads=24,
        caption_projection_dim=1536,
        pos_embed_max_size=384,
        dual_attention_layers=[*range(13)],
        qk_norm="rms_norm",
    ),
    "sd_35_large": tuned(
        "SD3Transformer2DModel",
        MM_DIT.format(8.1),
        num_layers=38,
        num_attention_heads=38,
        caption_projection_dim=2432,
        pos_embed_max_size=192,
        qk_norm="rms_norm",
    ),
}


def scripted_parts(folder: Path) -> dict[str, Part]:
    """Configs that diffusers' conversion scripts have in their code."""

    def script(name: str) -> Any:
        sys.path.insert(0, str(folder))
        sys.argv = [name]
        return importlib.import_module(name)

    found: dict[str, Part] = {}
    name, flux_2 = "convert_flux2_to_diffusers", "Flux2Transformer2DModel"
    of = _function(folder / f"{name}.py", "get_flux2_transformer_config")
    for model in ("flux2-dev", "klein-4b", "klein-9b"):
        found[model.replace("-", "_")] = scripted(flux_2, name, of(model)[0]["diffusers_config"])
    name = "convert_wan_to_diffusers"
    wan = script(name)
    texts, frames = ("Wan-T2V-1.3B", "Wan-T2V-14B", "Wan2.2-T2V-A14B"), ("Wan-I2V-14B-480p", "Wan-FLF2V-14B-720P")
    for model in (*texts, *frames, "Wan2.2-I2V-14B-720p"):
        config = wan.get_transformer_config(model)[0]["diffusers_config"]
        found[model] = scripted("WanTransformer3DModel", name, config)
    found["wan_22_vae"] = scripted("AutoencoderKLWan", name, wan.vae22_diffusers_config)
    name = "convert_cosmos_to_diffusers"  # Anima is built on Cosmos Predict 2
    config = script(name).TRANSFORMER_CONFIGS["Cosmos-2.0-Diffusion-2B-Text2Image"]
    found["anima"] = scripted("CosmosTransformer3DModel", name, config)
    name = "convert_minimax_h3_to_diffusers"
    h3 = script(name)
    found["h3"] = scripted("MiniMaxH3Transformer3DModel", name, h3.MINIMAX_H3_TRANSFORMER_CONFIG)
    found["h3_vae"] = scripted("AutoencoderKLMiniMaxH3", name, h3.MINIMAX_H3_VIDEO_VAE_CONFIG)
    name = "convert_ltx_to_diffusers"
    ltx = script(name)
    found["ltx"] = scripted("LTXVideoTransformer3DModel", name, ltx.get_transformer_config("0.9.0"))
    found["ltx_vae"] = scripted("AutoencoderKLLTXVideo", name, ltx.get_vae_config("0.9.0"))
    name = "convert_ltx2_to_diffusers"
    ltx_2 = script(name)
    for version in ("2.0", "2.3", "2.5"):
        vocoder = "LTX2Vocoder" if version == "2.0" else "LTX2VocoderWithBWE"
        text = argparse.Namespace(**GEMMA_4_12B)
        for part, class_name, (config, *_) in (
            ("", "LTX2VideoTransformer3DModel", ltx_2.get_ltx2_transformer_config(version)),
            ("_vae", "AutoencoderKLLTX2Video", ltx_2.get_ltx2_video_vae_config(version)),
            ("_sound", "AutoencoderKLLTX2Audio", ltx_2.get_ltx2_audio_vae_config(version)),
            ("_vocoder", vocoder, ltx_2.get_ltx2_vocoder_config(version)),
            ("_connectors", "LTX2TextConnectors", ltx_2.get_ltx2_connectors_config(version, text)),
        ):
            library = "ltx2" if part in ("_vocoder", "_connectors") else "diffusers"
            source = scripted(class_name, name, {}).source
            found[f"ltx_{version}{part}"] = Part(class_name, config["diffusers_config"], source, library)
    return found


def _function(file: Path, name: str) -> Any:
    """One of a script that parses a command line where it is imported."""
    text = file.read_text()
    body = re.search(rf"^def {name}\b.*?(?=^\S)", text.replace("\n) ->", "\n ) ->"), re.S | re.M)
    assert body, f"{file} has {name}"
    names: dict[str, Any] = defaultdict(dict, __builtins__=__builtins__, Any=Any, Dict=dict, Tuple=tuple)
    exec(body[0], names)  # noqa: S102 (of a checkout that whoever runs this names)
    return names[name]


# ---- models

FLOW = "FlowMatchEulerDiscreteScheduler"
NOTHING = {
    "dynamic": of_no_weights(FLOW, "diffusers", use_dynamic_shifting=True),
    "shift_1": of_no_weights(FLOW, "diffusers", shift=1.0),
    "shift_3": of_no_weights(FLOW, "diffusers", shift=3.0),
    "shift_5": of_no_weights(FLOW, "diffusers", shift=5.0),
    "shift_6": of_no_weights(FLOW, "diffusers", shift=6.0),
    "unipc_1": of_no_weights("UniPCMultistepScheduler", "diffusers", flow_shift=1.0),
    "unipc_3": of_no_weights("UniPCMultistepScheduler", "diffusers", flow_shift=3.0),
    "h3_steps": of_no_weights("MiniMaxH3Scheduler", "diffusers"),
    "clip_words": of_no_weights("CLIPTokenizer"),
    "t5_words": of_no_weights("T5TokenizerFast"),
    "byt5_words": of_no_weights("ByT5Tokenizer"),
    "siglip_pictures": of_no_weights("SiglipImageProcessor"),
    "qwen_words": of_no_weights("Qwen2Tokenizer"),
    "gemma_words": of_no_weights("GemmaTokenizer"),
    "pixtral_words": of_no_weights("PixtralProcessor"),
    "qwen_25_sees": of_no_weights("Qwen2VLProcessor"),
    "qwen_3_sees": of_no_weights("Qwen3VLProcessor"),
}
TWO = {"tokenizer": "clip_words", "tokenizer_2": "t5_words", "text_encoder": "clip_l", "text_encoder_2": "t5_xxl"}
FLUX = {**TWO, "vae": "flux_vae", "scheduler": "dynamic"}
QWEN = {"text_encoder": "qwen_25_vl_7b", "tokenizer": "qwen_words", "vae": "qwen_vae", "scheduler": "dynamic"}
EDIT = {**QWEN, "processor": "qwen_25_sees", "transformer": "qwen_image"}
WAN = {"text_encoder": "umt5_xxl", "tokenizer": "t5_words", "vae": "wan_vae", "scheduler": "unipc_3"}
COSMOS = {
    "sound_tokenizer": "cosmos_sound",
    "text_tokenizer": "qwen_words",
    "vae": "wan_22_vae",
    "scheduler": "unipc_1",
}
KLEIN = {"tokenizer": "qwen_words", "vae": "flux_2_vae", "scheduler": "dynamic"}
KREA = {"transformer": "krea_2", "text_encoder": "qwen_3_vl_4b_body", "tokenizer": "qwen_words", "vae": "qwen_vae"}
Z_IMAGE = {"transformer": "z_image", "text_encoder": "qwen_3_4b_body", "tokenizer": "qwen_words", "vae": "flux_vae"}
THREE = {
    "tokenizer": "clip_words",
    "tokenizer_2": "clip_words",
    "tokenizer_3": "t5_words",
    "text_encoder": "clip_l_projected",
    "text_encoder_2": "clip_g",
    "text_encoder_3": "t5_xxl",
    "vae": "flux_vae",
    "scheduler": "shift_3",
}
SIGLIP = {"image_encoder": "siglip", "feature_extractor": "siglip_pictures"}
ERNIE = {"transformer": "ernie", "text_encoder": "ministral_3b", "tokenizer": "qwen_words", "vae": "flux_2_vae"}
ANIMA = {
    "transformer": "anima",
    "text_conditioner": "anima_text",
    "text_encoder": "qwen_3_06b_body",
    "tokenizer": "qwen_words",
    "t5_tokenizer": "t5_words",
    "vae": "qwen_vae",
    "scheduler": "shift_3",
}
FLUX_3 = {"transformer": "flux_3", "text_encoder": "qwen_3_vl_4b", "tokenizer": "qwen_3_sees", "vae": "flux_2_vae"}
HUNYUAN = {
    "transformer": "hunyuan_15",
    "text_encoder": "qwen_25_vl_7b_text",
    "text_encoder_2": "byt5",
    "tokenizer": "qwen_words",
    "tokenizer_2": "byt5_words",
    "vae": "hunyuan_vae",
    "scheduler": "shift_5",
}


def ltx_2(version: str, text_encoder: str) -> dict[str, str]:
    at = f"ltx_{version}"
    return {
        "transformer": at,
        "vae": f"{at}_vae",
        "audio_vae": f"{at}_sound",
        "vocoder": f"{at}_vocoder",
        "connectors": f"{at}_connectors",
        "text_encoder": text_encoder,
        "tokenizer": "gemma_words",
        "scheduler": "dynamic",
    }


Entry = tuple[dict[str, Any], dict[str, str]]  # what of its index is no component, and its parts


def entry(pipeline: str, parts: Mapping[str, str], index: Mapping[str, Any] | None = None, **others: str) -> Entry:
    return {"_class_name": pipeline, **(index or {})}, {**parts, **others}


DISTILLED = {"is_distilled": True}
MODELS: dict[str, Entry] = {
    "black-forest-labs/FLUX.1-dev": entry("FluxPipeline", FLUX, transformer="flux_dev"),
    "black-forest-labs/FLUX.1-schnell": entry("FluxPipeline", FLUX, transformer="flux_schnell", scheduler="shift_1"),
    "black-forest-labs/FLUX.1-Kontext-dev": entry("FluxKontextPipeline", FLUX, transformer="flux_dev"),
    "black-forest-labs/FLUX.2-dev": entry(
        "Flux2Pipeline", KLEIN, transformer="flux2_dev", text_encoder="mistral_24b", tokenizer="pixtral_words"
    ),
    "black-forest-labs/FLUX.2-klein-4B": entry(
        "Flux2KleinPipeline", KLEIN, DISTILLED, transformer="klein_4b", text_encoder="qwen_3_4b"
    ),
    "black-forest-labs/FLUX.2-klein-9B": entry(
        "Flux2KleinPipeline", KLEIN, DISTILLED, transformer="klein_9b", text_encoder="qwen_3_8b"
    ),
    "black-forest-labs/FLUX.2-klein-base-9B": entry(
        "Flux2KleinPipeline", KLEIN, transformer="klein_9b", text_encoder="qwen_3_8b"
    ),
    "black-forest-labs/flux-3-image-klein": entry("Flux3DistilledModularPipeline", FLUX_3),
    "black-forest-labs/flux-3-image-klein-base": entry("Flux3ModularPipeline", FLUX_3, scheduler="dynamic"),
    "Qwen/Qwen-Image": entry("QwenImagePipeline", QWEN, transformer="qwen_image"),
    "Qwen/Qwen-Image-Edit": entry("QwenImageEditPipeline", EDIT),
    "Qwen/Qwen-Image-Edit-2509": entry("QwenImageEditPlusPipeline", EDIT),
    "Qwen/Qwen-Image-Edit-2511": entry("QwenImageEditPlusPipeline", EDIT),
    "Qwen/Qwen-Image-Layered": entry(
        "QwenImageLayeredPipeline", EDIT, transformer="qwen_layered", vae="qwen_layered_vae"
    ),
    "Qwen/Qwen-Image-2.1": entry(
        "QwenImage21Pipeline",
        {"transformer": "qwen_image_21", "text_encoder": "qwen_3_vl_8b", "processor": "qwen_3_sees"},
        vae="qwen_21_vae",
        scheduler="dynamic",
    ),
    "Wan-AI/Wan2.1-T2V-1.3B-Diffusers": entry("WanPipeline", WAN, transformer="Wan-T2V-1.3B"),
    "Wan-AI/Wan2.1-T2V-14B-Diffusers": entry("WanPipeline", WAN, transformer="Wan-T2V-14B"),
    "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers": entry(
        "WanImageToVideoPipeline", WAN, transformer="Wan-I2V-14B-480p", image_encoder="clip_h_vision"
    ),
    "Wan-AI/Wan2.1-FLF2V-14B-720P-diffusers": entry(
        "WanImageToVideoPipeline", WAN, transformer="Wan-FLF2V-14B-720P", image_encoder="clip_h_vision"
    ),
    "Wan-AI/Wan2.2-T2V-A14B-Diffusers": entry(
        "WanPipeline",
        WAN,
        {"boundary_ratio": 0.875},
        transformer="Wan2.2-T2V-A14B",
        transformer_2="Wan2.2-T2V-A14B",
    ),
    "Wan-AI/Wan2.2-I2V-A14B-Diffusers": entry(
        "WanImageToVideoPipeline",
        WAN,
        {"boundary_ratio": 0.9},
        transformer="Wan2.2-I2V-14B-720p",
        transformer_2="Wan2.2-I2V-14B-720p",
    ),
    "krea/Krea-2-Turbo": entry("Krea2Pipeline", KREA, DISTILLED, scheduler="dynamic"),
    "krea/Krea-2-Raw": entry("Krea2Pipeline", KREA, scheduler="dynamic"),
    "Tongyi-MAI/Z-Image-Turbo": entry("ZImagePipeline", Z_IMAGE, scheduler="shift_3"),
    "Tongyi-MAI/Z-Image": entry("ZImagePipeline", Z_IMAGE, scheduler="shift_6"),
    "Lightricks/LTX-Video": entry(
        "LTXPipeline",
        {"transformer": "ltx", "vae": "ltx_vae", "text_encoder": "t5_xxl", "tokenizer": "t5_words"},
        scheduler="dynamic",
    ),
    "Lightricks/LTX-2": entry("LTX2Pipeline", ltx_2("2.0", "gemma_3_12b")),
    "diffusers/LTX-2.3-Diffusers": entry("LTX2Pipeline", ltx_2("2.3", "gemma_3_12b")),
    "Lightricks/LTX-2.5-Diffusers": entry("LTX2Pipeline", ltx_2("2.5", "gemma_4_12b"), scheduler="shift_1"),
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v": entry("HunyuanVideo15Pipeline", HUNYUAN),
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_t2v": entry("HunyuanVideo15Pipeline", HUNYUAN),
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_i2v": entry(
        "HunyuanVideo15ImageToVideoPipeline", HUNYUAN, **SIGLIP
    ),
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_i2v": entry(
        "HunyuanVideo15ImageToVideoPipeline", HUNYUAN, **SIGLIP
    ),
    "MiniMaxAI/MiniMax-H3": entry(
        "MiniMaxH3ModularPipeline",
        {
            **{"transformer": "h3", "transformer_ref": "h3", "vae": "h3_vae", "audio_vae": "h3_sound"},
            "text_encoder": "qwen_3_vl_32b",
        },
        tokenizer="qwen_words",
        processor="qwen_3_sees",
        scheduler="h3_steps",
        audio_scheduler="h3_steps",
    ),
    "nvidia/Cosmos3-Nano": entry("Cosmos3OmniPipeline", COSMOS, transformer="cosmos_nano"),
    "nvidia/Cosmos3-Super": entry("Cosmos3OmniPipeline", COSMOS, transformer="cosmos_super"),
    "stabilityai/stable-diffusion-3.5-medium": entry("StableDiffusion3Pipeline", THREE, transformer="sd_35_medium"),
    "stabilityai/stable-diffusion-3.5-large": entry("StableDiffusion3Pipeline", THREE, transformer="sd_35_large"),
    "circlestone-labs/Anima-Base-v1.0-Diffusers": entry("AnimaModularPipeline", ANIMA),
    "baidu/ERNIE-Image": entry("ErnieImagePipeline", ERNIE, scheduler="dynamic"),
    "baidu/ERNIE-Image-Turbo": entry("ErnieImagePipeline", ERNIE, scheduler="dynamic"),
}


# ---- the table


def make(scripts: Path) -> None:
    parts = {**PARTS, **scripted_parts(scripts), **NOTHING}
    used = dict.fromkeys(name for _, named in MODELS.values() for name in named.values())
    rows = {name: _row(parts[name]) for name in used}
    for name in used:
        num = sum(math.prod(shape) for shape in unfolded(rows[name].get("tensors", {})).values())
        print(f"{name:28} {num / 1e9:8.3f} billion  {parts[name].source}")
    about = {name: metadata.version(name) for name in ("diffusers", "transformers")}
    first: dict[str, str] = {}  # of those that are alike in all
    alike = {name: first.setdefault(json.dumps(row), name) for name, row in rows.items()}
    rows = {name: row for name, row in rows.items() if alike[name] == name}
    models = {
        name: {"index": index, "parts": {each: alike[part] for each, part in named.items()}}
        for name, (index, named) in MODELS.items()
    }
    lines = [f' "made_with": {json.dumps(about)}', *(_section(*each) for each in (("parts", rows), ("models", models)))]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{TABLE.stat().st_size:,} bytes")


def _section(name: str, rows: Mapping[str, Any]) -> str:
    told = (f"  {json.dumps(key)}: {json.dumps(row, separators=(',', ':'))}" for key, row in rows.items())
    return f' "{name}": {{\n' + ",\n".join(told) + "\n }"


def _row(part: Part) -> dict[str, Any]:
    row, kind = {"library": part.library, "class": part.class_name}, kind_of(part.class_name)
    if kind != "model":
        words = {"tokenizer.json": {}} if kind == "tokenizer" else {}
        return {**row, "files": {CONFIGS[kind][0]: dict(part.config), **words}}
    config, tensors = _built(part)
    kept = {name: value for name, value in config.items() if name not in LEFT_OUT and not name.startswith("_")}
    stem = WEIGHT_NAMES.get(part.library, "diffusion_pytorch_model")
    told = {"files": {"config.json": kept}, "weights": f"{stem}.safetensors", "tensors": folded(tensors)}
    return {**row, "source": part.source, **told}


def _built(part: Part) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]]:
    """The config as it is written, and the shapes of what is saved, a weight that is tied to another left out."""
    import torch
    import transformers

    if part.library == "transformers":
        kind = getattr(transformers, part.class_name)
        with torch.device("meta"):
            model = kind(kind.config_class(**json.loads(json.dumps(part.config))))
        config = dict(part.config)
        tied = {*(getattr(model, "all_tied_weights_keys", None) or {})}
    else:
        modules = {"ltx2": "diffusers.pipelines.ltx2"}
        kind = getattr(importlib.import_module(modules.get(part.library, "diffusers")), part.class_name)
        known = inspect.signature(kind.__init__).parameters
        with torch.device("meta"):
            model = kind(**{name: value for name, value in part.config.items() if name in known})
        config, tied = json.loads(json.dumps(dict(model.config), default=str)), set[str]()
    return config, {name: tuple(value.shape) for name, value in model.state_dict().items() if name not in tied}


def folded(tensors: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """{shape: names}, where `blocks.0:18.to_q,to_k.weight` stands for each number from 0 to 18 with each word."""
    orders = [*range(max(name.count(".") + 1 for name in tensors))]
    return min((_folded(tensors, order) for order in (orders, orders[::-1])), key=lambda rows: len(json.dumps(rows)))


def _folded(tensors: Mapping[str, tuple[int, ...]], order: Iterable[int]) -> dict[str, str]:
    rows = [(tuple(name.split(".")), shape) for name, shape in tensors.items()]
    for at in order:
        groups: dict[Any, list[str]] = defaultdict(list)
        for name, shape in rows:
            groups[name[:at], name[at + 1 :], shape].append(name[at] if at < len(name) else "")
        rows = [((*a, *filter(None, [_joined(own)]), *b), shape) for (a, b, shape), own in groups.items()]
    found: dict[str, list[str]] = defaultdict(list)
    for name, shape in rows:
        found["x".join(map(str, shape))].append(".".join(name))
    return {shape: " ".join(names) for shape, names in found.items()}


def _joined(own: Iterable[str]) -> str:
    """The parts of names at one place, runs of numbers as their first and last."""
    words = [each for each in own if not each.isdecimal()]
    runs: list[list[int]] = []
    for number in sorted(int(each) for each in own if each.isdecimal()):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join([*words, *(f"{a}" if a == b else f"{a}:{b}" for a, b in runs)])


# ---- what runs where, by the planner


def verdict(model_id: str, machine: Machine) -> str:
    """How a model runs there: whole, streamed, quantized, or not; with bytes a device and seconds a step."""
    answer = plan_model(model_id, machine, roots=())
    if answer.chosen is not None:
        streamed = getattr(answer.chosen, "streamed_bytes", 0)
        return f"{'streamed' if streamed else 'whole'} {_figures(answer.chosen)}"
    if fewer := next((mend.values["quantization"] for mend in answer.mends if "quantization" in mend.values), None):
        packed = plan_model(model_id, machine, roots=(), quantization=fewer).chosen
        assert packed is not None, f"{model_id} fits {machine.name} with {fewer}"
        return f"{fewer} {_figures(packed)}"
    remedy = answer.mends[0].words if answer.mends else f"{answer.closest.num_bytes / GIB:.1f} GiB"
    return f"no: {remedy} would"


def _figures(run: Run) -> str:
    return f"{run.num_bytes / GIB:.1f} GiB {duration(run.step.seconds)} ({spelt(run)})"


def table() -> str:
    """What README.md shows of some of them: how long a step takes on each card, and how it fits where not whole."""
    lines = [f"| a step of | {' | '.join(MACHINES)} |", "|---" * (len(MACHINES) + 1) + "|"]
    for title in [*SHOWN][:NUM_SHORT]:
        cells = [verdict(SHOWN[title], named_machine(name)).split() for name in MACHINES]
        lines.append(f"| {title} | {' | '.join(_cell(*cell) for cell in cells)} |")
    return "\n".join(lines)


def _cell(how: str, *figures: str) -> str:
    return "-" if how == "no:" else " ".join(figures[2:4]) + ("" if how == "whole" else f", {how}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--scripts", type=Path, help="where diffusers' conversion scripts are")
    arguments = parser.parse_args()
    if arguments.scripts:
        make(arguments.scripts)
    else:
        print(table())
