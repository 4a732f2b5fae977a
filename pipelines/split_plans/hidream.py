"""Split plan of HiDream, whose text stays whole: every block brings its own layer of the text encoder's tokens."""

from __future__ import annotations

from ...parallel.split_plan import Along, SplitPlan, image, text

JOINT = ("image", "text")

PLANS: dict[str, SplitPlan] = {
    "HiDreamImageTransformer2DModel": SplitPlan(
        order=JOINT,
        whole=("text",),
        blocks=("double_stream_blocks", "single_stream_blocks"),
        inputs={
            "double_stream_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
            "double_stream_blocks.*": {"hidden_states_masks": image(1), "image_rotary_emb": Along(1, JOINT)},
            "single_stream_blocks.*": {"hidden_states_masks": Along(1, JOINT), "image_rotary_emb": Along(1, JOINT)},
        },
        outputs={"final_layer": image(1)},
    ),
}
