"""Split plans of audio transformers: latents in time, text by cross attention if any."""

from __future__ import annotations

from ...parallel.sharding.split_plan import LOCAL, Leading, SplitPlan, Tail, tokens
from .processors import stand_in

ACE_STEP = SplitPlan(
    order=("tokens",),
    blocks=("layers",),
    inputs={"layers.0": {"hidden_states": tokens(1)}, "layers.*": {"position_embeddings": tokens(0)}},
    outputs={"norm_out": tokens(1)},
    attention={"cross_attn": (LOCAL,)},
)

LONGCAT = SplitPlan(
    order=("tokens",),
    blocks=("blocks",),
    inputs={"blocks.0": {"hidden_states": tokens(1)}, "blocks.*": {"mask": tokens(1), "rope": tokens(0)}},
    # Not later: the tokens from before the blocks are added after the last one.
    outputs={"blocks.-1": tokens(1)},
    attention={"cross_attn": (LOCAL,)},
    least=2,
)

MINIMAX_MUSIC = SplitPlan(
    order=("tokens",),
    blocks=("transformer_blocks",),
    inputs={"transformer_blocks.0": {"hidden_states": tokens(1)}, "transformer_blocks.*": {"rotary_emb": tokens(0)}},
    # Not later: the time token is cut off after the last block.
    outputs={"transformer_blocks.-1": tokens(1)},
)

STABLE_AUDIO = SplitPlan(
    order=("tokens",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": {"hidden_states": tokens(1)},
        "transformer_blocks.*": {"attention_mask": tokens(1), "rotary_embedding": tokens(0)},
    },
    outputs={"proj_out": tokens(1)},
    attention={"attn2": (LOCAL,)},
    least=2,
)

STABLE_AUDIO_3 = SplitPlan(
    order=("tokens",),
    blocks=("transformer_blocks",),
    inputs={
        "transformer_blocks.0": {"hidden_states": tokens(1)},
        "transformer_blocks.*": {
            "rope": tokens(0),
            "num_memory_tokens": Leading("tokens"),
            "local_seq": Tail(1, "tokens"),  # inpainting: for the audio behind the memory tokens
        },
    },
    # Not later: the memory tokens are cut off after the last block.
    outputs={"transformer_blocks.-1": tokens(1)},
    attention={"cross_attn": (LOCAL,)},
)

T5_FILM = SplitPlan(
    order=("tokens",),
    blocks=("decoders",),
    inputs={
        "decoders.0": {"hidden_states": tokens(1)},
        "decoders.*": {"encoder_attention_mask": tokens(2)},
    },
    outputs={"spec_out": tokens(1)},
    attention={"layer.1.attention": (LOCAL,)},
    # Queries that are not scaled make diffusers choose its unfused processor.
    processors={"attention": stand_in("fused_attention.FusedAttention")},
)

PLANS: dict[str, SplitPlan] = {
    "AceStepTransformer1DModel": ACE_STEP,
    "LongCatAudioDiTTransformer": LONGCAT,
    "MiniMaxMusic3Transformer1DModel": MINIMAX_MUSIC,
    "StableAudioDiTModel": STABLE_AUDIO,
    "StableAudio3DiTModel": STABLE_AUDIO_3,
    "T5FilmDecoder": T5_FILM,
}
