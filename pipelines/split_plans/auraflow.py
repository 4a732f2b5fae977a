"""Split plan of AuraFlow, whose text starts with eight learned tokens."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, image, text

PLANS: dict[str, SplitPlan] = {
    "AuraFlowTransformer2DModel": SplitPlan(
        order=("text", "image"),
        either=("text",),
        blocks=("joint_transformer_blocks", "single_transformer_blocks"),
        inputs={"joint_transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)}},
        outputs={"proj_out": image(1)},
    ),
}
