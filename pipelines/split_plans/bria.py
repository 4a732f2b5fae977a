"""Split plans of Bria's models: the first two are built like FLUX, Fibo 2 has one sequence."""

from __future__ import annotations

from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, SplitPlan, image, text

JOINT = ("text", "image")
ROPE = {
    f"{blocks}.*": {"image_rotary_emb": Along(0, JOINT)}
    for blocks in ("transformer_blocks", "single_transformer_blocks")
}

BRIA = SplitPlan(
    order=JOINT,
    either=("text",),
    blocks=("transformer_blocks", "single_transformer_blocks"),
    inputs={
        # Its residuals for single blocks are left out: the model adds them at the text's length into the image.
        "": {"controlnet_block_samples": image(1)},
        "transformer_blocks.0": {"hidden_states": image(1), "encoder_hidden_states": text(1)},
        **ROPE,
    },
    outputs={"proj_out": image(1)},
)

# Between the blocks, half of the text's channels is replaced by the next layer of the text encoder.
FIBO = replace(
    BRIA,
    inputs={
        "": {"encoder_hidden_states": text(1), "text_encoder_layers": text(1)},
        "transformer_blocks.0": {"hidden_states": image(1)},
        **ROPE,
    },
)

FIBO2 = SplitPlan(
    order=("image", "tokens"),
    blocks=("noise_refiner", "layers"),
    inputs={
        "noise_refiner.0": {"x": image(1)},
        "noise_refiner.*": {"freqs_cis": image(1), "noise_mask": image(1)},
        "layers.0": {"x": Along(1, ("tokens",))},
        "layers.*": {"freqs_cis": Along(1, ("tokens",)), "noise_mask": Along(1, ("tokens",))},
    },
    # The model reads the image's length off the refined tokens, and the picture's place in the last ones is global.
    outputs={"noise_refiner.-1": image(1), "layers.-1": Along(1, ("tokens",))},
    attention={
        "noise_refiner.*.attention": (Attend(("image",), ("image",)),),
        "layers.*.attention": (Attend(("tokens",), ("tokens",)),),
        "cross_attention": (LOCAL,),
    },
)

PLANS: dict[str, SplitPlan] = {
    "BriaTransformer2DModel": BRIA,
    "BriaFiboTransformer2DModel": FIBO,
    "BriaFibo2Transformer2DModel": FIBO2,
}
