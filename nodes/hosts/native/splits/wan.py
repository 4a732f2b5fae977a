"""Split plans of ComfyUI's classes of the Wan family: literal data, by module and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .....parallel.sharding.split_plan import LOCAL, Along, Attend, Spec, SplitPlan, tokens
from . import stand_ins
from .parts import PER_TOKEN, TOKENS, one_stream

ROTATED: Mapping[str, Spec] = {"freqs": Along(1, TOKENS)}
# References, poses and in-context latents are tokens before or behind the video's. A time may be of each frame.
WAN = one_stream("blocks", {**ROTATED, "e": PER_TOKEN}, leaves="head", attention={"cross_attn": (LOCAL,)})
WAN = replace(WAN, inputs={**WAN.inputs, "head": {"e": PER_TOKEN}})
# One time for all, as six vectors of a modulation, which are no frames.
CAMERA = one_stream("blocks", ROTATED, leaves="head", attention={"cross_attn": (LOCAL,)})
# The first of the side blocks is given what is whole, once for each control; the others what it made of it.
WHOLE_OR_PART = Along(1, TOKENS, optional=True)
VACE = replace(
    CAMERA,
    blocks=("blocks", "vace_blocks"),
    inputs={**CAMERA.inputs, "vace_blocks.*": {**ROTATED, "c": WHOLE_OR_PART, "x": WHOLE_OR_PART}},
)
ANIMATE = replace(
    WAN,
    blocks=("blocks", "face_adapter.fuser_blocks"),
    attention={**WAN.attention, "fuser_blocks.*": (LOCAL,)},
    processors={"fuser_blocks.*": stand_ins.face},
)
S2V = replace(
    WAN,
    blocks=("blocks", "audio_injector"),
    attention={**WAN.attention, "injector.*": (LOCAL,)},
    processors={"audio_injector": stand_ins.injected},
)
HUMO = replace(
    WAN,
    attention={**WAN.attention, "audio_cross_attn": (LOCAL,)},
    processors={"audio_cross_attn_wrapper": stand_ins.of_sound},
)
# Which of two heads runs depends on the frames of a second: both are given all tokens.
DANCER = replace(
    S2V,
    blocks=("blocks", "music_injector"),
    inputs={path: specs for path, specs in WAN.inputs.items() if path != "head"},
    outputs={"blocks.-1": tokens(1)},
    processors={"music_injector": stand_ins.injected},
)
# Its keys and values are gathered, whatever the plan, where there is a pose; the pose attends to itself by the plan.
ANIMATE_2 = replace(
    WAN,
    inputs={"head": {"e": PER_TOKEN}},
    attention={"cross_attn": (LOCAL,), "self_attn": (Attend(("pose",), ("pose",)),)},
    processors={
        "blocks.*:forward_pose": stand_ins.of_stream("pose", "forward_pose"),
        "blocks.*:forward_gen": stand_ins.of_stream("tokens", "forward_gen"),
        "self_attn:forward_gen": stand_ins.seeing_poses,
    },
)

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.wan.model.WanModel": WAN,
    "comfy.ldm.wan.model.VaceWanModel": VACE,
    "comfy.ldm.wan.model.CameraWanModel": CAMERA,
    "comfy.ldm.wan.model.WanModel_S2V": S2V,
    "comfy.ldm.wan.model.HumoWanModel": HUMO,
    "comfy.ldm.wan.model_animate.AnimateWanModel": ANIMATE,
    "comfy.ldm.wan.model_animate2.WanAnimate2Model": ANIMATE_2,
    "comfy.ldm.wan.model_wandancer.WanDancerModel": DANCER,
    "comfy.ldm.wan.model.SCAILWanModel": WAN,
    "comfy.ldm.wan.model.SCAIL2WanModel": WAN,
}
