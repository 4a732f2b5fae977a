"""Split plans of image models where text and picture are one sequence before the sharded blocks.

Z-Image, Lumina 2, Bria Fibo 2, OmniGen, Krea 2, Ideogram 4, ERNIE-Image, the prior of unCLIP and Qwen-Image 2.1. The
first three refine the picture alone before they join it to the text: until then it is a stream of its own.
"""

from collections.abc import Mapping
from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, Spec, SplitPlan, image, tokens
from .processors import stand_in
from .sequence import sequence

IDEOGRAM_TIMES = tokens(1, optional=True)  # one time for all tokens, or one for each


def refined(*, enters: str, each: tuple[str, ...], attention: str, leaves: str) -> SplitPlan:
    """Of a model that refines the picture by itself in `noise_refiner` before all tokens go through `layers`; both have
    the same blocks."""
    streams = {"noise_refiner": "image", "layers": "tokens"}
    taken: dict[str, Mapping[str, Spec]] = {}
    for blocks, stream in streams.items():
        taken[f"{blocks}.0"] = {enters: Along(1, (stream,))}
        taken[f"{blocks}.*"] = dict.fromkeys(each, Along(1, (stream,)))
    return SplitPlan(
        order=("image", "tokens"),
        blocks=("noise_refiner", "layers"),
        inputs=taken,
        outputs={"noise_refiner.-1": image(1), leaves: tokens(1)},
        attention={f"{blocks}.*.{attention}": (Attend((it,), (it,)),) for blocks, it in streams.items()},
    )


REFINED_X = refined(enters="x", each=("freqs_cis", "noise_mask"), attention="attention", leaves="layers.-1")

PLANS: dict[str, SplitPlan] = {
    # The picture alone in its refiner; then picture, text and SigLIP features.
    "ZImageTransformer2DModel": replace(
        REFINED_X,
        inputs={
            "": {"controlnet_block_samples": tokens(1)},
            "all_final_layer.*": {"noise_mask": tokens(1)},
            **REFINED_X.inputs,
        },
        outputs={"noise_refiner.-1": image(1), "all_final_layer.*": tokens(1)},
    ),
    "Lumina2Transformer2DModel": refined(
        enters="hidden_states", each=("image_rotary_emb",), attention="attn", leaves="norm_out"
    ),
    # The model reads the image's length off the refined tokens, and the picture's place in the last ones is global.
    "BriaFibo2Transformer2DModel": replace(REFINED_X, attention={**REFINED_X.attention, "cross_attention": (LOCAL,)}),
    # Text, input pictures, a time token and the picture.
    "OmniGenTransformer2DModel": sequence(
        "layers",
        stream="tokens",
        each={"image_rotary_emb": tokens(0)},
        leaves="norm",  # not later: the picture's tokens are counted from the end of the sequence after this norm
    ),
    "Krea2Transformer2DModel": sequence(
        "transformer_blocks",
        stream="tokens",
        each={"image_rotary_emb": tokens(0)},
        leaves="transformer_blocks.-1",  # not later: the length of the whole text then cuts the image off
    ),
    "Ideogram4Transformer2DModel": sequence(
        "layers",
        stream="tokens",
        each={"image_rotary_emb": tokens(1), "adaln_input": IDEOGRAM_TIMES},
        leaves="final_layer",
        inputs={"final_layer": {"conditioning": IDEOGRAM_TIMES}},
    ),
    "ErnieImageTransformer2DModel": sequence(
        "layers",
        stream="tokens",
        enters="x",
        dim=0,  # tokens are in front of the batch
        each={"rotary_pos_emb": tokens(1), "temb": tokens(0)},
        leaves="final_linear",
    ),
    # The prior of Kandinsky 2 and unCLIP: from a text to the embedding of its picture, a few tokens in all.
    "PriorTransformer": sequence(
        "transformer_blocks", stream="tokens", each={"attention_mask": tokens(2)}, leaves="norm_out"
    ),
    # Words and pictures follow in time. After the first step, the keys of all that comes before the picture are kept.
    "QwenImage21Transformer2DModel": sequence(
        "transformer_blocks",
        stream="tokens",
        whole=("past",),
        each={"rotary_emb": tokens(0), "target_token_mask": tokens(0)},
        inputs={"norm_out": {"target_token_mask": tokens(0)}},
        attention={"attn": (Attend(("tokens",), ("past", "tokens")),)},
        processors={"attn": stand_in("qwen_image21.CausalProcessor")},
    ),
}
