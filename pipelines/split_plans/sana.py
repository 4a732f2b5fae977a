"""Split plans of Sana: linear attention summed over the ranks, and convolutions that see a neighbour's edge.

Pictures are cut between rows, videos between frames.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Along, Halo, SplitPlan, Units, image
from .processors import stand_in
from .sequence import sequence

SUM_LINEAR, OVER_FRAMES = stand_in("linear_attention.summed"), stand_in("gated_delta.over_frames")


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


def by_latent_frames(split: SplitPlan, config: Any) -> SplitPlan:
    halos = {"mlp.t_conv": Halo("image", 2, config.t_kernel_size // 2)}
    return replace(split, units={"image": lambda given: given["THW"][1] * given["THW"][2]}, halos=halos)


FRAMES = Along(2, ("frames",))  # as many to a rank as it has of the image

PLANS: dict[str, SplitPlan] = {
    "SanaTransformer2DModel": sequence(
        "transformer_blocks",
        adapt=by_rows,
        least=0,  # a picture has few rows
        each={"height": Units("image")},
        inputs={"": {"controlnet_block_samples": image(1)}},
        attention={"attn2": (LOCAL,)},
        processors={"attn1": SUM_LINEAR},
        # Those that reach nowhere are named because no convolution takes a picture without rows.
        halos={
            f"ff.conv_{name}": Halo("image", 2, reach) for name, reach in (("inverted", 0), ("depth", 1), ("point", 0))
        },
    ),
    "SanaVideoTransformer3DModel": sequence(
        "transformer_blocks",
        adapt=by_frames,
        # Image to video has a timestep for each token.
        each={"timestep": image(1, optional=True), "frames": Units("image"), "rotary_emb": image(1)},
        inputs={"": {"controlnet_block_samples": image(1)}, "norm_out": {"temb": image(1, optional=True)}},
        attention={"attn2": (LOCAL,)},
        processors={"attn1": SUM_LINEAR},
        halos={"ff.conv_temp": Halo("image", 2, 1)},
    ),
    "SanaWMTransformer3DModel": sequence(
        "blocks",
        adapt=by_latent_frames,
        enters="x",
        each={
            "t": FRAMES,
            "THW": (Units("image"), None, None),
            "rotary_emb": image(2),
            "ucpe_ray_transforms": (image(1), image(1), image(1), image(2)),
            "plucker_emb": image(1),
        },
        leaves="final_layer",
        inputs={"final_layer": {"t": FRAMES}},
        attention={"cross_attn": (LOCAL,)},
        processors={
            **dict.fromkeys(("attn.attn", "attn.cam_attn"), OVER_FRAMES),
            **{f"conv_{name}": OVER_FRAMES for name in ("q", "k", "v", "q_cam", "k_cam", "v_cam")},
        },
    ),
}
