"""Split plans of PixArt, DiT and the general 2D transformer: picture tokens, and text by cross attention if any."""

from __future__ import annotations

from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, SplitPlan, image

PIXART = SplitPlan(
    blocks=("transformer_blocks",),
    inputs={"transformer_blocks.0": {"hidden_states": image(1)}, "transformer_blocks.*": {"attention_mask": image(-1)}},
    outputs={"proj_out": image(1)},
    attention={"attn2": (LOCAL,)},
    least=2,
    lent=("norm1.emb",),  # of the first block, which DiT asks for the conditioning of its output
)

PLANS: dict[str, SplitPlan] = {
    "PixArtTransformer2DModel": PIXART,
    "DiTTransformer2DModel": replace(PIXART, outputs={"proj_out_2": image(1)}),
    "Transformer2DModel": replace(
        PIXART,
        # Not later: what follows depends on the kind of input, and may be a convolution over the picture.
        outputs={"transformer_blocks.-1": image(1)},
        refused=(
            ("its first attention reads the text only", lambda config: config.only_cross_attention),
            ("its second attention is self attention", lambda config: config.double_self_attention),
            ("grounded attention mixes tokens of boxes in", lambda config: config.attention_type != "default"),
        ),
    ),
}
