"""Split plans of image models where text and picture are one sequence before the sharded blocks.

Z-Image, Lumina 2, Bria Fibo 2, OmniGen, Krea 2, Ideogram 4, ERNIE-Image and the prior of unCLIP. The first three
refine the picture alone before they join it to the text: until then it is a stream of its own.
"""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Attend, SplitPlan, image, tokens

WITHIN_IMAGE = (Attend(("image",), ("image",)),)
WITHIN_TOKENS = (Attend(("tokens",), ("tokens",)),)
ERNIE_TOKENS = tokens(0)  # tokens are in front of the batch
IDEOGRAM_TIMES = tokens(1, optional=True)  # one time for all tokens, or one for each

PLANS: dict[str, SplitPlan] = {
    # The picture alone in its refiner; then picture, text and SigLIP features.
    "ZImageTransformer2DModel": SplitPlan(
        order=("image", "tokens"),
        blocks=("noise_refiner", "layers"),
        inputs={
            "": {"controlnet_block_samples": tokens(1)},
            "noise_refiner.0": {"x": image(1)},
            "noise_refiner.*": {"freqs_cis": image(1), "noise_mask": image(1)},
            "layers.0": {"x": tokens(1)},
            "layers.*": {"freqs_cis": tokens(1), "noise_mask": tokens(1)},
            "all_final_layer.*": {"noise_mask": tokens(1)},
        },
        outputs={"noise_refiner.-1": image(1), "all_final_layer.*": tokens(1)},
        attention={"noise_refiner.*.attention": WITHIN_IMAGE, "layers.*.attention": WITHIN_TOKENS},
    ),
    "Lumina2Transformer2DModel": SplitPlan(
        order=("image", "tokens"),
        blocks=("noise_refiner", "layers"),
        inputs={
            "noise_refiner.0": {"hidden_states": image(1)},
            "noise_refiner.*": {"image_rotary_emb": image(1)},
            "layers.0": {"hidden_states": tokens(1)},
            "layers.*": {"image_rotary_emb": tokens(1)},
        },
        outputs={"noise_refiner.-1": image(1), "norm_out": tokens(1)},
        attention={"noise_refiner.*.attn": WITHIN_IMAGE, "layers.*.attn": WITHIN_TOKENS},
    ),
    "BriaFibo2Transformer2DModel": SplitPlan(
        order=("image", "tokens"),
        blocks=("noise_refiner", "layers"),
        inputs={
            "noise_refiner.0": {"x": image(1)},
            "noise_refiner.*": {"freqs_cis": image(1), "noise_mask": image(1)},
            "layers.0": {"x": tokens(1)},
            "layers.*": {"freqs_cis": tokens(1), "noise_mask": tokens(1)},
        },
        # The model reads the image's length off the refined tokens, and the picture's place in the last ones is global.
        outputs={"noise_refiner.-1": image(1), "layers.-1": tokens(1)},
        attention={
            "noise_refiner.*.attention": WITHIN_IMAGE,
            "layers.*.attention": WITHIN_TOKENS,
            "cross_attention": (LOCAL,),
        },
    ),
    # Text, input pictures, a time token and the picture.
    "OmniGenTransformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("layers",),
        inputs={"layers.0": {"hidden_states": tokens(1)}, "layers.*": {"image_rotary_emb": tokens(0)}},
        # Not later: the picture's tokens are counted from the end of the sequence after this norm.
        outputs={"norm": tokens(1)},
    ),
    "Krea2Transformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": tokens(1)},
            "transformer_blocks.*": {"image_rotary_emb": tokens(0)},
        },
        # Not later: the length of the whole text then cuts the image off.
        outputs={"transformer_blocks.-1": tokens(1)},
    ),
    "Ideogram4Transformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("layers",),
        inputs={
            "layers.0": {"hidden_states": tokens(1)},
            "layers.*": {"image_rotary_emb": tokens(1), "adaln_input": IDEOGRAM_TIMES},
            "final_layer": {"conditioning": IDEOGRAM_TIMES},
        },
        outputs={"final_layer": tokens(1)},
    ),
    "ErnieImageTransformer2DModel": SplitPlan(
        order=("tokens",),
        blocks=("layers",),
        inputs={"layers.0": {"x": ERNIE_TOKENS}, "layers.*": {"rotary_pos_emb": tokens(1), "temb": ERNIE_TOKENS}},
        outputs={"final_linear": ERNIE_TOKENS},
    ),
    # The prior of Kandinsky 2 and unCLIP: from a text to the embedding of its picture, a few tokens in all.
    "PriorTransformer": SplitPlan(
        order=("tokens",),
        blocks=("transformer_blocks",),
        inputs={
            "transformer_blocks.0": {"hidden_states": tokens(1)},
            "transformer_blocks.*": {"attention_mask": tokens(2)},
        },
        outputs={"norm_out": tokens(1)},
    ),
}
