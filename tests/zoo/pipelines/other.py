"""Families of one or two pipelines: AuraFlow, Bria, DiT, PixArt, PRX, and the first HunyuanDiT and Lumina."""

from typing import Any

import diffusers
import transformers
from transformers.models.t5gemma.modeling_t5gemma import T5GemmaEncoder

from support.tiny_parts import UMT5, euler, image_vae, small_language, t5_parts, wan_vae
from support.tiny_tokenizers import qwen_tokenizer
from zoo import cross, hunyuan, image_joint, single_stream
from zoo.cases import tiny_transformer
from zoo.pipelines.tiny import NO_ROWS, PICTURE, Tiny, mask, picture, table

LATENTS = {"in_channels": 16, "out_channels": 32}  # the mean and what is dropped of the variance
HUNYUAN = {
    "in_channels": 16,
    "cross_attention_dim": 16,
    "cross_attention_dim_t5": 32,
    "text_len": 77,
    "text_len_t5": 256,
}


def aura_flow(kind: Any) -> Any:
    transformer = tiny_transformer(image_joint.aura_flow, in_channels=16, out_channels=16)
    return kind(**t5_parts(*UMT5), vae=_vae(), transformer=transformer, scheduler=euler())


def bria(kind: Any) -> Any:
    transformer = tiny_transformer(image_joint.bria, in_channels=64)
    return kind(**t5_parts(), vae=_vae(), transformer=transformer, scheduler=euler(dynamic=True))


def fibo(kind: Any) -> Any:
    """The last layers of its text encoder feed one block of the transformer each."""
    tokenizer = qwen_tokenizer()
    config = transformers.SmolLM3Config(**small_language(tokenizer, layers=4))
    transformer = tiny_transformer(image_joint.bria_fibo, in_channels=16, text_encoder_dim=16)
    return kind(
        tokenizer=tokenizer,
        text_encoder=transformers.SmolLM3ForCausalLM(config),
        # of Wan 2.2: 16 pixels a latent
        vae=wan_vae(is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16),
        transformer=transformer,
        scheduler=euler(dynamic=True),
    )


def dit(kind: Any) -> Any:
    """A picture of one of a thousand classes, three by three tokens."""
    transformer = tiny_transformer(cross.dit, **LATENTS, sample_size=6, num_embeds_ada_norm=1000)
    return kind(vae=_vae(), transformer=transformer, scheduler=diffusers.DDIMScheduler())


def hunyuan_dit(kind: Any, **more: Any) -> Any:
    """Four layers, the last two of which read what the first left; without a safety checker."""
    tokenizer = qwen_tokenizer(77)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    ids = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    return kind(
        tokenizer=tokenizer,
        text_encoder=transformers.BertModel(transformers.BertConfig(**sizes, **ids, max_position_embeddings=77)),
        **{f"{name}_2": part for name, part in t5_parts().items()},
        vae=_vae(),
        transformer=tiny_transformer(hunyuan.hunyuan_dit, **HUNYUAN, learn_sigma=True),
        scheduler=diffusers.DDPMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        **more,
    )


def hunyuan_dit_controlnet(kind: Any) -> Any:
    net = diffusers.HunyuanDiT2DControlNetModel(
        num_attention_heads=3,
        attention_head_dim=8,
        patch_size=2,
        sample_size=16,
        hidden_size=24,
        transformer_num_layers=4,
        mlp_ratio=2.0,
        pooled_projection_dim=8,
        **HUNYUAN,
    )
    return hunyuan_dit(kind, controlnet=net)


def lumina(kind: Any) -> Any:
    tokenizer = qwen_tokenizer()
    config = transformers.GemmaConfig(**small_language(tokenizer), head_dim=4)
    return kind(
        tokenizer=tokenizer,
        text_encoder=transformers.GemmaModel(config),
        vae=_vae(),
        transformer=tiny_transformer(single_stream.lumina_next, in_channels=16),
        scheduler=euler(),
    )


def pixart(kind: Any) -> Any:
    """With DDIM: DPM-Solver, which its models come with, warns where NumPy is 2."""
    transformer = tiny_transformer(cross.pixart, **LATENTS, caption_channels=32)
    return kind(**t5_parts(), vae=_vae(), transformer=transformer, scheduler=diffusers.DDIMScheduler())


def prx(kind: Any) -> Any:
    transformer = tiny_transformer(single_stream.prx, in_channels=16, resolution_embeds=False)
    tokenizer = qwen_tokenizer(31)
    config = transformers.T5GemmaModuleConfig(**small_language(tokenizer), head_dim=4, dropout_rate=0.0)
    text = {"tokenizer": tokenizer, "text_encoder": T5GemmaEncoder(config)}
    return kind(**text, vae=_vae(), transformer=transformer, scheduler=euler())


def prx_pixel(kind: Any) -> Any:
    """Tokens of 16 x 16 pixels; the language model of Qwen3 stands for that of Qwen3-VL."""
    transformer = tiny_transformer(single_stream.prx, in_channels=3, patch_size=16, bottleneck_size=12)
    tokenizer = qwen_tokenizer()
    config = transformers.Qwen3Config(**small_language(tokenizer), head_dim=4)
    text = {"tokenizer": tokenizer, "text_encoder": transformers.Qwen3Model(config)}
    return kind(**text, transformer=transformer, scheduler=euler(), prompt_max_tokens=31)


def _vae() -> Any:
    return image_vae(scaling_factor=0.3611, shift_factor=0.1159)


SHORT = PICTURE | {"max_sequence_length": 31}
UNBINNED = PICTURE | {"use_resolution_binning": False}
RAW = SHORT | {"clean_caption": False, "use_resolution_binning": False}
PERTURBED: dict[str, Any] = {"branches": 3, "unshared": NO_ROWS}  # a tripled batch


def _edit() -> dict[str, Any]:
    """Fifteen tokens and twelve of the picture to edit, a part of which is hidden."""
    order = '{"edit_instruction": "a red circle"}'
    return PICTURE | {"prompt": order, "image": picture(64, 48), "mask": mask(64, 48), "_auto_resize": False}


def _controlled() -> dict[str, Any]:
    """The latents of the control picture are drawn from torch's global generator."""
    return UNBINNED | {"control_image": picture(80, 48), "controlnet_conditioning_scale": 0.6}


TINY = table(
    Tiny("AuraFlowPipeline", aura_flow, lambda: SHORT),
    Tiny("BriaPipeline", bria, lambda: SHORT),
    Tiny("BriaFiboPipeline", fibo, lambda: PICTURE),
    Tiny("BriaFiboEditPipeline", fibo, _edit),
    Tiny("DiTPipeline", dit, lambda: {"class_labels": [3], "guidance_scale": 3.0, "num_inference_steps": 4}),
    Tiny("HunyuanDiTPipeline", hunyuan_dit, lambda: UNBINNED),
    Tiny("HunyuanDiTPAGPipeline", hunyuan_dit, lambda: UNBINNED | {"pag_scale": 2.0}, **PERTURBED),
    Tiny("HunyuanDiTControlNetPipeline", hunyuan_dit_controlnet, _controlled),
    Tiny("LuminaPipeline", lumina, lambda: PICTURE | {"clean_caption": False}),
    Tiny("PixArtAlphaPipeline", pixart, lambda: RAW),
    Tiny("PixArtSigmaPipeline", pixart, lambda: RAW),
    Tiny("PixArtSigmaPAGPipeline", pixart, lambda: RAW | {"pag_scale": 2.0}, **PERTURBED),
    Tiny("PRXPipeline", prx, lambda: UNBINNED),
    Tiny("PRXPixelPipeline", prx_pixel, lambda: UNBINNED),
)
