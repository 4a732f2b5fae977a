"""Split plan of Stable Diffusion 3 and 3.5."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, text

JOINT = ("image", "text")
ADAPTED = Attend(("image",), ("image", "adapter"))

PLANS: dict[str, SplitPlan] = {
    "SD3Transformer2DModel": SplitPlan(
        order=JOINT,
        either=("text",),
        whole=("adapter",),
        blocks=("transformer_blocks",),
        inputs={
            "": {"block_controlnet_hidden_states": image(1)},
            "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
        },
        outputs={"proj_out": image(1)},
        # With an IP-adapter, the image attends a second time, to itself and to the adapter's tokens.
        attention={"attn": (Attend(JOINT, JOINT), ADAPTED), "attn2": (Attend(("image",), ("image",)), ADAPTED)},
    ),
}
