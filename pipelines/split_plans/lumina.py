"""Split plans of Lumina: Lumina-Next reads text by cross attention, Lumina 2 has it in the sequence."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image, tokens

PLANS: dict[str, SplitPlan] = {
    "Lumina2Transformer2DModel": SplitPlan(
        order=("image", "tokens"),  # the picture alone in its refiner, then text and picture as one
        blocks=("noise_refiner", "layers"),
        inputs={
            "noise_refiner.0": {"hidden_states": image(1)},
            "noise_refiner.*": {"image_rotary_emb": image(1)},
            "layers.0": {"hidden_states": tokens(1)},
            "layers.*": {"image_rotary_emb": tokens(1)},
        },
        outputs={"noise_refiner.-1": image(1), "norm_out": tokens(1)},
        attention={
            "noise_refiner.*.attn": (Attend(("image",), ("image",)),),
            "layers.*.attn": (Attend(("tokens",), ("tokens",)),),
        },
    ),
    "LuminaNextDiT2DModel": SplitPlan(
        blocks=("layers",),
        inputs={
            "layers.0": {"hidden_states": image(1)},
            "layers.*": {"image_rotary_emb": image(1)},
        },
        outputs={"norm_out": image(1)},
        attention={"attn2": (LOCAL,)},
    ),
}
