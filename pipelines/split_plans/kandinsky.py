"""Split plans of Kandinsky 5 and 6 and of Kandinsky 6 super-resolution: text joins by cross attention."""

from ...parallel.sharding.split_plan import LOCAL, Along, Attend, SplitPlan, image
from .processors import stand_in
from .sequence import sequence

IMAGE, AUDIO = ("image",), ("audio",)


PLANS: dict[str, SplitPlan] = {
    "Kandinsky5Transformer3DModel": sequence(
        "visual_transformer_blocks",
        enters="visual_embed",
        each={"rope": image(1)},
        leaves="visual_transformer_blocks.-1",  # not later, here and below: the output layer takes a grid
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
    "Kandinsky6SRTransformer3DModel": sequence(
        "visual_transformer_blocks",
        each={"rotary_emb": image(0)},
        leaves="visual_transformer_blocks.-1",
        processors={"self_attention": stand_in("nabla.Kandinsky6SRSparse")},
    ),
}
