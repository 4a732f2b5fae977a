"""Wan and what is built on it: Lucy-Edit, ChronoEdit, SkyReels-V2, AnyFlow and Helios."""

from typing import Any

from diffusers import (
    AnyFlowFARPipeline,
    AnyFlowFARTransformer3DModel,
    AnyFlowPipeline,
    AnyFlowTransformer3DModel,
    ChronoEditPipeline,
    ChronoEditTransformer3DModel,
    FlowMapEulerDiscreteScheduler,
    HeliosPipeline,
    HeliosPyramidPipeline,
    HeliosScheduler,
    HeliosTransformer3DModel,
    LucyEditPipeline,
    SkyReelsV2DiffusionForcingImageToVideoPipeline,
    SkyReelsV2DiffusionForcingPipeline,
    SkyReelsV2DiffusionForcingVideoToVideoPipeline,
    SkyReelsV2ImageToVideoPipeline,
    SkyReelsV2Pipeline,
    SkyReelsV2Transformer3DModel,
    WanAnimatePipeline,
    WanAnimateTransformer3DModel,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
    WanVACEPipeline,
    WanVACETransformer3DModel,
    WanVideoToVideoPipeline,
)
from transformers import CLIPVisionModelWithProjection

from support.tiny_parts import clip_pictures, clip_vision, wan_parts
from zoo.pipelines.tiny import HEIGHT, WIDTH, Tiny, frames, picture, video_call, without

HEADS, HEAD = 3, 12


def _config(in_channels: int = 16, **changed: Any) -> dict[str, Any]:
    shared = {
        "num_attention_heads": HEADS,
        "attention_head_dim": HEAD,
        "in_channels": in_channels,
        "out_channels": 16,
        "text_dim": 32,
        "freq_dim": 32,
        "ffn_dim": 64,
        "num_layers": 2,
    }
    return {**shared, **changed}


SEEN = {"image_dim": 32, "added_kv_proj_dim": HEADS * HEAD}


def seen() -> dict[str, Any]:
    return {"image_encoder": clip_vision(), "image_processor": clip_pictures()}


def from_picture(**changed: Any) -> dict[str, Any]:
    return video_call(image=picture(WIDTH, HEIGHT), **changed)


def wan() -> WanPipeline:
    return WanPipeline(**wan_parts(), transformer=WanTransformer3DModel(**_config()))


def wan22() -> WanPipeline:
    """Two experts: the second takes over at half of the noise."""
    experts = {name: WanTransformer3DModel(**_config()) for name in ("transformer", "transformer_2")}
    return WanPipeline(**wan_parts(), **experts, boundary_ratio=0.75)


def wan_i2v() -> WanImageToVideoPipeline:
    """Wan 2.1: noise, mask and picture in 36 channels; CLIP's tokens of it stand before 512 of text, fixed in code."""
    return WanImageToVideoPipeline(**wan_parts(), **seen(), transformer=WanTransformer3DModel(**_config(36, **SEEN)))


def wan_flf2v() -> WanImageToVideoPipeline:
    """First and last frame: five tokens of CLIP each."""
    transformer = WanTransformer3DModel(**_config(36, **SEEN, pos_embed_seq_len=10))
    return WanImageToVideoPipeline(**wan_parts(), **seen(), transformer=transformer)


def wan_ti2v() -> WanImageToVideoPipeline:
    """Wan 2.2 5B: the first frame is given, and each token has a timestep of its own."""
    absent = {"image_encoder": None, "image_processor": None}
    return WanImageToVideoPipeline(
        **wan_parts(), **absent, transformer=WanTransformer3DModel(**_config()), expand_timesteps=True
    )


def wan_v2v() -> WanVideoToVideoPipeline:
    return WanVideoToVideoPipeline(**wan_parts(), transformer=WanTransformer3DModel(**_config()))


def wan_vace() -> WanVACEPipeline:
    transformer = WanVACETransformer3DModel(**_config(vace_layers=[0, 1], vace_in_channels=96, num_layers=3))
    return WanVACEPipeline(**wan_parts(), transformer=transformer)


def wan_animate() -> WanAnimatePipeline:
    transformer = WanAnimateTransformer3DModel(
        **_config(36, **SEEN),
        motion_encoder_channel_sizes={"4": 8, "8": 8},
        motion_encoder_size=8,
        motion_style_dim=8,
        motion_dim=4,
        motion_encoder_dim=8,
        face_encoder_hidden_dim=8,
        face_encoder_num_heads=2,
        inject_face_latents_blocks=1,
    )
    return WanAnimatePipeline(**wan_parts(), **seen(), transformer=transformer)


def animate() -> dict[str, Any]:
    """Two segments: the second goes on from the last frame of the first."""
    videos = {"pose_video": frames(9, WIDTH, HEIGHT), "face_video": frames(9)}
    call = from_picture(**videos, segment_frame_length=5, guidance_scale=2.0, max_sequence_length=512)
    return without(call, "num_frames")


def lucy() -> LucyEditPipeline:
    return LucyEditPipeline(**wan_parts(), transformer=WanTransformer3DModel(**_config(32)))


def chronoedit() -> ChronoEditPipeline:
    return ChronoEditPipeline(**wan_parts(), **seen(), transformer=ChronoEditTransformer3DModel(**_config(36, **SEEN)))


def skyreels() -> SkyReelsV2Pipeline:
    return SkyReelsV2Pipeline(**wan_parts(), transformer=SkyReelsV2Transformer3DModel(**_config()))


def skyreels_i2v() -> SkyReelsV2ImageToVideoPipeline:
    vision = seen()
    vision["image_encoder"] = CLIPVisionModelWithProjection(vision["image_encoder"].config)
    return SkyReelsV2ImageToVideoPipeline(
        **wan_parts(), **vision, transformer=SkyReelsV2Transformer3DModel(**_config(36, **SEEN))
    )


def _forcing(kind: Any) -> Any:
    """A timestep a frame."""
    return kind(**wan_parts(), transformer=SkyReelsV2Transformer3DModel(**_config(inject_sample_info=True)))


def forcing(**changed: Any) -> dict[str, Any]:
    """A second window goes on from the last latent frame of the first, and later frames are behind in their steps."""
    return video_call(num_frames=13, base_num_frames=9, overlap_history=5, ar_step=2, causal_block_size=1, **changed)


def anyflow() -> AnyFlowPipeline:
    transformer = AnyFlowTransformer3DModel(**_config())
    return AnyFlowPipeline(**{**wan_parts(), "scheduler": FlowMapEulerDiscreteScheduler()}, transformer=transformer)


def anyflow_far() -> AnyFlowFARPipeline:
    """Chunks, one after the other: keys and values of those before are kept, the oldest in larger patches."""
    transformer = AnyFlowFARTransformer3DModel(**_config(full_chunk_limit=2))
    return AnyFlowFARPipeline(**{**wan_parts(), "scheduler": FlowMapEulerDiscreteScheduler()}, transformer=transformer)


def _helios_transformer(**changed: Any) -> HeliosTransformer3DModel:
    return HeliosTransformer3DModel(**_config(rope_dim=(4, 4, 4), **changed))


def helios() -> HeliosPipeline:
    return HeliosPipeline(**{**wan_parts(), "scheduler": HeliosScheduler(stages=1)}, transformer=_helios_transformer())


def helios_pyramid() -> HeliosPyramidPipeline:
    """Three sizes a chunk. With the default gamma of 1/3 the noise's covariance is singular, which a CPU may refuse."""
    transformer = _helios_transformer(is_amplify_history=True)
    return HeliosPyramidPipeline(**{**wan_parts(), "scheduler": HeliosScheduler(gamma=0.3)}, transformer=transformer)


def chunks(**changed: Any) -> dict[str, Any]:
    """Two chunks of three latent frames, after a history."""
    history = {"history_sizes": [4, 2, 1], "num_latent_frames_per_chunk": 3}
    return video_call(num_frames=18, **history, **changed)


def pyramid() -> dict[str, Any]:
    steps = {"pyramid_num_inference_steps_list": [2, 2, 2]}
    return without(chunks(height=64, width=64, **steps), "num_inference_steps")


TINY = {
    WanPipeline.__name__: Tiny(wan, video_call),
    f"{WanPipeline.__name__}:two experts": Tiny(wan22, video_call),
    WanImageToVideoPipeline.__name__: Tiny(wan_i2v, lambda: from_picture(max_sequence_length=512)),
    f"{WanImageToVideoPipeline.__name__}:first and last frame": Tiny(
        wan_flf2v, lambda: from_picture(last_image=picture(WIDTH, HEIGHT, seed=70), max_sequence_length=512)
    ),
    f"{WanImageToVideoPipeline.__name__}:a timestep a token": Tiny(wan_ti2v, from_picture),
    WanVideoToVideoPipeline.__name__: Tiny(
        wan_v2v, lambda: without(video_call(video=frames(9, WIDTH, HEIGHT), strength=1.0), "num_frames")
    ),
    WanVACEPipeline.__name__: Tiny(
        wan_vace,
        lambda: video_call(video=frames(5, WIDTH, HEIGHT), reference_images=[picture(WIDTH, HEIGHT)], num_frames=5),
    ),
    WanAnimatePipeline.__name__: Tiny(wan_animate, animate),
    LucyEditPipeline.__name__: Tiny(lucy, lambda: video_call(video=frames(9, WIDTH, HEIGHT))),
    ChronoEditPipeline.__name__: Tiny(
        chronoedit,
        lambda: from_picture(enable_temporal_reasoning=True, num_temporal_reasoning_steps=2, max_sequence_length=512),
    ),
    SkyReelsV2Pipeline.__name__: Tiny(skyreels, video_call),
    SkyReelsV2ImageToVideoPipeline.__name__: Tiny(skyreels_i2v, lambda: from_picture(max_sequence_length=512)),
    SkyReelsV2DiffusionForcingPipeline.__name__: Tiny(lambda: _forcing(SkyReelsV2DiffusionForcingPipeline), forcing),
    SkyReelsV2DiffusionForcingImageToVideoPipeline.__name__: Tiny(
        lambda: _forcing(SkyReelsV2DiffusionForcingImageToVideoPipeline), lambda: forcing(image=picture(WIDTH, HEIGHT))
    ),
    SkyReelsV2DiffusionForcingVideoToVideoPipeline.__name__: Tiny(
        lambda: _forcing(SkyReelsV2DiffusionForcingVideoToVideoPipeline),
        lambda: forcing(video=frames(9, WIDTH, HEIGHT)),
    ),
    AnyFlowPipeline.__name__: Tiny(anyflow, lambda: video_call(guidance_scale=2.0)),
    AnyFlowFARPipeline.__name__: Tiny(
        anyflow_far,
        lambda: video_call(guidance_scale=2.0, num_frames=17, chunk_partition=[1, 2, 2]),
        unshared="it keeps the keys of all branches from one chunk to the next",
    ),
    HeliosPipeline.__name__: Tiny(helios, lambda: chunks(image=picture(WIDTH, HEIGHT))),
    HeliosPyramidPipeline.__name__: Tiny(helios_pyramid, pyramid),
}
LEFT_OUT: dict[str, str] = {}
