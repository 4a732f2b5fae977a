"""Split plans of Tencent's Hunyuan models: HunyuanVideo and what grew from it, HunyuanImage and HunyuanDiT."""

from ...parallel.sharding.split_plan import LOCAL, Attend, Leading, SplitPlan, image, text
from .sequence import joint, sequence

IMAGE_TEXT = ("image", "text")
BLOCKS = ("transformer_blocks", "single_transformer_blocks")
ROPE = {"image_rotary_emb": image(0)}

PLANS: dict[str, SplitPlan] = {
    "HunyuanVideoTransformer3DModel": joint(
        *BLOCKS,
        order=IMAGE_TEXT,
        inputs={
            # Image-to-video by token replacement modulates the tokens of the first frame, counted by num_tokens, apart.
            "transformer_blocks.*": {"freqs_cis": image(0), "num_tokens": Leading("image")},
            "single_transformer_blocks.*": {**ROPE, "num_tokens": Leading("image")},
        },
    ),
    "HunyuanVideo15Transformer3DModel": joint(
        "transformer_blocks",
        order=IMAGE_TEXT,
        each={"freqs_cis": image(0), "attention_mask": text(1)},
        attention={"attn": (Attend(IMAGE_TEXT, IMAGE_TEXT, mask="outer"),)},
    ),
    "HunyuanVideoFramepackTransformer3DModel": joint(
        *BLOCKS,
        order=IMAGE_TEXT,
        inputs={"transformer_blocks.*": {"freqs_cis": image(0)}, "single_transformer_blocks.*": ROPE},
        # Not later: the tokens of the history are dropped after the last block, counted from the end.
        outputs={"single_transformer_blocks.-1": (image(1), None)},
    ),
    "HunyuanImageTransformer2DModel": joint(*BLOCKS, order=IMAGE_TEXT, each=ROPE),
    "HunyuanDiT2DModel": sequence(
        "blocks", each=ROPE, inputs={"": {"controlnet_block_samples": image(1)}}, attention={"attn2": (LOCAL,)}
    ),
}
