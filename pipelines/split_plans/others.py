"""Split plans of what fits no family, and the transformers that are no denoiser of a picture, video or sound."""

from __future__ import annotations

from ...parallel.sharding.split_plan import SplitPlan, tokens

PLANS: dict[str, SplitPlan] = {
    "PriorTransformer": SplitPlan(
        order=("tokens",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": tokens(1)},
            "transformer_blocks.*": {"attention_mask": tokens(2)},
        },
        outputs={"norm_out": tokens(1)},
    ),
}

REFUSED: dict[str, str] = {
    "TransformerTemporalModel": "it is a stage of UNets, and its tokens are the frames of one pixel",
    "RFD4ProteinaTransformer": "it designs proteins, and its attention carries a bias for each pair of residues",
}
"""Classes that are not split, and why."""
