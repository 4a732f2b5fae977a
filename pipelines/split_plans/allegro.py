"""Split plan of Allegro."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, SplitPlan, image

PLANS: dict[str, SplitPlan] = {
    "AllegroTransformer3DModel": SplitPlan(
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1)},
            "transformer_blocks.*": {"attention_mask": image(2), "image_rotary_emb": (None, image(1))},
        },
        outputs={"proj_out": image(1)},
        attention={"attn2": (LOCAL,)},
        least=2,
    ),
}
