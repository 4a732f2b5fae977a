"""Split plans of image models whose picture and text attend jointly, each a stream of its own, but not like FLUX.

Stable Diffusion 3 and 3.5, AuraFlow, CogView3-Plus, CogView4, GLM-Image, HiDream, Qwen-Image, JoyImage-Edit and
Edit-Plus.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, MadeAnew, SplitPlan, image, text
from .processors import stand_in
from .sequence import joint

TEXT_IMAGE, IMAGE_TEXT = ("text", "image"), ("image", "text")
ADAPTED = Attend(("image",), ("image", "adapter"))
WITHIN_VALID = Attend(TEXT_IMAGE, TEXT_IMAGE, mask="outer")  # the mask tells the valid tokens of the text
ROPES = {"image_rotary_emb": (image(0), text(0))}

COGVIEW4 = joint(
    "transformer_blocks",
    each={"image_rotary_emb": image(0), "attention_mask": text(1)},
    attention={"attn1": (WITHIN_VALID,)},
)


def cut_image(value: Any, arguments: Mapping[str, Any], session: Any) -> Any:
    """B S ...: what the model makes is as long as the whole image, followed by this rank's part of the text."""
    import torch

    stream = session.streams["image"]
    start, end = stream.held(session.rank)
    return torch.cat([value[:, start:end], value[:, stream.length :]], dim=1)


PLANS: dict[str, SplitPlan] = {
    "SD3Transformer2DModel": SplitPlan(
        order=IMAGE_TEXT,
        either=("text",),
        whole=("adapter",),
        blocks=("transformer_blocks",),
        # Before the blocks: behind one that is skipped, the residual of a ControlNet is added all the same.
        inputs={"": {"block_controlnet_hidden_states": image(1)}},
        made={"pos_embed": image(1), "context_embedder": text(1)},
        outputs={"proj_out": image(1)},
        # With an IP-adapter, the image attends a second time, to itself and to the adapter's tokens.
        attention={
            "attn": (Attend(IMAGE_TEXT, IMAGE_TEXT), ADAPTED),
            "attn2": (Attend(("image",), ("image",)), ADAPTED),
        },
    ),
    # Its text starts with eight learned tokens, which are there before the first block.
    "AuraFlowTransformer2DModel": joint("joint_transformer_blocks", "single_transformer_blocks"),
    "CogView3PlusTransformer2DModel": joint("transformer_blocks"),
    "CogView4Transformer2DModel": COGVIEW4,
    # Pictures to edit are kept as keys and values, which later calls find whole.
    "GlmImageTransformer2DModel": replace(
        COGVIEW4,
        attention={"attn1": (WITHIN_VALID, LOCAL)},
        processors={"attn1": stand_in("kept_keys.GlmImageKeeping")},
    ),
    # Each block brings its own layer of the text encoder's tokens, behind those that go through.
    "HiDreamImageTransformer2DModel": SplitPlan(
        order=("image", "t5", "llama", "llama"),
        either=("t5", "llama"),
        blocks=("double_stream_blocks", "single_stream_blocks"),
        inputs={
            "": {"encoder_hidden_states_t5": Along(1, ("t5",)), "encoder_hidden_states_llama3": Along(2, ("llama",))},
            "double_stream_blocks.0": {"hidden_states": image(1)},
            "double_stream_blocks.*": {"hidden_states_masks": image(1), "image_rotary_emb": MadeAnew(cut_image)},
            "single_stream_blocks.*": dict.fromkeys(("hidden_states_masks", "image_rotary_emb"), MadeAnew(cut_image)),
        },
        outputs={"final_layer": image(1)},
    ),
    "QwenImageTransformer2DModel": joint(
        "transformer_blocks",
        each={"encoder_hidden_states_mask": text(1), **ROPES, "modulate_index": image(1)},
        inputs={"": {"controlnet_block_samples": image(1)}},
    ),
    "JoyImageEditTransformer3DModel": joint("double_blocks", order=IMAGE_TEXT, each=ROPES),
    "JoyImageEditPlusTransformer3DModel": joint("double_blocks", order=IMAGE_TEXT, each={"image_rotary_emb": image(1)}),
}
