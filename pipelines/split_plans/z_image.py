"""Split plan of Z-Image: picture, text and SigLIP features become one sequence after the picture's refiner."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, tokens

PLANS: dict[str, SplitPlan] = {
    "ZImageTransformer2DModel": SplitPlan(
        order=("image", "tokens"),
        blocks=("noise_refiner", "layers"),
        inputs={
            "": {"controlnet_block_samples": tokens(1)},
            "noise_refiner.0": {"x": image(1)},
            "noise_refiner.*": {"freqs_cis": image(1), "noise_mask": image(1)},
            "layers.0": {"x": tokens(1)},
            "layers.*": {"freqs_cis": tokens(1), "noise_mask": tokens(1)},
            "all_final_layer.*": {"noise_mask": tokens(1)},
        },
        outputs={"noise_refiner.-1": image(1), "all_final_layer.*": tokens(1)},
        attention={
            "noise_refiner.*.attention": (Attend(("image",), ("image",)),),
            "layers.*.attention": (Attend(("tokens",), ("tokens",)),),
        },
    ),
}
