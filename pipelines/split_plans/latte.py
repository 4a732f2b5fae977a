"""Split plan of Latte: frames are items of the batch in one block, patches are in the next; patches are spread."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Along, SplitPlan, image

PLANS: dict[str, SplitPlan] = {
    "LatteTransformer3DModel": SplitPlan(
        blocks=("transformer_blocks",),  # the temporal ones have all frames of their patches
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1)},
            "temporal_transformer_blocks.*": {"timestep": Along(0, ("image",), batched=True)},
        },
        outputs={"proj_out": image(1)},
        attention={"attn2": (LOCAL,)},
    ),
}
