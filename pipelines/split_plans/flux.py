"""Split plans of FLUX and the image models built like it: text and image in two streams, then in one.

FLUX.1, FLUX.2, FLUX.3, Chroma, Ovis-Image, LongCat-Image, Bria and Bria Fibo; Fibo 2 is in `single_stream`.
"""

from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, MadeAnew, SplitPlan, image, text
from .processors import stand_in
from .sequence import joint

TEXT_IMAGE = ("text", "image")
BLOCKS = ("transformer_blocks", "single_transformer_blocks")
JOINT_ROPE = {"image_rotary_emb": Along(0, TEXT_IMAGE)}

# Ovis-Image and LongCat-Image: two streams, then one, and nothing else.
PLAIN = joint(*BLOCKS, each=JOINT_ROPE)

# FLUX.1 and Chroma take residuals of a ControlNet, and pictures of an IP-adapter.
FLUX = replace(
    PLAIN,
    inputs={"": {"controlnet_block_samples": image(1), "controlnet_single_block_samples": image(1)}, **PLAIN.inputs},
    # Further calls are those of IP-adapters, whose few picture tokens every rank holds.
    attention={"attn": (Attend(TEXT_IMAGE, TEXT_IMAGE), LOCAL)},
)

# FLUX.3 keeps a reference picture's tokens behind those of the image; each stream has blocks of its own at first.
STREAM_OF = {"txt_mode_blocks": "text", "mode_blocks.image": "image", "mode_blocks.image_cond": "reference"}
IMAGE_REFERENCE = Along(1, ("image", "reference"))

PLANS: dict[str, SplitPlan] = {
    "FluxTransformer2DModel": FLUX,
    "ChromaTransformer2DModel": FLUX,
    # With reference pictures whose keys are kept, tokens have different times in the first step; in later ones the kept
    # keys are in the middle. When blocks are done, the length of the whole text cuts the image off.
    "Flux2Transformer2DModel": joint(
        *BLOCKS,
        whole=("past",),
        inputs={
            "transformer_blocks.*": {**JOINT_ROPE, "temb_mod_img": image(1, ndim=3, optional=True)},
            "single_transformer_blocks.*": {
                **JOINT_ROPE,
                "temb_mod": MadeAnew(stand_in("flux2_reference.joined_times")),
            },
        },
        outputs={"single_transformer_blocks.-1": Along(1, TEXT_IMAGE)},
        attention={"attn": (Attend(TEXT_IMAGE, ("text", "past", "image")),)},
        processors={"attn": stand_in("flux2_reference.keep_reference")},
    ),
    "Flux3Transformer2DModel": SplitPlan(
        order=("text", "image", "reference"),
        either=("text",),
        lacking=("reference",),
        blocks=(*STREAM_OF, "single_transformer_blocks"),
        inputs={
            **{f"{blocks}.0": {"hidden_states": Along(1, (stream,))} for blocks, stream in STREAM_OF.items()},
            **{
                f"{blocks}.*": {"temb_mod": Along(1, (stream,)), "image_rotary_emb": Along(0, (stream,))}
                for blocks, stream in STREAM_OF.items()
            },
            "single_transformer_blocks.*": {
                "temb_mod": IMAGE_REFERENCE,
                "temb_mod_context": text(1),
                "image_rotary_emb": Along(0, ("text", "image", "reference")),
            },
        },
        outputs={"single_transformer_blocks.-1": (None, IMAGE_REFERENCE)},
        attention={f"{blocks}.*.attn": (Attend((stream,), (stream,)),) for blocks, stream in STREAM_OF.items()},
    ),
    "OvisImageTransformer2DModel": PLAIN,
    "LongCatImageTransformer2DModel": PLAIN,
    # Its residuals for single blocks are left out: the model adds them at the text's length into the image.
    "BriaTransformer2DModel": replace(PLAIN, inputs={"": {"controlnet_block_samples": image(1)}, **PLAIN.inputs}),
    # Between the blocks, half of the text's channels is replaced by the next layer of the text encoder.
    "BriaFiboTransformer2DModel": replace(
        PLAIN,
        inputs={
            "": {"encoder_hidden_states": text(1), "text_encoder_layers": text(1)},
            **PLAIN.inputs,
            "transformer_blocks.0": {"hidden_states": image(1)},
        },
    ),
}
