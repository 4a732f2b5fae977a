"""Split plan of ERNIE-Image: image and text are one sequence before the first block, with tokens in front of batch."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Along, SplitPlan

TOKENS = ("tokens",)

PLANS: dict[str, SplitPlan] = {
    "ErnieImageTransformer2DModel": SplitPlan(
        order=TOKENS,
        blocks=("layers",),
        inputs={
            "layers.0": {"x": Along(0, TOKENS)},
            "layers.*": {"rotary_pos_emb": Along(1, TOKENS), "temb": Along(0, TOKENS)},
        },
        outputs={"final_linear": Along(0, TOKENS)},
    ),
}
