"""Split plans of ComfyUI's own model classes: literal data, by module and class.

These classes tell their blocks where rows are by plain numbers: a class that sees two times at once (reference pictures
at time zero, frames that are given) says where the second begins, as a count (`Leading`) or as slices (`Spans`), and
FLUX counts such rows from the text that is at hand, of which a rank has a part (`behind`). Each plan is compared with
the class whole by `tests/bench/comfyui_matrix.py`, and has its rows there. Nothing of ComfyUI is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .....parallel.sharding.split_plan import Along, Leading, Spans, SplitPlan, tokens
from .....pipelines.split_plans import SPLIT_PLANS
from . import pictures, video, wan
from .parts import FLIPPED, JOINT, TOKENS, control, one_stream, qwen_image, refused, two_streams

FLUX = two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT, behind="text")},
    {"": {"control": control()}, "final_layer": {"modulation_dims": Spans(("image",))}},
)
HUNYUAN_VIDEO = two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT)},  # counted from the start of the joint sequence, be the text first
    {
        "": {"control": control(), "ref_latent": refused("a reference latent")},
        "final_layer": {"modulation_dims": Spans(("image",))},
    },
)
# Up to 0.3.64 the picture was first, and its tokens were taken from the joint sequence by their number.
HUNYUAN_VIDEO_BEFORE = two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(FLIPPED)},
    {"": {"control": refused("a ControlNet in this ComfyUI"), "ref_latent": refused("a reference latent")}},
    FLIPPED,
)
HUNYUAN_VIDEO_BEFORE = replace(HUNYUAN_VIDEO_BEFORE, outputs={"single_blocks.-1": Along(1, FLIPPED)})
Z_IMAGE = one_stream("layers", {"freqs_cis": Along(1, TOKENS), "timestep_zero_index": Spans(TOKENS)})
KREA_2 = one_stream("blocks", {"freqs": Along(2, TOKENS), "timestep_zero_index": Leading("tokens")})
MINIMAX_H3 = one_stream("blocks", {"mod_segments": Spans(TOKENS), "rope_freqs": Along(1, TOKENS)}, dim=0)
# Without a sequence: convolutions over a picture, of which each rank computes some rows whole. What skips tie together
# is called layer by layer, and so the layers are the blocks.
UNET = SplitPlan(order=(), blocks=("input_blocks.*.*", "output_blocks.*.*"), inputs={}, outputs={})
CASCADE = SplitPlan(order=(), blocks=("down_blocks.*", "up_blocks.*"), inputs={}, outputs={})
OF_ROWS: Mapping[str, SplitPlan] = {
    "comfy.ldm.modules.diffusionmodules.openaimodel.UNetModel": UNET,
    "comfy.ldm.cascade.stage_c.StageC": CASCADE,
    "comfy.ldm.cascade.stage_b.StageB": CASCADE,
}

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.flux.model.Flux": FLUX,
    "comfy.ldm.chroma.model.Chroma": two_streams({}, {}, {"": {"control": control()}}),
    "comfy.ldm.hunyuan_video.model.HunyuanVideo": HUNYUAN_VIDEO,
    "comfy.ldm.qwen_image.model.QwenImageTransformer2DModel": qwen_image(),
    "comfy.ldm.lumina.model.NextDiT": Z_IMAGE,
    "comfy.ldm.krea2.model.SingleStreamDiT": KREA_2,
    "comfy.ldm.minimax.model.MiniMaxH3Model": MINIMAX_H3,
    "comfy.ldm.ernie.model.ErnieImageModel": one_stream("layers", {"rotary_pos_emb": tokens(1)}),
    "comfy.ldm.lumina.model.NextDiTPixelSpace": Z_IMAGE,
    **OF_ROWS,
    **pictures.PLANS,
    **video.PLANS,
    **wan.PLANS,
}
# Of classes that were built in another way before: what they have had since, and their plan without.
BEFORE: Mapping[str, tuple[str, SplitPlan]] = {
    "comfy.ldm.hunyuan_video.model.HunyuanVideo": ("vision_in", HUNYUAN_VIDEO_BEFORE),
}


# Classes that look at all rows of a forward for each: they swap halves of it, or number what all of them refer to.
OF_ALL_ROWS = (
    "comfy.ldm.ace.ace_step15.AceStepConditionGenerationModel",
    "comfy.ldm.hidream_o1.model.HiDreamO1Transformer",
    "comfy.ldm.hunyuan3dv2_1.hunyuandit.HunYuanDiTPlain",
)


def plan_of(module: object) -> SplitPlan:
    """How a model of ComfyUI is split: ours for its very class, or one that a package brings for it.

    Raises ValueError for a class without.
    """
    key = name_of(module)
    if (plan := PLANS.get(key) or SPLIT_PLANS.get(key)) is None:
        known = ", ".join(name.rpartition(".")[2] for name in PLANS)
        raise ValueError(f"{key} has no split plan; sample it on one device, or take one of {known}")
    since, before = BEFORE.get(key, ("", plan))
    return plan if hasattr(module, since) else before


def name_of(module: object) -> str:
    """Of its class, with the module that has it."""
    return f"{type(module).__module__}.{type(module).__name__}"
