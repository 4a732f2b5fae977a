"""Wan and what is built on it: Lucy-Edit, ChronoEdit, SkyReels-V2, AnyFlow and Helios."""

from functools import partial
from typing import Any

import diffusers
import transformers

from support.tiny_parts import clip_pictures, clip_vision, wan_parts
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, table, video_call, without

HEADS, HEAD = 3, 12


def _transformer(model: str = "Wan", **changed: Any) -> Any:
    sizes = {"in_channels": 16, "out_channels": 16, "text_dim": 32, "freq_dim": 32, "ffn_dim": 64, "num_layers": 2}
    kind = getattr(diffusers, f"{model}Transformer3DModel")
    return kind(num_attention_heads=HEADS, attention_head_dim=HEAD, **sizes | changed)


def from_picture(**changed: Any) -> dict[str, Any]:
    return video_call(image=picture(WIDTH, HEIGHT), **changed)


def made(kind: Any, *, model: str = "Wan", sees: bool = False, scheduler: Any = None, **changed: Any) -> Any:
    """Whose transformer is one of `model`. With `sees` CLIP tells of the first frame, which with noise and mask is in
    36 channels."""
    parts = wan_parts() | ({"image_encoder": clip_vision(), "image_processor": clip_pictures()} if sees else {})
    parts |= {"scheduler": scheduler()} if scheduler else {}
    config = {"in_channels": 36, "image_dim": 32, "added_kv_proj_dim": HEADS * HEAD} if sees else {}
    return kind(**parts, transformer=_transformer(model, **config, **changed))


def wan22(kind: Any) -> Any:
    """Two experts: the second takes over at half of the noise."""
    experts = {name: _transformer() for name in ("transformer", "transformer_2")}
    return kind(**wan_parts(), **experts, boundary_ratio=0.75)


def wan_ti2v(kind: Any) -> Any:
    """Wan 2.2 5B: the first frame is given, and each token has a timestep of its own."""
    absent = {"image_encoder": None, "image_processor": None}
    return kind(**wan_parts(), **absent, transformer=_transformer(), expand_timesteps=True)


MOTION = {
    "motion_encoder_channel_sizes": {"4": 8, "8": 8},
    "motion_encoder_size": 8,
    "motion_style_dim": 8,
    "motion_dim": 4,
    "motion_encoder_dim": 8,
    "face_encoder_hidden_dim": 8,
    "face_encoder_num_heads": 2,
    "inject_face_latents_blocks": 1,
}


def animate() -> dict[str, Any]:
    """Two segments: the second goes on from the last frame of the first."""
    videos = {"pose_video": frames(9, WIDTH, HEIGHT), "face_video": frames(9)}
    call = from_picture(**videos, segment_frame_length=5, guidance_scale=2.0, max_sequence_length=512)
    return without(call, "num_frames")


def skyreels_i2v(kind: Any) -> Any:
    pipe = made(kind, model="SkyReelsV2", sees=True)
    pipe.image_encoder = transformers.CLIPVisionModelWithProjection(pipe.image_encoder.config)
    return pipe


def forcing(**changed: Any) -> dict[str, Any]:
    """A second window goes on from the last latent frame of the first, and later frames are behind in their steps."""
    return video_call(num_frames=13, base_num_frames=9, overlap_history=5, ar_step=2, causal_block_size=1, **changed)


def chunks(**changed: Any) -> dict[str, Any]:
    """Two chunks of three latent frames, after a history."""
    history = {"history_sizes": [4, 2, 1], "num_latent_frames_per_chunk": 3}
    return video_call(num_frames=18, **history, **changed)


def pyramid() -> dict[str, Any]:
    steps = {"pyramid_num_inference_steps_list": [2, 2, 2]}
    return without(chunks(height=64, width=64, **steps), "num_inference_steps")


SKY, SEES = partial(made, model="SkyReelsV2"), partial(made, sees=True)
FORCED = partial(SKY, inject_sample_info=True)  # a timestep a frame
FLOW = diffusers.FlowMapEulerDiscreteScheduler
HELIOS = partial(made, model="Helios", rope_dim=(4, 4, 4))
# With the default gamma of 1/3 the noise's covariance is singular, which a CPU may refuse.
PYRAMID = partial(HELIOS, scheduler=partial(diffusers.HeliosScheduler, gamma=0.3), is_amplify_history=True)
TINY = table(
    Tiny("WanPipeline", made, video_call),
    Tiny("WanPipeline:two experts", wan22, video_call),
    # Wan 2.1: CLIP's tokens of the picture stand before 512 of text, fixed in code.
    Tiny("WanImageToVideoPipeline", SEES, lambda: from_picture(max_sequence_length=512)),
    # Five tokens of CLIP each.
    Tiny(
        "WanImageToVideoPipeline:first and last frame",
        partial(SEES, pos_embed_seq_len=10),
        lambda: from_picture(last_image=picture(WIDTH, HEIGHT, seed=70), max_sequence_length=512),
    ),
    Tiny("WanImageToVideoPipeline:a timestep a token", wan_ti2v, from_picture),
    Tiny(
        "WanVideoToVideoPipeline",
        made,
        lambda: without(video_call(video=frames(9, WIDTH, HEIGHT), strength=1.0), "num_frames"),
    ),
    Tiny(
        "WanVACEPipeline",
        partial(made, model="WanVACE", vace_layers=[0, 1], vace_in_channels=96, num_layers=3),
        lambda: video_call(video=frames(5, WIDTH, HEIGHT), reference_images=[picture(WIDTH, HEIGHT)], num_frames=5),
    ),
    Tiny("WanAnimatePipeline", partial(SEES, model="WanAnimate", **MOTION), animate),
    Tiny("LucyEditPipeline", partial(made, in_channels=32), lambda: video_call(video=frames(9, WIDTH, HEIGHT))),
    Tiny(
        "ChronoEditPipeline",
        partial(SEES, model="ChronoEdit"),
        lambda: from_picture(enable_temporal_reasoning=True, num_temporal_reasoning_steps=2, max_sequence_length=512),
    ),
    Tiny("SkyReelsV2Pipeline", SKY, video_call),
    Tiny("SkyReelsV2ImageToVideoPipeline", skyreels_i2v, lambda: from_picture(max_sequence_length=512)),
    Tiny("SkyReelsV2DiffusionForcingPipeline", FORCED, forcing),
    Tiny("SkyReelsV2DiffusionForcingImageToVideoPipeline", FORCED, lambda: forcing(image=picture(WIDTH, HEIGHT))),
    Tiny("SkyReelsV2DiffusionForcingVideoToVideoPipeline", FORCED, lambda: forcing(video=frames(9, WIDTH, HEIGHT))),
    Tiny("AnyFlowPipeline", partial(made, model="AnyFlow", scheduler=FLOW), lambda: video_call(guidance_scale=2.0)),
    # Chunks, one after the other: keys and values of those before are kept, the oldest in larger patches.
    Tiny(
        "AnyFlowFARPipeline",
        partial(made, model="AnyFlowFAR", scheduler=FLOW, full_chunk_limit=2),
        lambda: video_call(guidance_scale=2.0, num_frames=17, chunk_partition=[1, 2, 2]),
        unshared="it keeps the keys of all branches from one chunk to the next",
    ),
    Tiny(
        "HeliosPipeline",
        partial(HELIOS, scheduler=partial(diffusers.HeliosScheduler, stages=1)),
        lambda: chunks(image=picture(WIDTH, HEIGHT)),
    ),
    Tiny("HeliosPyramidPipeline", PYRAMID, pyramid),
)
