"""Split plans of CogVideoX and ConsisID: text before video in the joint sequence, rotary positions for video alone."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Along, SplitPlan, image, text

JOINT = ("text", "image")
ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}
ROPE = {"image_rotary_emb": image(0)}

PLANS: dict[str, SplitPlan] = {
    "CogVideoXTransformer3DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={"transformer_blocks.0": ENTER, "transformer_blocks.*": ROPE},
        outputs={"proj_out": image(1)},
    ),
    "ConsisIDTransformer3DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={"transformer_blocks.0": ENTER, "transformer_blocks.*": ROPE},
        # Here both streams meet once more, and the length of the whole text then cuts them apart.
        outputs={"norm_final": Along(1, JOINT)},
    ),
}
