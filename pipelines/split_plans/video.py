"""Split plans of the video models with no module of their own.

Text and video attend jointly in CogVideoX, ConsisID, EasyAnimate, Mochi and Motif-Video; they are one sequence in
MiniMax-H3. Allegro, Latte, Helios and Cosmos read text by cross attention, Cosmos 3 by keys beside the video's own.
"""

from dataclasses import replace
from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, SplitPlan, Trailing, image, text, tokens
from .sequence import joint, sequence

VIDEO_ENTERS = {"hidden_states": image(1)}
VIDEO_ROPE = {"image_rotary_emb": image(0)}  # the text has no positions
COSMOS_MODULATION = {"embedded_timestep": image(1, ndim=3), "temb": image(1, ndim=3)}

COGVIDEOX = joint("transformer_blocks", each=VIDEO_ROPE)


def _decoding(split: SplitPlan, config: Any) -> SplitPlan:
    """The last blocks start from the first block's input again, and attend to it and to what was made of it."""
    first = config.num_single_layers - config.num_decoder_layers
    decoders = [f"single_transformer_blocks.{i}" for i in range(first, config.num_single_layers)]
    if not decoders:
        return split
    twice = Attend(("image", "image"), ("image", "image"))
    return replace(
        split,
        inputs={**split.inputs, decoders[0]: VIDEO_ENTERS},
        attention={**split.attention, **{f"{block}.attn": (twice,) for block in decoders}},
    )


PLANS: dict[str, SplitPlan] = {
    "CogVideoXTransformer3DModel": COGVIDEOX,
    "ConsisIDTransformer3DModel": replace(
        COGVIDEOX,
        # Here both streams meet once more, and the length of the whole text then cuts them apart.
        outputs={"norm_final": Along(1, ("text", "image"))},
    ),
    "EasyAnimateTransformer3DModel": COGVIDEOX,
    # Attends item by item of a batch to the valid tokens of its text.
    "MochiTransformer3DModel": sequence(
        "transformer_blocks", order=("image", "text"), whole=("text",), each=VIDEO_ROPE
    ),
    # Joint blocks of video and text, then blocks that decode from the video alone.
    "MotifVideoTransformer3DModel": SplitPlan(
        order=("image", "text"),
        whole=("text",),
        blocks=("transformer_blocks", "single_transformer_blocks"),
        inputs={
            "transformer_blocks.0": VIDEO_ENTERS,
            "transformer_blocks.*": VIDEO_ROPE,
            "single_transformer_blocks.*": VIDEO_ROPE,
        },
        outputs={"proj_out": image(1)},
        attention={"cross_attn": (LOCAL,)},
        adapt=_decoding,
    ),
    # Text, video and audio are one packed sequence before the first block.
    "MiniMaxH3Transformer3DModel": sequence(
        "transformer_blocks",
        stream="tokens",
        each={"adaln_indices": tokens(0), "rotary_emb": tokens(0)},
        inputs={"norm_out": {"timestep_indices": tokens(0)}},
        # Both heads see every token; their rows are few channels, so they are gathered here.
        outputs={"proj_out": tokens(1), "audio_proj_out": tokens(1)},
    ),
    "AllegroTransformer3DModel": sequence(
        "transformer_blocks",
        each={"attention_mask": image(2), "image_rotary_emb": (None, image(1))},
        attention={"attn2": (LOCAL,)},
        least=2,
    ),
    # Frames are items of the batch in one block, patches are in the next; patches are spread.
    "LatteTransformer3DModel": sequence(
        "transformer_blocks",  # the temporal ones have all frames of their patches
        inputs={"temporal_transformer_blocks.*": {"timestep": Along(0, ("image",), batched=True)}},
        attention={"attn2": (LOCAL,)},
    ),
    # A chunk of video behind its history, in one sequence.
    "HeliosTransformer3DModel": sequence(
        "blocks",
        stream="tokens",
        each={"temb": tokens(1, ndim=4), "rotary_emb": tokens(1), "original_context_length": Trailing("tokens")},
        leaves="blocks.-1",
        attention={"attn2": (LOCAL,)},
    ),
    "CosmosTransformer3DModel": sequence(
        "transformer_blocks",
        each={
            **COSMOS_MODULATION,
            "image_rotary_emb": image(0),
            "extra_pos_emb": image(1),
            "controlnet_residual": image(1),
        },
        inputs={"norm_out": COSMOS_MODULATION},
        attention={"attn2": (LOCAL,)},
    ),
    # The text sees only itself, the video sees both.
    "Cosmos3OmniTransformer": SplitPlan(
        order=("text", "image"),
        either=("text",),
        blocks=("layers",),
        inputs={
            "layers.0": {"und_seq": text(0), "gen_seq": image(0)},
            "layers.*": {"rotary_emb": (text(0), text(0), image(0), image(0))},
        },
        outputs={"norm": text(0), "norm_moe_gen": image(0)},
        attention={"self_attn": (Attend(("text",), ("text",)), Attend(("image",), ("text", "image")))},
    ),
}
