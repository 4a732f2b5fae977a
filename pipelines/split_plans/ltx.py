"""Split plans of LTX, of LTX-2 with its sound, and of the SANA-WM refiner, which is LTX-2 without it."""

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, SplitPlan, image
from .processors import stand_in

SOUND = Along(1, ("audio",))
TOKENS = {"hidden_states": image(1), "timestep": image(1, optional=True)}
SOUNDS = {"audio_hidden_states": SOUND, "audio_timestep": Along(1, ("audio",), optional=True)}
ROPE = image(-2)  # tokens x width, or heads x tokens x width


PLANS: dict[str, SplitPlan] = {
    "LTXVideoTransformer3DModel": SplitPlan(
        blocks=("transformer_blocks",),
        inputs={"": TOKENS, "transformer_blocks.*": {"image_rotary_emb": ROPE}},
        outputs={"proj_out": image(1)},
        attention={"attn2": (LOCAL,)},
    ),
    "LTX2VideoTransformer3DModel": SplitPlan(
        order=("image", "audio"),
        either=("audio",),
        blocks=("transformer_blocks",),
        inputs={
            "": {**TOKENS, **SOUNDS, "video_keyframes_mask": image(1)},
            "transformer_blocks.*": {
                "video_rotary_emb": ROPE,
                "ca_video_rotary_emb": ROPE,
                "audio_rotary_emb": Along(-2, ("audio",)),
                "ca_audio_rotary_emb": Along(-2, ("audio",)),
                # The model would pad a mask that has more keys than this rank has tokens.
                "self_attention_mask": image(2),
            },
        },
        outputs={"proj_out": image(1), "audio_proj_out": SOUND},
        attention={
            "attn1": (Attend(("image",), ("image",)),),
            "audio_attn1": (Attend(("audio",), ("audio",)),),
            "attn2": (LOCAL,),
            "audio_attn2": (LOCAL,),
            "audio_to_video_attn": (Attend(("image",), ("audio",)),),
            "video_to_audio_attn": (Attend(("audio",), ("image",)),),
        },
    ),
    "SanaWMLTX2RefinerTransformer3DModel": SplitPlan(
        order=("past", "image"),  # the past is the kept keys and values of frames made before
        whole=("past",),
        blocks=("transformer_blocks",),
        inputs={"": TOKENS, "transformer_blocks.*": {"video_rotary_emb": ROPE}},
        outputs={"proj_out": image(1)},
        attention={"attn1": (Attend(("image",), ("past", "image")),), "attn2": (LOCAL,)},
        processors={"attn1": stand_in("kept_keys.RefinerKeeping")},
    ),
}
