"""Split plans of Qwen-Image: the first with two streams, 2.1 with one, in which words and pictures follow in time."""

from __future__ import annotations

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, text, tokens
from .processors import stand_in

QWEN = SplitPlan(
    order=("text", "image"),
    either=("text",),
    blocks=("transformer_blocks",),
    inputs={
        "": {"controlnet_block_samples": image(1)},
        "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
        "transformer_blocks.*": {
            "encoder_hidden_states_mask": text(1),
            "image_rotary_emb": (image(0), text(0)),
            "modulate_index": image(1),
        },
    },
    outputs={"proj_out": image(1)},
)


QWEN21 = SplitPlan(
    order=("tokens",),
    whole=("past",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": {"hidden_states": tokens(1)},
        "transformer_blocks.*": {"rotary_emb": tokens(0), "target_token_mask": tokens(0)},
        "norm_out": {"target_token_mask": tokens(0)},
    },
    outputs={"proj_out": tokens(1)},
    # After the first step, the keys of all that comes before the picture are kept ones.
    attention={"attn": (Attend(("tokens",), ("past", "tokens")),)},
    processors={"attn": stand_in("qwen_image21.CausalProcessor")},
)

PLANS: dict[str, SplitPlan] = {
    "QwenImageTransformer2DModel": QWEN,
    "QwenImage21Transformer2DModel": QWEN21,
}
