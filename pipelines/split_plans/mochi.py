"""Split plan of Mochi, which attends item by item of a batch to the valid tokens of its text."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, image

PLANS: dict[str, SplitPlan] = {
    "MochiTransformer3DModel": SplitPlan(
        order=("image", "text"),
        whole=("text",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1)},
            "transformer_blocks.*": {"image_rotary_emb": image(0)},
        },
        outputs={"proj_out": image(1)},
    ),
}
