"""Tiny models of the families that are rows, and how the classic pipeline of each is called as our stages are.

Their configs are those of `tests/zoo/pipelines`, with as many layers of text as diffusers' blocks read.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from latentloom.pipelines.families.rows import LTX_SIGMAS, ROWS
from latentloom.pipelines.values import to_plain
from zoo.pipelines import tiny_of

PROMPT, NEGATIVE = "a red circle above a blue square", "bad"
SEED, STEPS = 5, 2
# What the classic pipeline of LTX-2 guides by beside guidance, off.
UNGUIDED = dict.fromkeys(("stg_scale", "audio_stg_scale", "guidance_rescale", "audio_guidance_rescale"), 0.0)
UNGUIDED |= dict.fromkeys(("audio_guidance_scale", "modality_scale", "audio_modality_scale"), 1.0)


@dataclass(frozen=True, kw_only=True)
class TinyRow:
    """A tiny model, and one run of it that both routes can make."""

    make: Callable[[], Any]
    guidance: float = 1.0  # 1 is off
    scale: str = "guidance_scale"  # what the classic call names it; empty where it takes none, or has a guider
    distilled: float = 0.0  # guidance that is an input of the transformer
    off: float = 0.0  # what the classic call takes for no guidance
    text_length: int = 64
    width: int = 80
    height: int = 48
    frames: int = 1
    steps: int = STEPS
    passes: int = STEPS  # how many steps are told of these
    sound: bool = False  # whether one is painted beside, where that is a choice
    starts: bool = False  # whether it needs a picture of its size to start from
    has_frame: bool = False  # whether its video begins with a picture
    references: int = 0  # how many pictures it looks at beside the prompt, each of another size
    call: dict[str, Any] = field(default_factory=dict[str, Any])  # what else the classic call takes
    stock: str = ""  # the classic pipeline's class, where it is not that of the folder
    # How far our pixels may be from the classic pipeline's, which are from 0 to 1; 1.0 is another picture. More than
    # 1e-5 is a named difference (tests/pipelines/route_differences.md).
    close: float = 1e-5


def request_of(model: dict[str, Any], row: TinyRow) -> dict[str, Any]:
    """What our denoise stage is asked for; the text is encoded here."""
    from latentloom.pipelines import stages

    negative = NEGATIVE if row.guidance > 1 else ""
    text: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": negative, "text_length": row.text_length}
    if row.references:
        text["references"] = {"pictures": list(map(tensor_of, references(row)))}
    canvas: Any = {"family": model["family"], "width": row.width, "height": row.height, "frames": row.frames}
    if row.starts:
        start = {"pixels": tensor_of(started_from(row))[None]}
        canvas = to_plain(stages.encode_image(model=model, image=start, **canvas_of(row)))
    if row.has_frame:
        image = {"pixels": tensor_of(first_frame(row))[None]}
        canvas = to_plain(stages.encode_image(model=model, image=image, **canvas_of(row)))
    return {
        "model": model,
        "conditioning": to_plain(stages.encode_text(model=model, **text)),
        "latents": canvas,
        "seed": SEED,
        "steps": row.steps,
        "guidance": row.guidance,
        "distilled_guidance": row.distilled,
        "sound": row.sound,
    }


def canvas_of(row: TinyRow) -> dict[str, int]:
    return {"width": row.width, "height": row.height, "frames": row.frames}


def started_from(row: TinyRow) -> Any:
    """A PIL picture of the size that is painted."""
    from zoo.pipelines.tiny import picture

    return picture(row.width, row.height, seed=7).convert("RGB")


def first_frame(row: TinyRow) -> Any:
    """A PIL picture of the video's size."""
    from zoo.pipelines.tiny import picture

    return picture(row.width, row.height)


def references(row: TinyRow) -> list[Any]:
    """PIL pictures of at least 64 pixels a side, the least that a model looks at."""
    from zoo.pipelines.tiny import picture

    return [picture(width, 64, seed=width) for width in (64, 112)[: row.references]]


@contextlib.contextmanager
def small_references() -> Iterator[None]:
    """Within it, what diffusers scales to 1024 x 1024 pixels (Qwen-Image, Kontext) it scales to about 102 x 102."""
    kontext = importlib.import_module("diffusers.pipelines.flux.pipeline_flux_kontext")
    modules = [
        importlib.import_module(f"diffusers.{name}")
        for name in (
            *(f"modular_pipelines.{family}.encoders" for family in ("qwenimage", "qwenimage21")),
            *(f"pipelines.qwenimage.pipeline_qwenimage_{name}" for name in ("edit", "edit_plus", "layered")),
            "pipelines.qwenimage21.pipeline_qwenimage21",
        )
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(kontext, "PREFERRED_KONTEXT_RESOLUTIONS", [(96, 96), (128, 80)]))
        for module in modules:
            stack.enter_context(
                mock.patch.object(module, "calculate_dimensions", _smaller(module.calculate_dimensions))
            )
        yield


def _smaller(calculate: Callable[[float, float], Any]) -> Callable[[float, float], Any]:
    return lambda area, ratio: calculate(area / 100, ratio)


def tensor_of(picture: Any) -> Any:
    """H W C in 0..1."""
    import numpy as np
    import torch

    return torch.from_numpy(np.array(picture)).float() / 255


def zoo(module: str, maker: str, pipeline: str, **how: Any) -> Any:
    """What that module of the zoo makes of a pipeline's class."""
    import diffusers

    make = getattr(importlib.import_module(f"zoo.pipelines.{module}"), maker)
    return make(getattr(diffusers, pipeline), **how)


def z_image(*, shift: float) -> Any:
    from support.tiny_parts import euler

    made = zoo("z_image", "z_image", "ZImagePipeline")
    made.scheduler = euler(shift=shift)
    return made


def krea_2(*, is_distilled: bool) -> Any:
    read = tuple(range(2, 36, 3))
    return zoo("qwen_image", "krea2", "Krea2Pipeline", read=read, layers=36, is_distilled=is_distilled)


def flux_2(*, layers: int = 31) -> Any:
    return zoo("flux", "flux2", "Flux2Pipeline", layers=layers)


def flux_2_klein(*, is_distilled: bool) -> Any:
    return zoo("flux", "klein", "Flux2KleinPipeline", layers=28, is_distilled=is_distilled)


def qwen_image_21(*, levels: list[float] | None = None) -> Any:
    from diffusers import QwenImage21Pipeline

    return QwenImage21Pipeline(
        **zoo("qwen_image", "qwen21", "QwenImage21Pipeline", most=4).components, sample_sigmas=levels
    )


def qwen_image_edit(pipeline: str, **config: bool) -> Any:
    import diffusers

    from support.tiny_parts import qwen_processor, wan_vae
    from zoo.pipelines.qwen_image import parts

    made = parts(**config)
    vae = wan_vae(diffusers.AutoencoderKLQwenImage)
    return getattr(diffusers, pipeline)(**made, vae=vae, processor=qwen_processor(made["tokenizer"]))


def qwen_image_layered() -> Any:
    import diffusers

    from support.tiny_parts import qwen_processor, wan_vae
    from zoo.pipelines.qwen_image import parts

    made = parts(use_additional_t_cond=True, use_layer3d_rope=True)
    vae = wan_vae(diffusers.AutoencoderKLQwenImage, input_channels=4)
    return diffusers.QwenImageLayeredPipeline(**made, vae=vae, processor=qwen_processor(made["tokenizer"]))


def as_written(pipeline: str, parts: dict[str, Any]) -> Any:
    """As diffusers makes and writes a modular pipeline."""
    import diffusers

    from latentloom.pipelines.signatures.table import blocks_of

    made = blocks_of(getattr(diffusers, pipeline)).init_pipeline()
    made.update_components(**parts)
    return made


def flux_3(pipeline: str) -> Any:
    """Without the language model that rewrites prompts."""
    return as_written(pipeline, zoo("blocks", "flux3_parts", pipeline, heads=4))


def cosmos_3(*, hears: bool = True) -> Any:
    return zoo("cosmos", "omni", "Cosmos3OmniPipeline", heads=4, hears=hears)


def minimax_h3() -> Any:
    """50 layers of text are read, and the last is not; 40 latents of sound, of 200 samples, a second."""
    from zoo.cases import tiny_transformer
    from zoo.kandinsky import minimax_h3 as transformer
    from zoo.pipelines.minimax import h3_parts

    vae = {"decoder_num_layers": 1, "decoder_attention_head_dim": 8, "decoder_ffn_mult": 2}
    vae |= {"latents_mean": (0.1, -0.1, 0.2, 0.0), "latents_std": (1.5, 0.5, 1.0, 2.0)}
    sound = {"encoder_rates": (2, 4, 5, 5), "decoder_rates": (5, 5, 4, 2), "decoder_kernel_sizes": (9, 9, 8, 4)}
    sound |= {"decoder_dim": 32, "sampling_rate": 8000, "latents_mean": [0.1] * 6, "latents_std": [1.2] * 6}
    parts = h3_parts(heads=4, patch=16, most=3, vae=vae, sound=sound)
    parts["transformer_ref"] = tiny_transformer(transformer, heads=4, text_dim=16)
    made = as_written("MiniMaxH3ModularPipeline", parts)
    made.register_to_config(reference_image_short_edge=48)
    return made


def ltx_25(*, is_distilled: bool = True) -> Any:
    from support.tiny_parts import euler

    made = zoo("ltx", "THIRD", "LTX2Pipeline")
    made.scheduler = euler(shift=1.0, dynamic=not is_distilled)
    return made


def ltx_25_decoded() -> Any:
    """With the decoder that denoises pixels: 8 latents, 32 pixels and 8 frames each."""
    from diffusers import LTX2VideoDiffusionDecoderModel

    decoder = LTX2VideoDiffusionDecoderModel(
        latent_channels=8,
        decoder_head_dim=16,
        decoder_stage_channels=(64, 32, 16, 16, 16),
        decoder_stage_depths=(1, 1, 1, 1, 1),
        decoder_upsample_channel_reductions=(2, 2, 1, 1),
        decoder_stage_kernels=((3, 1, 1), (3, 3, 3), (3, 3, 3), (3, 3, 3)),
        decoder_stage5_kernel=(3, 3, 3),
        decoder_t_emb_dim=16,
    )
    return as_written("LTX25ModularPipeline", {**ltx_25().components, "diffusion_decoder": decoder})


def write_upsampler(folder: Path) -> Path:
    """Into the folder of a tiny LTX-2, beside what its index names, as its makers have it."""
    import torch
    from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = LTX2LatentUpsamplerModel(in_channels=8, mid_channels=32, num_blocks_per_stage=1)
    made.save_pretrained(str(folder / "latent_upsampler"))
    return folder


TINY_ROWS: dict[str, TinyRow] = {
    "z_image": TinyRow(make=lambda: z_image(shift=6.0), guidance=4.0, close=3e-5),
    "z_image_turbo": TinyRow(make=lambda: z_image(shift=3.0)),
    "krea_2": TinyRow(make=lambda: krea_2(is_distilled=False), guidance=4.5),
    "flux_kontext": TinyRow(
        make=lambda: tiny_of("FluxKontextPipeline").make(), distilled=2.5, call={"max_area": 80 * 48}
    ),
    "flux_2": TinyRow(make=flux_2, distilled=3.0, text_length=256, close=1e-5),
    "flux_2_klein": TinyRow(make=lambda: flux_2_klein(is_distilled=True)),
    "flux_2_klein_base": TinyRow(make=lambda: flux_2_klein(is_distilled=False), guidance=4.0),
    "flux_3": TinyRow(make=lambda: flux_3("Flux3ModularPipeline"), guidance=3.5),
    "flux_3_distilled": TinyRow(make=lambda: flux_3("Flux3DistilledModularPipeline")),
    "qwen_image_21": TinyRow(
        make=qwen_image_21, guidance=3.0, scale="true_cfg_scale", text_length=1024, width=160, height=96
    ),
    "qwen_image_21_turbo": TinyRow(
        make=lambda: qwen_image_21(levels=[1.0, 0.6]),
        scale="true_cfg_scale",
        off=1.0,
        text_length=1024,
        width=160,
        height=96,
    ),
    "qwen_image_edit_plus": TinyRow(
        make=lambda: qwen_image_edit("QwenImageEditPlusPipeline", zero_cond_t=True),
        guidance=3.0,
        scale="true_cfg_scale",
        text_length=1024,
        references=2,
    ),
    "qwen_image_edit": TinyRow(
        make=lambda: qwen_image_edit("QwenImageEditPipeline"),
        guidance=3.0,
        scale="true_cfg_scale",
        text_length=1024,
        references=1,
    ),
    "qwen_image_layered": TinyRow(
        make=qwen_image_layered,
        guidance=3.0,
        scale="true_cfg_scale",
        width=64,
        height=64,
        frames=3,
        starts=True,
        call={"layers": 3, "cfg_normalize": True},
    ),
    "hunyuan_video_15": TinyRow(
        make=lambda: tiny_of("HunyuanVideo15Pipeline").make(), guidance=3.0, text_length=1000, frames=5
    ),
    "hunyuan_video_15_image": TinyRow(
        make=lambda: tiny_of("HunyuanVideo15ImageToVideoPipeline").make(),
        guidance=3.0,
        text_length=1000,
        frames=5,
        has_frame=True,
    ),
    "ltx": TinyRow(make=lambda: tiny_of("LTXPipeline").make(), guidance=3.0, frames=9, width=96, height=64),
    "ltx_2": TinyRow(
        make=lambda: tiny_of("LTX2Pipeline").make(),
        guidance=3.0,
        frames=9,
        width=96,
        height=64,
        call={"spatio_temporal_guidance_blocks": [28], "frame_rate": 24.0},
    ),
    "ltx_25": TinyRow(
        make=ltx_25,
        off=1.0,
        frames=9,
        width=96,
        height=64,
        steps=8,
        passes=8,
        call={"sigmas": list(LTX_SIGMAS), "frame_rate": 24.0, **UNGUIDED},
    ),
    "ltx_25_full": TinyRow(
        make=lambda: ltx_25(is_distilled=False),
        guidance=3.0,
        frames=9,
        width=96,
        height=64,
        call={"spatio_temporal_guidance_blocks": [28], "frame_rate": 24.0},
    ),
    "ernie_image": TinyRow(make=lambda: tiny_of("ErnieImagePipeline").make(), guidance=4.0, text_length=2048),
    "minimax_h3": TinyRow(make=minimax_h3, text_length=0, frames=124, width=48, height=32, steps=3, close=0.0),
    "cosmos_3": TinyRow(make=cosmos_3, guidance=3.0, text_length=0, frames=9, sound=True, call={"enable_sound": True}),
    "krea_2_turbo": TinyRow(make=lambda: krea_2(is_distilled=True)),
}
TINY_ROWS |= {
    name: TinyRow(
        make=lambda row=row: tiny_of(row.family.pipelines[0]).make(),
        guidance=row.variants[0].card.guidance or 1.0,
        frames=row.least_frames,
    )
    for name, row in ROWS.items()
    if name not in TINY_ROWS and not row.takes_mask
}
"""A row that is called as most are needs no line above, where the zoo has a tiny of the first class that it reads.
Those that take a mask are of `tiny_models`, and have tests of their own."""
LOOKING = {
    **{"flux_2": 1, "flux_2_klein": 2, "flux_2_klein_base": 2, "flux_3": 1, "flux_3_distilled": 2},
    **{"flux_kontext": 1, "qwen_image_21": 2, "qwen_image_21_turbo": 1, "minimax_h3": 2},
}
# Runs of models that may look at pictures, or not, with some.
EDITS = {name: replace(TINY_ROWS[name], references=count) for name, count in LOOKING.items()}
# Runs of models that may be given a video's first frame, with one.
FRAMED = {"ltx_2": replace(TINY_ROWS["ltx_2"], has_frame=True, stock="LTX2ImageToVideoPipeline")}
