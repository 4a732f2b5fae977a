"""Split plans of image models that read a text, if any, without changing it.

PixArt, DiT, the general 2D transformer, DreamLite and Lumina-Next read by cross attention: the text is whole on every
rank, and the call stays local. In PRX and Nucleus-Image its keys stand beside the picture's own in one call.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Attend, MadeAnew, SplitPlan, image, text
from .processors import stand_in
from .sequence import sequence

PIXART = sequence(
    "transformer_blocks",
    each={"attention_mask": image(-1)},
    attention={"attn2": (LOCAL,)},
    least=2,
    lent=("norm1.emb",),  # of the first block, which DiT asks for the conditioning of its output
)

# Diffusers' general 2D transformer, of which DreamLite's attention stage is one.
GENERAL = replace(
    PIXART,
    # Not later: what follows depends on the kind of input, and may be a convolution over the picture.
    outputs={"transformer_blocks.-1": image(1)},
    refused=(
        ("its first attention reads the text only", lambda config: config.only_cross_attention),
        ("its second attention is self attention", lambda config: config.double_self_attention),
        ("grounded attention mixes tokens of boxes in", lambda config: config.attention_type != "default"),
    ),
)


def in_proportion(options: Any, given: Mapping[str, Any], session: Any) -> Any:
    """Options of Lumina-Next's attention by which this rank's tokens give the scale that all of them give.

    The scale grows with the logarithm of the number of tokens, of which the model counts those that are here, to a base
    that the pipeline names.
    """
    base = options.get("base_sequence_length")
    if base is None:
        return options
    layout = session.layout(("image",))
    share = math.log(layout.num_held(session.rank)) / math.log(layout.length)
    return {**options, "base_sequence_length": base**share}


PLANS: dict[str, SplitPlan] = {
    "PixArtTransformer2DModel": PIXART,
    "DiTTransformer2DModel": replace(PIXART, outputs={"proj_out_2": image(1)}),
    "Transformer2DModel": GENERAL,
    "DreamLiteTransformer2DModel": GENERAL,
    "LuminaNextDiT2DModel": sequence(
        "layers",
        each={"image_rotary_emb": image(1), "cross_attention_kwargs": MadeAnew(in_proportion)},
        leaves="norm_out",
        attention={"attn2": (LOCAL,)},
        least=2,  # a single one has no logarithm to scale by
    ),
    "PRXTransformer2DModel": sequence(
        "blocks",
        order=("text", "image"),
        either=("text",),
        each={"encoder_hidden_states": text(1), "attention_mask": text(1), "image_rotary_emb": image(2)},
        leaves="final_layer",
        attention={"attention": (Attend(("image",), ("text", "image")),)},
    ),
    # Its experts choose picture tokens, and choose among those of all ranks.
    "NucleusMoEImageTransformer2DModel": sequence(
        "transformer_blocks",
        order=("image", "text"),
        either=("text",),
        each={"encoder_hidden_states": text(1), "image_rotary_emb": (image(0), text(0))},
        attention={"attn": (Attend(("image",), ("image", "text")),)},
        processors={"img_mlp": stand_in("expert_choice.choose_among_all")},
    ),
}
