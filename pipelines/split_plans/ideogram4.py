"""Split plan of Ideogram 4: text and image are one sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, tokens

TIMES = tokens(1, optional=True)  # one time for all tokens, or one for each

PLANS: dict[str, SplitPlan] = {
    "Ideogram4Transformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("layers",),
        inputs={
            "layers.0": {"hidden_states": tokens(1)},
            "layers.*": {"image_rotary_emb": tokens(1), "adaln_input": TIMES},
            "final_layer": {"conditioning": TIMES},
        },
        outputs={"final_layer": tokens(1)},
    ),
}
