"""Split plans of Wan and of the models grown from it: ChronoEdit, SkyReels-V2, VACE, Animate and AnyFlow."""

from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image
from .processors import stand_in
from .sequence import sequence

ENTER = {"hidden_states": image(1)}
ROPE = {"rotary_emb": image(1)}

WAN = sequence(
    "blocks",
    each=ROPE,
    # A timestep per token is cut at the door, so every modulation made from it is local.
    inputs={"": {"timestep": image(1, ndim=2)}},
    attention={"attn2": (LOCAL,)},
)

# A Wan whose every frame goes from one timestep to another.
ANYFLOW = replace(
    WAN,
    inputs={"blocks.0": ENTER, "blocks.*": {"temb": image(1), "rotary_emb": image(2)}},
    # No later: the last norm is modulated by vectors of all tokens.
    outputs={"blocks.-1": image(1)},
)

PLANS: dict[str, SplitPlan] = {
    "WanTransformer3DModel": WAN,
    "ChronoEditTransformer3DModel": WAN,
    "SkyReelsV2Transformer3DModel": replace(
        WAN,
        inputs={"blocks.0": ENTER, "blocks.*": {**ROPE, "temb": image(2, ndim=4)}},
        # No later: a timestep per frame modulates the last norm by vectors of all tokens.
        outputs={"blocks.-1": image(1)},
    ),
    "WanVACETransformer3DModel": replace(
        WAN,
        blocks=("vace_blocks", "blocks"),
        inputs={
            "vace_blocks.0": {**ENTER, "control_hidden_states": image(1)},
            "vace_blocks.*": ROPE,
            "blocks.0": ENTER,
            "blocks.*": ROPE,
        },
    ),
    "WanAnimateTransformer3DModel": replace(
        WAN,
        blocks=("blocks", "face_adapter"),
        inputs={"blocks.0": ENTER, "blocks.*": ROPE},
        attention={"attn2": (LOCAL,), "face_adapter.*": (LOCAL,)},
        processors={"face_adapter.*": stand_in("wan_attention.FaceAttention")},
    ),
    "WanAnimate2Transformer3DModel": sequence(
        "blocks",
        order=("past", "image"),  # the past is the reference video's keys and values
        whole=("past",),
        leaves="head",
        attention={"self_attn": (Attend(("image",), ("past", "image")),), "cross_attn": (LOCAL,)},
        processors={"self_attn": stand_in("wan_attention.Animate2Attention")},
    ),
    "AnyFlowTransformer3DModel": ANYFLOW,
    "AnyFlowFARTransformer3DModel": replace(
        ANYFLOW,
        order=("past", "image"),  # the past is the kept keys and values of chunks made before
        whole=("past",),
        inputs={"blocks.0": ENTER, "blocks.*": {"temb": image(1)}},
        attention={"attn1": (Attend(("image",), ("past", "image")),), "attn2": (LOCAL,)},
        processors={"attn1": stand_in("wan_attention.CausalAttention")},
    ),
}
