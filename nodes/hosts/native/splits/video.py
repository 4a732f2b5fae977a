"""Split plans of ComfyUI's classes of video, but for Wan's: literal data, by module and class."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from .....parallel.sharding.split_plan import LOCAL, Along, Attend, MadeAnew, SplitPlan, image, tokens
from .....pipelines.split_plans.sequence import joint
from . import stand_ins
from .parts import GRID, TOKENS, one_stream, refused

# ---- LTX and LTX-2: video, behind it guides, which may be seen by part, and sound

VIDEO, AUDIO = ("image", "guides"), ("audio",)
# The rows of guides have masks of their own, and are asked for in a call of their own.
ALL_VIDEO, OF_IMAGE, OF_GUIDES = (Attend(queries, VIDEO) for queries in (VIDEO, VIDEO[:1], VIDEO[1:]))
IN_VIDEO, IN_AUDIO = Along(1, VIDEO, optional=True), Along(1, AUDIO, optional=True)


def _enter(x: Any, given: Mapping[str, Any], session: Any) -> Any:
    """Video alone, or (video, sound), of which either may be without tokens."""
    if isinstance(x, tuple):
        session.define("audio", x[1].shape[1])
        return _enter(x[0], given, session), session.cut(x[1], IN_AUDIO, what="sound")
    mask = given.get("self_attention_mask")
    num_guides = 0 if mask is None else mask.tracked_count
    if mask is not None and mask.guide_start + num_guides != x.shape[1]:
        refused("guides whose masks are for fewer frames").make(mask, given, session)
    session.define("image", x.shape[1] - num_guides)
    if num_guides:
        session.define("guides", num_guides)
    return session.cut(x, IN_VIDEO, what="video")


@functools.cache
def _of_rows(kind: Any) -> type:
    """Times of frames, which a block spreads over the tokens of each, for some rows of these."""

    class OfRows(kind):
        __slots__ = ("frames",)

        def expand_for_computation(self, *args: Any) -> tuple[Any, ...]:
            return tuple(each[:, self.frames] for each in super().expand_for_computation(*args))

    return OfRows


def _times(name: str) -> MadeAnew:
    """A `CompressedTimestep` of that name, as one of this rank's rows."""

    def cut(times: Any, _: object, session: Any) -> Any:
        known = session.parts.get(name)
        if known is not None and known[0] is times:
            return known[3]
        import torch

        per_frame, data = times.patches_per_frame, times.data
        if per_frame == 1:
            found = type(times)(session.cut(data, IN_VIDEO, what=name), None)
        else:
            found = _of_rows(type(times))(data, None)
            rows = session.layout(VIDEO).positions(session.rank)
            found.frames = torch.cat([torch.arange(*each, device=data.device) for each in rows]) // per_frame
        session.parts[name] = times, None, [], found
        return found

    return MadeAnew(cut)


TIMES = ("v_timestep", "v_cross_scale_shift_timestep", "v_cross_gate_timestep")
LTXV = SplitPlan(
    order=VIDEO,
    lacking=("guides",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": {"x": MadeAnew(_enter)},
        "transformer_blocks.*": {"pe": (IN_VIDEO, IN_VIDEO), "timestep": IN_VIDEO},
    },
    outputs={"transformer_blocks.-1": Along(1, VIDEO)},
    attention={"attn1": (ALL_VIDEO, OF_IMAGE, OF_GUIDES), "attn2": (LOCAL,)},
    processors={"attn1": stand_ins.guided(OF_IMAGE, OF_GUIDES)},
)
LTX_2 = SplitPlan(
    order=(*VIDEO, *AUDIO),
    either=AUDIO,
    lacking=("guides",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": {"x": MadeAnew(_enter)},
        "transformer_blocks.*": {
            **dict.fromkeys(("v_pe", "v_cross_pe"), IN_VIDEO),
            **dict.fromkeys(("a_pe", "a_cross_pe"), IN_AUDIO),
            **dict.fromkeys(("a_timestep", "a_cross_scale_shift_timestep", "a_cross_gate_timestep"), IN_AUDIO),
            **{name: _times(name) for name in TIMES},
        },
    },
    outputs={"transformer_blocks.-1": (Along(1, VIDEO), Along(1, AUDIO))},
    attention={
        **LTXV.attention,
        "audio_attn1": (Attend(AUDIO, AUDIO),),
        "audio_attn2": (LOCAL,),
        "audio_to_video_attn": (Attend(VIDEO, AUDIO),),
        "video_to_audio_attn": (Attend(AUDIO, VIDEO),),
    },
    processors=LTXV.processors,
)

# ---- one stream, or the text beside it

COG_VIDEO = joint("blocks", each={"image_rotary_emb": image(0)})
KANDINSKY_5 = one_stream(
    "visual_transformer_blocks",
    {"freqs": tokens(1)},
    enters="visual_embed",
    attention={"cross_attention": (LOCAL,)},
)
# Of the text as many tokens attend as it has; the others are padding that goes along.
MOCHI = SplitPlan(
    order=("image", "text"),
    whole=("text",),
    blocks=("blocks",),
    inputs={"blocks.0": {"x": image(1)}, "blocks.*": {"rope_cos": image(0), "rope_sin": image(0)}},
    outputs={"final_layer": image(1)},
)


def _shaped(x: Any, _: object, session: Any) -> Any:
    """What has the shape of all tokens, B T H W C, and is asked for that alone."""
    return x.new_empty(()).expand(x.shape[0], *session.grids[TOKENS], x.shape[-1])


# Learned places are added between the blocks, outside of them: so these are cut as they are made.
COSMOS = SplitPlan(
    order=TOKENS,
    blocks=("blocks.*",),
    inputs={key: {"x_B_T_H_W_C": MadeAnew(_shaped)} for key in ("extra_pos_embedder", "pos_embedder")},
    made={"x_embedder": GRID, "extra_pos_embedder": GRID, "pos_embedder": tokens(0)},
    outputs={"final_layer": tokens(0, batched=True)},
    attention={"blocks.1.block": (LOCAL,)},  # each block attends to itself, then to the text
)

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.lightricks.model.LTXVModel": LTXV,
    "comfy.ldm.lightricks.av_model.LTXAVModel": LTX_2,
    "comfy.ldm.cogvideo.model.CogVideoXTransformer3DModel": COG_VIDEO,
    "comfy.ldm.kandinsky5.model.Kandinsky5": KANDINSKY_5,
    "comfy.ldm.genmo.joint_model.asymm_models_joint.AsymmDiTJoint": MOCHI,
    "comfy.ldm.cosmos.model.GeneralDIT": COSMOS,
}
