"""Split plan of Krea 2: text and image are one sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, tokens

PLANS: dict[str, SplitPlan] = {
    "Krea2Transformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": tokens(1)},
            "transformer_blocks.*": {"image_rotary_emb": tokens(0)},
        },
        # Not later: the length of the whole text then cuts the image off.
        outputs={"transformer_blocks.-1": tokens(1)},
    ),
}
