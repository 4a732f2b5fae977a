"""Split plans of Cosmos and of Cosmos 3, whose text sees only itself."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image, text

MODULATION = {"embedded_timestep": image(1, ndim=3), "temb": image(1, ndim=3)}

PLANS: dict[str, SplitPlan] = {
    "CosmosTransformer3DModel": SplitPlan(
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1)},
            "transformer_blocks.*": {
                **MODULATION,
                "image_rotary_emb": image(0),
                "extra_pos_emb": image(1),
                "controlnet_residual": image(1),
            },
            "norm_out": MODULATION,
        },
        outputs={"proj_out": image(1)},
        attention={"attn2": (LOCAL,)},
    ),
    "Cosmos3OmniTransformer": SplitPlan(
        order=("text", "image"),
        either=("text",),
        blocks=("layers",),
        inputs={
            "layers.0": {"und_seq": text(0), "gen_seq": image(0)},
            "layers.*": {"rotary_emb": (text(0), text(0), image(0), image(0))},
        },
        outputs={"norm": text(0), "norm_moe_gen": image(0)},
        attention={"self_attn": (Attend(("text",), ("text",)), Attend(("image",), ("text", "image")))},
    ),
}
