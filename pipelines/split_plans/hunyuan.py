"""Split plans of Tencent's Hunyuan models: HunyuanVideo and what grew from it, HunyuanImage and HunyuanDiT."""

from dataclasses import replace

from ...parallel.sharding.split_plan import LOCAL, Attend, Leading, SplitPlan, image, text
from .sequence import sequence

IMAGE_TEXT = ("image", "text")
BOTH_ENTER = {"hidden_states": image(1), "encoder_hidden_states": text(1)}

VIDEO = SplitPlan(
    order=IMAGE_TEXT,
    either=("text",),
    blocks=("transformer_blocks", "single_transformer_blocks"),
    inputs={
        "transformer_blocks.0": BOTH_ENTER,
        # Image-to-video by token replacement modulates the tokens of the first frame, counted by num_tokens, apart.
        "transformer_blocks.*": {"freqs_cis": image(0), "num_tokens": Leading("image")},
        "single_transformer_blocks.*": {"image_rotary_emb": image(0), "num_tokens": Leading("image")},
    },
    outputs={"proj_out": image(1)},
)

VIDEO_15 = SplitPlan(
    order=IMAGE_TEXT,
    either=("text",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": BOTH_ENTER,
        "transformer_blocks.*": {"freqs_cis": image(0), "attention_mask": text(1)},
    },
    outputs={"proj_out": image(1)},
    attention={"attn": (Attend(IMAGE_TEXT, IMAGE_TEXT, mask="outer"),)},
)

FRAMEPACK = replace(
    VIDEO,
    inputs={
        "transformer_blocks.0": BOTH_ENTER,
        "transformer_blocks.*": {"freqs_cis": image(0)},
        "single_transformer_blocks.*": {"image_rotary_emb": image(0)},
    },
    # Not later: the tokens of the history are dropped after the last block, counted from the end.
    outputs={"single_transformer_blocks.-1": (image(1), None)},
)

IMAGE = replace(
    VIDEO,
    inputs={
        "transformer_blocks.0": BOTH_ENTER,
        "transformer_blocks.*": {"image_rotary_emb": image(0)},
        "single_transformer_blocks.*": {"image_rotary_emb": image(0)},
    },
)

PLANS: dict[str, SplitPlan] = {
    "HunyuanVideoTransformer3DModel": VIDEO,
    "HunyuanVideo15Transformer3DModel": VIDEO_15,
    "HunyuanVideoFramepackTransformer3DModel": FRAMEPACK,
    "HunyuanImageTransformer2DModel": IMAGE,
    "HunyuanDiT2DModel": sequence(
        "blocks",
        stream="image",
        each={"image_rotary_emb": image(0)},
        leaves="proj_out",
        inputs={"": {"controlnet_block_samples": image(1)}},
        attention={"attn2": (LOCAL,)},
    ),
}
