"""Split plan of EasyAnimate: text before video in the joint sequence, rotary positions for video alone."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, image, text

PLANS: dict[str, SplitPlan] = {
    "EasyAnimateTransformer3DModel": SplitPlan(
        order=("text", "image"),
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
            "transformer_blocks.*": {"image_rotary_emb": image(0)},
        },
        outputs={"proj_out": image(1)},
    ),
}
