"""Split plans of JoyImage-Edit and JoyImage-Edit-Plus: pictures before text in the joint sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, image, text

JOINT = ("image", "text")
ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}

PLANS: dict[str, SplitPlan] = {
    "JoyImageEditTransformer3DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("double_blocks",),
        inputs={"double_blocks.0": ENTER, "double_blocks.*": {"image_rotary_emb": (image(0), text(0))}},
        outputs={"proj_out": image(1)},
    ),
    "JoyImageEditPlusTransformer3DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("double_blocks",),
        inputs={"double_blocks.0": ENTER, "double_blocks.*": {"image_rotary_emb": image(1)}},
        outputs={"proj_out": image(1)},
    ),
}
