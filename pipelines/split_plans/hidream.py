"""Split plan of HiDream: each block brings its own layer of the text encoder's tokens, behind those that go through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...parallel.sharding.split_plan import Along, Made, SplitPlan, image


def cut_image(value: Any, arguments: Mapping[str, Any], session: Any) -> Any:
    """B S ...: what the model makes is as long as the whole image, followed by this rank's part of the text."""
    import torch

    stream = session.streams["image"]
    start, end = stream.held(session.rank)
    return torch.cat([value[:, start:end], value[:, stream.length :]], dim=1)


PLANS: dict[str, SplitPlan] = {
    "HiDreamImageTransformer2DModel": SplitPlan(
        order=("image", "t5", "llama", "llama"),
        either=("t5", "llama"),
        blocks=("double_stream_blocks", "single_stream_blocks"),
        inputs={
            "": {
                "encoder_hidden_states_t5": Along(1, ("t5",)),
                "encoder_hidden_states_llama3": Along(2, ("llama",)),
            },
            "double_stream_blocks.0": {"hidden_states": image(1)},
            "double_stream_blocks.*": {"hidden_states_masks": image(1), "image_rotary_emb": Made(cut_image)},
            "single_stream_blocks.*": {
                "hidden_states_masks": Made(cut_image),
                "image_rotary_emb": Made(cut_image),
            },
        },
        outputs={"final_layer": image(1)},
    ),
}
