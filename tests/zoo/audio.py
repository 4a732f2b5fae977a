"""Tiny transformers of audio pipelines, and the image prior, with inputs."""

from typing import Any

import diffusers
import torch

from zoo.cases import Built, Case, blocks, noise, text_mask, varied, words


def _kv_heads(case: Case) -> int:
    return 2 if case.heads % 2 == 0 else 1


def ace_step(case: Case) -> Built:
    """The first layer sees 4 tokens to each side, the second all; the last patch of an odd length is padded."""
    config = {
        "hidden_size": 8 * case.heads,
        "intermediate_size": 32,
        "num_hidden_layers": case.layers,
        "num_attention_heads": case.heads,
        "num_key_value_heads": _kv_heads(case),
        "head_dim": 8,
        "in_channels": 12,
        "audio_acoustic_hidden_dim": 4,
        "sliding_window": 4,
        "encoder_hidden_size": 16,
    }
    length = 2 * case.tokens - case.tokens % 2
    inputs = {
        "hidden_states": noise(case.batch, length, 4),
        "context_latents": noise(case.batch, length, 8),
        **words(case, 16, 0.7),
        "timestep_r": torch.full((case.batch,), 0.7),
    }
    return diffusers.AceStepTransformer1DModel, config, inputs


def longcat_audio(case: Case) -> Built:
    config = {
        "dit_dim": 8 * case.heads,
        "dit_depth": case.layers,
        "dit_heads": case.heads,
        "dit_text_dim": 16,
        "latent_dim": 4,
        "ff_mult": 2.0,
    }
    inputs = {
        "hidden_states": noise(case.batch, case.tokens, 4),
        **words(case, 16, 0.7),
        "encoder_attention_mask": text_mask(case),
        "latent_cond": noise(case.batch, case.tokens, 4, seed=1),
    }
    return diffusers.LongCatAudioDiTTransformer, config, inputs


def _padded(case: Case) -> dict[str, Any]:
    """Pieces of unequal length in one batch: the first row ends three tokens early."""
    mask = torch.ones(case.batch, case.tokens, dtype=torch.bool)
    mask[0, -3:] = False
    return {"attention_mask": mask}


longcat_audio_padded = varied(longcat_audio, _padded, adaln_type="local")  # AdaLN per block


def minimax_music3(case: Case) -> Built:
    config = {
        "in_channels": 4,
        "condition_dim": 8,
        **blocks(case, 8),
        "ff_inner_dim": 32,
        "rotary_dim": 4,
        "fourier_embedding_dim": 16,
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.tokens),
        "timestep": torch.full((case.batch,), 0.7),
        "encoder_hidden_states": noise(case.batch, case.tokens, 8),
    }
    return diffusers.MiniMaxMusic3Transformer1DModel, config, inputs


def stable_audio(case: Case) -> Built:
    """A time token stands before the audio; keys of the text are shared by heads."""
    from diffusers.models.embeddings import get_1d_rotary_pos_embed

    config = {
        "sample_size": 16,
        **blocks(case, 8, channels=4),
        "num_key_value_attention_heads": _kv_heads(case),
        "cross_attention_dim": 8 * _kv_heads(case),
        "time_proj_dim": 8,
        "global_states_input_dim": 16,
        "cross_attention_input_dim": 16,
    }
    rotary = get_1d_rotary_pos_embed(4, case.tokens + 1, use_real=True, repeat_interleave_real=False)
    inputs = {
        "hidden_states": noise(case.batch, 4, case.tokens),
        **words(case, 16, 0.7),
        "global_hidden_states": noise(case.batch, 1, 16),
        "rotary_embedding": rotary,
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.StableAudioDiTModel, config, inputs


stable_audio_padded = varied(stable_audio, _padded)


def stable_audio3(case: Case) -> Built:
    """Memory tokens stand before the audio; each attention is the difference of two."""
    config = {
        "io_channels": 4,
        "embed_dim": 8 * case.heads,
        "depth": case.layers,
        "num_heads": case.heads,
        "cond_token_dim": 16,
        "global_cond_dim": 16,
        "local_add_cond_dim": 5,
        "timestep_features_dim": 8,
        "ff_mult": 2.0,
        "num_memory_tokens": 5,
    }
    inputs = {
        "hidden_states": noise(case.batch, 4, case.tokens),
        **words(case, 16, 0.7),
        "global_hidden_states": noise(case.batch, 16),
        "encoder_attention_mask": text_mask(case) if case.masked else None,
    }
    return diffusers.StableAudio3DiTModel, config, inputs


# A condition per audio token, added between the memory tokens' and the audio's part of each block.
stable_audio3_inpaint = varied(stable_audio3, lambda case: {"local_add_cond": noise(case.batch, 5, case.tokens)})


def prior(case: Case) -> Built:
    """One image embedding after the text tokens, its own and the time token, under a causal mask."""
    config = {**blocks(case, 8), "embedding_dim": 16, "num_embeddings": case.text, "additional_embeddings": 4}
    inputs = {
        "hidden_states": noise(case.batch, 16),
        **words(case, 16, 700),
        "proj_embedding": noise(case.batch, 16, seed=1),
        "attention_mask": text_mask(case),
    }
    return diffusers.PriorTransformer, config, inputs


class ReturningTuple(diffusers.T5FilmDecoder):
    """Its forward knows no `return_dict`."""

    def forward(self, return_dict: bool = False, **inputs: Any) -> torch.Tensor:
        return super().forward(**inputs)


ReturningTuple.__name__ = diffusers.T5FilmDecoder.__name__


def t5_film(case: Case) -> Built:
    """Spectrogram frames that read the notes by cross attention."""
    config = {
        "input_dims": 4,
        "targets_length": 32,
        "d_model": 16,
        "num_layers": case.layers,
        "num_heads": case.heads,
        "d_kv": 8,
        "d_ff": 32,
    }
    encodings = [
        (noise(case.batch, case.text, 16), text_mask(case, torch.float32)),
        (noise(case.batch, 3, 16), torch.ones(case.batch, 3)),
    ]
    inputs = {
        "encodings_and_masks": encodings,
        "decoder_input_tokens": noise(case.batch, case.tokens, 4),
        "decoder_noise_time": torch.full((case.batch,), 0.7),
    }
    return ReturningTuple, config, inputs


UNMASKED = "ace_step minimax_music3"
