"""The families that are rows: lines of models whose stages are diffusers' own modular blocks.

Numbers are those of the makers' model cards and of the classic pipelines' signatures.
"""

from dataclasses import replace

from . import minimax
from .family import Card
from .flux import DEV_LICENCE, FLUX  # noqa: F401 (a row, as those below)
from .row import LEVELS, Row, Variant

APACHE, KREA = "Apache-2.0", "Krea 2 Community License"
OPEN_MDW = "OpenMDW-1.1"
QWEN = "Qwen Research License"
STABILITY = "Stability AI Community License"
FLUX_2_DEV, FLUX_2_KLEIN = "FLUX.2 [dev] Non-Commercial License", "Apache-2.0 (4B), FLUX Non-Commercial License (9B)"
FLUX_3_KLEIN = "FLUX Kommunity License"
HUNYUAN, LIGHTRICKS = "Tencent Hunyuan Community License", "LTX-Video Open Weights License"
LIGHTRICKS_2 = "LTX-2 Community License Agreement"
CIRCLESTONE = "CircleStone Labs Non-Commercial License"
MINIMAX = "MiniMax H3 Community License Agreement"
# What FLUX.2 dev was made with, line break included; the modular block has a space there.
FLUX_2_SYSTEM = (
    "You are an AI that reasons about image descriptions. You give structured responses focusing on object "
    "relationships, object\nattribution and actions without speculation."
)

QWEN_IMAGE_CARD = Card(
    name="Qwen-Image",
    licence=APACHE,
    width=1328,
    height=1328,
    steps=50,
    guidance=4.0,
    text_length=1024,
    negative_prompt=" ",
)
QWEN_IMAGE = Row(
    name="qwen_image",
    title="Qwen-Image",
    pipelines=("QwenImagePipeline", "QwenImageImg2ImgPipeline"),
    reads_modular=False,
    variants=(Variant(QWEN_IMAGE_CARD, "QwenImageModularPipeline"),),
    longest_text=1024,
    text_mask="encoder_hidden_states_mask",
    takes_image="start",
    takes_mask=True,
)

SD3_CARD = Card(name="Stable Diffusion 3 medium", licence=STABILITY, steps=28, guidance=7.0, text_length=256)
SD35_MEDIUM = replace(SD3_CARD, name="Stable Diffusion 3.5 medium", steps=40, guidance=4.5)
SD35_LARGE = replace(SD3_CARD, name="Stable Diffusion 3.5 large", guidance=3.5)
SD3_BLOCKS = "StableDiffusion3ModularPipeline"
SD3 = Row(
    name="sd3",
    title="Stable Diffusion 3",
    pipelines=("StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline"),
    reads_modular=False,
    variants=(
        Variant(SD35_MEDIUM, SD3_BLOCKS, {"transformer.dual_attention_layers": bool}),
        Variant(SD35_LARGE, SD3_BLOCKS, {"transformer.num_layers": lambda num: (num or 0) >= 38}),
        Variant(SD3_CARD, SD3_BLOCKS),
    ),
    longest_text=512,
    # T5, the third, a model may come without; the two CLIPs read the first 77 tokens whatever the length.
    text=("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2", "tokenizer_3?", "text_encoder_3?"),
    takes_image="start",
    takes_mask=True,
    draws_picture=True,
)

Z_IMAGE = Row(
    name="z_image",
    title="Z-Image",
    pipelines=("ZImagePipeline", "ZImageImg2ImgPipeline"),
    variants=(
        Variant(Card(name="Z-Image Turbo", licence=APACHE, steps=9), "ZImageModularPipeline", {"scheduler.shift": 3.0}),
        Variant(Card(name="Z-Image", licence=APACHE, steps=50, guidance=4.0), "ZImageModularPipeline"),
    ),
    longest_text=1024,
    takes_image="start",
    adds_guidance=True,
)

QWEN_IMAGE_21 = Row(
    name="qwen_image_21",
    title="Qwen-Image 2.1",
    pipelines=("QwenImage21Pipeline",),
    variants=(
        Variant(Card(name="Qwen-Image 2.1 Turbo", licence=QWEN), "QwenImage21TurboModularPipeline", marked_by=LEVELS),
        Variant(Card(name="Qwen-Image 2.1", licence=QWEN, steps=40, guidance=4.0), "QwenImage21ModularPipeline"),
    ),
    longest_text=1024,
    text_is_fixed=True,
    text=("processor", "text_encoder"),
    references=(0, 10),
)

EDIT_PLUS = Card(name="Qwen-Image-Edit Plus", licence=APACHE, steps=40, guidance=4.0, negative_prompt=" ")
QWEN_IMAGE_EDIT_PLUS = Row(
    name="qwen_image_edit_plus",
    title="Qwen-Image-Edit Plus",
    pipelines=("QwenImageEditPlusPipeline",),
    variants=(Variant(EDIT_PLUS, "QwenImageEditPlusModularPipeline"),),
    longest_text=1024,
    text_is_fixed=True,
    text=("processor", "text_encoder"),
    text_mask="encoder_hidden_states_mask",
    references=(1, 3),
)
QWEN_IMAGE_EDIT = replace(
    QWEN_IMAGE_EDIT_PLUS,
    name="qwen_image_edit",
    title="Qwen-Image-Edit",
    pipelines=("QwenImageEditPipeline",),
    variants=(Variant(replace(EDIT_PLUS, name="Qwen-Image-Edit", steps=50), "QwenImageEditModularPipeline"),),
    references=(1, 1),
)

KREA_2 = Row(
    name="krea_2",
    title="Krea 2",
    pipelines=("Krea2Pipeline",),
    variants=(
        Variant(Card(name="Krea 2 Turbo", licence=KREA, steps=8), "Krea2TurboModularPipeline", {"is_distilled": True}),
        Variant(Card(name="Krea 2", licence=KREA, steps=28, guidance=4.5), "Krea2ModularPipeline"),
    ),
    longest_text=512,
    text_mask="encoder_attention_mask",
    adds_guidance=True,
    fixed={"text_encoder_select_layers": [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35]},
)

KONTEXT = Card(name="FLUX.1 Kontext dev", licence=DEV_LICENCE, steps=28, distilled_guidance=2.5, text_length=512)
FLUX_KONTEXT = Row(
    name="flux_kontext",
    title="FLUX.1 Kontext",
    pipelines=("FluxKontextPipeline",),
    variants=(Variant(KONTEXT, "FluxKontextModularPipeline"),),
    longest_text=512,
    text=("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
    references=(0, 1),
    distilled="guidance_scale",
)

DEV = Card(name="FLUX.2 dev", licence=FLUX_2_DEV, steps=50, distilled_guidance=4.0)
KLEIN = Card(name="FLUX.2 klein", licence=FLUX_2_KLEIN, steps=4)
KLEIN_BASE = Card(name="FLUX.2 klein base", licence=FLUX_2_KLEIN, steps=50, guidance=4.0)
FLUX_2 = Row(
    name="flux_2",
    title="FLUX.2",
    pipelines=("Flux2Pipeline", "Flux2KleinPipeline"),
    variants=(
        Variant(DEV, "Flux2ModularPipeline", {"transformer.guidance_embeds": True}),
        Variant(KLEIN, "Flux2KleinModularPipeline", {"is_distilled": True}),
        Variant(KLEIN_BASE, "Flux2KleinBaseModularPipeline"),
    ),
    longest_text=512,
    references=(0, 10),
    distilled="guidance_scale",
    settings={"DEFAULT_SYSTEM_MESSAGE": FLUX_2_SYSTEM},
)

FLUX_3_BASE = Card(name="FLUX.3 klein base", licence=FLUX_3_KLEIN, steps=50, guidance=3.5, text_length=8192)
FLUX_3 = Row(
    name="flux_3",
    title="FLUX.3",
    pipelines=(),
    variants=(
        Variant(FLUX_3_BASE, "Flux3ModularPipeline"),
        Variant(replace(FLUX_3_BASE, name="FLUX.3 klein", steps=16, guidance=1.0), "Flux3DistilledModularPipeline"),
    ),
    longest_text=8192,
    denoise=("transformer", "scheduler?"),
    references=(0, 10),
)

ERNIE_IMAGE = Row(
    name="ernie_image",
    title="ERNIE-Image",
    pipelines=("ErnieImagePipeline",),
    variants=(Variant(Card(name="ERNIE-Image", licence=APACHE, steps=50, guidance=4.0), "ErnieImageModularPipeline"),),
    longest_text=2048,
    text_is_fixed=True,
)

HUNYUAN_CARD = Card(
    name="HunyuanVideo 1.5", licence=HUNYUAN, width=848, height=480, frames=121, fps=24.0, steps=50, guidance=6.0
)
HUNYUAN_VIDEO_15 = Row(
    name="hunyuan_video_15",
    title="HunyuanVideo 1.5",
    pipelines=("HunyuanVideo15Pipeline",),
    variants=(Variant(HUNYUAN_CARD, "HunyuanVideo15ModularPipeline"),),
    longest_text=1000,
    text_is_fixed=True,
    output="video",
    text=("tokenizer", "text_encoder", "tokenizer_2", "text_encoder_2"),
    decodes_one=True,
    patch=1,
    frame_multiple=4,
)

LTX_CARD = Card(
    name="LTX-Video",
    licence=LIGHTRICKS,
    width=704,
    height=512,
    frames=161,
    fps=25.0,
    steps=50,
    guidance=3.0,
    text_length=128,
)
LTX = Row(
    name="ltx",
    title="LTX-Video",
    pipelines=("LTXPipeline",),
    variants=(Variant(LTX_CARD, "LTXModularPipeline"),),
    longest_text=512,
    output="video",
    patch=1,
    frame_multiple=8,
)

LTX_2_CARD = replace(
    LTX_CARD, name="LTX-2", licence=LIGHTRICKS_2, width=768, frames=121, fps=24.0, steps=30, text_length=1024
)
# As `DISTILLED_SIGMA_VALUES` of diffusers.
LTX_SIGMAS = (1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875)
IS_25 = {"transformer.use_keyframes_abs_pos_embedding": True}
IS_DISTILLED = {**IS_25, "scheduler.use_dynamic_shifting": lambda shifts: not shifts}
LTX_25_CARD = replace(LTX_2_CARD, name="LTX-2.5", guidance=1.0)
LTX_25 = (
    Variant(LTX_25_CARD, "LTX2ModularPipeline", IS_DISTILLED, sigmas=LTX_SIGMAS),
    Variant(replace(LTX_2_CARD, name="LTX-2.5 full"), "LTX2ModularPipeline", IS_25),
)
# With the decoder that denoises pixels.
LTX_25_DECODED = tuple(replace(each, blocks="LTX25ModularPipeline", marked_by="diffusion_decoder") for each in LTX_25)
LTX_2 = Row(
    name="ltx_2",
    title="LTX-2",
    pipelines=("LTX2Pipeline", "LTX2ImageToVideoPipeline"),
    variants=(*LTX_25_DECODED, *LTX_25, Variant(LTX_2_CARD, "LTX2ModularPipeline")),
    longest_text=1024,
    output="video",
    text=("tokenizer", "text_encoder", "connectors"),
    decoders=("diffusion_decoder?",),
    beside={"latent_upsampler": ("ltx2", "LTX2LatentUpsamplerModel")},
    sound=("audio_vae", "vocoder"),
    patch=1,
    frame_multiple=8,
    guiders=("guider", "audio_guider"),
    takes_image="first_frame",
    packed=True,
)

H3_CARD = Card(
    name="MiniMax H3", licence=MINIMAX, width=1344, height=768, frames=124, fps=24.0, steps=50, text_length=0
)
MINIMAX_H3 = Row(
    name="minimax_h3",
    title="MiniMax H3",
    pipelines=(),
    variants=(Variant(H3_CARD, "MiniMaxH3ModularPipeline"),),
    longest_text=0,
    output="video",
    text=("tokenizer", "processor", "text_encoder"),
    denoise=("transformer", "transformer_ref?", "scheduler", "audio_scheduler"),
    looker="transformer_ref",
    references=(0, 9),
    reference_side=2048,
    longest_reference=4,
    reference_branches=("ref2va",),
    sees=minimax.sees,
    sound=("audio_vae",),
    least_steps=2,
    one_by_one=True,
    frame_multiple=17,
    frame_rest=5,
    least_frames=124,
    most_frames=345,
    latent_frames=5,
    fps=24.0,
    takes_image="first_frame",
    frame_branches=("keyframes", "fl2va"),
    kept_on_cpu=("text_token_tags",),
)

COSMOS = replace(H3_CARD, name="Cosmos 3", licence=OPEN_MDW, width=1280, height=720, frames=189, steps=35, guidance=6.0)
COSMOS_3 = Row(
    name="cosmos_3",
    title="Cosmos 3",
    pipelines=("Cosmos3OmniPipeline", "Cosmos3OmniDiffusersPipeline"),  # the second of Nano and Super as published
    variants=(Variant(COSMOS, "Cosmos3OmniModularPipeline"),),
    made_by="cosmos_blocks",
    output="video",
    text=("text_tokenizer",),
    denoise=("transformer", "scheduler", "text_tokenizer"),
    sound=("sound_tokenizer?",),
    one_by_one=True,
    patch=1,
    frame_multiple=4,
    takes_image="first_frame",
)

ANIMA_CARD = Card(name="Anima", licence=CIRCLESTONE, steps=40, guidance=4.0)
ANIMA = Row(
    name="anima",
    title="Anima",
    pipelines=(),
    variants=(Variant(ANIMA_CARD, "AnimaModularPipeline"),),
    longest_text=4096,
    text=("tokenizer", "text_encoder", "t5_tokenizer"),
    denoise=("transformer", "scheduler", "text_conditioner"),
    takes_image="start",
)

LAYERED = replace(QWEN_IMAGE_CARD, name="Qwen-Image Layered", width=640, height=640, frames=4, fps=1.0, most_side=1024)
QWEN_IMAGE_LAYERED = Row(
    name="qwen_image_layered",
    title="Qwen-Image Layered",
    pipelines=("QwenImageLayeredPipeline",),
    variants=(Variant(LAYERED, "QwenImageLayeredModularPipeline"),),
    longest_text=1024,
    output="video",
    text_mask="encoder_hidden_states_mask",
    takes_image="start",
    layered=True,
    frame_multiple=1,
    more_latent_frames=2,
)

HUNYUAN_VIDEO_15_IMAGE = replace(
    HUNYUAN_VIDEO_15,
    name="hunyuan_video_15_image",
    title="HunyuanVideo 1.5 image to video",
    pipelines=("HunyuanVideo15ImageToVideoPipeline",),
    reads_modular=False,
    variants=(Variant(replace(HUNYUAN_CARD, name="HunyuanVideo 1.5 image to video"), "HunyuanVideo15ModularPipeline"),),
    made_by="hunyuan_blocks",
    image=("vae", "image_encoder", "feature_extractor"),
    takes_image="first_frame",
    needs_frame=True,
)

# All that stand above, in their order.
ROWS: dict[str, Row] = {row.name: row for row in vars().copy().values() if isinstance(row, Row)}
