"""Split plans of ComfyUI's own model classes: literal data, by module and class.

These classes tell their blocks where rows are by plain numbers: a class that sees two times at once (reference pictures
at time zero, frames that are given) says where the second begins, as a count (`Leading`) or as slices (`Spans`), and
FLUX counts such rows from the text that is at hand, of which a rank has a part (`behind`). Each plan is compared with
the class whole by `tests/bench/comfyui_matrix.py`, and has its rows there. Nothing of ComfyUI is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....parallel.sharding.split_plan import LOCAL, Along, Leading, Spans, SplitPlan, tokens
from ....pipelines.split_plans import SPLIT_PLANS
from . import plans_pictures, plans_wan
from .plan_parts import JOINT, TOKENS, control, one_stream, qwen_image, refused, two_streams

FLUX = two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT, behind="text")},
    {"": {"control": control()}, "final_layer": {"modulation_dims": Spans(("image",))}},
)
CHROMA = two_streams({}, {}, {"": {"control": control()}})


def _flipped(plan: SplitPlan, model: Any) -> SplitPlan:
    """In older versions the picture comes first, and is cut off behind the blocks by the length of all of it."""
    if not any(getattr(block, "flipped_img_txt", False) for block in getattr(model, "double_blocks", ())):
        return plan
    order = JOINT[::-1]
    inputs = {path: specs for path, specs in plan.inputs.items() if path != "final_layer"}
    for path in ("double_blocks.*", "single_blocks.*"):
        inputs[path] = {**inputs[path], "pe": Along(2, order)}
    inputs["single_blocks.*"] = {**inputs["single_blocks.*"], "modulation_dims": Spans(order)}
    inputs[""] = {**inputs[""], "control": refused("a ControlNet")}
    return replace(plan, order=order, inputs=inputs, outputs={"single_blocks.-1": Along(1, order)}, adapt=None)


HUNYUAN_VIDEO = two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT)},  # counted from the start of the joint sequence, be the text first
    {
        "": {"control": control(), "ref_latent": refused("a reference latent")},
        "final_layer": {"modulation_dims": Spans(("image",))},
    },
    adapt=_flipped,
)
QWEN_IMAGE = qwen_image()
LTXV = one_stream(
    "transformer_blocks",
    {
        "pe": (Along(1, TOKENS, optional=True), Along(1, TOKENS, optional=True)),
        "timestep": Along(1, TOKENS, optional=True),
    },
    attention={"attn2": (LOCAL,)},
)
Z_IMAGE = one_stream("layers", {"freqs_cis": Along(1, TOKENS), "timestep_zero_index": Spans(TOKENS)})
KREA_2 = one_stream("blocks", {"freqs": Along(2, TOKENS), "timestep_zero_index": Leading("tokens")})
MINIMAX_H3 = one_stream("blocks", {"mod_segments": Spans(TOKENS), "rope_freqs": Along(1, TOKENS)}, dim=0)
ERNIE_IMAGE = one_stream("layers", {"rotary_pos_emb": tokens(1)})

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.flux.model.Flux": FLUX,
    "comfy.ldm.chroma.model.Chroma": CHROMA,
    "comfy.ldm.hunyuan_video.model.HunyuanVideo": HUNYUAN_VIDEO,
    "comfy.ldm.qwen_image.model.QwenImageTransformer2DModel": QWEN_IMAGE,
    "comfy.ldm.lumina.model.NextDiT": Z_IMAGE,
    "comfy.ldm.krea2.model.SingleStreamDiT": KREA_2,
    "comfy.ldm.minimax.model.MiniMaxH3Model": MINIMAX_H3,
    "comfy.ldm.ernie.model.ErnieImageModel": ERNIE_IMAGE,
    "comfy.ldm.lightricks.model.LTXVModel": LTXV,
    "comfy.ldm.lumina.model.NextDiTPixelSpace": Z_IMAGE,
    **plans_pictures.PLANS,
    **plans_wan.PLANS,
}


def plan_of(module: object) -> SplitPlan:
    """How a model of ComfyUI is split: ours for its very class, or one that a package brings for it.

    Raises ValueError for a class without.
    """
    kind = type(module)
    key = f"{kind.__module__}.{kind.__name__}"
    if (ours := PLANS.get(key)) is not None:
        return ours if ours.adapt is None else ours.adapt(ours, module)
    if (plan := SPLIT_PLANS.get(key)) is None:
        known = ", ".join(name.rpartition(".")[2] for name in PLANS)
        raise ValueError(f"{key} has no split plan; sample it on one device, or take one of {known}")
    return plan
