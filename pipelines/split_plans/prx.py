"""Split plan of PRX: picture tokens attend to the text and to themselves in one call; the text never changes."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, text

PLANS: dict[str, SplitPlan] = {
    "PRXTransformer2DModel": SplitPlan(
        order=("text", "image"),
        either=("text",),
        blocks=("blocks",),
        inputs={
            "blocks.0": {"hidden_states": image(1)},
            "blocks.*": {"encoder_hidden_states": text(1), "attention_mask": text(1), "image_rotary_emb": image(2)},
        },
        outputs={"final_layer": image(1)},
        attention={"attention": (Attend(("image",), ("text", "image")),)},
    ),
}
