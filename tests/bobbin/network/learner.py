"""What learns in bobbin: both text encoders and the transformer, with the tokenizers that feed them."""

import torch
from torch import Tensor, nn

from ..world.facts import COUNTS, CaptionReader, Reader
from ..world.wording import TEXT_LENGTH, vocabulary
from .architecture import TEXT_WIDTH, build_clip, build_t5, build_transformer
from .quick import QuickAttention
from .tokenizers import TokenIds, build_clip_tokenizer, build_t5_tokenizer

# B batch, S sequence, C channels

CLIP_TOKENS = TEXT_LENGTH + 1  # CLIP looks back only, so padding after its end mark changes nothing: none is computed


MIDDLE = 2  # the single block after which picture tokens must say what they show
CELLS = 4  # of a token


class Learner(nn.Module):
    """Captions and noisy latents in, velocity out; the parts are trained as one.

    Both readers only teach: `parts` is what a finished model consists of.
    """

    def __init__(self, *, latent_channels: int) -> None:
        super().__init__()
        words = vocabulary()
        self.clip_tokenizer, self.t5_tokenizer = build_clip_tokenizer(words), build_t5_tokenizer(words)
        self.clip_ids, self.t5_ids = TokenIds(self.clip_tokenizer), TokenIds(self.t5_tokenizer)
        self.clip, self.t5 = build_clip(self.clip_tokenizer), build_t5(self.t5_tokenizer)
        self.transformer = build_transformer(latent_channels=latent_channels)
        self.caption_reader = CaptionReader(TEXT_WIDTH)
        width = self.transformer.inner_dim
        self.picture_reader = Reader(width, [count for count in COUNTS for _ in range(CELLS)])
        self._middle: list[Tensor] = []
        self.transformer.single_transformer_blocks[MIDDLE].register_forward_hook(self._keep)

    def _keep(self, module: nn.Module, given: object, result: tuple[Tensor, Tensor]) -> None:
        self._middle[:] = [result[1]]

    def hasten(self, device: str) -> None:
        """Fuse the kernels of the transformer's blocks, which takes minutes once."""
        if device == "cpu":
            self.transformer.set_attn_processor(QuickAttention())  # pyrefly: ignore[bad-argument-type]
        self.transformer.compile_repeated_blocks(dynamic=True)

    def encode(self, captions: list[str], text_lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """T5's states (B S C) and CLIP's summary (B C) of captions padded to the first of the lengths that holds
        them all."""
        device = self.t5.device
        clip_ids = self.clip_ids.padded(captions, (CLIP_TOKENS,)).to(device)
        t5_ids = self.t5_ids.padded(captions, text_lengths).to(device)
        return self.t5(t5_ids).last_hidden_state, self.clip(clip_ids).pooler_output

    def forward(
        self, x: Tensor, times: Tensor, text: tuple[Tensor, Tensor], *, grid: tuple[int, int]
    ) -> tuple[Tensor, Tensor]:
        """The velocity at noisy latents `x` of `grid` (rows, columns) tokens, and what they are half way (B S C)."""
        states, pooled = text
        velocity = self.transformer(
            hidden_states=x,
            encoder_hidden_states=states,
            pooled_projections=pooled,
            timestep=times,
            img_ids=_positions(*grid).to(x.device),
            txt_ids=torch.zeros(states.shape[1], 3, device=x.device),
            return_dict=False,
        )[0]
        return velocity, self._middle.pop()


def _positions(rows: int, columns: int) -> Tensor:
    """FLUX's position ids: (0, row, column)."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return torch.stack([torch.zeros_like(y), y, x], dim=-1).reshape(-1, 3).float()  # S 3
