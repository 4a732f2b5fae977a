"""Split plan of MiniMax-H3: text, video and audio are one packed sequence before the first block."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Along, SplitPlan

TOKENS = ("tokens",)

PLANS: dict[str, SplitPlan] = {
    "MiniMaxH3Transformer3DModel": SplitPlan(
        order=TOKENS,
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": Along(1, TOKENS)},
            "transformer_blocks.*": {"adaln_indices": Along(0, TOKENS), "rotary_emb": Along(0, TOKENS)},
            "norm_out": {"timestep_indices": Along(0, TOKENS)},
        },
        # Both heads see every token; their rows are few channels, so they are gathered here.
        outputs={"proj_out": Along(1, TOKENS), "audio_proj_out": Along(1, TOKENS)},
    ),
}
