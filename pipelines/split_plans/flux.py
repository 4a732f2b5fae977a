"""Split plans of FLUX and of the models built like it: text and image in two streams, then in one."""

from __future__ import annotations

from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, Made, SplitPlan, image, text

JOINT = ("text", "image")
ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}
ROPE = {"image_rotary_emb": Along(0, JOINT)}
RESIDUALS = {"controlnet_block_samples": image(1), "controlnet_single_block_samples": image(1)}
BLOCKS = ("transformer_blocks", "single_transformer_blocks")
CUTS = {"transformer_blocks.0": ENTER, **{f"{block}.*": ROPE for block in BLOCKS}}

FLUX = SplitPlan(
    order=JOINT,
    either=("text",),
    blocks=BLOCKS,
    inputs={"": RESIDUALS, **CUTS},
    outputs={"proj_out": image(1)},
    # Further calls are those of IP-adapters, whose few picture tokens every rank holds.
    attention={"attn": (Attend(JOINT, JOINT), LOCAL)},
)
OVIS = SplitPlan(order=JOINT, either=("text",), blocks=BLOCKS, inputs=CUTS, outputs={"proj_out": image(1)})


def keep_reference(processor: Any, session: Any) -> Any:
    from .processors.flux2_reference import ReferenceProcessor

    keeps = type(processor).__name__ in ("Flux2KVAttnProcessor", "Flux2KVParallelSelfAttnProcessor")
    return ReferenceProcessor(processor, session) if keeps else processor


def joined_times(modulation: Any, arguments: Any, session: Any) -> Any:
    from .processors.flux2_reference import joined_times

    return joined_times(modulation, arguments, session)


# With reference pictures whose keys are kept, tokens have different times in the first step; in later ones the kept
# keys are in the middle. When blocks are done, the length of the whole text cuts the image off.
FLUX2 = SplitPlan(
    order=JOINT,
    either=("text",),
    whole=("past",),
    blocks=BLOCKS,
    inputs={
        "transformer_blocks.0": ENTER,
        "transformer_blocks.*": {**ROPE, "temb_mod_img": image(1, ndim=3, optional=True)},
        "single_transformer_blocks.*": {**ROPE, "temb_mod": Made(joined_times)},
    },
    outputs={"single_transformer_blocks.-1": Along(1, JOINT)},
    attention={"attn": (Attend(JOINT, ("text", "past", "image")),)},
    processors={"attn": keep_reference},
)

# FLUX.3 keeps a reference picture's tokens behind those of the image; each stream has blocks of its own at first.
MODES = {"txt_mode_blocks": "text", "mode_blocks.image": "image", "mode_blocks.image_cond": "reference"}
CONTENT = Along(1, ("image", "reference"))
FLUX3 = SplitPlan(
    order=("text", "image", "reference"),
    either=("text",),
    lacking=("reference",),
    blocks=(*MODES, "single_transformer_blocks"),
    inputs={
        **{f"{blocks}.0": {"hidden_states": Along(1, (stream,))} for blocks, stream in MODES.items()},
        **{
            f"{blocks}.*": {"temb_mod": Along(1, (stream,)), "image_rotary_emb": Along(0, (stream,))}
            for blocks, stream in MODES.items()
        },
        "single_transformer_blocks.*": {
            "temb_mod": CONTENT,
            "temb_mod_context": text(1),
            "image_rotary_emb": Along(0, ("text", "image", "reference")),
        },
    },
    outputs={"single_transformer_blocks.-1": (None, CONTENT)},
    attention={f"{blocks}.*.attn": (Attend((stream,), (stream,)),) for blocks, stream in MODES.items()},
)

PLANS: dict[str, SplitPlan] = {
    "FluxTransformer2DModel": FLUX,
    "ChromaTransformer2DModel": FLUX,
    "Flux2Transformer2DModel": FLUX2,
    "Flux3Transformer2DModel": FLUX3,
    "OvisImageTransformer2DModel": OVIS,
    "LongCatImageTransformer2DModel": OVIS,
}
