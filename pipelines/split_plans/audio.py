"""Split plans of audio transformers: latents in time, text by cross attention if any."""

from ...parallel.sharding.split_plan import LOCAL, Leading, SplitPlan, Tail, tokens
from .processors import stand_in
from .sequence import sequence

PLANS: dict[str, SplitPlan] = {
    "AceStepTransformer1DModel": sequence(
        "layers",
        stream="tokens",
        each={"position_embeddings": tokens(0)},
        leaves="norm_out",
        attention={"cross_attn": (LOCAL,)},
    ),
    "LongCatAudioDiTTransformer": sequence(
        "blocks",
        stream="tokens",
        each={"mask": tokens(1), "rope": tokens(0)},
        leaves="blocks.-1",  # not later: the tokens from before the blocks are added after the last one
        attention={"cross_attn": (LOCAL,)},
        least=2,
    ),
    "MiniMaxMusic3Transformer1DModel": sequence(
        "transformer_blocks",
        stream="tokens",
        each={"rotary_emb": tokens(0)},
        leaves="transformer_blocks.-1",  # not later: the time token is cut off after the last block
    ),
    "StableAudioDiTModel": sequence(
        "transformer_blocks",
        stream="tokens",
        each={"attention_mask": tokens(1), "rotary_embedding": tokens(0)},
        attention={"attn2": (LOCAL,)},
        least=2,
    ),
    "StableAudio3DiTModel": sequence(
        "transformer_blocks",
        stream="tokens",
        each={
            "rope": tokens(0),
            "num_memory_tokens": Leading("tokens"),
            "local_seq": Tail(1, "tokens"),  # inpainting: for the audio behind the memory tokens
        },
        leaves="transformer_blocks.-1",  # not later: the memory tokens are cut off after the last block
        attention={"cross_attn": (LOCAL,)},
    ),
    "T5FilmDecoder": sequence(
        "decoders",
        stream="tokens",
        each={"encoder_attention_mask": tokens(2)},
        leaves="spec_out",
        attention={"layer.1.attention": (LOCAL,)},
        # Queries that are not scaled make diffusers choose its unfused processor.
        processors={"attention": stand_in("fused_attention.FusedAttention")},
    ),
}
