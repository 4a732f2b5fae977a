"""Split plans of Kandinsky 5 and 6 and of Kandinsky 6 super-resolution: text joins by cross attention."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, SplitPlan, image
from .processors import stand_in

IMAGE, AUDIO = ("image",), ("audio",)


PLANS: dict[str, SplitPlan] = {
    "Kandinsky5Transformer3DModel": SplitPlan(
        blocks=("visual_transformer_blocks",),
        inputs={
            "visual_transformer_blocks.0": {"visual_embed": image(1)},
            "visual_transformer_blocks.*": {"rope": image(1)},
        },
        # Not later, here and below: the output layer takes a grid.
        outputs={"visual_transformer_blocks.-1": image(1)},
        attention={"cross_attention": (LOCAL,)},
        processors={"self_attention": stand_in("nabla.Kandinsky5Sparse")},
    ),
    "Kandinsky6Transformer3DModel": SplitPlan(
        order=("image", "audio"),
        blocks=("visual_transformer_blocks",),
        inputs={
            "visual_transformer_blocks.0": {"vis": image(1), "aud": Along(1, AUDIO)},
            "visual_transformer_blocks.*": {"vis_rope": image(0), "aud_rope": Along(0, AUDIO)},
        },
        outputs={"visual_transformer_blocks.-1": (image(1), Along(1, AUDIO))},
        attention={
            "video_dec_block.self_attention": (Attend(IMAGE, IMAGE),),
            "audio_dec_block.self_attention": (Attend(AUDIO, AUDIO),),
            "cross_attention": (LOCAL,),
            "va_cross_attention": (Attend(IMAGE, AUDIO),),
            "av_cross_attention": (Attend(AUDIO, IMAGE),),
        },
    ),
    "Kandinsky6SRTransformer3DModel": SplitPlan(
        blocks=("visual_transformer_blocks",),
        inputs={
            "visual_transformer_blocks.0": {"hidden_states": image(1)},
            "visual_transformer_blocks.*": {"rotary_emb": image(0)},
        },
        outputs={"visual_transformer_blocks.-1": image(1)},
        processors={"self_attention": stand_in("nabla.Kandinsky6SRSparse")},
    ),
}
