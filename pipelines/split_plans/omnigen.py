"""Split plan of OmniGen: text, input pictures, a time token and the picture are one sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, tokens

PLANS: dict[str, SplitPlan] = {
    "OmniGenTransformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("layers",),
        inputs={"layers.0": {"hidden_states": tokens(1)}, "layers.*": {"image_rotary_emb": tokens(0)}},
        # Not later: the picture's tokens are counted from the end of the sequence after this norm.
        outputs={"norm": tokens(1)},
    ),
}
