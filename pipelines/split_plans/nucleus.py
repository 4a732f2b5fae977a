"""Split plan of Nucleus-Image: picture tokens attend to themselves and the text, and experts choose picture tokens."""

from __future__ import annotations

from typing import Any

from ...parallel.sharding.split_plan import Attend, SplitPlan, image, text


def choose_among_all(layer: Any, session: Any) -> Any:
    """An expert layer's forward for sharded tokens; that of other layers stays."""
    from .processors.expert_choice import ExpertChoice

    return ExpertChoice(layer, session) if hasattr(layer, "experts") else layer.forward


PLANS: dict[str, SplitPlan] = {
    "NucleusMoEImageTransformer2DModel": SplitPlan(
        order=("image", "text"),
        either=("text",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": image(1)},
            "transformer_blocks.*": {"encoder_hidden_states": text(1), "image_rotary_emb": (image(0), text(0))},
        },
        outputs={"proj_out": image(1)},
        attention={"attn": (Attend(("image",), ("image", "text")),)},
        processors={"img_mlp": choose_among_all},
    ),
}
