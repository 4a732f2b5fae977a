"""Split plans of ComfyUI's own model classes: literal data, by module and class.

These classes tell their blocks where rows are by plain numbers: a class that sees two times at once (reference pictures
at time zero, frames that are given) says where the second begins, as a count (`Leading`) or as slices (`Spans`), and
FLUX counts such rows from the text that is at hand, of which a rank has a part (`behind`). Each plan is compared with
the class whole by `tests/bench/comfyui_matrix.py`, and has its rows there. Nothing of ComfyUI is imported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ....parallel.sharding.split_plan import (
    LOCAL,
    Along,
    Leading,
    MadeAnew,
    Spans,
    Spec,
    SplitPlan,
    image,
    text,
    tokens,
)
from ....pipelines.split_plans import SPLIT_PLANS

JOINT, FLIPPED, TOKENS = ("text", "image"), ("image", "text"), ("tokens",)
PATCH = 2  # rows and columns of latents to a token, where ControlNets add to tokens


def _with_control(given: Mapping[str, Any], session: Any) -> None:
    """Tell the session how many tokens the picture has: the root is cut before a block has shown it."""
    # As the classes' `process_img` pads: x and references are B C (T) H W.
    pictures = [given["x"], *(given.get("ref_latents") or ())]
    sizes = [(*x.shape[2:-2], *(-(-size // PATCH) for size in x.shape[-2:])) for x in pictures]
    session.define("image", sum(math.prod(size) for size in sizes), what="the picture that a ControlNet adds to")


def _cut_control(control: Any, given: Mapping[str, Any], session: Any) -> Any:
    """ControlNet residuals are for the first tokens of the picture: each rank has its rows of them."""
    _with_control(given, session)
    start, end = session.streams["image"].held(session.rank)
    return {
        name: [each if each is None else each[:, start : min(end, each.shape[1])] for each in residuals]
        for name, residuals in control.items()
    }


def _per_token(e: Any, _: object, session: Any) -> Any:
    """Wan 2.2: a modulation for each frame, B F (6) C, as one for each of this rank's tokens."""
    # As `repeat_e` spreads it over all tokens; over a rank's own it would spread all frames.
    length = session.streams["tokens"].length
    if e.ndim < 3 or e.shape[1] == 1:
        return e
    return session.cut(e.repeat_interleave(-(-length // e.shape[1]), dim=1)[:, :length], tokens(1), what="e")


def _rotary(pe: Any, _: object, session: Any) -> Any:
    """Angles of the joint sequence: B 1 S ..., and B S 1 ... up to 0.3.64."""
    return session.cut(pe, Along(2 if pe.shape[1] == 1 else 1, JOINT), what="image_rotary_emb")


def _refused(what: str) -> MadeAnew:
    """An input that this class is not split with."""

    def refuse(_: object, __: object, session: Any) -> Any:
        raise ValueError(f"{session.title} is not split with {what}; sample it without, or on one device")

    return MadeAnew(refuse)


def _two_streams(
    double: Mapping[str, Spec], single: Mapping[str, Spec], more: Mapping[str, Mapping[str, Spec]]
) -> SplitPlan:
    """As FLUX is built: text and picture in blocks of two streams, then in one; with more arguments of these."""
    return SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("double_blocks", "single_blocks"),
        inputs={
            "double_blocks.0": {"img": image(1), "txt": text(1)},
            "double_blocks.*": {"pe": Along(2, JOINT), **double},
            "single_blocks.*": {"pe": Along(2, JOINT), **single},
            **more,
        },
        outputs={"final_layer": image(1)},
    )


def _one_stream(blocks: str, inputs: Mapping[str, Spec], *, dim: int = 1, **more: Any) -> SplitPlan:
    """Text and picture in one sequence, whole again behind the last block; of each block its arguments along it."""
    return SplitPlan(
        order=TOKENS,
        blocks=(blocks,),
        inputs={f"{blocks}.0": {"x": tokens(dim)}, f"{blocks}.*": inputs},
        outputs={f"{blocks}.-1": tokens(dim)},
        **more,
    )


FLUX = _two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT, behind="text")},
    {"": {"control": MadeAnew(_cut_control)}, "final_layer": {"modulation_dims": Spans(("image",))}},
)
CHROMA = _two_streams({}, {}, {"": {"control": MadeAnew(_cut_control)}})
HUNYUAN_VIDEO = _two_streams(
    {"modulation_dims_img": Spans(("image",))},
    {"modulation_dims": Spans(JOINT)},  # counted from the start of the joint sequence, be the text first
    {
        "": {"control": MadeAnew(_cut_control), "ref_latent": _refused("a reference latent")},
        "final_layer": {"modulation_dims": Spans(("image",))},
    },
)
# Up to 0.3.64 the picture was first, and its tokens were taken from the joint sequence by their number.
HUNYUAN_VIDEO_BEFORE = SplitPlan(
    order=FLIPPED,
    either=("text",),
    blocks=HUNYUAN_VIDEO.blocks,
    inputs={
        **{"double_blocks.0": {"img": image(1), "txt": text(1)}},
        **{"double_blocks.*": {"pe": Along(2, FLIPPED), "modulation_dims_img": Spans(("image",))}},
        **{"single_blocks.*": {"pe": Along(2, FLIPPED), "modulation_dims": Spans(FLIPPED)}},
        **{"": {"control": _refused("a ControlNet in this ComfyUI"), "ref_latent": _refused("a reference latent")}},
    },
    outputs={"single_blocks.-1": Along(1, FLIPPED)},
)
QWEN_IMAGE = SplitPlan(
    order=JOINT,
    either=("text",),
    blocks=("transformer_blocks",),
    inputs={
        "": {"control": MadeAnew(_cut_control)},
        "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
        "transformer_blocks.*": {
            "image_rotary_emb": MadeAnew(_rotary),
            "encoder_hidden_states_mask": text(1),
            "timestep_zero_index": Leading("image"),
        },
    },
    outputs={"proj_out": image(1)},
)
WAN = SplitPlan(
    order=TOKENS,
    blocks=("blocks",),
    inputs={
        "blocks.0": {"x": tokens(1)},
        "blocks.*": {"freqs": Along(1, TOKENS), "e": MadeAnew(_per_token)},
        "head": {"e": MadeAnew(_per_token)},
    },
    outputs={"head": tokens(1)},
    attention={"cross_attn": (LOCAL,)},
)
LTXV = _one_stream(
    "transformer_blocks",
    {
        "pe": (Along(1, TOKENS, optional=True), Along(1, TOKENS, optional=True)),
        "timestep": Along(1, TOKENS, optional=True),
    },
    attention={"attn2": (LOCAL,)},
)
Z_IMAGE = _one_stream("layers", {"freqs_cis": Along(1, TOKENS), "timestep_zero_index": Spans(TOKENS)})
KREA_2 = _one_stream("blocks", {"freqs": Along(2, TOKENS), "timestep_zero_index": Leading("tokens")})
MINIMAX_H3 = _one_stream("blocks", {"mod_segments": Spans(TOKENS), "rope_freqs": Along(1, TOKENS)}, dim=0)
ERNIE_IMAGE = _one_stream("layers", {"rotary_pos_emb": tokens(1)})

PLANS: Mapping[str, SplitPlan] = {
    "comfy.ldm.flux.model.Flux": FLUX,
    "comfy.ldm.chroma.model.Chroma": CHROMA,
    "comfy.ldm.hunyuan_video.model.HunyuanVideo": HUNYUAN_VIDEO,
    "comfy.ldm.qwen_image.model.QwenImageTransformer2DModel": QWEN_IMAGE,
    "comfy.ldm.wan.model.WanModel": WAN,
    "comfy.ldm.lumina.model.NextDiT": Z_IMAGE,
    "comfy.ldm.krea2.model.SingleStreamDiT": KREA_2,
    "comfy.ldm.minimax.model.MiniMaxH3Model": MINIMAX_H3,
    "comfy.ldm.ernie.model.ErnieImageModel": ERNIE_IMAGE,
    "comfy.ldm.lightricks.model.LTXVModel": LTXV,
}
# Of classes that were built in another way before: what they have had since, and their plan without.
BEFORE: Mapping[str, tuple[str, SplitPlan]] = {
    "comfy.ldm.hunyuan_video.model.HunyuanVideo": ("vision_in", HUNYUAN_VIDEO_BEFORE),
}


def plan_of(module: object) -> SplitPlan:
    """How a model of ComfyUI is split: ours for its very class, or one that a package brings for it.

    Raises ValueError for a class without.
    """
    kind = type(module)
    key = f"{kind.__module__}.{kind.__name__}"
    if (plan := PLANS.get(key) or SPLIT_PLANS.get(key)) is None:
        known = ", ".join(name.rpartition(".")[2] for name in PLANS)
        raise ValueError(f"{key} has no split plan; sample it on one device, or take one of {known}")
    since, before = BEFORE.get(key, ("", plan))
    return plan if hasattr(module, since) else before
