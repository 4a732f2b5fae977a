"""Split plan of Helios: a chunk of video behind its history, in one sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, SplitPlan, Trailing, tokens

PLANS: dict[str, SplitPlan] = {
    "HeliosTransformer3DModel": SplitPlan(
        order=("tokens",),
        blocks=("blocks",),
        inputs={
            "blocks.0": {"hidden_states": tokens(1)},
            "blocks.*": {
                "temb": tokens(1, ndim=4),
                "rotary_emb": tokens(1),
                "original_context_length": Trailing("tokens"),
            },
        },
        outputs={"blocks.-1": tokens(1)},
        attention={"attn2": (LOCAL,)},
    ),
}
