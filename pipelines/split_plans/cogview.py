"""Split plans of CogView3-Plus and CogView4: text before image in the joint sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, text

JOINT = ("text", "image")
ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}

PLANS: dict[str, SplitPlan] = {
    "CogView3PlusTransformer2DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={"transformer_blocks.0": ENTER},
        outputs={"proj_out": image(1)},
    ),
    "CogView4Transformer2DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": ENTER,
            "transformer_blocks.*": {"image_rotary_emb": image(0), "attention_mask": text(1)},
        },
        outputs={"proj_out": image(1)},
        attention={"attn1": (Attend(JOINT, JOINT, mask="outer"),)},
    ),
}
