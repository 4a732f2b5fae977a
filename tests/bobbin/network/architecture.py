"""The networks of bobbin: sizes of the autoencoder, the two text encoders and the transformer, untrained."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
    from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel
    from transformers import CLIPTextModel, PreTrainedTokenizerBase, T5EncoderModel

TEXT_WIDTH = 128
NUM_HEADS = 8  # splits over 2, 4 or 8 ranks
VAE: dict[str, Any] = {
    "latent_channels": 16,
    "block_out_channels": (16, 32, 64, 72),
    "layers_per_block": 1,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "norm_num_groups": 8,
    "mid_block_add_attention": False,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "sample_size": 128,
}


def build_vae() -> "AutoencoderKL":
    """Eight times smaller per side, 16 channels: a picture of 128 pixels is 64 tokens of the transformer."""
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    return AutoencoderKL(**VAE)


def build_clip(tokenizer: "PreTrainedTokenizerBase") -> "CLIPTextModel":
    """Gives FLUX the one vector that sums up the prompt."""
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=TEXT_WIDTH,
            intermediate_size=2 * TEXT_WIDTH,
            num_hidden_layers=1,
            num_attention_heads=4,
            max_position_embeddings=77,
            bos_token_id=_id(tokenizer.bos_token_id),
            eos_token_id=_id(tokenizer.eos_token_id),
            pad_token_id=_id(tokenizer.pad_token_id),
        )
    )


def build_t5(tokenizer: "PreTrainedTokenizerBase") -> "T5EncoderModel":
    """Gives FLUX one vector per token of the prompt.

    FLUX gives text tokens no positions of their own: which object is named first reaches the picture only through
    this encoder's position bias, hence four layers.
    """
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=TEXT_WIDTH,
            d_kv=32,
            d_ff=2 * TEXT_WIDTH,
            num_layers=4,
            num_heads=4,
            feed_forward_proj="gated-gelu",
            dropout_rate=0.0,
            pad_token_id=_id(tokenizer.pad_token_id),
            eos_token_id=_id(tokenizer.eos_token_id),
        )
    )


def build_transformer(*, latent_channels: int) -> "FluxTransformer2DModel":
    """Two double and six single blocks, 192 wide."""
    from diffusers.models.transformers.transformer_flux import FluxTransformer2DModel

    return FluxTransformer2DModel(
        in_channels=4 * latent_channels,  # FLUX packs 2x2 latents into one token
        num_layers=2,
        num_single_layers=6,
        attention_head_dim=24,
        num_attention_heads=NUM_HEADS,
        joint_attention_dim=TEXT_WIDTH,
        pooled_projection_dim=TEXT_WIDTH,
        guidance_embeds=False,
        axes_dims_rope=(4, 10, 10),
    )


def _id(token: Any) -> int:
    assert isinstance(token, int), f"the tokenizer lacks a special token: {token!r}"
    return token
