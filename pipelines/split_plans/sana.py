"""Split plans of Sana: linear attention summed over the ranks, and convolutions that see a neighbour's edge.

Pictures are cut between rows, videos between frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...parallel.split_plan import LOCAL, Halo, SplitPlan, Units, image


def sum_linear(processor: Any, session: Any) -> Any:
    from . import linear_attention

    return linear_attention.summed(processor, session.sum)


def by_rows(split: SplitPlan, config: Any) -> SplitPlan:
    """A unit is a row of patches: the blocks are told its length, and the model itself is given latents."""

    def row(given: Mapping[str, Any]) -> int:
        return given["width"] if "width" in given else given["hidden_states"].shape[-1] // config.patch_size

    return replace(split, units={"image": row})


def by_frames(split: SplitPlan, config: Any) -> SplitPlan:
    def frame(given: Mapping[str, Any]) -> int:
        if "width" in given:
            return given["height"] * given["width"]
        height, width = given["hidden_states"].shape[-2:]
        return (height // config.patch_size[1]) * (width // config.patch_size[2])

    return replace(split, units={"image": frame})


SANA = SplitPlan(
    blocks=("transformer_blocks",),
    adapt=by_rows,
    inputs={
        "": {"controlnet_block_samples": image(1)},
        "transformer_blocks.0": {"hidden_states": image(1)},
        "transformer_blocks.*": {"height": Units("image")},
    },
    outputs={"proj_out": image(1)},
    attention={"attn2": (LOCAL,)},
    processors={"attn1": sum_linear},
    # Those that reach nowhere are named because no convolution takes a picture without rows.
    halos={f"ff.conv_{name}": Halo("image", 2, reach) for name, reach in (("inverted", 0), ("depth", 1), ("point", 0))},
)

SANA_VIDEO = SplitPlan(
    blocks=("transformer_blocks",),
    adapt=by_frames,
    inputs={
        "": {"controlnet_block_samples": image(1)},
        "transformer_blocks.0": {"hidden_states": image(1)},
        # Image to video has a timestep for each token.
        "transformer_blocks.*": {
            "timestep": image(1, optional=True),
            "frames": Units("image"),
            "rotary_emb": image(1),
        },
        "norm_out": {"temb": image(1, optional=True)},
    },
    outputs={"proj_out": image(1)},
    attention={"attn2": (LOCAL,)},
    processors={"attn1": sum_linear},
    halos={"ff.conv_temp": Halo("image", 2, 1)},
)

PLANS: dict[str, SplitPlan] = {
    "SanaTransformer2DModel": SANA,
    "SanaVideoTransformer3DModel": SANA_VIDEO,
}
