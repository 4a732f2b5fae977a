"""Split plan of Motif-Video: joint blocks of video and text, then blocks that decode from the video alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image

ENTER = {"hidden_states": image(1)}
ROPE = {"image_rotary_emb": image(0)}


def _decoding(split: SplitPlan, config: Any) -> SplitPlan:
    """The last blocks start from the first block's input again, and attend to it and to what was made of it."""
    first = config.num_single_layers - config.num_decoder_layers
    decoders = [f"single_transformer_blocks.{i}" for i in range(first, config.num_single_layers)]
    if not decoders:
        return split
    twice = Attend(("image", "image"), ("image", "image"))
    return replace(
        split,
        inputs={**split.inputs, decoders[0]: ENTER},
        attention={**split.attention, **{f"{block}.attn": (twice,) for block in decoders}},
    )


PLANS: dict[str, SplitPlan] = {
    "MotifVideoTransformer3DModel": SplitPlan(
        order=("image", "text"),
        whole=("text",),
        blocks=("transformer_blocks", "single_transformer_blocks"),
        inputs={
            "transformer_blocks.0": ENTER,
            "transformer_blocks.*": ROPE,
            "single_transformer_blocks.*": ROPE,
        },
        outputs={"proj_out": image(1)},
        attention={"cross_attn": (LOCAL,)},
        adapt=_decoding,
    ),
}
