"""What learns in bobbin: both text encoders and the transformer, with the tokenizers that feed them."""

import torch
from torch import Tensor, nn

from .architecture import build_clip, build_t5, build_transformer
from .token_ids import TokenIds
from .tokenizers import build_clip_tokenizer, build_t5_tokenizer
from .wording import TEXT_LENGTH, vocabulary

# B batch, S sequence, C channels

CLIP_TOKENS = TEXT_LENGTH + 1  # CLIP looks back only, so padding after its end mark changes nothing: none is computed


class Learner(nn.Module):
    """Captions and noisy latents in, velocity out; the parts are trained as one."""

    def __init__(self, *, latent_channels: int) -> None:
        super().__init__()
        words = vocabulary()
        self.clip_tokenizer, self.t5_tokenizer = build_clip_tokenizer(words), build_t5_tokenizer(words)
        self.clip_ids, self.t5_ids = TokenIds(self.clip_tokenizer), TokenIds(self.t5_tokenizer)
        self.clip, self.t5 = build_clip(self.clip_tokenizer), build_t5(self.t5_tokenizer)
        self.transformer = build_transformer(latent_channels=latent_channels)

    def forward(
        self, x: Tensor, times: Tensor, captions: list[str], *, grid: tuple[int, int], text_lengths: tuple[int, ...]
    ) -> Tensor:
        """The velocity at noisy latents `x` of `grid` (rows, columns) tokens.

        Captions are padded to the first of `text_lengths` that holds them all.
        """
        clip_ids = self.clip_ids.padded(captions, (CLIP_TOKENS,)).to(x.device)
        t5_ids = self.t5_ids.padded(captions, text_lengths).to(x.device)
        return self.transformer(
            hidden_states=x,
            encoder_hidden_states=self.t5(t5_ids).last_hidden_state,
            pooled_projections=self.clip(clip_ids).pooler_output,
            timestep=times,
            img_ids=_positions(*grid).to(x.device),
            txt_ids=torch.zeros(t5_ids.shape[1], 3, device=x.device),
            return_dict=False,
        )[0]


def _positions(rows: int, columns: int) -> Tensor:
    """FLUX's position ids: (0, row, column)."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([torch.zeros_like(y), y, x], dim=-1).reshape(-1, 3).float()  # S 3
