"""What learns in bobbin: both text encoders and the transformer, with the tokenizers that feed them."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .architecture import build_clip, build_t5, build_transformer
from .tokenizers import build_clip_tokenizer, build_t5_tokenizer
from .wording import vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# B batch, S sequence, C channels

CLIP_TOKENS = 24  # CLIP looks back only, so padding after its end mark changes nothing and need not be computed


class Learner(nn.Module):
    """Captions and noisy latents in, velocity out; the parts are trained as one."""

    def __init__(self, *, latent_channels: int) -> None:
        super().__init__()
        words = vocabulary()
        self.clip_tokenizer, self.t5_tokenizer = build_clip_tokenizer(words), build_t5_tokenizer(words)
        self.clip, self.t5 = build_clip(self.clip_tokenizer), build_t5(self.t5_tokenizer)
        self.transformer = build_transformer(latent_channels=latent_channels)

    def forward(self, x: Tensor, times: Tensor, captions: list[str], *, text_length: int) -> Tensor:
        """The velocity at noisy latents `x`."""
        clip_ids = _token_ids(self.clip_tokenizer, captions, CLIP_TOKENS).to(x.device)
        t5_ids = _token_ids(self.t5_tokenizer, captions, text_length).to(x.device)
        return self.transformer(
            hidden_states=x,
            encoder_hidden_states=self.t5(t5_ids).last_hidden_state,
            pooled_projections=self.clip(clip_ids).pooler_output,
            timestep=times,
            img_ids=_positions(math.isqrt(x.shape[1])).to(x.device),
            txt_ids=torch.zeros(text_length, 3, device=x.device),
            return_dict=False,
        )[0]


def _token_ids(tokenizer: "PreTrainedTokenizerBase", captions: list[str], length: int) -> Tensor:
    ids = tokenizer(captions, padding="max_length", max_length=length, return_tensors="pt").input_ids
    assert ids.shape[1] == length, f"a caption takes {ids.shape[1]} tokens, more than {length}: it would be cut"
    return ids


def _positions(side: int) -> Tensor:
    """FLUX's position ids of a square picture: (0, row, column)."""
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).reshape(-1, 3).float()  # S 3
